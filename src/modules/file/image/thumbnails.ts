// Thumbnails of images: created on the first request, stored beside the file, deleted with it.
import { withTimeout } from "@/core/time/clock.ts";
import { FairQueue } from "@/core/limit/slots.ts";
import { Fault } from "@/core/fault.ts";
import { runInWorker } from "@/core/worker.ts";
import type { Blobs } from "@/ports/blob.ts";
import { PIXELS_MAX, renderingBytes, type ThumbnailRequest, type ThumbnailResult } from "./render.ts";

/** Maximum side lengths; few, because each thumbnail is stored. */
export const THUMBNAIL_SIZES = [64, 160, 320, 640] as const;
export type ThumbnailSize = (typeof THUMBNAIL_SIZES)[number];

/** Of an image for models, which see no more of a larger one. */
export const MODEL_IMAGE_SIDE = 1568;
const SIDES = [...THUMBNAIL_SIZES, MODEL_IMAGE_SIDE] as const;
export type ImageSide = typeof SIDES[number];

const TYPES = new Set(["image/jpeg", "image/png", "image/apng", "image/gif", "image/webp"]);
/** The decoder needs the whole content in memory. */
const SOURCE_MAX_BYTES = 64 * 1024 * 1024;
/** A request fails after this time and can be repeated; its thumbnail is still created. */
const WAIT_TIMEOUT_MS = 10_000;
const RETRY_MS = 2000;
/** The largest images take a second or two; one that exceeds this is treated as undecodable. */
const RENDER_TIMEOUT_MS = 30_000;
/** A page of new images asks for many at once; what waits is only a reference. */
const QUEUE_MAX = 80;
const WORKER = new URL("./thumbnail_worker.ts", import.meta.url);

type ImageFile = { id: string; contentType: string; size: number; width: number | null; height: number | null };
type ThumbnailSource = { file: ImageFile; maxSide: ImageSide; fileExists: () => Promise<boolean> };
/** A thumbnail that is created once, in the first turn of the owners that wait for it. */
type Creation = { owners: Set<string>; run: () => Promise<Bytes>; result: Promise<Bytes> };
type Bytes = Uint8Array<ArrayBuffer>;

/** Keys of all blobs that a file may have. */
export function blobKeysOf(id: string, contentType: string): string[] {
  return TYPES.has(contentType) ? [id, ...SIDES.map((side) => keyOf(id, side))] : [id];
}

/** The id of the file that has a blob of this key. */
export function fileIdOf(key: string): string {
  const side = SIDES.find((each) => key.endsWith(`_${each}`));
  return side === undefined ? key : key.slice(0, -`_${side}`.length);
}

/** Why there can be no thumbnails of a file; `undefined` if there can, by its type and size. */
export function thumbnailObstacle({ contentType, width, height, size }: Omit<ImageFile, "id">): string | undefined {
  if (!TYPES.has(contentType) || width === null || height === null) return "expected an image with a known size";
  return width * height > PIXELS_MAX || size > SOURCE_MAX_BYTES
    ? `expected an image of at most ${PIXELS_MAX / 1e6} million pixels`
    : undefined;
}

export class Thumbnails {
  readonly #blobs: Blobs;
  readonly #timeouts: { renderMs: number; waitMs: number };
  /** One at a time: a large image takes a core for a second or two, and some hundred megabytes. */
  readonly #queue = new FairQueue("thumbnail", QUEUE_MAX);
  readonly #pending = new Map<string, Creation>();

  constructor(blobs: Blobs, { renderMs = RENDER_TIMEOUT_MS, waitMs = WAIT_TIMEOUT_MS } = {}) {
    this.#blobs = blobs;
    this.#timeouts = { renderMs, waitMs };
  }

  /**
   * The thumbnail of a file that the caller may read; throws `validation_failed` if there can be none, `unavailable` while the
   * queue is full, `rate_limited` while the caller's part of it is. `owner` is a key as returned by `chargedTo`; `fileExists` is
   * checked after the thumbnail is stored.
   */
  async read(owner: string, { file, maxSide, fileExists }: ThumbnailSource): Promise<Bytes> {
    const obstacle = thumbnailObstacle(file);
    if (obstacle !== undefined) throw noThumbnail(obstacle);
    const stored = await this.#blobs.get(keyOf(file.id, maxSide));
    const bytes = stored === undefined
      ? await this.#createShared(owner, { file, maxSide, fileExists })
      : await new Response(stored).bytes();
    if (bytes.length === 0) throw noThumbnail("the image cannot be decoded");
    return bytes;
  }

  /** Concurrent requests for one thumbnail share its creation. Each owner has a turn for it, so none waits for another's. */
  async #createShared(owner: string, source: ThumbnailSource): Promise<Bytes> {
    const key = keyOf(source.file.id, source.maxSide);
    let creation = this.#pending.get(key);
    if (creation === undefined) {
      this.#queue.assertPlace(owner);
      creation = this.#creationOf(key, source);
      this.#pending.set(key, creation);
    }
    if (!creation.owners.has(owner)) {
      creation.owners.add(owner);
      // A failure is that of the result. An owner without a place waits for the turn of another.
      this.#queue.run(owner, creation.run).catch(() => {});
    }
    const bytes = await withTimeout(creation.result, this.#timeouts.waitMs);
    if (bytes === undefined) throw queueFull();
    return bytes;
  }

  #creationOf(key: string, source: ThumbnailSource): Creation {
    const { promise: result, resolve } = Promise.withResolvers<Bytes>();
    let isStarted = false;
    const run = (): Promise<Bytes> => {
      if (!isStarted) resolve(this.#create(source).finally(() => this.#pending.delete(key)));
      isStarted = true;
      return result;
    };
    return { owners: new Set(), run, result };
  }

  /** Creates and stores a thumbnail; stores an empty blob for an undecodable image, so that it is tried once. */
  async #create({ file, maxSide, fileExists }: ThumbnailSource): Promise<Bytes> {
    const content = await this.#blobs.get(file.id);
    if (content === undefined) throw new Fault("gone", "The content no longer exists");
    const bytes = await new Response(content).bytes();
    const isFlat = maxSide === MODEL_IMAGE_SIDE;
    const request: ThumbnailRequest = { bytes, maxSide, isFlat, timeoutMs: this.#timeouts.renderMs };
    const workingBytes = renderingBytes((file.width ?? 0) * (file.height ?? 0), bytes.length);
    const options = { transfer: [bytes.buffer], workingBytes };
    // The worker itself applies the timeout.
    const thumbnail = await runInWorker<ThumbnailResult>(WORKER, "thumbnail", request, options) ?? new Uint8Array();
    const key = keyOf(file.id, maxSide);
    // Two nodes that create it concurrently store the same bytes.
    await this.#blobs.put(key, ReadableStream.from([thumbnail]));
    // A later deletion of the file deletes the thumbnail; an earlier one could not.
    if (!await fileExists()) await this.#blobs.delete(key);
    return thumbnail;
  }
}

function keyOf(id: string, side: ImageSide): string {
  return `${id}_${side}`;
}

function noThumbnail(detail: string): Fault {
  return Fault.forField("/thumbnail", "no_thumbnail", detail);
}

function queueFull(): Fault {
  return new Fault("unavailable", "The thumbnail queue is full", { retryAfterMs: RETRY_MS });
}
