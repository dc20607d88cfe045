// How a text names those that its message mentions.
import { personOf } from "../core/people.ts";
import type { Mentions } from "../core/resources.ts";

/** What is shown for each name, which is in lower case. */
export type MentionNames = ReadonlyMap<string, string>;

/** Names of the mentioned: handles as they are, and for ids, which say little, the display names. */
export function mentionNames({ principalIds, room }: Mentions): MentionNames {
  const names = new Map<string, string>(room ? ["all", "here", "channel", "everyone"].map((word) => [word, word]) : []);
  for (const id of principalIds) {
    const { displayName = id, handle = null } = personOf(id) ?? {};
    for (const name of [id, displayName]) names.set(name.toLowerCase(), displayName);
    if (handle !== null) names.set(handle, handle);
  }
  return names;
}

/** What is around a name is as for the gateway: a dot or hyphen after it may end the sentence. */
const PART_BEFORE = /[\p{L}\p{N}._@/\\-]$/u;
const PART_AFTER = /[._-]*[A-Za-z0-9]/y;

/** A text in parts: every second one is a mention, without its @. */
export function splitMentions(text: string, names: MentionNames): string[] {
  const longestFirst = [...names.keys()].toSorted((a, b) => b.length - a.length);
  const parts: string[] = [];
  let from = 0;
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    // The character before may be of two units.
    if (at < from || PART_BEFORE.test(text.slice(Math.max(0, at - 2), at))) continue;
    const name = longestFirst.find((one) => isNameAt(text, at + 1, one));
    if (name === undefined) continue;
    parts.push(text.slice(from, at), names.get(name) ?? name);
    from = at + 1 + name.length;
  }
  return [...parts, text.slice(from)];
}

function isNameAt(text: string, at: number, name: string): boolean {
  const end = at + name.length;
  PART_AFTER.lastIndex = end;
  return text.slice(at, end).toLowerCase() === name && !PART_AFTER.test(text);
}
