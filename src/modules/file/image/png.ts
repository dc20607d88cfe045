// PNG: copies the chunks of the image and drops those with metadata.
import { Buffer } from "node:buffer";
import { crc32 } from "node:zlib";
import type { ByteReader } from "./byte_reader.ts";
import { EXIF_READ_BYTES, minimalExif } from "./exif.ts";

const SIGNATURE_BYTES = 8;
const HEAD_BYTES = 8;
const CRC_BYTES = 4;
const LENGTH_MAX = 2 ** 31 - 1;
/** Ancillary chunks that affect the display: transparency, colors, density, animation. */
const RETAINED_CHUNKS = new Set(
  "tRNS gAMA cHRM sRGB iCCP sBIT bKGD pHYs cICP mDCV mDCv cLLI cLLi acTL fcTL fdAT".split(" "),
);

/**
 * Copies all critical chunks, and those ancillary ones that affect the display. Drops what follows the end; from an invalid
 * chunk on, the rest is copied as it is.
 */
export async function* stripPng(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  yield await bytes.read(SIGNATURE_BYTES);
  while (bytes.isPlausible) {
    const head = Buffer.from(await bytes.read(HEAD_BYTES));
    const [length, type] = head.length < HEAD_BYTES
      ? [Infinity, ""]
      : [head.readUInt32BE(), head.toString("latin1", 4)];
    if (length > LENGTH_MAX || !/^[A-Za-z]{4}$/.test(type)) {
      yield head;
      yield* bytes.remaining();
      return;
    }
    if (/^[A-Z]/.test(type) || RETAINED_CHUNKS.has(type)) {
      yield head;
      yield* bytes.chunks(length + CRC_BYTES);
      if (type === "IEND") return;
      continue;
    }
    const block = await bytes.read(type === "eXIf" ? Math.min(length, EXIF_READ_BYTES) : 0);
    const exif = minimalExif(block);
    if (exif.length > 0) yield chunkOf(type, exif);
    await bytes.skip(length - block.length + CRC_BYTES);
  }
  yield* bytes.remaining();
}

function chunkOf(type: string, payload: Uint8Array): Uint8Array {
  const body = Buffer.concat([Buffer.from(type, "latin1"), payload]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(CRC_BYTES)];
  length.writeUInt32BE(payload.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}
