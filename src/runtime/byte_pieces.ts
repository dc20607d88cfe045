// For Deno 2.9.6. Reads the body of a request in pieces, however short the chunks are in which it arrives.
//
// Fault: the runtime allocates 64 KiB for each chunk, and the chunk retains them. A body of 60,000 chunks of one byte, which is
// 360 KB to send, takes 1.7 GB and keeps the thread busy for seconds:
//
//   for await (const chunk of request.body) chunks.push(chunk); // chunk.length 1, chunk.buffer.byteLength 65536
//
// Delete it when tests/runtime_test.ts says that a chunk retains little more than its bytes.

const PIECE_BYTES = 64 * 1024;

type Bytes = Uint8Array<ArrayBuffer>;
type Read = { done: boolean; value?: Bytes | undefined };

type PieceOptions = {
  /** Called with the number of bytes of each read: may return a promise to wait for, or throw. */
  onRead?: (bytes: number) => Promise<void> | undefined;
  /** Starts each read, and may end the wait for it by throwing. */
  watch?: (read: () => Promise<Read>) => Promise<Read>;
};

/** The bytes of a stream, which is cancelled when not all of them are taken. */
export async function* readPieces(stream: ReadableStream<Bytes>, options: PieceOptions): AsyncGenerator<Bytes> {
  const reader = byteReaderOf(stream) ?? stream.getReader();
  try {
    if (reader instanceof ReadableStreamBYOBReader) yield* fillPieces(reader, options);
    else yield* takeChunks(reader, options);
  } finally {
    // Nothing more is read, so a failure to cancel does not matter.
    await reader.cancel().catch(() => {});
    reader.releaseLock();
  }
}

/** `undefined` for a stream of chunks that exist already, such as that of a request which a program has made. */
function byteReaderOf(stream: ReadableStream<Bytes>): ReadableStreamBYOBReader | undefined {
  try {
    return stream.getReader({ mode: "byob" });
  } catch {
    return undefined;
  }
}

async function* fillPieces(reader: ReadableStreamBYOBReader, { onRead, watch }: PieceOptions): AsyncGenerator<Bytes> {
  let buffer = new ArrayBuffer(PIECE_BYTES);
  let filled = 0;
  for (;;) {
    // Each read moves the memory into a new buffer, and fills it further.
    const read = (): Promise<Read> => reader.read(new Uint8Array(buffer, filled));
    const { value, done } = await (watch?.(read) ?? read());
    if (value !== undefined) buffer = value.buffer;
    if (done || value === undefined) break;
    filled += value.length;
    const pause = onRead?.(value.length);
    if (pause !== undefined) await pause;
    if (filled < PIECE_BYTES) continue;
    yield new Uint8Array(buffer);
    buffer = new ArrayBuffer(PIECE_BYTES);
    filled = 0;
  }
  if (filled > 0) yield new Uint8Array(buffer, 0, filled);
}

async function* takeChunks(
  reader: ReadableStreamDefaultReader<Bytes>,
  { onRead, watch }: PieceOptions,
): AsyncGenerator<Bytes> {
  for (;;) {
    const { value, done } = await (watch?.(() => reader.read()) ?? reader.read());
    if (done || value === undefined) return;
    await onRead?.(value.length);
    yield value;
  }
}
