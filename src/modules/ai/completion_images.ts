// Images in the messages of a completion: files that the caller may read at that moment.
import type { Actor } from "@/core/actor.ts";
import { assertAllFound, invalidField } from "@/core/fault.ts";
import { imagesForModel } from "@/modules/file/mod.ts";
import type { ModelMessage } from "@/ports/model.ts";
import type { CompletionCreate } from "./schema.ts";

const TOKENS_MAX = 16_000;

export type ImageFiles = Parameters<typeof imagesForModel>[0];

/** The messages for the model. Throws `validation_failed` for files that are no images, or more than one request can have. */
export async function withImages(
  files: ImageFiles,
  actor: Actor,
  messages: CompletionCreate["messages"],
): Promise<readonly ModelMessage[]> {
  const ids = messages.flatMap((message) => message.role === "user" ? message.fileIds ?? [] : []);
  if (ids.length === 0) return messages;
  const found = await imagesForModel(files, actor, ids, TOKENS_MAX);
  return messages.map((message, index): ModelMessage => {
    if (message.role !== "user") return message;
    const { role, text, fileIds = [] } = message;
    const pointer = `/messages/${index}/fileIds`;
    assertAllFound(fileIds, new Set(found.keys()), pointer, () => "No such image, or not one that the caller may read");
    const images = fileIds.flatMap((id) => {
      const image = found.get(id);
      if (image === undefined) return [];
      if ("obstacle" in image) {
        throw invalidField(pointer, `the image ${image.name} cannot be shown: ${image.obstacle}`);
      }
      return [{ ...image, at: text.length }];
    });
    return images.length === 0 ? { role, text } : { role, text, images };
  });
}
