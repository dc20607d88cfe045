// Text files as models read them: the beginning of each, within a number of tokens.
import { type Actor, hasScope } from "@/core/actor.ts";
import { isFault } from "@/core/fault.ts";
import { estimateTokens, truncateToTokens } from "@/core/text/tokens.ts";
import { isTextual } from "./content_type.ts";
import { findReadable } from "./model_images.ts";
import type { StoredFile } from "./schema.ts";
import type { FileService } from "./service.ts";

const BYTES_MAX = 64 * 1024;
const CUT = "\n… (cut)";

type Files = Pick<FileService, "read" | "open">;

/** The texts among these files, by their ids; the most wanted first. Only those that the actor may read now have one. */
export async function textsForModel(
  files: Files,
  actor: Actor,
  ids: readonly string[],
  tokensMax: number,
): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  if (!hasScope(actor, "file.read")) return texts;
  let tokensLeft = tokensMax;
  for (const id of new Set(ids)) {
    const file = await findReadable(files, actor, id);
    if (file === undefined || file.size === 0 || !isTextual(file.contentType)) continue;
    const text = fitting(await beginningOf(files, file), file.size > BYTES_MAX, tokensLeft);
    if (text === undefined) continue;
    tokensLeft -= estimateTokens(text);
    texts.set(id, text);
  }
  return texts;
}

/** Empty if there is no content. */
async function beginningOf(files: Files, file: StoredFile): Promise<string> {
  try {
    const content = await files.open(file, { start: 0, end: Math.min(file.size, BYTES_MAX) });
    return await new Response(content).text();
  } catch (thrown) {
    if (isFault(thrown, "gone")) return "";
    throw thrown;
  }
}

/** Nothing of a text in another encoding than UTF-8, which its zeros show. */
function fitting(text: string, isCut: boolean, tokensMax: number): string | undefined {
  if (text === "" || text.includes("\0")) return undefined;
  return !isCut && estimateTokens(text) <= tokensMax ? text : truncateToTokens(text, tokensMax, CUT);
}
