// Texts longer than a message may be: nothing is lost, they become several messages.
import { isLongerThan } from "@/core/text.ts";
import { TEXT_MAX_BYTES, TEXT_MAX_CODE_POINTS } from "@/modules/message/mod.ts";
import { type MessageDraft, plainMessage } from "./draft.ts";
import type { Report } from "./report.ts";

/** The draft, or its parts: the first keeps everything that hangs on it, the others follow it in the thread it is in. */
export function splitText(draft: MessageDraft, report: Report): MessageDraft[] {
  const { text } = draft;
  // A UTF-16 unit has at most 3 bytes, so short texts need no counting.
  if (text === null || text.length * 3 <= TEXT_MAX_CODE_POINTS || fits(text)) return [draft];
  report.skip("text_split", draft.where);
  const [first = "", ...rest] = parts(text);
  return [
    { ...draft, text: first },
    ...rest.map((part, index) => ({
      ...plainMessage(draft),
      ref: { own: null, derived: partId(draft.ref.derived, index + 2) },
      type: draft.type,
      format: draft.format,
      thread: draft.thread,
      text: part,
    })),
  ];
}

function fits(text: string): boolean {
  return !isLongerThan(text, TEXT_MAX_BYTES) && [...text].length <= TEXT_MAX_CODE_POINTS;
}

/** Code points have at most 4 bytes, so the limit in code points keeps that in bytes, too. */
function parts(text: string): string[] {
  const points = [...text];
  const size = Math.min(TEXT_MAX_CODE_POINTS, Math.floor(TEXT_MAX_BYTES / 4));
  return Array.from(
    { length: Math.ceil(points.length / size) },
    (_, index) => points.slice(index * size, (index + 1) * size).join(""),
  );
}

function partId(id: string, part: number): string {
  return `${id.slice(0, 58)}_${part}`;
}
