// The orientation of an image, the only part of an EXIF block that affects its display.
import { Buffer } from "node:buffer";

/** The start of an EXIF block in JPEG and some other formats. */
export const EXIF_MARK = Buffer.from("Exif\0\0", "latin1");
/** Bytes of a block that are searched for the orientation, which is near the start. */
export const EXIF_READ_BYTES = 65_536;

const ORIENTATION = 0x0112;
const [SHORT, LONG] = [3, 4];
const ENTRY_BYTES = 12;
/** A big-endian TIFF header, a directory of one entry, and no other directory. */
const MINIMAL = [0x4d, 0x4d, 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, SHORT, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
const VALUE_AT = 19;

/** The EXIF orientation, 1 (upright) to 8; 1 if the block has none. */
export function orientationOf(block: Uint8Array): number {
  const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength);
  const start = bytes.subarray(0, EXIF_MARK.length).equals(EXIF_MARK) ? EXIF_MARK.length : 0;
  const tiff = bytes.subarray(start);
  const order = tiff.toString("latin1", 0, 2);
  if (tiff.length < 8 || order !== "II" && order !== "MM") return 1;
  const short = (at: number): number => order === "II" ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at);
  const long = (at: number): number => order === "II" ? tiff.readUInt32LE(at) : tiff.readUInt32BE(at);
  const directory = long(4);
  if (short(2) !== 42 || directory + 2 > tiff.length) return 1;
  const end = Math.min(directory + 2 + short(directory) * ENTRY_BYTES, tiff.length - ENTRY_BYTES + 1);
  for (let at = directory + 2; at < end; at += ENTRY_BYTES) {
    if (short(at) !== ORIENTATION) continue;
    const value = short(at + 2) === SHORT ? short(at + 8) : short(at + 2) === LONG ? long(at + 8) : 1;
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

/**
 * A TIFF block with only the orientation of `block`; empty if that is the default. Never longer than `block`, so that an upload
 * does not exceed its reserved quota.
 */
export function minimalExif(block: Uint8Array): Uint8Array {
  const orientation = orientationOf(block);
  if (orientation === 1 || block.length < MINIMAL.length) return new Uint8Array();
  const minimal = Uint8Array.from(MINIMAL);
  minimal[VALUE_AT] = orientation;
  return minimal;
}
