// What an update contains. Several checks read it before Yjs applies it, and to decode it takes as long as to apply it.
import * as Y from "yjs";

export type DecodedUpdate = Readonly<ReturnType<typeof Y.decodeUpdate>>;

/** The last one that was decoded of each buffer: we and the engine read the same frame, each with a view of its own. */
const decoded = new WeakMap<ArrayBufferLike, { offset: number; length: number; update: DecodedUpdate }>();

/** Decodes an update, once however often it is asked for. Throws for bytes that are none; nothing may change what it returns. */
export function decodeUpdate({ buffer, byteOffset: offset, length }: Uint8Array): DecodedUpdate {
  const known = decoded.get(buffer);
  if (known?.offset === offset && known.length === length) return known.update;
  const update = Y.decodeUpdate(new Uint8Array(buffer, offset, length));
  decoded.set(buffer, { offset, length, update });
  return update;
}
