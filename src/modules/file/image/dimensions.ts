// The dimensions of an image from its header, without decoding it.
import { Fault } from "@/core/fault.ts";

/** Types that browsers display and whose header has the dimensions. */
const MEASURABLE_TYPES = new Set(["image/png", "image/apng", "image/jpeg", "image/gif", "image/webp", "image/bmp"]);
const SIDE_MAX = 16_384;
const PIXELS_MAX = 100_000_000;

type Dimensions = { width: number | null; height: number | null };

/** The dimensions in pixels; nulls if unknown. Throws if the image is too large to display. */
export async function dimensionsOf(head: Uint8Array, contentType: string): Promise<Dimensions> {
  if (!MEASURABLE_TYPES.has(contentType)) return { width: null, height: null };
  const { imageSize } = await import("image-size");
  let size: { width: number; height: number };
  try {
    size = imageSize(head);
  } catch {
    return { width: null, height: null };
  }
  const { width, height } = size;
  if (width > SIDE_MAX || height > SIDE_MAX || width * height > PIXELS_MAX) {
    const detail = `The image has ${width} × ${height} pixels; at most ${SIDE_MAX} per side and ${PIXELS_MAX / 1e6} ` +
      "million in total are allowed";
    throw Fault.forField("/content", "image_too_large", detail);
  }
  return { width, height };
}
