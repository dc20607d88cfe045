// Texts and JSON at the edge: what no store should see, found cheaply (NUL and lone surrogates, text too long, nesting too
// deep), and pointers to where it is.
import { Buffer } from "node:buffer";

/** Whether `text` has neither NUL nor a lone surrogate. */
export function isSafeText(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** Whether `text` has more than `maxBytes` bytes of UTF-8; counted only where its length leaves that open. */
export function isLongerThan(text: string, maxBytes: number): boolean {
  return text.length > maxBytes || (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes);
}

/** The start of `text`, at most `max` UTF-16 units and never half a character. */
export function startOf(text: string, max: number): string {
  return text.slice(0, max).replace(/[\ud800-\udbff]$/, "");
}

/** JSON pointer (RFC 6901) of a path. */
export function jsonPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/**
 * JSON pointer of the first unsafe text in `value`, which was parsed from `raw`; `undefined` when there is none. `raw` came
 * as valid UTF-8, so unsafe text can only be in it as an escape, and without one the walk is skipped.
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

/** Whether the JSON text `raw` nests arrays and objects deeper than `max`; found out before parsing builds them. */
export function isDeeperThan(raw: string, max: number): boolean {
  // Most texts open too few of them to nest so deep, which the engine finds much faster than this does.
  if (!hasMoreThan(max, raw)) return false;
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

/** Whether the text opens more than `max` arrays and objects. */
function hasMoreThan(max: number, raw: string): boolean {
  let count = 0;
  for (const opening of "{[") {
    for (let at = raw.indexOf(opening); at >= 0; at = raw.indexOf(opening, at + 1)) {
      if (++count > max) return true;
    }
  }
  return false;
}
