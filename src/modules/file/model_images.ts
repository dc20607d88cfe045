// Images of files as models take them: few, small, upright JPEGs that were decoded before, without what cameras write into them.
import { type Actor, hasScope } from "@/core/actor.ts";
import { Fault, isFault } from "@/core/fault.ts";
import type { ModelImage } from "@/ports/model.ts";
import { imageTokens } from "@/ports/model_images.ts";
import { MODEL_IMAGE_SIDE, thumbnailObstacle } from "./image/thumbnails.ts";
import type { StoredFile } from "./schema.ts";
import type { FileService } from "./service.ts";

/** Of one request; its images are in memory several times over. */
const BYTES_MAX = 3 * 1024 * 1024;
/** After this time no further one is begun, since a run waits for them. Those that are late are there for its next step. */
const LOAD_MS = 15_000;
const LATE = "it could not be prepared in time";
const TOO_MANY = "there are too many, or they are too large";

/** An image, or why it is not shown. */
export type ImageOfFile = Omit<ModelImage, "at"> | { name: string; obstacle: string };

type Files = Pick<FileService, "read" | "thumbnail">;

/**
 * The images among these files, by their ids, within so many tokens; the most wanted first. Read as the actor, which is charged. Only
 * those that it may read now have a content.
 */
export async function imagesForModel(
  files: Files,
  actor: Actor,
  ids: readonly string[],
  tokensMax: number,
): Promise<Map<string, ImageOfFile>> {
  const images = new Map<string, ImageOfFile>();
  if (!hasScope(actor, "file.read")) return images;
  let [tokensLeft, bytesLeft] = [tokensMax, BYTES_MAX];
  const deadline = performance.now() + LOAD_MS;
  for (const id of new Set(ids)) {
    const file = await findReadable(files, actor, id);
    if (file === undefined || !file.contentType.startsWith("image/")) continue;
    const { name } = file;
    const size = scaled(file);
    const tokens = imageTokens(size);
    const obstacle = obstacleOf(file, tokensMax) ?? (tokens > tokensLeft || bytesLeft <= 0 ? TOO_MANY : undefined);
    const bytes = obstacle ?? (performance.now() > deadline ? LATE : await render(files, actor, file));
    if (typeof bytes === "string" || bytes.length > bytesLeft) {
      images.set(id, { name, obstacle: typeof bytes === "string" ? bytes : TOO_MANY });
      continue;
    }
    tokensLeft -= tokens;
    bytesLeft -= bytes.length;
    images.set(id, { name, contentType: "image/jpeg", base64: bytes.toBase64(), ...size });
  }
  return images;
}

function obstacleOf(file: StoredFile, tokensMax: number): string | undefined {
  if (tokensMax === 0) return "the model takes none";
  return thumbnailObstacle(file) === undefined ? undefined : "its kind is unknown, or it is too large";
}

/** `undefined` for a file that was deleted, or that the actor may not read now. */
export async function findReadable(
  files: Pick<FileService, "read">,
  actor: Actor,
  id: string,
): Promise<StoredFile | undefined> {
  try {
    return await files.read(actor, id);
  } catch (thrown) {
    if (isFault(thrown, "not_found") || isFault(thrown, "gone")) return undefined;
    throw thrown;
  }
}

/** The image, or why there is none. */
async function render(files: Files, actor: Actor, file: StoredFile): Promise<Uint8Array | string> {
  try {
    return await files.thumbnail(actor, file, MODEL_IMAGE_SIDE);
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown;
    return thrown.spec.retryable ? LATE : "it cannot be decoded";
  }
}

function scaled({ width, height }: Pick<StoredFile, "width" | "height">): { width: number; height: number } {
  const scale = Math.min(1, MODEL_IMAGE_SIDE / Math.max(width ?? 1, height ?? 1));
  const sideOf = (side: number | null): number => Math.max(1, Math.round((side ?? 1) * scale));
  return { width: sideOf(width), height: sideOf(height) };
}
