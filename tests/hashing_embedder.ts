// An embedding model for tests: texts that share the beginnings of words are near each other. It knows no meaning.
import { fnv1a } from "@/core/text/hash.ts";

const WORD = /[\p{L}\p{N}]+/gu;
/** Longer words with the same beginning are forms of one. */
const STEM_CHARS = 5;
/** So short a word says little. */
const SHORT_CHARS = 3;
const SHORT_WEIGHT = 0.1;

/** The vector of a text, of so many dimensions. */
export function hashingVector(text: string, dimensions = 384): number[] {
  const vector = new Array<number>(dimensions).fill(0);
  for (const [word] of text.toLowerCase().matchAll(WORD)) {
    const hash = fnv1a(word.slice(0, STEM_CHARS));
    const at = (hash >>> 1) % dimensions;
    const weight = word.length <= SHORT_CHARS ? SHORT_WEIGHT : 1;
    vector[at] = (vector[at] ?? 0) + (hash & 1 ? weight : -weight);
  }
  // A text without words has a vector, too.
  vector[0] = (vector[0] ?? 0) + 0.01;
  return vector;
}
