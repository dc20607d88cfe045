// Tokens of the index: short pieces of words, hashed to numbers. Both engines get the same numbers and never parse a text.
//
// A word gives its trigrams and its first two letters; a one-letter word gives itself; a run of Chinese, Japanese or Korean
// gives its characters and pairs of characters, and so does a run of emoji. Whoever has all tokens of a term is a candidate;
// the text then decides.
import { fnv1a, fnv1aUnit } from "@/core/hash.ts";

/** Scripts written without spaces, or (Korean) with endings grown on; as a class for regular expressions with the flag `v`. */
const CJK = String.raw`[\p{L}&&[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Bopo}]]`;
/** What emoji are made of when folded: pictures, skin tones, letters of flags. Keycaps are digits with a mark, thus words. */
export const EMOJI = String.raw`[[\p{Extended_Pictographic}\p{Emoji_Presentation}]--[\p{L}\p{N}\p{M}]]`;
/** Characters that stand for themselves, whatever is around them. */
export const SIGN = `[${CJK}${EMOJI}]`;
/** Characters of words of all other scripts. */
export const WORD = String.raw`[[\p{L}\p{N}\p{M}]--${CJK}]`;

const RUN = new RegExp(String.raw`[\p{L}\p{N}\p{M}]+|${EMOJI}+`, "gv");
const PART = new RegExp(`${WORD}+|(${CJK}+|${EMOJI}+)`, "gv");

/** Runs of letters and digits, and of emoji, in a folded text. */
export function runsOf(text: string): string[] {
  return text.match(RUN) ?? [];
}

/** Grams that every text containing the run has; of words in UTF-16 units, as in the index. */
export function neededGrams(run: string): string[] {
  return [...run.matchAll(PART)].flatMap(({ 0: part, 1: signs }) => {
    if (signs !== undefined) {
      const characters = [...part];
      return characters.length === 1 ? characters : characters.slice(1).map((next, at) => `${characters[at]}${next}`);
    }
    if (part.length < 3) return [part.length === 1 ? `=${part}` : `^${part}`];
    return Array.from({ length: part.length - 2 }, (_, at) => part.slice(at, at + 3));
  });
}

/** A token of a room, which narrows a search to rooms. */
export function roomGram(roomId: string): string {
  return `@${roomId}`;
}

/** A token of somebody who may find a thing that is in no room. */
export function readerGram(principalId: string): string {
  return `~${principalId}`;
}

/** A token of a property, such as having a link. */
export function markGram(mark: string): string {
  return `!${mark}`;
}

/** Grams as tokens: 32-bit numbers, different ones for each tenant. Two that clash cost a look, never a wrong answer. */
export function hashGrams(tenantId: string, grams: Iterable<string>): number[] {
  const seed = fnv1a(tenantId);
  const tokens = new Set<number>();
  for (const gram of grams) tokens.add(mixed(fnv1a(gram, seed)));
  return [...tokens];
}

/** The tokens of a folded text and of these grams besides, as indexed. Most of indexing is here: no gram becomes a string. */
export function tokensOf(tenantId: string, text: string, besides: readonly string[]): number[] {
  const seed = fnv1a(tenantId);
  const whole = fnv1a("=", seed);
  const start = fnv1a("^", seed);
  const tokens = new Set(hashGrams(tenantId, besides));
  for (const { 0: part, 1: signs } of text.matchAll(PART)) {
    if (signs !== undefined) {
      let last: string | undefined;
      for (const character of part) {
        tokens.add(mixed(fnv1a(character, seed)));
        if (last !== undefined) tokens.add(mixed(fnv1a(character, fnv1a(last, seed))));
        last = character;
      }
    } else if (part.length === 1) {
      tokens.add(mixed(fnv1a(part, whole)));
    } else {
      let first = part.charCodeAt(0);
      let second = part.charCodeAt(1);
      tokens.add(mixed(fnv1aUnit(second, fnv1aUnit(first, start))));
      for (let at = 2; at < part.length; at++) {
        const third = part.charCodeAt(at);
        tokens.add(mixed(fnv1aUnit(third, fnv1aUnit(second, fnv1aUnit(first, seed)))));
        first = second;
        second = third;
      }
    }
  }
  return [...tokens];
}

/** Spreads an FNV-1a hash over all its bits. */
function mixed(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return mix ^ (mix >>> 16);
}
