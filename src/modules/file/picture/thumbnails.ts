// Small pictures of pictures: made when first asked for, kept beside the file, gone with it.
import { inTime } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { askWorker } from "@/core/worker.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { StoredFile } from "../schema.ts";
import { type Order, PIXELS_MAX, type Rendered } from "./render.ts";

/** The sides of the squares that small pictures fit into; few, since each is kept. */
export const BOXES = [64, 160, 320, 640] as const;
export type Box = (typeof BOXES)[number];

const TYPES = new Set(["image/jpeg", "image/png", "image/apng", "image/gif", "image/webp"]);
/** Read as a whole to be decoded. */
const SOURCE_MAX_BYTES = 64 * 1024 * 1024;
/** A caller is told to come again after this long; what they asked for is made all the same. */
const PATIENCE_MS = 10_000;
const RETRY_MS = 2000;
/** The largest pictures take a second or two; one that takes this long is treated as one that cannot be decoded. */
const TIME_MAX_MS = 30_000;
const WAITING_MAX = 20;
const WORKER = new URL("./worker.ts", import.meta.url);

type Source = { file: StoredFile; box: Box; isThere: () => Promise<boolean> };

/** Names of all blobs that a file may have. */
export function blobKeysOf(id: string, contentType: string): string[] {
  return TYPES.has(contentType) ? [id, ...BOXES.map((box) => keyOf(id, box))] : [id];
}

export class Thumbnails {
  readonly #blobs: Blobs;
  readonly #timeMaxMs: number;
  readonly #making = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(blobs: Blobs, timeMaxMs = TIME_MAX_MS) {
    this.#blobs = blobs;
    this.#timeMaxMs = timeMaxMs;
  }

  /**
   * The small picture of a file that the caller may read: `validation_failed` where there can be none, `unavailable` while too
   * many are being made. `isThere` tells, once it is made, whether the file still is.
   */
  async read({ file, box, isThere }: Source): Promise<Uint8Array<ArrayBuffer>> {
    const { width, height, size, contentType } = file;
    if (!TYPES.has(contentType) || width === null || height === null) {
      throw none("The file is no picture of a known size");
    }
    if (width * height > PIXELS_MAX || size > SOURCE_MAX_BYTES) {
      throw none(`At most ${PIXELS_MAX / 1e6} million pixels are made small`);
    }
    const kept = await this.#blobs.get(keyOf(file.id, box));
    const bytes = kept === undefined ? await this.#made({ file, box, isThere }) : await new Response(kept).bytes();
    if (bytes.length === 0) throw none("The picture cannot be decoded");
    return bytes;
  }

  /** Whoever asks for what is being made waits for the same. */
  async #made(source: Source): Promise<Uint8Array<ArrayBuffer>> {
    const key = keyOf(source.file.id, source.box);
    let making = this.#making.get(key);
    if (making === undefined) {
      if (this.#making.size >= WAITING_MAX) throw busy();
      // One at a time: a large picture takes a core for a second or two, and some hundred megabytes.
      making = this.#last.then(() => this.#make(source)).finally(() => this.#making.delete(key));
      this.#last = making.catch(() => {});
      this.#making.set(key, making);
    }
    const made = await inTime(making, PATIENCE_MS);
    if (made === undefined) throw busy();
    return made;
  }

  /** Made and kept; of what cannot be decoded an empty blob is kept, so that it is tried once. */
  async #make({ file, box, isThere }: Source): Promise<Uint8Array<ArrayBuffer>> {
    const content = await this.#blobs.get(file.id);
    if (content === undefined) throw new Fault("gone", "The content is no longer there");
    const bytes = await new Response(content).bytes();
    const order: Order = { bytes, box, timeMaxMs: this.#timeMaxMs };
    // The worker itself keeps the time.
    const small = await askWorker<Rendered>(WORKER, "thumbnail", order, [bytes.buffer]) ?? new Uint8Array();
    const key = keyOf(file.id, box);
    // Should two nodes make it at once, both put the same.
    await this.#blobs.put(key, ReadableStream.from([small]));
    // Whoever deletes the file from now on erases this too; who did before knew nothing of it.
    if (!await isThere()) await this.#blobs.delete(key);
    return small;
  }
}

function keyOf(id: string, box: Box): string {
  return `${id}_${box}`;
}

function none(detail: string): Fault {
  return Fault.at("/thumbnail", "no_thumbnail", detail);
}

function busy(): Fault {
  return new Fault("unavailable", "Other pictures are being made small", { retryAfterMs: RETRY_MS });
}
