// A picture made small. Decoding takes a while and much memory, so this is called in a worker only.
import { Buffer } from "node:buffer";
import { runInNewContext } from "node:vm";
import { EXIF_MARK, orientationOf } from "./exif.ts";
import { turned } from "./turn.ts";
import { withMemoryCap } from "./wasm.ts";

/** The most pixels that are decoded: 100 MB of colours, and as much again for the decoder. */
export const PIXELS_MAX = 25_000_000;
/** What the decoder may hold in all. A picture that wants more, whatever its header said, is none. */
const MEMORY_BYTES = 400 * 1024 * 1024;
/** Each scan goes over the whole picture, and costs a file few bytes; cameras and tools make a dozen. */
const SCANS_MAX = 30;
/** Where a block of metadata can be at all; what was not found is before that. */
const FOUND_FROM = 8;
const JPEG_QUALITY = 82;
const SCAN = Buffer.of(0xff, 0xda);
/** Where the metadata of a JPEG stands, if it has any. */
const JPEG_HEAD_BYTES = 262_144;

type Photon = Pick<typeof import("@cf-wasm/photon/others"), "PhotonImage" | "resize" | "SamplingFilter">;
export type Order = { bytes: Uint8Array<ArrayBuffer>; box: number; timeMaxMs: number };
/** The small picture; `undefined` for what cannot be decoded. */
export type Rendered = Uint8Array<ArrayBuffer> | undefined;

/**
 * The picture the right way up and no larger than the box, a JPEG, or a PNG where something shines through; of animations the
 * first frame. Throws only when the decoder itself cannot be loaded.
 */
export async function render({ bytes, box, timeMaxMs }: Order): Promise<Rendered> {
  const { initPhoton, ...photon } = await import("@cf-wasm/photon/others");
  const code = await Deno.readFile(new URL(import.meta.resolve("@cf-wasm/photon/photon.wasm")));
  await initPhoton({ module_or_path: await WebAssembly.compile(withMemoryCap(code, MEMORY_BYTES)) });
  if (bytes[0] === 0xff && scansOf(bytes) > SCANS_MAX) return undefined;
  try {
    // A worker that computes cannot be ended from outside; what is run this way ends, with all it has called.
    return runInNewContext("small()", { small: () => smallOf(photon, bytes, box) }, { timeout: timeMaxMs });
  } catch {
    // Broken, of a kind that the decoder does not know, too large for its memory, which it tells by a trap, or too slow.
    return undefined;
  }
}

function smallOf({ PhotonImage, resize, SamplingFilter }: Photon, bytes: Uint8Array, box: number): Uint8Array {
  const image = PhotonImage.new_from_byteslice(bytes);
  const [width, height] = [image.get_width(), image.get_height()];
  const scale = Math.min(1, box / Math.max(width, height));
  const sideOf = (side: number): number => Math.max(1, Math.round(side * scale));
  const [smallWidth, smallHeight] = [sideOf(width), sideOf(height)];
  const small = scale === 1 ? image : resize(image, smallWidth, smallHeight, SamplingFilter.CatmullRom);
  const pixels = small.get_raw_pixels();
  const upright = turned({ pixels, width: smallWidth, height: smallHeight }, orientationIn(bytes));
  const result = new PhotonImage(upright.pixels, upright.width, upright.height);
  const isOpaque = upright.pixels.every((byte, at) => at % 4 < 3 || byte === 255);
  return new Uint8Array(isOpaque ? result.get_bytes_jpeg(JPEG_QUALITY) : result.get_bytes());
}

function scansOf(jpeg: Uint8Array): number {
  const bytes = bufferOf(jpeg);
  let count = 0;
  for (let at = bytes.indexOf(SCAN); at >= 0 && count <= SCANS_MAX; at = bytes.indexOf(SCAN, at + SCAN.length)) count++;
  return count;
}

/** As it stands in what is uploaded now, and in the whole metadata of what was uploaded before that was stripped. */
function orientationIn(picture: Uint8Array): number {
  const bytes = bufferOf(picture);
  const at = [
    bytes.subarray(0, JPEG_HEAD_BYTES).indexOf(EXIF_MARK),
    bytes.subarray(0, 4).includes("PNG") ? bytes.indexOf("eXIf") + 4 : -1,
    bytes.subarray(0, 4).includes("RIFF") ? bytes.lastIndexOf("EXIF") + 8 : -1,
  ].find((found) => found > FOUND_FROM);
  return at === undefined ? 1 : orientationOf(picture.subarray(at));
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
