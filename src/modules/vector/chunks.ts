// Texts as an embedding model reads them: long ones in parts that overlap, so that a sentence at a cut is whole in one of them.
import type { SearchEntry } from "@/core/searchable.ts";
import { hash64 } from "@/core/text/hash.ts";
import { estimateTokens } from "@/core/text/tokens.ts";

const CHUNK_TOKENS = 400;
const OVERLAP_TOKENS = 50;
/** Only the beginning of a longer text has vectors. */
export const CHUNKS_MAX = 64;
/** Characters that are read to estimate how many of them a token has. */
const SAMPLE_CHARS = 4000;
const CHARS_PER_TOKEN_MAX = 8;
/** A resource that is shared with more principals is found by the others by its words. */
const READERS_MAX = 50;

/** The parts of the texts of a resource. */
export function chunksOf({ texts }: Pick<SearchEntry, "texts">): string[] {
  const text = texts.join("\n").trim();
  if (text === "") return [];
  const sample = text.slice(0, SAMPLE_CHARS);
  const perToken = Math.min(CHARS_PER_TOKEN_MAX, sample.length / Math.max(1, estimateTokens(sample)));
  const size = Math.ceil(CHUNK_TOKENS * perToken);
  const chunks: string[] = [];
  for (let from = 0; from < text.length && chunks.length < CHUNKS_MAX;) {
    const to = text.length - from <= size ? text.length : endBefore(text, from, from + size);
    chunks.push(text.slice(from, to).trim());
    if (to === text.length) break;
    from = startAfter(text, Math.max(from + 1, to - Math.ceil(OVERLAP_TOKENS * perToken)), to);
  }
  return chunks.filter((chunk) => chunk !== "");
}

/** The scopes of a resource: its room, or the principals that may read it. */
export function scopesOf({ roomId, principalId, readerIds = [] }: SearchEntry): string[] {
  if (roomId !== null) return [roomScope(roomId)];
  const readers = new Set([...principalId === undefined || principalId === null ? [] : [principalId], ...readerIds]);
  return [...readers].slice(0, READERS_MAX).map(principalScope);
}

export function roomScope(roomId: string): string {
  return `room:${roomId}`;
}

export function principalScope(principalId: string): string {
  return `principal:${principalId}`;
}

/** Another one whenever the vectors must be others. */
export function hashOf(entry: SearchEntry): string {
  return hash64(JSON.stringify([entry.texts, scopesOf(entry)]));
}

/** The end of a part: after a word, if there is one in its second half. */
function endBefore(text: string, from: number, end: number): number {
  for (let at = end; at > from + (end - from) / 2; at--) if (isSpace(text.charCodeAt(at))) return at;
  return isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end;
}

/** The start of a part: a word, if one begins before `end`. */
function startAfter(text: string, start: number, end: number): number {
  for (let at = start; at < end; at++) if (isSpace(text.charCodeAt(at))) return at + 1;
  return isLowSurrogate(text.charCodeAt(start)) ? start + 1 : start;
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 9 || code === 13;
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code < 0xe000;
}
