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

/**
 * No text of a language has so many different ones; one that has, a megabyte of random Chinese, would keep SQLite busy for a
 * second, which has to write all of them at once.
 */
export const TOKENS_MAX = 100_000;

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

/**
 * The tokens of a folded text and of these grams besides, as indexed: of a text that has more, the first `TOKENS_MAX`. Most of
 * indexing is here: no gram becomes a string.
 */
export function tokensOf(tenantId: string, text: string, besides: readonly string[]): number[] {
  const seed = fnv1a(tenantId);
  const whole = fnv1a("=", seed);
  const start = fnv1a("^", seed);
  const tokens = new Set(hashGrams(tenantId, besides));
  for (const { 0: part, 1: signs } of text.matchAll(PART)) {
    if (tokens.size >= TOKENS_MAX) break;
    if (signs !== undefined) addSigns(tokens, part, seed);
    else if (part.length === 1) tokens.add(mixed(fnv1a(part, whole)));
    else {
      let first = part.charCodeAt(0);
      let second = part.charCodeAt(1);
      tokens.add(mixed(fnv1aUnit(second, fnv1aUnit(first, start))));
      for (let at = 2; at < part.length && tokens.size < TOKENS_MAX; at++) {
        const third = part.charCodeAt(at);
        tokens.add(mixed(fnv1aUnit(third, fnv1aUnit(second, fnv1aUnit(first, seed)))));
        first = second;
        second = third;
      }
    }
  }
  return [...tokens];
}

/** Adds the tokens of a run of characters that stand for themselves: of each, and of each with the one before it. */
function addSigns(tokens: Set<number>, run: string, seed: number): void {
  let before: number | undefined;
  for (let at = 0; at < run.length && tokens.size < TOKENS_MAX;) {
    const first = run.charCodeAt(at);
    const isPair = (first & 0xfc00) === 0xd800;
    const after = (from: number): number => {
      const hash = fnv1aUnit(first, from);
      return isPair ? fnv1aUnit(run.charCodeAt(at + 1), hash) : hash;
    };
    const own = after(seed);
    tokens.add(mixed(own));
    if (before !== undefined) tokens.add(mixed(after(before)));
    before = own;
    at += isPair ? 2 : 1;
  }
}

/** Spreads an FNV-1a hash over all its bits. */
function mixed(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return mix ^ (mix >>> 16);
}
