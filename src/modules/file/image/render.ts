// Renders thumbnails. Decoding takes time and memory, so this runs in a worker only.
import { Buffer } from "node:buffer";
import { runWithTimeout } from "@/runtime/stuck_thread.ts";
import { EXIF_MARK, orientationOf } from "./exif.ts";
import { withMemoryCap } from "./wasm.ts";

/** Maximum number of decoded pixels: 100 MB, and as much again for the decoder. */
export const PIXELS_MAX = 25_000_000;
/** Memory limit of the decoder. An image that needs more is treated as undecodable, whatever its header says. */
const MEMORY_BYTES = 400 * 1024 * 1024;
/** The image as it is decoded, converted, scaled and encoded. */
const BYTES_PER_PIXEL = 16;
/** Each scan processes the whole image but takes few bytes of the file; cameras and tools write a dozen. */
const SCANS_MAX = 30;
/** Metadata starts after this offset; an offset before it means that none was found. */
const METADATA_MIN_OFFSET = 8;
const JPEG_QUALITY = 82;
const SCAN = Buffer.of(0xff, 0xda);
/** The part of a JPEG that is searched for metadata. */
const JPEG_HEAD_BYTES = 262_144;

/** Rows of pixels with four bytes each. */
type Pixels = { pixels: Uint8Array; width: number; height: number };

/** EXIF orientations that swap columns and rows, mirror horizontally, and mirror vertically. */
const SWAPPED = new Set([5, 6, 7, 8]);
const MIRRORED_X = new Set([2, 3, 7, 8]);
const MIRRORED_Y = new Set([3, 4, 6, 7]);

type Photon = Pick<typeof import("@cf-wasm/photon/others"), "PhotonImage" | "resize" | "SamplingFilter">;
export type ThumbnailRequest = {
  bytes: Uint8Array<ArrayBuffer>;
  maxSide: number;
  /** Whether transparent parts become white, so that the result is a JPEG. */
  isFlat: boolean;
  timeoutMs: number;
};
/** The thumbnail; `undefined` if the image cannot be decoded. */
export type ThumbnailResult = Uint8Array<ArrayBuffer> | undefined;

/** Memory that rendering an image takes at most. */
export function renderingBytes(pixels: number, sourceBytes: number): number {
  return Math.min(MEMORY_BYTES, pixels * BYTES_PER_PIXEL) + 2 * sourceBytes;
}

/**
 * The upright image with sides of at most `maxSide`, as JPEG, or as PNG if it has transparency; of an animation the first
 * frame. Throws only if the decoder cannot be loaded.
 */
export async function renderThumbnail({ bytes, timeoutMs, ...target }: ThumbnailRequest): Promise<ThumbnailResult> {
  const { initPhoton, ...photon } = await import("@cf-wasm/photon/others");
  // Imported, since files of packages are outside the folders that the gateway may read.
  const { default: code } = await import("@cf-wasm/photon/photon.wasm", { with: { type: "bytes" } });
  await initPhoton({ module_or_path: await WebAssembly.compile(withMemoryCap(code, MEMORY_BYTES)) });
  if (bytes[0] === 0xff && countScans(bytes) > SCANS_MAX) return undefined;
  try {
    return runWithTimeout(() => resizeImage(photon, bytes, target), timeoutMs);
  } catch {
    // Corrupt, of an unknown format, too large for the memory limit (a trap), or too slow.
    return undefined;
  }
}

function resizeImage(
  { PhotonImage, resize, SamplingFilter }: Photon,
  bytes: Uint8Array,
  { maxSide, isFlat }: Pick<ThumbnailRequest, "maxSide" | "isFlat">,
): Uint8Array<ArrayBuffer> {
  const image = PhotonImage.new_from_byteslice(bytes);
  const [width, height] = [image.get_width(), image.get_height()];
  const scale = Math.min(1, maxSide / Math.max(width, height));
  const sideOf = (side: number): number => Math.max(1, Math.round(side * scale));
  const [toWidth, toHeight] = [sideOf(width), sideOf(height)];
  const resized = scale === 1 ? image : resize(image, toWidth, toHeight, SamplingFilter.CatmullRom);
  const pixels = resized.get_raw_pixels();
  const upright = applyOrientation({ pixels, width: toWidth, height: toHeight }, orientationIn(bytes));
  if (isFlat) flatten(upright.pixels);
  const result = new PhotonImage(upright.pixels, upright.width, upright.height);
  const isOpaque = upright.pixels.every((byte, at) => at % 4 < 3 || byte === 255);
  return new Uint8Array(isOpaque ? result.get_bytes_jpeg(JPEG_QUALITY) : result.get_bytes());
}

/** Puts pixels on a white ground. */
function flatten(pixels: Uint8Array): void {
  for (let at = 3; at < pixels.length; at += 4) {
    const alpha = pixels[at] ?? 255;
    if (alpha === 255) continue;
    for (let color = at - 3; color < at; color++) {
      pixels[color] = Math.round(((pixels[color] ?? 0) * alpha + 255 * (255 - alpha)) / 255);
    }
    pixels[at] = 255;
  }
}

function countScans(jpeg: Uint8Array): number {
  const bytes = bufferOf(jpeg);
  let count = 0;
  for (let at = bytes.indexOf(SCAN); at >= 0 && count <= SCANS_MAX; at = bytes.indexOf(SCAN, at + SCAN.length)) count++;
  return count;
}

/** The orientation in the metadata of an image, wherever its format has it. */
function orientationIn(image: Uint8Array): number {
  const bytes = bufferOf(image);
  const at = [
    bytes.subarray(0, JPEG_HEAD_BYTES).indexOf(EXIF_MARK),
    bytes.subarray(0, 4).includes("PNG") ? bytes.indexOf("eXIf") + 4 : -1,
    bytes.subarray(0, 4).includes("RIFF") ? bytes.lastIndexOf("EXIF") + 8 : -1,
  ].find((found) => found > METADATA_MIN_OFFSET);
  return at === undefined ? 1 : orientationOf(image.subarray(at));
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Rotates and mirrors an image by its EXIF orientation, 1 to 8. */
export function applyOrientation({ pixels, width, height }: Pixels, orientation: number): Pixels {
  const [from, to] = [new DataView(pixels.buffer, pixels.byteOffset), new Uint8Array(pixels.length)];
  const target = new DataView(to.buffer);
  const isSwapped = SWAPPED.has(orientation);
  const [toWidth, toHeight] = isSwapped ? [height, width] : [width, height];
  for (let y = 0, at = 0; y < toHeight; y++) {
    for (let x = 0; x < toWidth; x++, at += 4) {
      const [column, row] = isSwapped ? [y, x] : [x, y];
      const fromX = MIRRORED_X.has(orientation) ? width - 1 - column : column;
      const fromY = MIRRORED_Y.has(orientation) ? height - 1 - row : row;
      target.setUint32(at, from.getUint32((fromY * width + fromX) * 4));
    }
  }
  return { pixels: to, width: toWidth, height: toHeight };
}
