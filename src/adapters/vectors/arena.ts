// The memory of the kernels: blocks of one size, as many as the bound allows, that are used again. It grows when blocks are needed.

/** Small, since a room with few vectors takes a whole one. Also the largest row. */
export const BLOCK_BYTES = 16_384;
/** A query, the results of one block, and a block for what is not cached. */
const [QUERY, OUT, SCRATCH, FIRST] = [0, BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES];
/** Blocks added at once. */
const GROW_PAGES = 16;
const PAGES_MAX = 65_536;

/** WebAssembly with SIMD, which compares one query with many rows at once; its source is kernel.wat. */
const WASM =
  "AGFzbQEAAAABCQFgBX9/f39/AAIVAQZrZXJuZWwGbWVtb3J5AgEBgIAEAwMCAAAHEQIDZG90AAAHaGFtbWluZwABCrYCAp8BAgJ/A3sCQANAIA" +
  "UgAk8NAf0MAAAAAAAAAAAAAAAAAAAAACEHQQAhBgNAIAAgBmr9AAQAIQggASAGav0ABAAhCSAHIAggCf2cAf1+IAggCf2dAf1+/a4B/a4BIQcg" +
  "BkEQaiIGIANJDQALIAQgB/0bACAH/RsBaiAH/RsCIAf9GwNqajYCACAEQQRqIQQgASADaiEBIAVBAWohBQwACwsLkgECAn8BewJAA0AgBSACTw" +
  "0B/QwAAAAAAAAAAAAAAAAAAAAAIQdBACEGA0AgByAAIAZq/QAEACABIAZq/QAEAP1R/WL9ff2OASEHIAZBEGoiBiADSQ0ACyAH/X8hByAEIAf9" +
  "GwAgB/0bAWogB/0bAiAH/RsDamo2AgAgBEEEaiEEIAEgA2ohASAFQQFqIQUMAAsLCw==";

/** For each of `count` rows of `size` bytes at `rows`, an i32 at `out`. All arguments but those two are addresses. */
type Kernel = (query: number, rows: number, count: number, size: number, out: number) => void;

type Kernels = { dot: Kernel; hamming: Kernel };

/** What is compared: int8 vectors by their dot product, or bits by how many differ. */
export type Metric = keyof Kernels;

export class VectorArena {
  readonly #memory = new WebAssembly.Memory({ initial: 1, maximum: PAGES_MAX });
  readonly #kernels: Kernels = instantiateKernels(this.#memory);
  readonly #free: number[] = [];
  #end = FIRST;
  /** Bytes of blocks in use. */
  usedBytes = 0;

  /** An address for rows that are compared at once and not cached. */
  get scratch(): number {
    return SCRATCH;
  }

  /** The address of a block. */
  allocate(): number {
    this.usedBytes += BLOCK_BYTES;
    const known = this.#free.pop();
    if (known !== undefined) return known;
    const address = this.#end;
    this.#end += BLOCK_BYTES;
    if (this.#end > this.#memory.buffer.byteLength) this.#memory.grow(GROW_PAGES);
    return address;
  }

  release(blocks: readonly number[]): void {
    this.usedBytes -= blocks.length * BLOCK_BYTES;
    this.#free.push(...blocks);
  }

  /** The bytes at an address. To be used at once: a later allocation detaches them. */
  bytesAt(address: number, size: number): Uint8Array {
    return new Uint8Array(this.#memory.buffer, address, size);
  }

  /** The comparisons of a query with rows of its size in one block. To be used at once. */
  compare(metric: Metric, query: Uint8Array, rows: number, count: number): Int32Array {
    this.bytesAt(QUERY, query.length).set(query);
    this.#kernels[metric](QUERY, rows, count, query.length, OUT);
    return new Int32Array(this.#memory.buffer, OUT, count);
  }
}

let compiled: WebAssembly.Module | undefined;

function instantiateKernels(memory: WebAssembly.Memory): Kernels {
  compiled ??= new WebAssembly.Module(Uint8Array.fromBase64(WASM));
  return new WebAssembly.Instance(compiled, { kernel: { memory } }).exports as Kernels;
}
