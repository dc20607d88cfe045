// Tokens of the index: grams of words, hashed to numbers. Both engines store the same numbers and never parse text.
//
// A word has its trigrams and its first two letters as grams; a one-letter word has itself; a run of Chinese, Japanese or Korean
// characters, or of emoji, has its characters and pairs of characters. A document with all tokens of a query is a candidate; its
// text then decides.
import { fnv1a, fnv1aUnit } from "@/core/text/hash.ts";

/** Scripts without spaces between words, or (Korean) with suffixes; a character class for regular expressions with flag `v`. */
const CJK = String.raw`[\p{L}&&[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Bopo}]]`;
/** Characters of normalized emoji: pictographs, skin tones, flag letters. Keycaps are digits with a mark, so they are words. */
export const EMOJI = String.raw`[[\p{Extended_Pictographic}\p{Emoji_Presentation}]--[\p{L}\p{N}\p{M}]]`;
/** Characters that match regardless of their neighbors. */
export const SYMBOL = `[${CJK}${EMOJI}]`;
/** Characters of words of all other scripts. */
export const WORD = String.raw`[[\p{L}\p{N}\p{M}]--${CJK}]`;

/** More distinct tokens than any natural text has. */
export const TOKENS_MAX = 100_000;

const RUN = new RegExp(String.raw`[\p{L}\p{N}\p{M}]+|${EMOJI}+`, "gv");
const PART = new RegExp(`${WORD}+|(${CJK}+|${EMOJI}+)`, "gv");

/** Runs of letters and digits, and of emoji, in a normalized text. */
export function runsOf(text: string): string[] {
  return text.match(RUN) ?? [];
}

/** Grams that every text with this run has; for words in UTF-16 units, as in the index. */
export function requiredGrams(run: string): string[] {
  return [...run.matchAll(PART)].flatMap(({ 0: part, 1: signs }) => {
    if (signs !== undefined) {
      const characters = [...part];
      return characters.length === 1 ? characters : characters.slice(1).map((next, at) => `${characters[at]}${next}`);
    }
    if (part.length < 3) return [part.length === 1 ? `=${part}` : `^${part}`];
    return Array.from({ length: part.length - 2 }, (_, at) => part.slice(at, at + 3));
  });
}

/** The gram of a room, which narrows a search to rooms. */
export function roomGram(roomId: string): string {
  return `@${roomId}`;
}

/** The gram of a principal that may find a resource outside of rooms. */
export function readerGram(principalId: string): string {
  return `~${principalId}`;
}

/** The gram of a property, such as having a link. */
export function flagGram(flag: string): string {
  return `!${flag}`;
}

/** Grams as tokens: 32-bit hashes, different for each tenant. Collisions add candidates, never wrong results. */
export function hashGrams(tenantId: string, grams: Iterable<string>): number[] {
  const seed = fnv1a(tenantId);
  const tokens = new Set<number>();
  for (const gram of grams) tokens.add(mixHash(fnv1a(gram, seed)));
  return [...tokens];
}

/** The tokens of a normalized text and of additional grams, at most `TOKENS_MAX`. */
export function tokenize(tenantId: string, text: string, extraGrams: readonly string[]): number[] {
  const tokens = new Set(hashGrams(tenantId, extraGrams));
  addTokens(tokens, tenantId, text);
  return [...tokens];
}

/** Adds the tokens of a normalized text, up to `TOKENS_MAX`. The hot loop of indexing: allocates no strings for grams. */
export function addTokens(tokens: Set<number>, tenantId: string, text: string): void {
  const seed = fnv1a(tenantId);
  const whole = fnv1a("=", seed);
  const start = fnv1a("^", seed);
  for (const { 0: part, 1: signs } of text.matchAll(PART)) {
    if (tokens.size >= TOKENS_MAX) break;
    if (signs !== undefined) addSymbols(tokens, part, seed);
    else if (part.length === 1) tokens.add(mixHash(fnv1a(part, whole)));
    else {
      let first = part.charCodeAt(0);
      let second = part.charCodeAt(1);
      tokens.add(mixHash(fnv1aUnit(second, fnv1aUnit(first, start))));
      for (let at = 2; at < part.length && tokens.size < TOKENS_MAX; at++) {
        const third = part.charCodeAt(at);
        tokens.add(mixHash(fnv1aUnit(third, fnv1aUnit(second, fnv1aUnit(first, seed)))));
        first = second;
        second = third;
      }
    }
  }
}

/** Adds the tokens of a run of symbols: of each symbol, and of each pair. */
function addSymbols(tokens: Set<number>, run: string, seed: number): void {
  let before: number | undefined;
  for (let at = 0; at < run.length && tokens.size < TOKENS_MAX;) {
    const first = run.charCodeAt(at);
    const isPair = (first & 0xfc00) === 0xd800;
    const after = (from: number): number => {
      const hash = fnv1aUnit(first, from);
      return isPair ? fnv1aUnit(run.charCodeAt(at + 1), hash) : hash;
    };
    const own = after(seed);
    tokens.add(mixHash(own));
    if (before !== undefined) tokens.add(mixHash(after(before)));
    before = own;
    at += isPair ? 2 : 1;
  }
}

/** Distributes the entropy of an FNV-1a hash over all bits. */
function mixHash(hash: number): number {
  let mix = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return mix ^ (mix >>> 16);
}
