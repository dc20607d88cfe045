// GIF: copies the blocks of the image; drops comments, XMP and other application blocks.
import { Buffer } from "node:buffer";
import type { ByteReader } from "./byte_reader.ts";

const SCREEN_BYTES = 13;
const FRAME_BYTES = 10;
const [EXTENSION, FRAME, END] = [0x21, 0x2c, 0x3b];
const [COMMENT, APPLICATION] = [0xfe, 0xff];
/** The name of an application at the start of its block. */
const NAME_BYTES = 11;
/** Loop counts of animations, and color profiles. */
const RETAINED_APPLICATIONS = new Set(["NETSCAPE2.0", "ANIMEXTS1.0", "ICCRGBG1012"]);

/** Drops what follows the end; from an invalid block on, the rest is copied as it is. */
export async function* stripGif(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  const screen = await bytes.read(SCREEN_BYTES);
  yield screen;
  yield* bytes.chunks(tableBytes(screen[SCREEN_BYTES - 3]));
  while (bytes.isPlausible) {
    const kind = await bytes.read(1);
    if (kind[0] === FRAME) {
      const frame = Buffer.concat([kind, await bytes.read(FRAME_BYTES - 1)]);
      yield frame;
      // The byte between the color table and the data is the code size.
      yield* bytes.chunks(tableBytes(frame[FRAME_BYTES - 1]) + 1);
      yield* blocks(bytes);
    } else if (kind[0] === EXTENSION) {
      yield* extension(bytes);
    } else {
      yield kind;
      if (kind[0] === END) return;
      break;
    }
  }
  yield* bytes.remaining();
}

async function* extension(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  const label = await bytes.read(1);
  const length = await bytes.read(1);
  const first = Buffer.from(await bytes.read(length[0] ?? 0));
  const isPrivate = label[0] === COMMENT ||
    label[0] === APPLICATION && !RETAINED_APPLICATIONS.has(first.toString("latin1", 0, NAME_BYTES));
  if (!isPrivate) yield Buffer.concat([Uint8Array.of(EXTENSION), label, length, first]);
  if (length[0] === 0) return;
  for await (const piece of blocks(bytes)) if (!isPrivate) yield piece;
}

/** Blocks with their length byte, including the empty one that ends them. */
async function* blocks(bytes: ByteReader): AsyncGenerator<Uint8Array> {
  let left = 0;
  for (let piece = await bytes.readChunk(); piece !== undefined; piece = await bytes.readChunk()) {
    let at = 0;
    while (at < piece.length) {
      if (left > 0) {
        const fitting = Math.min(left, piece.length - at);
        at += fitting;
        left -= fitting;
        continue;
      }
      left = piece[at++] ?? 0;
      if (left > 0) continue;
      yield piece.subarray(0, at);
      return bytes.unread(piece.subarray(at));
    }
    yield piece;
  }
}

/** The length of the color table that the flags declare. */
function tableBytes(flags = 0): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 0x07) + 1);
}
