// Texts that are longer than a message, such as responses of models: a message with the beginning, and a file with all of it.
import type { Actor } from "@/core/actor.ts";
import { truncateCodePoints } from "@/core/text/text.ts";
import type { FileWriter } from "@/modules/file/mod.ts";
import { TEXT_MAX_BYTES, TEXT_MAX_CODE_POINTS } from "./schema.ts";

const CUT_NOTE = "\n\n… (the whole text is in the file)";

/** Whether a message may have this text. */
export function fitsMessage(text: string): boolean {
  return truncateCodePoints(text, TEXT_MAX_CODE_POINTS) === text &&
    new TextEncoder().encode(text).length <= TEXT_MAX_BYTES;
}

/** A text in parts that each fit a message, whole lines where possible, with what separates each from the next one. */
export function partsOfText(text: string): { text: string; separator: string }[] {
  const parts: { text: string; separator: string }[] = [];
  let rest = text;
  while (!fitsMessage(rest)) {
    const most = truncateCodePoints(rest, TEXT_MAX_CODE_POINTS);
    const end = most.lastIndexOf("\n");
    const part = end > 0 ? most.slice(0, end) : most;
    const separator = end > 0 ? "\n" : "";
    parts.push({ text: part, separator });
    rest = rest.slice(part.length + separator.length);
  }
  return [...parts, { text: rest, separator: "" }];
}

/** The beginning of a text that is too long for a message. */
function cutToMessage(text: string): string {
  const max = TEXT_MAX_CODE_POINTS - CUT_NOTE.length;
  // No character has more than four bytes.
  return `${truncateCodePoints(text, Math.min(max, (TEXT_MAX_BYTES - CUT_NOTE.length * 4) / 4))}${CUT_NOTE}`;
}

/** What to send for a text. Stores a file if it is too long, so it must not be called within a transaction. */
export async function contentOfText(
  files: Pick<FileWriter, "write">,
  actor: Actor,
  { text, roomId, fileName }: { text: string; roomId: string; fileName: string },
): Promise<{ text: string; fileIds?: string[] }> {
  if (fitsMessage(text)) return { text };
  const draft = { name: fileName, contentType: "text/markdown", roomId };
  const { id } = await files.write(actor, draft, singleChunk(text));
  return { text: cutToMessage(text), fileIds: [id] };
}

async function* singleChunk(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}
