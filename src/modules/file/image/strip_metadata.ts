// Removes metadata from uploaded images: locations, times, devices, names, comments, previews.
import { Buffer } from "node:buffer";
import { ByteReader, rechunk } from "./byte_reader.ts";
import { stripGif } from "./gif.ts";
import { stripJpeg } from "./jpeg.ts";
import { stripPng } from "./png.ts";
import { stripWebp } from "./webp.ts";

type Format = { signature: RegExp; strip(bytes: ByteReader): AsyncGenerator<Uint8Array> };

/** By the first bytes, in hex. */
const FORMATS: readonly Format[] = [
  { signature: /^ffd8ff/, strip: stripJpeg },
  { signature: /^89504e470d0a1a0a/, strip: stripPng },
  { signature: /^52494646.{8}57454250/, strip: stripWebp },
  { signature: /^47494638(37|39)61.{14}/, strip: stripGif },
];
const SIGNATURE_MAX_BYTES = 13;

/**
 * Streams the content without metadata; pixels, color profile and orientation are unchanged. Other content is copied as it is.
 * A corrupt image is not refused: it is stripped as far as it can be parsed, and the rest is copied. The result is never longer
 * than the source, which is read to its end, because its digest is checked there.
 */
export async function* stripMetadata(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const bytes = new ByteReader(source);
  const start = await bytes.read(SIGNATURE_MAX_BYTES);
  bytes.unread(start);
  const hex = Buffer.from(start).toString("hex");
  const format = FORMATS.find(({ signature }) => signature.test(hex));
  if (format === undefined) return yield* bytes.remaining();
  yield* rechunk(format.strip(bytes));
  await bytes.skip(Infinity);
}
