// The blob store: whole contents by key, on this machine's disk or in an S3-compatible store.
//
// - A key names one content for ever: it is written once, read any number of times, deleted once.
// - `put` is atomic: the content is there whole once the promise resolves, and on stable storage; before that, or when it
//   rejects, nobody sees anything of it. What `content` throws passes through as it is.
// - `put` holds a bounded part of the content in memory, and takes no more than it can write.
// - `get` resolves before the content has been read; its stream must be read to the end or cancelled.
// - Absence is `undefined`. `delete` of what is absent is fine.
// - A store that is away, full or refuses us throws the Fault `unavailable`.

export interface Blobs {
  put(key: string, content: AsyncIterable<Uint8Array>): Promise<void>;
  /** The content, or its bytes from `start` up to but without `end`, which must lie within it. */
  get(key: string, range?: ByteRange): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | undefined>;
  delete(key: string): Promise<void>;
}

/** Bytes `start <= n < end`. */
export type ByteRange = { start: number; end: number };

const KEY = /^[A-Za-z0-9_-]{1,128}$/;

/** Throws for a key that could mean anything but one content in a flat name space. */
export function checkBlobKey(key: string): void {
  if (!KEY.test(key)) throw new TypeError("A blob key is 1 to 128 of A-Z a-z 0-9 _ -");
}
