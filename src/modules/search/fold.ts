// Text as search compares it: lower case, compatibility forms and diacritics folded, with the way back to the original.

/** `starts[i]` and `ends[i]` bound the piece of the original that made unit `i`; absent when nothing moved. */
export type Folded = { text: string; starts?: readonly number[]; ends?: readonly number[] };

const ASCII = /^[\0-\x7f]*$/;
/**
 * A character with the marks on it, or with what else makes one character with it: marks of half-width katakana, letters of
 * Korean. No language needs thirty, and to put very many in order takes long.
 */
const CLUSTER = String.raw`\P{M}[\p{M}\uff9e\uff9f\u1160-\u11ff]{0,30}|\p{M}{1,30}`;
/**
 * Characters that fold to their lower case, unit by unit: ASCII, most of Cyrillic, Japanese, Chinese, Korean. Most long texts
 * are long runs of them, each folded at once.
 */
const PLAIN = String
  .raw`[\0-\x7f\u0410-\u0418\u041a-\u0438\u043a-\u044f\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]`;
const PIECE = new RegExp(String.raw`(${PLAIN}+(?![\p{M}\uff9e\uff9f\u1160-\u11ff]))|${CLUSTER}`, "gu");
/**
 * Latin, Greek and Cyrillic diacritics, the points of Hebrew and the vowel signs of Arabic, which few write, with the line that
 * stretches a word; variation selectors, invisible format characters. Marks of other scripts matter.
 */
const DROPPED =
  /[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670\ufe00-\ufe0f\p{Cf}]/gu;
const SPELLED: Readonly<Record<string, string>> = {
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
const TO_SPELL = new RegExp(`[${Object.keys(SPELLED).join("")}]`, "g");
const CACHE_MAX = 20_000;
/** Units of what is kept. Longer ones are rare, and each would keep the whole text it was cut from. */
const CACHED_MAX = 12;
const cache = new Map<string, string>();

/** A text, folded. Characters are folded one by one, so a text and any part of it fold alike. */
export function foldText(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase();
  return text.replace(PIECE, (piece, plain?: string) => plain?.toLowerCase() ?? foldCluster(piece));
}

/** The same with the way back. */
export function fold(text: string): Folded {
  if (ASCII.test(text)) return { text: text.toLowerCase() };
  let out = "";
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { 0: piece, 1: plain, index } of text.matchAll(PIECE)) {
    const folded = plain?.toLowerCase() ?? foldCluster(piece);
    for (let unit = 0; unit < folded.length; unit++) {
      starts.push(plain === undefined ? index : index + unit);
      ends.push(plain === undefined ? index + piece.length : index + unit + 1);
    }
    out += folded;
  }
  return { text: out, starts, ends };
}

/** The range of the original behind a range of the folded text. */
export function unfold({ starts, ends }: Folded, start: number, end: number): [number, number] {
  return starts === undefined || ends === undefined ? [start, end] : [starts[start] ?? 0, ends[end - 1] ?? 0];
}

function foldCluster(cluster: string): string {
  let folded = cache.get(cluster);
  if (folded !== undefined) return folded;
  folded = cluster.toLowerCase().normalize("NFKD").replace(DROPPED, "").normalize("NFC").toLowerCase()
    .replace(TO_SPELL, (letter) => SPELLED[letter] ?? letter);
  if (cluster.length > CACHED_MAX) return folded;
  if (cache.size >= CACHE_MAX) cache.clear();
  cache.set(cluster, folded);
  return folded;
}
