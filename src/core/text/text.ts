// Checks of texts and JSON before anything parses or stores them (NUL and lone surrogates, length, nesting, number of values),
// and forms of texts.
import { Buffer } from "node:buffer";
import { Fault } from "../fault.ts";

/** Whether `text` contains neither NUL nor a lone surrogate. */
export function isSafeText(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** The text without what no store accepts. */
export function storableText(text: string): string {
  return isSafeText(text) ? text : text.replaceAll("\0", "").toWellFormed();
}

/** Whether `text` has more than `maxBytes` bytes of UTF-8; counted only where its length does not decide. */
export function isLongerThan(text: string, maxBytes: number): boolean {
  return text.length > maxBytes || (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes);
}

/** The start of `text`, at most `max` UTF-16 units and never half a character. */
export function truncateText(text: string, max: number): string {
  return text.slice(0, max).replace(/[\ud800-\udbff]$/, "");
}

/** The start of `text`, at most `max` code points; reads no more than that. */
export function truncateCodePoints(text: string, max: number): string {
  // No text has more code points than UTF-16 units.
  if (text.length <= max) return text;
  let end = 0;
  for (let points = 0; points < max; points++) end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(0, end);
}

/** `text` without the characters `mark` at its end. A regular expression would start again at each of them. */
export function trimTrailing(text: string, mark: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === mark) end--;
  return text.slice(0, end);
}

/** Sorts texts by their UTF-16 units, whatever the locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** `text` as HTML: in an element, or in an attribute between double quotes. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** JSON pointer (RFC 6901) of a path. */
export function jsonPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/**
 * JSON pointer of the first unsafe text in `value`, which was parsed from `raw`; `undefined` when there is none. `raw` was
 * valid UTF-8, so unsafe text can only be in it as an escape; without one the walk is skipped.
 */
export function findUnsafeText(raw: string, value: unknown): string | undefined {
  if (!raw.includes("\\u")) return undefined;
  const open: { value: unknown; pointer: string }[] = [{ value, pointer: "" }];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (typeof at.value === "string" && !isSafeText(at.value)) return at.pointer;
    if (typeof at.value !== "object" || at.value === null) continue;
    for (const [key, inner] of Object.entries(at.value).reverse()) {
      // A pointer to an unsafe key would itself be unsafe text, so its object is named.
      if (!isSafeText(key)) return at.pointer;
      open.push({ value: inner, pointer: at.pointer + jsonPointer([key]) });
    }
  }
  return undefined;
}

/** The fault for NUL or a lone surrogate at `pointer`. */
export function unsafeTextFault(pointer: string): Fault {
  return Fault.forField(pointer, "invalid_text", "text must not contain NUL or a lone surrogate");
}

/** Nesting of arrays and objects, in JSON of any source. */
export const JSON_DEPTH_MAX = 32;
/** Values in the input of an operation. */
export const JSON_VALUES_MAX = 20_000;

/** Whether the JSON text `raw` nests arrays and objects deeper than `max`; checked before parsing builds them. */
export function isDeeperThan(raw: string, max: number): boolean {
  // Most texts open too few of them to nest that deep, which the engine finds much faster than this loop.
  if (!hasAtLeast(max + 1, raw, "{[")) return false;
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < raw.length; at++) {
    const char = raw.charCodeAt(at);
    if (isInString) {
      if (char === 0x5c) at++;
      else if (char === 0x22) isInString = false;
    } else if (char === 0x22) isInString = true;
    else if (char === 0x5b || char === 0x7b) {
      if (++depth > max) return true;
    } else if (char === 0x5d || char === 0x7d) depth--;
  }
  return false;
}

/**
 * Whether the JSON text `raw` has more than `max` values, arrays and objects included; checked before parsing builds them and
 * anything walks over them, which costs a hundred times more than their bytes.
 */
export function hasMoreValuesThan(raw: string, max: number): boolean {
  if (raw.length <= max || !hasAtLeast(max, raw, ",{[")) return false;
  let count = 1;
  let isInString = false;
  for (let at = 0; at < raw.length; at++) {
    const char = raw.charCodeAt(at);
    if (isInString && char === 0x5c) at++;
    else if (char === 0x22) isInString = !isInString;
    // Each begins another value: the next one, or the first inside.
    else if (!isInString && (char === 0x2c || char === 0x5b || char === 0x7b) && ++count > max) return true;
  }
  return false;
}

/** Whether the text has at least `min` of these characters. */
function hasAtLeast(min: number, raw: string, characters: string): boolean {
  let count = 0;
  for (const one of characters) {
    for (let at = raw.indexOf(one); at >= 0; at = raw.indexOf(one, at + 1)) {
      if (++count >= min) return true;
    }
  }
  return false;
}

/** Applies `change` to the parts of a text that are not between backticks. */
export function outsideCode(text: string, change: (part: string) => string): string {
  return text.split("```").map((part, n) =>
    n % 2 === 1 ? part : part.split("`").map((inner, m) => m % 2 === 1 ? inner : change(inner)).join("`")
  ).join("```");
}
