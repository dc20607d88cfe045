// Bytes that wait for more of them: a few in memory, the others in a file. Clients may be slow, and many may send at once.
import { join } from "node:path";
import { Buffer } from "node:buffer";
import { translateErrors, writeAll } from "./files.ts";

/** Most files are smaller, and never reach the disk. */
export const SPOOL_MEMORY_BYTES = 256 * 1024;

export class Spool implements Disposable {
  readonly #folder: string;
  #file: Deno.FsFile | undefined;
  /** Bytes in the file, before those in memory. */
  #written = 0;
  #chunks: Uint8Array[] = [];
  #size = 0;

  /** `folder` is created with the first file. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  get size(): number {
    return this.#size;
  }

  async add(chunk: Uint8Array): Promise<void> {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size - this.#written > SPOOL_MEMORY_BYTES) await translateErrors(this.#flush());
  }

  /** All bytes, in memory; the next ones begin again. */
  async take(): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(this.#size);
    if (this.#file !== undefined) await translateErrors(readBack(this.#file, bytes.subarray(0, this.#written)));
    bytes.set(Buffer.concat(this.#chunks), this.#written);
    [this.#written, this.#chunks, this.#size] = [0, [], 0];
    return bytes;
  }

  [Symbol.dispose](): void {
    this.#file?.close();
  }

  async #flush(): Promise<void> {
    this.#file ??= await openUnnamed(this.#folder);
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [];
    await writeAll(this.#file, bytes);
    this.#written += bytes.length;
  }
}

/** A file that ends with the process, since nothing names it. */
async function openUnnamed(folder: string): Promise<Deno.FsFile> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, crypto.randomUUID());
  const file = await Deno.open(path, { read: true, write: true, createNew: true, mode: 0o600 });
  try {
    await Deno.remove(path);
    return file;
  } catch (thrown) {
    file.close();
    throw thrown;
  }
}

/** Fills `bytes` from the start of the file, and empties it. */
async function readBack(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  await file.seek(0, Deno.SeekMode.Start);
  for (let at = 0; at < bytes.length;) {
    const count = await file.read(bytes.subarray(at));
    if (count === null) throw new Error(`Expected ${bytes.length} bytes in the file, received ${at}`);
    at += count;
  }
  await file.truncate(0);
  await file.seek(0, Deno.SeekMode.Start);
}
