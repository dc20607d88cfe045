// Splits texts that are too long for one message into several messages.
import { isLongerThan, truncateCodePoints } from "@/core/text/text.ts";
import { TEXT_MAX_BYTES, TEXT_MAX_CODE_POINTS } from "@/modules/message/mod.ts";
import { plainMessage, type SourceMessage } from "../format/model.ts";
import type { Report } from "./report.ts";

/** The draft, or its parts: the first has the reactions, files and replies; the others follow it in the same thread. */
export function splitText(draft: SourceMessage, report: Report): SourceMessage[] {
  const { text } = draft;
  // A UTF-16 unit has at most 3 bytes, so short texts need no counting.
  if (text === null || text.length * 3 <= TEXT_MAX_CODE_POINTS || fits(text)) return [draft];
  report.skip("text_split", draft.where);
  const [first = "", ...rest] = parts(text);
  return [
    { ...draft, text: first },
    ...rest.map((part, index) => ({
      ...plainMessage(draft),
      ref: { original: null, fallback: partId(draft.ref.fallback, index + 2) },
      type: draft.type,
      format: draft.format,
      thread: draft.thread,
      text: part,
    })),
  ];
}

function fits(text: string): boolean {
  return !isLongerThan(text, TEXT_MAX_BYTES) && truncateCodePoints(text, TEXT_MAX_CODE_POINTS) === text;
}

/** Code points have at most 4 bytes, so the limit in code points keeps that in bytes, too. */
function parts(text: string): string[] {
  const size = Math.min(TEXT_MAX_CODE_POINTS, Math.floor(TEXT_MAX_BYTES / 4));
  const all: string[] = [];
  for (let at = 0; at < text.length;) {
    // No code point has more than two units.
    const part = truncateCodePoints(text.slice(at, at + 2 * size), size);
    all.push(part);
    at += part.length;
  }
  return all;
}

function partId(id: string, part: number): string {
  return `${id.slice(0, 58)}_${part}`;
}
