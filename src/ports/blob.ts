// The blob store: whole contents by key, on this machine's disk or in an S3-compatible store.
//
// - A key names one content forever: it is written once, read any number of times, deleted once.
// - `put` is atomic: once the promise resolves, the whole content is on stable storage; before that, or when it rejects, nothing
//   of it is visible. Errors of `content` pass through unchanged.
// - `put` buffers a bounded part of the content, and reads no faster than it can write.
// - `get` resolves before the content has been read; its stream must be read to the end or cancelled.
// - Absence is `undefined`. `delete` of an absent key succeeds.
// - A store that is unreachable or full, or that denies access, throws the Fault `unavailable`.

export interface Blobs {
  put(key: string, content: AsyncIterable<Uint8Array>): Promise<void>;
  /** The content, or a range of it, which must lie within it. */
  get(key: string, range?: ByteRange): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | undefined>;
  delete(key: string): Promise<void>;
}

/** Bytes `start <= n < end`. */
export type ByteRange = { start: number; end: number };

const KEY = /^[A-Za-z0-9_-]{1,128}$/;

/** Throws for a key that is not a plain name, such as one with a path in it. */
export function assertBlobKey(key: string): void {
  if (!KEY.test(key)) throw new TypeError("Expected a blob key of 1 to 128 characters of A-Z a-z 0-9 _ -");
}
