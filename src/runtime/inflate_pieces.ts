// For Deno 2.9.6. Inflates compressed data in pieces, so that who reads it can stop.
//
// Fault: a chunk that is written to a `DecompressionStream` is inflated as a whole, however little of it is read. 256 KB become
// 256 MB, which also keeps the thread busy for half a second. The package `file-type` inflates what a zip file says of its kind, and
// stops reading after 1 MB:
//
//   const { value } = await new Blob([bomb]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader().read();
//   // value.length 256 * 1024 * 1024
//
// Delete it when tests/runtime_test.ts says that a read returns a part of a chunk.

/** Becomes 1 MB at most. */
const PIECE_BYTES = 1024;

/** That of the runtime. */
export const NativeDecompressionStream = globalThis.DecompressionStream;

class PiecewiseDecompressionStream implements DecompressionStream {
  readonly readable: DecompressionStream["readable"];
  readonly writable: DecompressionStream["writable"];

  constructor(format: CompressionFormat) {
    const pieces = new TransformStream<BufferSource, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        const bytes = ArrayBuffer.isView(chunk)
          ? new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)
          : new Uint8Array(chunk);
        for (let at = 0; at < bytes.length; at += PIECE_BYTES) controller.enqueue(bytes.subarray(at, at + PIECE_BYTES));
      },
    });
    this.writable = pieces.writable;
    this.readable = pieces.readable.pipeThrough(new NativeDecompressionStream(format));
  }
}

/** Lets all decompression streams of the process inflate in pieces from now on. */
export function inflateInPieces(): void {
  globalThis.DecompressionStream = PiecewiseDecompressionStream;
}
