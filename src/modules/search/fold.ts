// Text as search compares it: lower case, compatibility forms and diacritics folded, with the way back to the original.

/** `starts[i]` and `ends[i]` bound the piece of the original that made unit `i`; absent when nothing moved. */
export type Folded = { text: string; starts?: readonly number[]; ends?: readonly number[] };

const ASCII = /^[\0-\x7f]*$/;
/**
 * A character with the marks on it, or with what else makes one character with it: marks of half-width katakana, letters of
 * Korean. No language needs thirty, and to put very many in order takes long.
 */
const CLUSTER = /\P{M}[\p{M}\uff9e\uff9f\u1160-\u11ff]{0,30}|\p{M}{1,30}/gu;
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

/** Folds a text. Characters are folded one by one, so a text and any part of it fold alike. */
export function fold(text: string): Folded {
  if (ASCII.test(text)) return { text: text.toLowerCase() };
  let out = "";
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { 0: cluster, index } of text.matchAll(CLUSTER)) {
    const folded = foldCluster(cluster);
    for (let unit = 0; unit < folded.length; unit++) {
      starts.push(index);
      ends.push(index + cluster.length);
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
