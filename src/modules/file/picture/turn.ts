// Pixels the right way up.

/** Four bytes a pixel, row after row. */
export type Pixels = { pixels: Uint8Array; width: number; height: number };

/** Orientations of EXIF in which columns are shown as rows, from right to left, from bottom to top. */
const SWAPPED = new Set([5, 6, 7, 8]);
const MIRRORED_X = new Set([2, 3, 7, 8]);
const MIRRORED_Y = new Set([3, 4, 6, 7]);

/** The picture as an orientation of 1 to 8 wants it to be shown. */
export function turned({ pixels, width, height }: Pixels, orientation: number): Pixels {
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
