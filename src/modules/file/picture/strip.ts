// Uploads lose what they tell beyond the picture: places, times, devices, names, comments, previews.
import { Buffer } from "node:buffer";
import { Bytes, gathered } from "./bytes.ts";
import { stripGif } from "./gif.ts";
import { stripJpeg } from "./jpeg.ts";
import { stripPng } from "./png.ts";
import { stripWebp } from "./webp.ts";

type Format = { starts: RegExp; strip(bytes: Bytes): AsyncGenerator<Uint8Array> };

/** By the first bytes, in hex. */
const FORMATS: readonly Format[] = [
  { starts: /^ffd8ff/, strip: stripJpeg },
  { starts: /^89504e470d0a1a0a/, strip: stripPng },
  { starts: /^52494646.{8}57454250/, strip: stripWebp },
  { starts: /^47494638(37|39)61.{14}/, strip: stripGif },
];
const LONGEST_START = 13;

/**
 * The content without metadata, streamed; its pixels and colour profile are bit for bit those that came, and it is shown the
 * same way up. What is no such picture passes untouched. A picture that is broken is no reason to refuse a file: it is
 * stripped as far as it can be read, and what stands from there on is kept, since nobody can tell what it is. Never longer
 * than what came; the source is read to its end, where its sender's digest is checked.
 */
export async function* stripped(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const bytes = new Bytes(source);
  const start = await bytes.take(LONGEST_START);
  bytes.unread(start);
  const hex = Buffer.from(start).toString("hex");
  const format = FORMATS.find(({ starts }) => starts.test(hex));
  if (format === undefined) return yield* bytes.rest();
  yield* gathered(format.strip(bytes));
  await bytes.skip(Infinity);
}
