// Blobs as local files: written to a part file, synced, then renamed.
import { dirname, join } from "node:path";
import { DAY_MS } from "@/core/time/clock.ts";
import { assertBlobKey, type Blobs, type ByteRange } from "@/ports/blob.ts";
import { translateErrors, writeAll } from "./files.ts";

const CHUNK_BYTES = 65_536;
/** A part file this old belongs to a process that ended; also the interval of the check for them. */
const STALE_PART_MS = DAY_MS;

export class DiskBlobs implements Blobs {
  readonly #root: string;
  readonly #uploads: string;
  #prepared: { at: number; done: Promise<void> } | undefined;

  /** `root` is created with the first content. */
  constructor(root: string) {
    this.#root = root;
    this.#uploads = join(root, "incoming");
  }

  async put(key: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#pathOf(key);
    if (Date.now() - (this.#prepared?.at ?? -Infinity) > STALE_PART_MS) {
      const done = this.#prepare().catch((cause) => {
        this.#prepared = undefined;
        throw cause;
      });
      this.#prepared = { at: Date.now(), done };
    }
    await translateErrors(this.#prepared?.done ?? Promise.resolve());
    const part = join(this.#uploads, crypto.randomUUID());
    const file = await translateErrors(Deno.open(part, { write: true, createNew: true, mode: 0o600 }));
    try {
      try {
        for await (const chunk of content) await translateErrors(writeAll(file, chunk));
        await translateErrors(file.sync());
      } finally {
        file.close();
      }
      await translateErrors(Deno.mkdir(dirname(path), { recursive: true }));
      await translateErrors(Deno.rename(part, path));
    } catch (thrown) {
      // `#prepare` deletes leftover parts.
      await Deno.remove(part).catch(() => {});
      throw thrown;
    }
    await translateErrors(syncDirectory(dirname(path)));
  }

  async get(key: string, range?: ByteRange): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | undefined> {
    const file = await translateErrors(ignoreNotFound(Deno.open(this.#pathOf(key))));
    if (file === undefined) return undefined;
    let left = Infinity;
    if (range !== undefined) {
      await file.seek(range.start, Deno.SeekMode.Start);
      left = range.end - range.start;
    }
    // No read-ahead: a thousand slow downloads use no buffers.
    return new ReadableStream({
      async pull(controller) {
        const buffer = new Uint8Array(Math.min(CHUNK_BYTES, left));
        const count = buffer.length === 0 ? null : await file.read(buffer).catch((error) => {
          file.close();
          throw error;
        });
        if (count === null) {
          file.close();
          controller.close();
          return;
        }
        left -= count;
        controller.enqueue(buffer.subarray(0, count));
      },
      cancel: () => file.close(),
    }, { highWaterMark: 0 });
  }

  async delete(key: string): Promise<void> {
    await translateErrors(ignoreNotFound(Deno.remove(this.#pathOf(key))));
  }

  /** Folders by the end of the key, where time-sorted keys differ most. */
  #pathOf(key: string): string {
    assertBlobKey(key);
    return join(this.#root, key.slice(-2), key);
  }

  async #prepare(): Promise<void> {
    await Deno.mkdir(this.#uploads, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(this.#uploads)) {
      const path = join(this.#uploads, name);
      const found = await ignoreNotFound(Deno.stat(path));
      if (Date.now() - (found?.mtime?.getTime() ?? Date.now()) > STALE_PART_MS) await ignoreNotFound(Deno.remove(path));
    }
  }
}

/** A rename is on stable storage once its folder is. */
async function syncDirectory(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  using directory = await Deno.open(path);
  await directory.sync();
}

async function ignoreNotFound<Result>(work: Promise<Result>): Promise<Result | undefined> {
  try {
    return await work;
  } catch (thrown) {
    if (thrown instanceof Deno.errors.NotFound) return undefined;
    throw thrown;
  }
}
