// Reads a content piece by piece, for parsers that copy or skip parts of it without buffering the rest.
import { Buffer } from "node:buffer";
import { createYielder } from "@/core/caller.ts";

/** Size of the combined pieces: chunks of images are small, and each piece is a write. */
const PIECE_BYTES = 65_536;
/** Reads within pieces that any content may take, and the average bytes required of each further one. A segment takes a few. */
const [STEPS_FREE, STEP_BYTES] = [10_000, 1024];

/** Reads a content sequentially. At its end, reads return fewer bytes than requested, then none. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #ahead: Uint8Array[] = [];
  #steps = 0;
  #size = 0;
  #yieldToOthers = createYielder();

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** False for content with far more parts than any image, which would cost too much to parse. */
  get isPlausible(): boolean {
    return this.#steps < STEPS_FREE + this.#size / STEP_BYTES;
  }

  /** The next piece, at least one byte; `undefined` at the end. */
  async readChunk(): Promise<Uint8Array | undefined> {
    while (true) {
      const piece = this.#ahead.pop();
      if (piece === undefined) {
        const { done, value } = await this.#source.next();
        if (done) return undefined;
        this.#size += value.length;
        // The wait for it is not charged.
        this.#yieldToOthers = createYielder();
        if (value.length > 0) return value;
      } else if (piece.length > 0) {
        // Small parts of a piece that is here already would keep the thread busy. How the content was sent does not count.
        this.#steps++;
        await this.#yieldToOthers();
        return piece;
      }
    }
  }

  /** Undoes the last read of these bytes. */
  unread(piece: Uint8Array): void {
    this.#ahead.push(piece);
  }

  /** The next `count` bytes in one piece; `count` must be small. */
  async read(count: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.chunks(count)) pieces.push(piece);
    return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
  }

  /** The next `count` bytes, in the pieces of the source. */
  async *chunks(count: number): AsyncGenerator<Uint8Array> {
    for (let left = count; left > 0;) {
      const piece = await this.readChunk();
      if (piece === undefined) return;
      if (piece.length > left) this.unread(piece.subarray(left));
      const fitting = piece.subarray(0, left);
      left -= fitting.length;
      yield fitting;
    }
  }

  async skip(count: number): Promise<void> {
    for await (const _ of this.chunks(count));
  }

  /** The rest of the content. */
  remaining(): AsyncGenerator<Uint8Array> {
    return this.chunks(Infinity);
  }
}

/** The same content in fewer pieces. */
export async function* rechunk(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of source) {
    pieces.push(piece);
    size += piece.length;
    if (size < PIECE_BYTES) continue;
    yield pieces.length === 1 ? piece : Buffer.concat(pieces, size);
    [pieces, size] = [[], 0];
  }
  if (size > 0) yield Buffer.concat(pieces, size);
}
