// JPEG: copies the segments of the image and drops those with metadata.
import { Buffer } from "node:buffer";
import type { ByteReader } from "./byte_reader.ts";
import { EXIF_MARK, minimalExif } from "./exif.ts";

const MARK = 0xff;
const TEM = 0x01;
const [RST0, SOI, EOI, SOS] = [0xd0, 0xd8, 0xd9, 0xda];
const [APP0, APP1, APP2, APP14, APP15, COM] = [0xe0, 0xe1, 0xe2, 0xee, 0xef, 0xfe];
/** The smallest marker that ends a scan; in JPEG-LS, smaller ones are data. */
const ENDS_FROM = 0xc0;
/** A JFIF header without its thumbnail, whose dimensions are the last two bytes. */
const JFIF_BYTES = 14;
const ADOBE_BYTES = 12;

/**
 * Copies tables, frames, scans, color profiles, the JFIF header without its thumbnail, and Adobe's color transform. Drops
 * everything else, also after the end, where previews, depth maps and films have metadata of their own, and between segments,
 * where decoders skip bytes too. From a segment with an invalid length on, the rest is copied as it is.
 */
export async function* stripJpeg(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  let isExifSeen = false;
  while (bytes.isPlausible) {
    const marker = await nextMarker(bytes);
    if (marker === undefined) return;
    if (marker === TEM || marker >= RST0 && marker <= EOI) {
      yield Uint8Array.of(MARK, marker);
      if (marker === EOI) return;
      continue;
    }
    const head = Buffer.from(await bytes.read(2));
    const length = head.length < 2 ? 0 : head.readUInt16BE();
    if (length < 2) {
      yield Buffer.concat([Uint8Array.of(MARK, marker), head]);
      yield* bytes.remaining();
      return;
    }
    if (marker >= APP0 && marker <= APP15 || marker === COM) {
      const payload = Buffer.from(await bytes.read(length - 2));
      const isExif = marker === APP1 && payload.subarray(0, EXIF_MARK.length).equals(EXIF_MARK);
      if (!isExif || !isExifSeen) yield segmentOf(marker, withoutPrivate(marker, payload));
      isExifSeen ||= isExif;
      continue;
    }
    yield Uint8Array.of(MARK, marker, ...head);
    yield* bytes.chunks(length - 2);
    if (marker === SOS) yield* scan(bytes);
  }
  yield* bytes.remaining();
}

/** The part of an application segment to copy; empty for none. */
function withoutPrivate(marker: number, payload: Buffer): Uint8Array {
  const startsWith = (text: string): boolean => payload.subarray(0, text.length).equals(Buffer.from(text, "latin1"));
  if (marker === APP0 && startsWith("JFIF\0") && payload.length >= JFIF_BYTES) {
    return Uint8Array.from([...payload.subarray(0, JFIF_BYTES - 2), 0, 0]);
  }
  if (marker === APP2 && startsWith("ICC_PROFILE\0")) return payload;
  if (marker === APP14 && startsWith("Adobe")) return payload.subarray(0, ADOBE_BYTES);
  if (marker !== APP1 || !startsWith("Exif\0\0")) return new Uint8Array();
  const exif = minimalExif(payload.subarray(EXIF_MARK.length));
  return exif.length === 0 ? exif : Buffer.concat([EXIF_MARK, exif]);
}

function segmentOf(marker: number, payload: Uint8Array): Uint8Array {
  if (payload.length === 0) return payload;
  const length = payload.length + 2;
  return Buffer.concat([Uint8Array.of(MARK, marker, length >> 8, length & 0xff), payload]);
}

/** Reads past the next marker. */
async function nextMarker(bytes: ByteReader): Promise<number | undefined> {
  let isAfterMark = false;
  for (let piece = await bytes.readChunk(); piece !== undefined; piece = await bytes.readChunk()) {
    for (let at = 0; at < piece.length; at++) {
      const byte = piece[at] ?? 0;
      if (isAfterMark && byte !== 0 && byte !== MARK) {
        bytes.unread(piece.subarray(at + 1));
        return byte;
      }
      isAfterMark = byte === MARK;
    }
  }
  return undefined;
}

/** Coded data up to the marker that ends it. */
async function* scan(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  for (let piece = await bytes.readChunk(); piece !== undefined; piece = await bytes.readChunk()) {
    let at = piece.indexOf(MARK);
    while (at >= 0 && at + 1 < piece.length && !endsScan(piece[at + 1] ?? 0)) at = piece.indexOf(MARK, at + 1);
    if (at < 0) {
      yield piece;
      continue;
    }
    if (at > 0) yield piece.subarray(0, at);
    if (at + 1 < piece.length) return bytes.unread(piece.subarray(at));
    // The marker at the end of the piece continues in the next one.
    const next = await bytes.readChunk();
    if (next === undefined) yield piece.subarray(at);
    else bytes.unread(Buffer.concat([piece.subarray(at), next]));
  }
}

function endsScan(byte: number): boolean {
  return byte >= ENDS_FROM && byte !== MARK && !(byte >= RST0 && byte < SOI);
}
