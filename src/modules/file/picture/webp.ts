// WebP: chunks that make the picture pass, chunks that tell about it are blanked.
import { Buffer } from "node:buffer";
import type { Bytes } from "./bytes.ts";
import { EXIF_READ_BYTES, minimalExif } from "./exif.ts";

const FILE_HEAD_BYTES = 12;
const HEAD_BYTES = 8;
const BLANK_BYTES = 65_536;
const OF_PICTURE = new Set(["VP8 ", "VP8L", "ALPH", "ANIM", "ANMF", "ICCP"]);
/** In the flags of `VP8X`. */
const HAS_XMP = 0x04;
/** A name that means nothing to anybody, for chunks that readers skip. */
const UNKNOWN = Buffer.from("JUNK", "latin1");

/**
 * The length of the whole and the list of what is in it stand in front of what they tell of, and are long gone when it comes.
 * So a chunk that does not belong to the picture keeps its place and its length, and loses its name and content; EXIF keeps
 * its name too, for its orientation. Nothing after the end; where the length is none, all passes as it came.
 */
export async function* stripWebp(bytes: Bytes): AsyncGenerator<Uint8Array> {
  const file = Buffer.from(await bytes.take(FILE_HEAD_BYTES));
  yield file;
  let left = file.readUInt32LE(4) - (FILE_HEAD_BYTES - HEAD_BYTES);
  if (left < HEAD_BYTES) yield* bytes.rest();
  while (left >= HEAD_BYTES) {
    if (!bytes.isPlausible) return yield* bytes.rest();
    const head = Buffer.from(await bytes.take(HEAD_BYTES));
    if (head.length < HEAD_BYTES) {
      yield head;
      return;
    }
    const [type, length] = [head.toString("latin1", 0, 4), head.readUInt32LE(4)];
    const padded = length + length % 2;
    left -= HEAD_BYTES + padded;
    if (OF_PICTURE.has(type)) {
      yield head;
      yield* bytes.pass(padded);
    } else if (type === "VP8X") {
      const payload = Buffer.from(await bytes.take(Math.min(padded, BLANK_BYTES)));
      if (payload.length > 0) payload[0] = (payload[0] ?? 0) & ~HAS_XMP;
      yield Buffer.concat([head, payload]);
      yield* bytes.pass(padded - payload.length);
    } else {
      const block = type === "EXIF" ? await bytes.take(Math.min(length, EXIF_READ_BYTES)) : new Uint8Array();
      const exif = minimalExif(block);
      yield Buffer.concat([exif.length > 0 ? head.subarray(0, 4) : UNKNOWN, head.subarray(4), exif]);
      yield* blanks(bytes, padded, block.length, exif.length);
    }
  }
  if (left > 0) yield* blanks(bytes, left, 0, 0);
}

/** Zeros for what is left of a chunk of `length` bytes, of which `read` were read and `written` written, as far as it goes. */
async function* blanks(bytes: Bytes, length: number, read: number, written: number): AsyncGenerator<Uint8Array> {
  if (read > written) yield new Uint8Array(read - written);
  for await (const piece of bytes.pass(length - read)) yield new Uint8Array(piece.length);
}
