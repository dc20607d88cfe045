// Tokens of the index: short pieces of words, hashed to numbers. Both engines get the same numbers and never parse a text.
//
// A word gives its trigrams and its first two letters; a one-letter word gives itself; a run of Chinese, Japanese or Korean
// gives its characters and pairs of characters. Whoever has all tokens of a term is a candidate; the text then decides.

/** Scripts written without spaces, or (Korean) with endings grown on; as a class for regular expressions with the flag `v`. */
export const CJK = String.raw`[\p{L}&&[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Bopo}]]`;
/** Characters of words of all other scripts. */
export const WORD = String.raw`[[\p{L}\p{N}\p{M}]--${CJK}]`;

const RUN = /[\p{L}\p{N}\p{M}]+/gu;
const PART = new RegExp(`(${CJK}+)|${WORD}+`, "gv");

/** Runs of letters and digits in a folded text. */
export function runsOf(text: string): string[] {
  return text.match(RUN) ?? [];
}

/** Every token of a folded text, as indexed. */
export function gramsOf(text: string): Set<string> {
  const grams = new Set<string>();
  for (const { 0: part, 1: isCjk } of text.matchAll(PART)) {
    if (isCjk !== undefined) {
      const characters = [...part];
      characters.forEach((character, at) => {
        grams.add(character);
        if (at > 0) grams.add(`${characters[at - 1]}${character}`);
      });
    } else if (part.length === 1) {
      grams.add(`=${part}`);
    } else {
      grams.add(`^${part.slice(0, 2)}`);
      for (let at = 0; at + 3 <= part.length; at++) grams.add(part.slice(at, at + 3));
    }
  }
  return grams;
}

/** Tokens that every text containing the run has. */
export function neededGrams(run: string): string[] {
  return [...run.matchAll(PART)].flatMap(({ 0: part, 1: isCjk }) => {
    if (isCjk === undefined && part.length >= 3) {
      return Array.from({ length: part.length - 2 }, (_, at) => part.slice(at, at + 3));
    }
    const characters = [...part];
    if (isCjk === undefined) return [characters.length === 1 ? `=${part}` : `^${part}`];
    return characters.length === 1 ? characters : characters.slice(1).map((next, at) => `${characters[at]}${next}`);
  });
}

/** A token of a room, which narrows a search to rooms. */
export function roomGram(roomId: string): string {
  return `@${roomId}`;
}

/** A token of a property, such as having a link. */
export function markGram(mark: string): string {
  return `!${mark}`;
}

/** Tokens as 32-bit numbers, different ones for each tenant (FNV-1a, mixed). Two that clash cost a look, never a wrong answer. */
export function hashGrams(tenantId: string, grams: Iterable<string>): number[] {
  const seed = fnv(0x811c9dc5, tenantId);
  const hashes = new Set<number>();
  for (const gram of grams) {
    let hash = fnv(seed, gram);
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    hashes.add(hash ^ (hash >>> 16));
  }
  return [...hashes];
}

function fnv(seed: number, text: string): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}
