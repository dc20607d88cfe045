// Reasoning within the text of a response: servers of open models that do not separate it send `<think>…</think>` before the
// response. Only there: later in a text, the tags are what it is about.
import type { ModelPart } from "@/ports/model.ts";

const OPEN = "<think>";
const CLOSE = "</think>";

type TextPart = Extract<ModelPart, { text: string }>;

export class ReasoningTags {
  #state: "start" | "reasoning" | "pause" | "text" = "start";
  /** What may be the beginning of a tag. */
  #pending = "";

  /** The parts that a piece of the text completes. */
  *push(piece: string): Generator<TextPart> {
    let text = this.#pending + piece;
    this.#pending = "";
    if (this.#state === "start") {
      const begun = text.trimStart();
      if (begun.length < OPEN.length && OPEN.startsWith(begun)) {
        this.#pending = text;
        return;
      }
      this.#state = begun.startsWith(OPEN) ? "reasoning" : "text";
      if (this.#state === "reasoning") text = begun.slice(OPEN.length);
    }
    if (this.#state === "reasoning") {
      const end = text.indexOf(CLOSE);
      const reasoning = text.slice(0, end < 0 ? text.length - lengthOfBegun(text) : end);
      if (reasoning !== "") yield { kind: "reasoning", text: reasoning };
      if (end < 0) {
        this.#pending = text.slice(reasoning.length);
        return;
      }
      this.#state = "pause";
      text = text.slice(end + CLOSE.length);
    }
    if (this.#state === "pause") {
      text = text.trimStart();
      if (text !== "") this.#state = "text";
    }
    if (text !== "") yield { kind: "text", text };
  }

  /** What is still pending when the response ends. */
  *end(): Generator<TextPart> {
    if (this.#pending !== "") yield { kind: this.#state === "reasoning" ? "reasoning" : "text", text: this.#pending };
    this.#pending = "";
  }
}

/** How much of the end of a text may be the beginning of the closing tag. */
function lengthOfBegun(text: string): number {
  let length = Math.min(text.length, CLOSE.length - 1);
  while (!text.endsWith(CLOSE.slice(0, length))) length--;
  return length;
}
