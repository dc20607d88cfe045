// Vectors as small numbers: int8 for scores, and one bit a dimension to find candidates among very many.

/** Bytes of a SIMD register: rows are padded to a multiple. */
const LANES = 16;
const INT8_MAX = 127;
const SCALE_BYTES = 4;

/** An int8 vector; times `scale` it has length 1. */
type Code = { scale: number; values: Int8Array };

/** Bytes of the int8 vector of so many dimensions. */
export function codeBytes(dimensions: number): number {
  return Math.ceil(dimensions / LANES) * LANES;
}

/** Bytes of its bits. */
export function bitBytes(dimensions: number): number {
  return Math.ceil(dimensions / (8 * LANES)) * LANES;
}

export function encodeVector(vector: readonly number[]): Code {
  const length = Math.hypot(...vector);
  const most = vector.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  const values = new Int8Array(codeBytes(vector.length));
  if (length === 0 || !Number.isFinite(length)) return { scale: 0, values };
  for (const [at, value] of vector.entries()) values[at] = Math.round(value / most * INT8_MAX);
  return { scale: most / INT8_MAX / length, values };
}

/** The sign of each dimension. */
export function encodeBits(values: ArrayLike<number>, dimensions: number): Uint8Array<ArrayBuffer> {
  const bits = new Uint8Array(bitBytes(dimensions));
  for (let at = 0; at < dimensions; at++) {
    if ((values[at] ?? 0) > 0) bits[at >> 3] = (bits[at >> 3] ?? 0) | 1 << (at & 7);
  }
  return bits;
}

/** As text for a column. */
export function packCode({ scale, values }: Code): string {
  const bytes = new Uint8Array(SCALE_BYTES + values.length);
  new DataView(bytes.buffer).setFloat32(0, scale, true);
  bytes.set(new Uint8Array(values.buffer), SCALE_BYTES);
  return bytes.toBase64();
}

export function unpackCode(text: string): Code {
  const bytes = Uint8Array.fromBase64(text);
  const scale = new DataView(bytes.buffer).getFloat32(0, true);
  return { scale, values: new Int8Array(bytes.buffer, SCALE_BYTES) };
}

export function dotProduct(a: Int8Array, b: Int8Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += (a[at] ?? 0) * (b[at] ?? 0);
  return sum;
}
