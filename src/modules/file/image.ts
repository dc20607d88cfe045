// How large an image is, read from its header; nothing is decoded.
import { Fault } from "@/core/fault.ts";

/** Types whose header tells, and that browsers show. */
const MEASURED = new Set(["image/png", "image/apng", "image/jpeg", "image/gif", "image/webp", "image/bmp"]);
const SIDE_MAX = 16_384;
const PIXELS_MAX = 100_000_000;

export type Dimensions = { width: number | null; height: number | null };

/** Pixels of an image; nulls for what is none, or does not tell. Throws for one that would be too large to show. */
export async function dimensionsOf(head: Uint8Array, contentType: string): Promise<Dimensions> {
  if (!MEASURED.has(contentType)) return { width: null, height: null };
  const { imageSize } = await import("image-size");
  let size: { width: number; height: number };
  try {
    size = imageSize(head);
  } catch {
    return { width: null, height: null };
  }
  const { width, height } = size;
  if (width > SIDE_MAX || height > SIDE_MAX || width * height > PIXELS_MAX) {
    const detail = `The image is ${width} × ${height} pixels; at most ${SIDE_MAX} a side and ${
      PIXELS_MAX / 1e6
    } million in all`;
    throw Fault.at("/content", "image_too_large", detail);
  }
  return { width, height };
}
