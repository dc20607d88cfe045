// An estimate of how many tokens a text has for a language model: one linear pass without a vocabulary, rather too high than too
// low. Tokenizers need seconds for hostile texts, and each model has another one.
import { truncateText } from "./text.ts";

const LETTERS = 1;
const OTHER_LETTERS = 2;
const DIGITS = 3;
type Kind = 0 | typeof LETTERS | typeof OTHER_LETTERS | typeof DIGITS;

const NEWLINES: ReadonlySet<number> = new Set([9, 10, 13]);
const SPACE = 32;
const [LOWER_A, LOWER_Z, UPPER_Z, ZERO, NINE, ASCII_END] = [97, 122, 90, 48, 57, 128];

/** About how many tokens the text has. */
export function estimateTokens(text: string): number {
  let tokens = 0;
  let [kind, length]: [Kind, number] = [0, 0];
  const endWord = (): void => {
    tokens += tokensOfWord(kind, length);
    [kind, length] = [0, 0];
  };
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const lower = code | SPACE;
    if (lower >= LOWER_A && lower <= LOWER_Z && code < ASCII_END) {
      // A capital after a small letter begins a word, as in identifiers.
      if (kind === LETTERS && code <= UPPER_Z && text.charCodeAt(at - 1) >= LOWER_A) endWord();
      if (kind === DIGITS) endWord();
      if (kind === 0) kind = LETTERS;
      length++;
    } else if (code >= ZERO && code <= NINE) {
      if (kind !== DIGITS) endWord();
      kind = DIGITS;
      length++;
    } else if (code < ASCII_END) {
      endWord();
      const isRepeated = text.charCodeAt(at - 1) === code;
      if (NEWLINES.has(code)) tokens += isRepeated ? 0 : 0.6;
      else if (code !== SPACE) tokens += isRepeated ? 0.25 : 0.75;
    } else {
      const own = tokensOfSymbol(code);
      if (own === undefined) {
        if (kind === DIGITS) endWord();
        kind = OTHER_LETTERS;
        length++;
      } else {
        endWord();
        tokens += own;
      }
    }
  }
  endWord();
  return Math.ceil(tokens);
}

/** The beginning of a text followed by `end`, with at most `max` tokens; `undefined` if nothing of it fits. */
export function truncateToTokens(text: string, max: number, end: string): string | undefined {
  const textOf = (length: number): string => `${truncateText(text, length)}${end}`;
  let [least, most] = [0, text.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (estimateTokens(textOf(middle)) <= max) least = middle;
    else most = middle - 1;
  }
  const cut = textOf(least);
  return least === 0 || estimateTokens(cut) > max ? undefined : cut;
}

function tokensOfWord(kind: Kind, length: number): number {
  if (kind === LETTERS) return length <= 7 ? 1 : 1 + (length - 7) / 4;
  if (kind === OTHER_LETTERS) return Math.max(1, length / 2.6);
  return Math.ceil(length / 3);
}

/** Tokens of a character that is a word by itself; `undefined` for letters. */
function tokensOfSymbol(code: number): number | undefined {
  if (code >= 0xac00 && code < 0xd7b0) return 0.8; // Hangul
  if (code >= 0x3040 && code < 0xac00 || code >= 0xf900 && code < 0xfb00) return 0.85; // kana and Chinese characters
  if (code >= 0xd800 && code < 0xe000 || code === 0xfe0f || code === 0x200d) return 1.1; // halves of emoji
  if (code >= 0x2000 && code < 0x3040) return 1; // punctuation and symbols
  return undefined;
}
