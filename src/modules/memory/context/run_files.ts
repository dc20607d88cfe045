// Files in the conversation that the model of a run reads: those of the message it responds to, and the newest ones before it.
import type { Actor } from "@/core/actor.ts";
import { estimateTokens } from "@/core/text/tokens.ts";
import type { RunContext } from "@/modules/agent/mod.ts";
import { type ImageOfFile, imagesForModel, isTextual, textsForModel } from "@/modules/file/mod.ts";
import type { MessageFile } from "@/modules/message/mod.ts";
import type { ModelMessage } from "@/ports/model.ts";
import { imageNote, imageTokens } from "@/ports/model_images.ts";
import type { ContextItem } from "./schema.ts";

/** Of messages before the last one, which may be about something else. */
const EARLIER_MAX = 4;

export type ModelFiles = Parameters<typeof imagesForModel>[0] & Parameters<typeof textsForModel>[0];
type Bounds = { actor: Actor; files: { tokens: number; images: boolean } };
type Found = { images: Map<string, ImageOfFile>; texts: Map<string, string> };

/**
 * The messages of a conversation with images and texts of the files that the actor may read at this moment, each below its message.
 * A model takes none in messages of its own.
 */
export async function withFiles(
  source: ModelFiles,
  { actor, files: { tokens, images: takesImages } }: Bounds,
  conversation: readonly ContextItem[],
): Promise<RunContext> {
  const wanted = wantedFiles(conversation);
  if (wanted.length === 0) return { messages: conversation.map(({ role, text }) => ({ role, text })), fileTokens: 0 };
  const imageIds = wanted.filter(isImage).map(({ id }) => id);
  const textIds = wanted.filter((file) => !isImage(file)).map(({ id }) => id);
  const images = await imagesForModel(source, actor, imageIds, takesImages ? tokens : 0);
  const usedTokens = [...images.values()]
    .reduce((sum, image) => sum + ("obstacle" in image ? 0 : imageTokens(image)), 0);
  const texts = await textsForModel(source, actor, textIds, tokens - usedTokens);
  const textTokens = [...texts.values()].reduce((sum, text) => sum + estimateTokens(text), 0);
  const found: Found = { images, texts };
  return {
    messages: conversation.toReversed().map((item) => messageOf(item, found)).reverse(),
    fileTokens: usedTokens + textTokens,
  };
}

/** The most wanted first. */
function wantedFiles(conversation: readonly ContextItem[]): MessageFile[] {
  const [last = [], ...earlier] = conversation.filter(({ role }) => role === "user").toReversed()
    .map(({ files = [] }) => files.filter((file) => isImage(file) || isTextual(file.contentType)));
  return [...last, ...earlier.flat().slice(0, EARLIER_MAX)];
}

function isImage({ contentType }: MessageFile): boolean {
  return contentType.startsWith("image/");
}

/** Takes the files of the message from those that were found: each is shown once. */
function messageOf({ role, text, files = [] }: ContextItem, found: Found): ModelMessage {
  if (role !== "user") return { role, text };
  const images = files.flatMap(({ id }) => take(found.images, id));
  const read = [
    text,
    ...images.flatMap((image) => "obstacle" in image ? [imageNote(image.name, image.obstacle)] : []),
    ...files.flatMap(({ id, name }) =>
      take(found.texts, id).map((content) => `[Content of the file ${name}]\n${content}\n[End of the file ${name}]`)
    ),
  ].join("\n");
  const shown = images.flatMap((image) => "obstacle" in image ? [] : [{ ...image, at: read.length }]);
  return { role, text: read, ...shown.length === 0 ? {} : { images: shown } };
}

function take<Value>(found: Map<string, Value>, id: string): Value[] {
  const value = found.get(id);
  return value !== undefined && found.delete(id) ? [value] : [];
}
