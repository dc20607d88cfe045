// Patterns of event types: a type, all of a group as `message.*`, or `*`.
import type { EventType } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { suggestionFor } from "@/core/input/suggestion.ts";

const LAST_PART = /\.[^.]+$/;

function matchesPattern(pattern: string, type: string): boolean {
  if (pattern === "*" || pattern === type) return true;
  return pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1));
}

export function matchesAny(patterns: readonly string[], type: string): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, type));
}

/** Throws for a pattern, in the list at `pointer`, that none of these types matches. */
export function assertKnown(patterns: readonly string[], types: readonly EventType[], pointer: string): void {
  for (const [at, pattern] of patterns.entries()) {
    if (types.some(({ type }) => matchesPattern(pattern, type))) continue;
    const known = types.flatMap(({ type }) => [type, type.replace(LAST_PART, ".*")]);
    const detail = `no event of rooms has this type${suggestionFor(pattern, known)}`;
    throw Fault.forField(`${pointer}/${at}`, "unknown_event", detail);
  }
}
