// Streams of uploaded content: counted, hashed and inspected without buffering the whole.
import { Buffer } from "node:buffer";
import { createHash, type Hash } from "node:crypto";
import { Fault } from "@/core/fault.ts";

/** A content whose first bytes are known; `close` releases its source, however much of it was read. */
type PeekedStream = { head: Uint8Array<ArrayBuffer>; content: AsyncIterable<Uint8Array>; close(): Promise<void> };

/** Reads up to `bytes` ahead; `content` still starts with them. */
export async function peekStream(source: AsyncIterable<Uint8Array>, bytes: number): Promise<PeekedStream> {
  const chunks: Uint8Array[] = [];
  const iterator = source[Symbol.asyncIterator]();
  let size = 0;
  while (size < bytes) {
    const { done, value } = await iterator.next();
    if (done) break;
    chunks.push(value);
    size += value.length;
  }
  // Closes the source itself: ending a generator that never started has no effect.
  async function close(): Promise<void> {
    await iterator.return?.();
  }
  // In one piece: that of each chunk by itself would keep the thread busy, since nothing waits for any of them.
  const start = Buffer.concat(chunks.splice(0));
  async function* content(): AsyncGenerator<Uint8Array> {
    try {
      if (size > 0) yield start;
      for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value;
    } finally {
      await close();
    }
  }
  return { head: new Uint8Array(start.subarray(0, bytes)), content: content(), close };
}

/** A content with its size and hash, which are known once it has been read; throws if it exceeds `maxBytes`. */
export class HashingStream implements AsyncIterable<Uint8Array> {
  readonly #source: AsyncIterable<Uint8Array>;
  readonly #maxBytes: number;
  readonly #hash: Hash = createHash("sha256");
  #size = 0;

  constructor(source: AsyncIterable<Uint8Array>, maxBytes: number) {
    this.#source = source;
    this.#maxBytes = maxBytes;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#source) {
      this.#size += chunk.length;
      if (this.#size > this.#maxBytes) {
        throw new Fault("payload_too_large", `The file is larger than ${this.#maxBytes} bytes`);
      }
      this.#hash.update(chunk);
      yield chunk;
    }
  }

  get size(): number {
    return this.#size;
  }

  /** In hex; call it once, after the end. */
  sha256(): string {
    return this.#hash.digest("hex");
  }
}
