// The vectors of one scope in memory, as the kernels read them.
import { BLOCK_BYTES, type Metric, type VectorArena } from "./arena.ts";
import { bitBytes, codeBytes, encodeBits, unpackCode } from "./code.ts";
import type { BestScores } from "./top.ts";

/** A stored vector: `code` is packed. */
export type StoredVector = { n: number; kind: string; code: string };

/** What a search compares with: the int8 query or its bits, and what scores are multiplied by. */
export type PreparedQuery = { bytes: Uint8Array; scale: number; dimensions: number };

/** Columns of a row besides its bytes in a block. */
const COLUMN_BYTES = 13;
const ROWS_MIN = 16;

export class Partition {
  readonly #arena: VectorArena;
  readonly #metric: Metric;
  readonly #dimensions: number;
  readonly #size: number;
  readonly #rowsPerBlock: number;
  #blocks: number[] = [];
  #ns = new Float64Array(ROWS_MIN);
  #scales = new Float32Array(ROWS_MIN);
  #kinds = new Uint8Array(ROWS_MIN);
  /** Revision of the scope when it was read last. */
  revision = -1;
  removals = 0;
  rows = 0;
  /** Searches that read it: what they read is not moved. */
  readers = 0;

  constructor(arena: VectorArena, metric: Metric, dimensions: number) {
    this.#arena = arena;
    this.#metric = metric;
    this.#dimensions = dimensions;
    this.#size = metric === "dot" ? codeBytes(dimensions) : bitBytes(dimensions);
    this.#rowsPerBlock = Math.floor(BLOCK_BYTES / this.#size);
  }

  /** The last vector that was read. */
  get lastN(): number {
    return this.rows === 0 ? 0 : this.#ns[this.rows - 1] ?? 0;
  }

  get columnBytes(): number {
    return this.#ns.length * COLUMN_BYTES;
  }

  /** Bytes that more rows may need. */
  bytesFor(rows: number): number {
    return Math.ceil((this.rows + rows) / this.#rowsPerBlock) * BLOCK_BYTES - this.#blocks.length * BLOCK_BYTES +
      (this.rows + rows > this.#ns.length ? (this.rows + rows) * COLUMN_BYTES : 0);
  }

  append({ n, kind, code }: StoredVector): void {
    if (this.rows === this.#ns.length) this.#grow();
    const inBlock = this.rows % this.#rowsPerBlock;
    if (inBlock === 0) this.#blocks.push(this.#arena.allocate());
    this.#scales[this.rows] = writeRow(
      this.#arena,
      (this.#blocks.at(-1) ?? 0) + inBlock * this.#size,
      this.#metric,
      this.#dimensions,
      code,
    );
    this.#ns[this.rows] = n;
    this.#kinds[this.rows] = kindCode(kind);
    this.rows++;
  }

  /** Removes all rows but these. */
  retain(live: ReadonlySet<number>): void {
    let to = 0;
    for (let from = 0; from < this.rows; from++) {
      if (!live.has(this.#ns[from] ?? 0)) continue;
      if (to !== from) {
        const bytes = this.#arena.bytesAt(this.#addressOf(from), this.#size);
        this.#arena.bytesAt(this.#addressOf(to), this.#size).set(bytes);
        this.#ns[to] = this.#ns[from] ?? 0;
        this.#scales[to] = this.#scales[from] ?? 0;
        this.#kinds[to] = this.#kinds[from] ?? 0;
      }
      to++;
    }
    this.rows = to;
    this.#arena.release(this.#blocks.splice(Math.ceil(to / this.#rowsPerBlock)));
  }

  release(): void {
    this.#arena.release(this.#blocks.splice(0));
    this.rows = 0;
  }

  /** Adds the scores of its rows of these kinds; resolves when all blocks are compared. */
  async compare(
    query: PreparedQuery,
    kinds: ReadonlySet<number>,
    best: BestScores,
    yieldIfDue: () => Promise<unknown>,
  ): Promise<void> {
    const rows = this.rows;
    for (let at = 0; at * this.#rowsPerBlock < rows; at++) {
      const from = at * this.#rowsPerBlock;
      const count = Math.min(this.#rowsPerBlock, rows - from);
      const scores = this.#arena.compare(this.#metric, query.bytes, this.#blocks[at] ?? 0, count);
      for (let row = 0; row < count; row++) {
        const score = (scores[row] ?? 0) * query.scale * (this.#scales[from + row] ?? 0);
        if (score > best.least && kinds.has(this.#kinds[from + row] ?? 0)) best.add(this.#ns[from + row] ?? 0, score);
      }
      await yieldIfDue();
    }
  }

  #addressOf(row: number): number {
    return (this.#blocks[Math.floor(row / this.#rowsPerBlock)] ?? 0) + row % this.#rowsPerBlock * this.#size;
  }

  #grow(): void {
    const length = this.#ns.length * 2;
    const [ns, scales, kinds] = [new Float64Array(length), new Float32Array(length), new Uint8Array(length)];
    ns.set(this.#ns);
    scales.set(this.#scales);
    kinds.set(this.#kinds);
    [this.#ns, this.#scales, this.#kinds] = [ns, scales, kinds];
  }
}

/** Writes a row where the kernels read it; returns what its scores are multiplied by. */
export function writeRow(
  arena: VectorArena,
  address: number,
  metric: Metric,
  dimensions: number,
  code: string,
): number {
  const { scale, values } = unpackCode(code);
  const bytes = metric === "dot" ? new Uint8Array(values.buffer, values.byteOffset) : encodeBits(values, dimensions);
  arena.bytesAt(address, bytes.length).set(bytes);
  // Fewer different bits are better.
  return metric === "dot" ? scale : -1;
}

const kindCodes = new Map<string, number>();

/** A small number for the name of a kind. */
export function kindCode(kind: string): number {
  let code = kindCodes.get(kind);
  if (code === undefined) kindCodes.set(kind, code = kindCodes.size);
  return code;
}
