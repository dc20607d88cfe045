// Slack's markup as markdown, with its mentions as principals.
import type { Message } from "@/modules/message/mod.ts";
import { MENTIONED_NAMES_MAX } from "./archive_model.ts";

/** Text and explicit mentions of a Slack message. */
export function slackText(
  raw: string,
  nameOf: (userId: string) => string | undefined,
  principalOf: (userId: string) => string | undefined,
): { text: string; mentions: Message["mentions"] } {
  const mentions: Message["mentions"] = { principalIds: [], room: false };
  const named = new Set<string>();
  const text = raw.replaceAll(/<([^<>]+)>/g, (_, inner: string) => {
    const bar = inner.indexOf("|");
    const target = bar < 0 ? inner : inner.slice(0, bar);
    const label = bar < 0 ? undefined : inner.slice(bar + 1);
    if (target.startsWith("@")) {
      const id = target.slice(1);
      if (named.size < MENTIONED_NAMES_MAX) named.add(id);
      return `@${label ?? nameOf(id) ?? id}`;
    }
    if (target.startsWith("#")) return `#${label ?? target.slice(1)}`;
    if (target.startsWith("!")) {
      const word = target.slice(1);
      if (!["channel", "here", "everyone"].includes(word)) return label ?? `@${word}`;
      mentions.room = true;
      return `@${word}`;
    }
    return label === undefined || label === target ? target : `[${label}](${target})`;
  });
  mentions.principalIds.push(...[...named].flatMap((id) => principalOf(id) ?? []));
  return { text: text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"), mentions };
}
