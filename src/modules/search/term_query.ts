// Tokens as FTS5 stores and reads them.
import { Buffer } from "node:buffer";

const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz";
/** Larger numbers have seven digits. */
const SIX_DIGITS = 36 ** 6;
/** Seven digits and a space. */
const ENCODED_TOKEN_MAX = 8;
const SPACE = 32;
let bytes = Buffer.alloc(1024 * ENCODED_TOKEN_MAX);

/** What FTS5 looks for, one for each token. */
export function quoteTokens(tokens: readonly number[]): string[] {
  return tokens.map((token) => `"${encodeTokens([token])}"`);
}

/** Tokens in base 36, separated by spaces. Written into a buffer, because a text has a hundred and more. */
export function encodeTokens(tokens: readonly number[]): string {
  const size = tokens.length * ENCODED_TOKEN_MAX;
  if (bytes.length < size) bytes = Buffer.alloc(size);
  let end = 0;
  for (const token of tokens) {
    let value = token >>> 0;
    if (end > 0) bytes[end++] = SPACE;
    end += value >= SIX_DIGITS ? 7 : value >= SIX_DIGITS / 36 ? 6 : value.toString(36).length;
    for (let at = end - 1;; at--) {
      const quotient = Math.floor(value / 36);
      bytes[at] = DIGITS.charCodeAt(value - quotient * 36);
      if (quotient === 0) break;
      value = quotient;
    }
  }
  return bytes.toString("latin1", 0, end);
}
