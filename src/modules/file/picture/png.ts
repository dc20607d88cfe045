// PNG: chunks that make the picture pass, chunks that tell about it do not.
import { Buffer } from "node:buffer";
import { crc32 } from "node:zlib";
import type { Bytes } from "./bytes.ts";
import { EXIF_READ_BYTES, minimalExif } from "./exif.ts";

const SIGNATURE_BYTES = 8;
const HEAD_BYTES = 8;
const CRC_BYTES = 4;
const LENGTH_MAX = 2 ** 31 - 1;
/** Of the chunks that a decoder may skip, those it should not: transparency, colours, density, animation. */
const OF_PICTURE = new Set(
  "tRNS gAMA cHRM sRGB iCCP sBIT bKGD pHYs cICP mDCV mDCv cLLI cLLi acTL fcTL fdAT".split(" "),
);

/**
 * Passes all chunks that a decoder must know, and of the others only those that change what is seen. Nothing after the
 * end; from a chunk on that cannot be one, all passes as it came.
 */
export async function* stripPng(bytes: Bytes): AsyncGenerator<Uint8Array> {
  yield await bytes.take(SIGNATURE_BYTES);
  while (bytes.isPlausible) {
    const head = Buffer.from(await bytes.take(HEAD_BYTES));
    const [length, type] = head.length < HEAD_BYTES
      ? [Infinity, ""]
      : [head.readUInt32BE(), head.toString("latin1", 4)];
    if (length > LENGTH_MAX || !/^[A-Za-z]{4}$/.test(type)) {
      yield head;
      yield* bytes.rest();
      return;
    }
    if (/^[A-Z]/.test(type) || OF_PICTURE.has(type)) {
      yield head;
      yield* bytes.pass(length + CRC_BYTES);
      if (type === "IEND") return;
      continue;
    }
    const block = await bytes.take(type === "eXIf" ? Math.min(length, EXIF_READ_BYTES) : 0);
    const exif = minimalExif(block);
    if (exif.length > 0) yield chunkOf(type, exif);
    await bytes.skip(length - block.length + CRC_BYTES);
  }
  yield* bytes.rest();
}

function chunkOf(type: string, payload: Uint8Array): Uint8Array {
  const body = Buffer.concat([Buffer.from(type, "latin1"), payload]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(CRC_BYTES)];
  length.writeUInt32BE(payload.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}
