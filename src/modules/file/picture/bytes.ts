// A content as bytes that a walker takes, passes on or leaves out, holding no more of it than it takes.
import { Buffer } from "node:buffer";

/** Pieces go on in this size: chunks of pictures are small, and each piece is a write of its own. */
const PIECE_BYTES = 65_536;
/** Steps that any content may take, and how many bytes each further step must bring on average. */
const [STEPS_FREE, STEP_BYTES] = [60_000, 512];

/** Reads a content from its front. What ends early gives less than was asked for, and then nothing. */
export class Bytes {
  readonly #source: AsyncIterator<Uint8Array>;
  #ahead: Uint8Array[] = [];
  #steps = 0;
  #size = 0;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** False for what has far more parts than any picture: it was made to keep us busy, and is followed no further. */
  get isPlausible(): boolean {
    return this.#steps < STEPS_FREE + this.#size / STEP_BYTES;
  }

  /** Whatever is there next, at least one byte; `undefined` at the end. */
  async some(): Promise<Uint8Array | undefined> {
    this.#steps++;
    while (true) {
      const piece = this.#ahead.pop();
      if (piece === undefined) {
        const { done, value } = await this.#source.next();
        if (done) return undefined;
        this.#size += value.length;
        if (value.length > 0) return value;
      } else if (piece.length > 0) return piece;
    }
  }

  /** Puts back what was read last. */
  unread(piece: Uint8Array): void {
    this.#ahead.push(piece);
  }

  /** The next `count` bytes in one piece; callers keep `count` small. */
  async take(count: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.pass(count)) pieces.push(piece);
    return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
  }

  /** The next `count` bytes in the pieces in which they come. */
  async *pass(count: number): AsyncGenerator<Uint8Array> {
    for (let left = count; left > 0;) {
      const piece = await this.some();
      if (piece === undefined) return;
      if (piece.length > left) this.unread(piece.subarray(left));
      const fitting = piece.subarray(0, left);
      left -= fitting.length;
      yield fitting;
    }
  }

  async skip(count: number): Promise<void> {
    for await (const _ of this.pass(count));
  }

  /** All that is left. */
  rest(): AsyncGenerator<Uint8Array> {
    return this.pass(Infinity);
  }
}

/** The same content in fewer pieces. */
export async function* gathered(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
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
