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

/** A text in parts: every second one is a mention, without its @. */
export function splitMentions(text: string, names: MentionNames): string[] {
  if (names.size === 0 || !text.includes("@")) return [text];
  const longestFirst = [...names.keys()].toSorted((a, b) => b.length - a.length);
  const oneOf = longestFirst.map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|");
  // What is around a name is as for the gateway: a dot or hyphen after it may end the sentence.
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}._@/\\\\-])@(${oneOf})(?![._-]*[A-Za-z0-9])`, "giu");
  return text.split(pattern).map((part, at) => at % 2 === 0 ? part : names.get(part.toLowerCase()) ?? part);
}
