// Reasoning within the text of a response: servers of open models that do not separate it send `<think>…</think>` before the
// response. Only there: later in a text, the tags are what it is about. Where the template of the model writes the first tag, only
// the second one is sent, and the text before it turns out to be reasoning.
import type { ModelPart } from "@/ports/model.ts";

const OPEN = "<think>";
const CLOSE = "</think>";
const BACKTICK = "`";

type Part = Exclude<ModelPart, { kind: "tool" }>;

export class ReasoningTags {
  /** `untagged`: reasoning without its first tag, unless the response has no second one either. */
  #state: "start" | "reasoning" | "untagged" | "pause" | "text" = "start";
  /** What may be the beginning of a tag. */
  #pending = "";
  #untagged = "";
  /** Whether the text so far may turn out to be reasoning: it has neither tag. */
  #mayBeReasoning = true;
  #hasText = false;
  /** Whether the text so far ends within code: what a tag there means is not known. */
  #isInCode = false;
  #omitsFirstTag: boolean;

  /** `omitsFirstTag`: the response before, of the same model, had only the second tag. */
  constructor(omitsFirstTag = false) {
    this.#omitsFirstTag = omitsFirstTag;
  }

  /** Whether this response had only the second tag, or none and the one before did. */
  get omitsFirstTag(): boolean {
    return this.#omitsFirstTag;
  }

  /** The parts that a piece of the text completes. */
  *push(piece: string): Generator<Part> {
    let text = this.#pending + piece;
    this.#pending = "";
    if (this.#state === "start") {
      const begun = text.trimStart();
      if (begun.length < OPEN.length && OPEN.startsWith(begun)) {
        this.#pending = text;
        return;
      }
      const isTagged = begun.startsWith(OPEN);
      this.#state = isTagged ? "reasoning" : this.#omitsFirstTag ? "untagged" : "text";
      this.#mayBeReasoning = !isTagged;
      if (isTagged) text = begun.slice(OPEN.length);
    }
    if (this.#state === "reasoning" || this.#state === "untagged") {
      const end = text.indexOf(CLOSE);
      const reasoning = text.slice(0, end < 0 ? text.length - lengthOfBegun(text, CLOSE) : end);
      if (this.#state === "untagged") this.#untagged += reasoning;
      if (reasoning !== "") yield { kind: "reasoning", text: reasoning };
      if (end < 0) {
        this.#pending = text.slice(reasoning.length);
        return;
      }
      this.#mayBeReasoning = false;
      this.#state = "pause";
      text = text.slice(end + CLOSE.length);
    }
    if (this.#state === "text" && this.#mayBeReasoning) {
      const end = this.#endOfReasoning(text);
      if (end === undefined) {
        const length = this.#mayBeReasoning ? Math.max(lengthOfBegun(text, OPEN), lengthOfBegun(text, CLOSE)) : 0;
        this.#pending = text.slice(text.length - length);
        text = text.slice(0, text.length - length);
        this.#isInCode = this.#isInCode !== isOddCount(text);
      } else {
        this.#omitsFirstTag = true;
        this.#state = "pause";
        if (this.#hasText) yield { kind: "reset" };
        if (end > 0) yield { kind: "reasoning", text: text.slice(0, end) };
        text = text.slice(end + CLOSE.length);
      }
    }
    if (this.#state === "pause") {
      text = text.trimStart();
      if (text !== "") this.#state = "text";
    }
    if (text !== "") yield { kind: "text", text };
    this.#hasText ||= text !== "";
  }

  /** What is still pending when the response ends. */
  *end(): Generator<Part> {
    const text = this.#pending;
    this.#pending = "";
    const isText = this.#state === "text" || this.#state === "start";
    if (text !== "") yield { kind: isText ? "text" : "reasoning", text };
    if (this.#state !== "untagged") return;
    // Such as a model that reasons only where that helps. Also if it was cut: others may have made the model leave out the tag before,
    // and no text is lost by that.
    this.#omitsFirstTag = false;
    yield { kind: "text", text: this.#untagged + text };
  }

  /** Where the second tag ends the reasoning in the rest of a text; sets whether there may still be one. */
  #endOfReasoning(text: string): number | undefined {
    const [open, close] = [text.indexOf(OPEN), text.indexOf(CLOSE)];
    if (open < 0 && close < 0) return undefined;
    this.#mayBeReasoning = false;
    const isMentioned = open >= 0 && open < close || close < 0;
    return isMentioned || this.#isInCode !== isOddCount(text.slice(0, close)) ? undefined : close;
  }
}

function isOddCount(text: string): boolean {
  let count = 0;
  for (let at = text.indexOf(BACKTICK); at >= 0; at = text.indexOf(BACKTICK, at + 1)) count++;
  return count % 2 === 1;
}

/** How much of the end of a text may be the beginning of the tag. */
function lengthOfBegun(text: string, tag: string): number {
  let length = Math.min(text.length, tag.length - 1);
  while (!text.endsWith(tag.slice(0, length))) length--;
  return length;
}
