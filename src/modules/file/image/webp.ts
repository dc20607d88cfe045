// WebP: copies the chunks of the image and blanks those with metadata.
import { Buffer } from "node:buffer";
import type { ByteReader } from "./byte_reader.ts";
import { EXIF_READ_BYTES, minimalExif } from "./exif.ts";

const FILE_HEAD_BYTES = 12;
const HEAD_BYTES = 8;
const BLANK_BYTES = 65_536;
const RETAINED_CHUNKS = new Set(["VP8 ", "VP8L", "ALPH", "ANIM", "ANMF", "ICCP"]);
/** In the flags of `VP8X`. */
const HAS_XMP = 0x04;
/** An unknown chunk type, which readers skip. */
const UNKNOWN = Buffer.from("JUNK", "latin1");

/**
 * The total length and the chunk list precede the chunks, so they have been sent before a chunk is read. Therefore a metadata
 * chunk keeps its position and length but loses its type and content; EXIF keeps its type, for the orientation. Drops what
 * follows the end; with an invalid length, the rest is copied as it is.
 */
export async function* stripWebp(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  const file = Buffer.from(await bytes.read(FILE_HEAD_BYTES));
  yield file;
  let left = file.readUInt32LE(4) - (FILE_HEAD_BYTES - HEAD_BYTES);
  if (left < HEAD_BYTES) yield* bytes.remaining();
  while (left >= HEAD_BYTES) {
    if (!bytes.isPlausible) return yield* bytes.remaining();
    const head = Buffer.from(await bytes.read(HEAD_BYTES));
    if (head.length < HEAD_BYTES) {
      yield head;
      return;
    }
    const [type, length] = [head.toString("latin1", 0, 4), head.readUInt32LE(4)];
    const padded = length + length % 2;
    left -= HEAD_BYTES + padded;
    if (RETAINED_CHUNKS.has(type)) {
      yield head;
      yield* bytes.chunks(padded);
    } else if (type === "VP8X") {
      const payload = Buffer.from(await bytes.read(Math.min(padded, BLANK_BYTES)));
      if (payload.length > 0) payload[0] = (payload[0] ?? 0) & ~HAS_XMP;
      yield Buffer.concat([head, payload]);
      yield* bytes.chunks(padded - payload.length);
    } else {
      const block = type === "EXIF" ? await bytes.read(Math.min(length, EXIF_READ_BYTES)) : new Uint8Array();
      const exif = minimalExif(block);
      yield Buffer.concat([exif.length > 0 ? head.subarray(0, 4) : UNKNOWN, head.subarray(4), exif]);
      yield* blanks(bytes, padded, block.length, exif.length);
    }
  }
  if (left > 0) yield* blanks(bytes, left, 0, 0);
}

/** Zeros for the rest of a chunk of `length` bytes, of which `read` were read and `written` written. */
async function* blanks(bytes: ByteReader, length: number, read: number, written: number): AsyncGenerator<Uint8Array> {
  if (read > written) yield new Uint8Array(read - written);
  for await (const piece of bytes.chunks(length - read)) yield new Uint8Array(piece.length);
}
