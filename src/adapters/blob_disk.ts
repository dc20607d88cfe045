// Blobs as files of this machine: written beside their place, synced, then renamed into it.
import { dirname, join } from "node:path";
import { Fault } from "@/core/fault.ts";
import { type Blobs, type ByteRange, checkBlobKey } from "@/ports/blob.ts";

const CHUNK_BYTES = 65_536;
/** A part file this old belongs to a process that died; so often they are looked for. */
const ABANDONED_MS = 86_400_000;

export class DiskBlobs implements Blobs {
  readonly #root: string;
  readonly #incoming: string;
  #prepared: { at: number; done: Promise<void> } | undefined;

  /** `root` is made when the first content comes. */
  constructor(root: string) {
    this.#root = root;
    this.#incoming = join(root, "incoming");
  }

  async put(key: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#pathOf(key);
    if (Date.now() - (this.#prepared?.at ?? -Infinity) > ABANDONED_MS) {
      const done = this.#prepare().catch((cause) => {
        this.#prepared = undefined;
        throw cause;
      });
      this.#prepared = { at: Date.now(), done };
    }
    await onDisk(this.#prepared?.done ?? Promise.resolve());
    const part = join(this.#incoming, crypto.randomUUID());
    const file = await onDisk(Deno.open(part, { write: true, createNew: true, mode: 0o600 }));
    try {
      try {
        for await (const chunk of content) {
          for (let at = 0; at < chunk.length;) at += await onDisk(file.write(chunk.subarray(at)));
        }
        await onDisk(file.sync());
      } finally {
        file.close();
      }
      await onDisk(Deno.mkdir(dirname(path), { recursive: true }));
      await onDisk(Deno.rename(part, path));
    } catch (error) {
      await Deno.remove(part).catch(() => {});
      throw error;
    }
    await onDisk(syncFolder(dirname(path)));
  }

  async get(key: string, range?: ByteRange): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | undefined> {
    const file = await onDisk(unlessAbsent(Deno.open(this.#pathOf(key))));
    if (file === undefined) return undefined;
    let left = Infinity;
    if (range !== undefined) {
      await file.seek(range.start, Deno.SeekMode.Start);
      left = range.end - range.start;
    }
    // Nothing is read ahead of the reader: a thousand slow downloads hold no buffers.
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
    await onDisk(unlessAbsent(Deno.remove(this.#pathOf(key))));
  }

  /** Folders by the end of the key: time-sorted keys differ there from one to the next. */
  #pathOf(key: string): string {
    checkBlobKey(key);
    return join(this.#root, key.slice(-2), key);
  }

  async #prepare(): Promise<void> {
    await Deno.mkdir(this.#incoming, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(this.#incoming)) {
      const path = join(this.#incoming, name);
      const found = await unlessAbsent(Deno.stat(path));
      if (Date.now() - (found?.mtime?.getTime() ?? Date.now()) > ABANDONED_MS) await unlessAbsent(Deno.remove(path));
    }
  }
}

/** A rename is on stable storage once its folder is. */
async function syncFolder(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  using folder = await Deno.open(path);
  await folder.sync();
}

async function unlessAbsent<Result>(work: Promise<Result>): Promise<Result | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function onDisk<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    throw new Fault("unavailable", "The file store does not work right now", { cause });
  }
}
