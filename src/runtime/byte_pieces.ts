// For Deno 2.9.6. Reads the body of a request in pieces, however short the chunks are in which it arrives.
//
// Fault: the runtime allocates 64 KiB for each chunk, and the chunk retains them. A body of 60,000 chunks of one byte, which is
// 360 KB to send, takes 1.7 GB and keeps the thread busy for seconds:
//
//   for await (const chunk of request.body) chunks.push(chunk); // chunk.length 1, chunk.buffer.byteLength 65536
//
// Delete it when tests/runtime_test.ts says that a chunk retains little more than its bytes.

const PIECE_BYTES = 64 * 1024;

/**
 * The bytes of a stream. `onRead` is called with the number of each read: it may return a promise to wait for, or throw, which
 * cancels the stream.
 */
export async function readPieces(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onRead: (bytes: number) => Promise<void> | undefined,
): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  const reader = byteReaderOf(stream);
  if (reader === undefined) {
    // Leaving the loop early cancels the stream.
    for await (const chunk of stream) {
      pieces.push(chunk);
      await onRead(chunk.length);
    }
    return pieces;
  }
  try {
    let buffer = new ArrayBuffer(PIECE_BYTES);
    let filled = 0;
    for (;;) {
      // Each read moves the memory into a new buffer, and fills it further.
      const { value, done } = await reader.read(new Uint8Array(buffer, filled));
      if (value !== undefined) buffer = value.buffer;
      if (done) break;
      filled += value.length;
      const pause = onRead(value.length);
      if (pause !== undefined) await pause;
      if (filled < PIECE_BYTES) continue;
      pieces.push(new Uint8Array(buffer));
      buffer = new ArrayBuffer(PIECE_BYTES);
      filled = 0;
    }
    if (filled > 0) pieces.push(new Uint8Array(buffer, 0, filled));
    reader.releaseLock();
    return pieces;
  } catch (error) {
    // The failure that is thrown matters, not that of the cancellation.
    await reader.cancel(error).catch(() => {});
    throw error;
  }
}

/** `undefined` for a stream of chunks that exist already, such as that of a request which a program has made. */
function byteReaderOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): ReadableStreamBYOBReader | undefined {
  try {
    return stream.getReader({ mode: "byob" });
  } catch {
    return undefined;
  }
}
