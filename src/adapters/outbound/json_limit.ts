// Bounds JSON that comes from outside before a parser sees it: a response, or each event of a stream of server-sent events, which
// parsers keep until the blank line at its end. Bytes are counted as they arrive; none is stored.
import type { JsonBounds } from "@/ports/outbound.ts";

const [LF, CR, QUOTE, BACKSLASH, COMMA] = [10, 13, 34, 92, 44];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [91, 93, 123, 125];

/** What to call with each chunk; it returns what is too large, if anything is. */
export function limitJson({ bytesMax, depthMax, valuesMax }: JsonBounds): (chunk: Uint8Array) => string | undefined {
  let bytes = 0;
  let values = 1;
  let depth = 0;
  let lineBytes = 0;
  let isInString = false;
  let isEscaped = false;

  function endLine(): void {
    // No string of JSON contains the end of a line; a quotation mark in a comment has no other one.
    isInString = isEscaped = false;
    if (lineBytes === 0) [bytes, values, depth] = [0, 1, 0];
    lineBytes = 0;
  }

  return (chunk) => {
    for (const byte of chunk) {
      bytes++;
      if (byte === LF) endLine();
      else if (byte !== CR) lineBytes++;
      if (isInString) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) isInString = false;
      } else if (byte === QUOTE) isInString = true;
      else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) depth--;
      else if (byte === COMMA || byte === OPEN_BRACKET || byte === OPEN_BRACE) {
        // Each begins another value: the next one, or the first inside.
        if (byte !== COMMA && ++depth > depthMax) return `nested deeper than ${depthMax} levels`;
        if (++values > valuesMax) return `more than ${valuesMax} values`;
      }
      if (bytes > bytesMax) return `longer than ${bytesMax} bytes`;
    }
    return undefined;
  };
}
