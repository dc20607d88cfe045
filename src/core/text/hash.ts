// Fast hashes, the same on every node; not safe against chosen texts.

const OFFSET_BASIS = 0x811c9dc5;
const PRIME = 0x01000193;
/** Arbitrary odd numbers with mixed bits. */
const LEFT_MULTIPLIER = 0x9e3779b1;
const RIGHT_MULTIPLIER = 0x85ebca77;

const encoder = new TextEncoder();
/** A whole number of words. */
const bytes = new Uint8Array(16_384);
const words = new Uint32Array(bytes.buffer);

/** FNV-1a over the text's UTF-16 units, as a signed 32-bit number; `from` continues the hash of a preceding text. */
export function fnv1a(text: string, from = OFFSET_BASIS): number {
  let hash = from;
  for (let at = 0; at < text.length; at++) hash = fnv1aUnit(text.charCodeAt(at), hash);
  return hash;
}

/** The same for one UTF-16 unit. */
export function fnv1aUnit(unit: number, from: number): number {
  return Math.imul(from ^ unit, PRIME);
}

/**
 * 64 bits in hex that distinguish well-formed texts, in a fraction of the time of a digest: two lanes over four bytes at a time.
 * Each step can be undone, so two texts of one length that differ in one word never share a hash.
 */
export function hash64(text: string): string {
  let [left, right] = [text.length, OFFSET_BASIS];
  for (let rest = text; rest !== "";) {
    const { read, written } = encoder.encodeInto(rest, bytes);
    bytes.fill(0, written, Math.ceil(written / 4) * 4);
    for (let at = 0; at * 4 < written; at++) {
      const word = words[at] ?? 0;
      left = Math.imul(rotateLeft(left ^ word, 15), LEFT_MULTIPLIER);
      right = Math.imul(rotateLeft(right ^ word, 13), RIGHT_MULTIPLIER);
    }
    rest = rest.slice(read);
  }
  return hex32(left) + hex32(right);
}

/** Moves high bits to low ones, which multiplication alone does not do. */
function rotateLeft(word: number, bits: number): number {
  return word << bits | word >>> (32 - bits);
}

function hex32(word: number): string {
  return (word >>> 0).toString(16).padStart(8, "0");
}
