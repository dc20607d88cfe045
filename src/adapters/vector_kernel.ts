// Compares one query with many rows at once: WebAssembly with SIMD, whose source is vector_kernel.wat.

const WASM =
  "AGFzbQEAAAABCQFgBX9/f39/AAIVAQZrZXJuZWwGbWVtb3J5AgEBgIAEAwMCAAAHEQIDZG90AAAHaGFtbWluZwABCrYCAp8BAgJ/A3sCQANAIA" +
  "UgAk8NAf0MAAAAAAAAAAAAAAAAAAAAACEHQQAhBgNAIAAgBmr9AAQAIQggASAGav0ABAAhCSAHIAggCf2cAf1+IAggCf2dAf1+/a4B/a4BIQcg" +
  "BkEQaiIGIANJDQALIAQgB/0bACAH/RsBaiAH/RsCIAf9GwNqajYCACAEQQRqIQQgASADaiEBIAVBAWohBQwACwsLkgECAn8BewJAA0AgBSACTw" +
  "0B/QwAAAAAAAAAAAAAAAAAAAAAIQdBACEGA0AgByAAIAZq/QAEACABIAZq/QAEAP1R/WL9ff2OASEHIAZBEGoiBiADSQ0ACyAH/X8hByAEIAf9" +
  "GwAgB/0bAWogB/0bAiAH/RsDamo2AgAgBEEEaiEEIAEgA2ohASAFQQFqIQUMAAsLCw==";

/** For each of `count` rows of `size` bytes at `rows`, an i32 at `out`. All arguments but those two are addresses. */
type Kernel = (query: number, rows: number, count: number, size: number, out: number) => void;

export type Kernels = { dot: Kernel; hamming: Kernel };

let compiled: WebAssembly.Module | undefined;

export function instantiateKernels(memory: WebAssembly.Memory): Kernels {
  compiled ??= new WebAssembly.Module(Uint8Array.fromBase64(WASM));
  return new WebAssembly.Instance(compiled, { kernel: { memory } }).exports as Kernels;
}
