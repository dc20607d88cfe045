// GIF: blocks that make the picture pass; comments, XMP and other applications' blocks do not.
import { Buffer } from "node:buffer";
import type { Bytes } from "./bytes.ts";

const SCREEN_BYTES = 13;
const FRAME_BYTES = 10;
const [EXTENSION, FRAME, END] = [0x21, 0x2c, 0x3b];
const [COMMENT, APPLICATION] = [0xfe, 0xff];
/** Of an application, as its block starts. */
const NAME_BYTES = 11;
/** How often an animation repeats, and a colour profile. */
const OF_PICTURE = new Set(["NETSCAPE2.0", "ANIMEXTS1.0", "ICCRGBG1012"]);

/** Nothing after the end passes; from a block on that cannot be one, all passes as it came. */
export async function* stripGif(bytes: Bytes): AsyncGenerator<Uint8Array> {
  const screen = await bytes.take(SCREEN_BYTES);
  yield screen;
  yield* bytes.pass(tableBytes(screen[SCREEN_BYTES - 3]));
  while (bytes.isPlausible) {
    const kind = await bytes.take(1);
    if (kind[0] === FRAME) {
      const frame = Buffer.concat([kind, await bytes.take(FRAME_BYTES - 1)]);
      yield frame;
      // A byte for the size of codes stands between the colours and the data.
      yield* bytes.pass(tableBytes(frame[FRAME_BYTES - 1]) + 1);
      yield* blocks(bytes);
    } else if (kind[0] === EXTENSION) {
      yield* extension(bytes);
    } else {
      yield kind;
      if (kind[0] === END) return;
      break;
    }
  }
  yield* bytes.rest();
}

async function* extension(bytes: Bytes): AsyncGenerator<Uint8Array> {
  const label = await bytes.take(1);
  const length = await bytes.take(1);
  const first = Buffer.from(await bytes.take(length[0] ?? 0));
  const isPrivate = label[0] === COMMENT ||
    label[0] === APPLICATION && !OF_PICTURE.has(first.toString("latin1", 0, NAME_BYTES));
  if (!isPrivate) yield Buffer.concat([Uint8Array.of(EXTENSION), label, length, first]);
  if (length[0] === 0) return;
  for await (const piece of blocks(bytes)) if (!isPrivate) yield piece;
}

/** Blocks with the byte of their length in front, the empty one that ends them included. */
async function* blocks(bytes: Bytes): AsyncGenerator<Uint8Array> {
  let left = 0;
  for (let piece = await bytes.some(); piece !== undefined; piece = await bytes.some()) {
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

/** How long the table of colours is that flags tell of. */
function tableBytes(flags = 0): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 0x07) + 1);
}
