// Reads JSON that anybody may send: each value is checked where it is used, and bounded.
import { truncateCodePoints } from "@/core/text/text.ts";

const TEXT_MAX = 300;
const URL_MAX = 2000;
const EXCERPT_MAX = 400;
const REF = /^refs\/(?:heads|tags)\//;
const HTTP_URL = /^https?:\/\/[^\s<>"\\]{1,2000}$/i;

/** The value at a path of names; `undefined` where there is none. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  let found = value;
  for (const name of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Record<string, unknown>)[name];
  }
  return found;
}

/** The text at a path, in one line; empty where there is none. */
export function textAt(value: unknown, ...path: readonly string[]): string {
  return oneLine(longTextAt(value, TEXT_MAX, ...path));
}

/** The text at a path as it is, at most `max` characters. */
export function longTextAt(value: unknown, max: number, ...path: readonly string[]): string {
  const found = at(value, ...path);
  if (typeof found === "number" || typeof found === "boolean") return String(found);
  if (typeof found !== "string") return "";
  const text = truncateCodePoints(found, max);
  return text.length < found.length ? `${text}…` : text;
}

/** The first items of the array at a path. */
export function listAt(value: unknown, max: number, ...path: readonly string[]): unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found.slice(0, max) : [];
}

/** Number of items of the array at a path. */
export function countAt(value: unknown, ...path: readonly string[]): number {
  const found = at(value, ...path);
  return Array.isArray(found) ? found.length : 0;
}

/** The first pairs of the object at a path, with their texts. */
export function pairsAt(value: unknown, max: number, ...path: readonly string[]): [string, string][] {
  const found = at(value, ...path);
  if (typeof found !== "object" || found === null || Array.isArray(found)) return [];
  return Object.keys(found).slice(0, max).map((name) => [oneLine(name.slice(0, TEXT_MAX)), textAt(found, name)]);
}

/** A link in Markdown; the label alone where the address is none. */
export function link(label: string, address: unknown): string {
  const text = label.replaceAll(/[[\]]/g, " ").trim();
  const url = urlOf(address);
  if (url === undefined) return text;
  return `[${text === "" ? url : text}](${url})`;
}

/** A web address without what would end a link. */
export function urlOf(address: unknown): string | undefined {
  if (typeof address !== "string" || address.length > URL_MAX || !HTTP_URL.test(address)) return undefined;
  return address.replaceAll("(", "%28").replaceAll(")", "%29");
}

/** Text between backticks. */
export function code(text: string): string {
  return text === "" ? "" : `\`${text.replaceAll("`", "'")}\``;
}

/** What was pushed, by the name that Git gives it in `ref`. */
export function refOf(body: unknown): { branch: string; isTag: boolean } {
  const ref = longTextAt(body, TEXT_MAX, "ref");
  return { branch: code(ref.replace(REF, "")), isTag: ref.startsWith("refs/tags/") };
}

/** The beginning of the text at a path, quoted. */
export function excerptAt(value: unknown, ...path: readonly string[]): string {
  return quote(longTextAt(value, EXCERPT_MAX, ...path));
}

export function quote(text: string): string {
  return text.trim() === "" ? "" : text.trim().split("\n").map((line) => `> ${line}`).join("\n");
}

export function firstLine(text: string): string {
  const end = text.indexOf("\n");
  return oneLine(end < 0 ? text : text.slice(0, end));
}

/** Lines that say something. */
export function lines(...parts: readonly (string | undefined | false)[]): string {
  return parts.filter((part) => part !== undefined && part !== false && part !== "").join("\n");
}

function oneLine(text: string): string {
  return text.replaceAll(/\s/g, " ").trim();
}
