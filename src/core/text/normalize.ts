// Normalizes text for comparison: lower case, without compatibility forms and diacritics, with offsets into the original.

/** `starts[i]` and `ends[i]` are the range of the original for unit `i`; absent if offsets are equal. */
export type NormalizedText = { text: string; starts?: readonly number[]; ends?: readonly number[] };

const ASCII = /^[\0-\x7f]*$/;
/**
 * A character with its combining marks, marks of half-width katakana, or Korean letters. No language needs more than thirty,
 * and normalizing very many is slow.
 */
const CLUSTER = String.raw`\P{M}[\p{M}\uff9e\uff9f\u1160-\u11ff]{0,30}|\p{M}{1,30}`;
/**
 * Characters whose normal form is their lower case, unit by unit: ASCII, most of Cyrillic, Japanese, Chinese, Korean. Runs of
 * them, which are most of the usual texts, are normalized at once.
 */
const PLAIN = String
  .raw`[\0-\x7f\u0410-\u0418\u041a-\u0438\u043a-\u044f\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]`;
const PIECE = new RegExp(String.raw`(${PLAIN}+(?![\p{M}\uff9e\uff9f\u1160-\u11ff]))|${CLUSTER}`, "gu");
/**
 * Latin, Greek and Cyrillic diacritics, Hebrew points, Arabic vowel signs and the Arabic tatweel, variation selectors, invisible
 * format characters. Marks of other scripts are significant.
 */
const IGNORED_MARKS =
  /[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670\ufe00-\ufe0f\p{Cf}]/gu;
const SPELLINGS: Readonly<Record<string, string>> = {
  "ß": "ss",
  "æ": "ae",
  "œ": "oe",
  "ø": "o",
  "đ": "d",
  "ð": "d",
  "ł": "l",
  "ı": "i",
  "þ": "th",
  "ς": "σ",
};
const SPELLED_OUT = new RegExp(`[${Object.keys(SPELLINGS).join("")}]`, "g");
const CACHE_MAX = 20_000;
/** Longer clusters are rare and not cached, because each would retain the text that it is a slice of. */
const CACHED_UNITS_MAX = 12;
const cache = new Map<string, string>();

/** Normalizes a text character by character, so that a part of a text has the same form as in the whole. */
export function normalizeText(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase();
  return text.replace(PIECE, (piece, plain?: string) => plain?.toLowerCase() ?? normalizeCluster(piece));
}

/** Like `normalizeText`, with offsets into the original. */
export function normalizeWithOffsets(text: string): NormalizedText {
  if (ASCII.test(text)) return { text: text.toLowerCase() };
  let out = "";
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { 0: piece, 1: plain, index } of text.matchAll(PIECE)) {
    const normalized = plain?.toLowerCase() ?? normalizeCluster(piece);
    for (let unit = 0; unit < normalized.length; unit++) {
      starts.push(plain === undefined ? index : index + unit);
      ends.push(plain === undefined ? index + piece.length : index + unit + 1);
    }
    out += normalized;
  }
  return { text: out, starts, ends };
}

/** The range of the original for a range of the normalized text. */
export function originalRange({ starts, ends }: NormalizedText, start: number, end: number): [number, number] {
  return starts === undefined || ends === undefined ? [start, end] : [starts[start] ?? 0, ends[end - 1] ?? 0];
}

function normalizeCluster(cluster: string): string {
  let normalized = cache.get(cluster);
  if (normalized !== undefined) return normalized;
  normalized = cluster.toLowerCase().normalize("NFKD").replace(IGNORED_MARKS, "").normalize("NFC").toLowerCase()
    .replace(SPELLED_OUT, (letter) => SPELLINGS[letter] ?? letter);
  if (cluster.length > CACHED_UNITS_MAX) return normalized;
  if (cache.size >= CACHE_MAX) cache.clear();
  cache.set(cluster, normalized);
  return normalized;
}
