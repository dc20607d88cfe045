// Images in the conversation that the model of a run reads: those of the message it responds to, and the newest ones before it.
import type { Actor } from "@/core/actor.ts";
import { imagesForModel } from "@/modules/file/mod.ts";
import type { ModelMessage } from "@/ports/model.ts";
import { imageNote } from "@/ports/model_images.ts";
import type { ContextItem } from "./schema.ts";

/** Of messages before the last one, which may be about something else. */
const EARLIER_MAX = 4;

export type ImageFiles = Parameters<typeof imagesForModel>[0];

/**
 * The messages of a conversation with the images that the actor may read at this moment, each below the text of its message. A model
 * takes none in messages of its own.
 */
export async function withImages(
  files: ImageFiles,
  { actor, imageTokens }: { actor: Actor; imageTokens: number },
  conversation: readonly ContextItem[],
): Promise<ModelMessage[]> {
  const ids = wantedIds(conversation);
  const found = ids.length === 0 ? new Map() : await imagesForModel(files, actor, ids, imageTokens);
  return conversation.toReversed().map((item) => messageOf(item, found)).reverse();
}

/** The most wanted first. */
function wantedIds(conversation: readonly ContextItem[]): string[] {
  const [last = [], ...earlier] = conversation.filter(({ role }) => role === "user").toReversed()
    .map(({ files = [] }) => files.filter(({ contentType }) => contentType.startsWith("image/")).map(({ id }) => id));
  return [...last, ...earlier.flat().slice(0, EARLIER_MAX)];
}

/** Takes the images of the message from those that were found: each is shown once. */
function messageOf(
  { role, text, files = [] }: ContextItem,
  found: Awaited<ReturnType<typeof imagesForModel>>,
): ModelMessage {
  if (role !== "user" || files.length === 0) return { role, text };
  const taken = files.flatMap(({ id }) => {
    const image = found.get(id);
    return image !== undefined && found.delete(id) ? [image] : [];
  });
  const notes = taken.flatMap((image) => "obstacle" in image ? [imageNote(image.name, image.obstacle)] : []);
  const noted = [text, ...notes].join("\n");
  const images = taken.flatMap((image) => "obstacle" in image ? [] : [{ ...image, at: noted.length }]);
  return { role, text: noted, ...images.length === 0 ? {} : { images } };
}
