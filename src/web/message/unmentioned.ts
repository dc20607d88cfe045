// Why a name in a text notified nobody, although it is that of a group, or one that the caller may mention elsewhere.
import type { Mentions } from "../core/resources.ts";

const REASONS = {
  not_allowed: "in a room of more than 100 only moderators can",
  agent_muted: "the room allows this agent to read only",
  too_many_groups: "at most 5 groups can be mentioned at once",
  too_many_principals: "at most 100 members can be mentioned at once",
  too_many_names: "at most 50 names can be mentioned at once",
  empty: "none of the group can see this",
};

/** Each name once, with the reason as a part of a sentence. */
export function unmentionedIn(
  { groups = [], ignored = [] }: Partial<Mentions>,
): { name: string; reason: string }[] {
  return [
    ...groups.flatMap(({ handle, state }) =>
      state === "mentioned"
        ? []
        : [{ name: handle, reason: state === "empty" ? REASONS.empty : REASONS.too_many_principals }]
    ),
    ...ignored.map(({ name, reason }) => ({ name, reason: REASONS[reason] })),
  ];
}
