// The lines of a Mattermost bulk export: the fields of them that are imported.
import { z } from "@zod/zod";
import { listOf } from "@/core/archive/fields.ts";

const Ms = z.number().min(0).max(8.64e15);
const Reaction = z.object({ user: z.string(), emoji_name: z.string(), create_at: Ms.optional() });
export const Reply = z.object({
  user: z.string(),
  message: z.string().default(""),
  type: z.string().nullish(),
  create_at: Ms,
  edit_at: Ms.nullish(),
  is_pinned: z.boolean().nullish(),
  reactions: listOf(Reaction).nullish(),
  attachments: listOf(z.object({ path: z.string() })).nullish(),
  /** With the attachments of integrations, in the shape that `SlackMarkup` reads. */
  props: z.looseObject({ attachments: z.unknown().optional() }).nullish(),
});
export const Post = Reply.extend({
  team: z.string().optional(),
  channel: z.string().optional(),
  channel_members: listOf(z.string()).optional(),
  replies: listOf(Reply).nullish(),
});
export type Post = z.output<typeof Post>;
export const Channel = z.object({
  team: z.string(),
  name: z.string(),
  display_name: z.string().nullish(),
  type: z.enum(["O", "P"]),
  header: z.string().nullish(),
  purpose: z.string().nullish(),
  deleted_at: Ms.nullish(),
});
/** Later versions of Mattermost name `participants`, earlier ones `members`. */
export const Direct = z.object({
  members: listOf(z.string()).nullish(),
  participants: listOf(z.object({ username: z.string() })).nullish(),
  header: z.string().nullish(),
}).transform(({ members, participants, header }) => ({
  members: members ?? participants?.map(({ username }) => username) ?? [],
  header: header ?? null,
})).refine(({ members }) => members.length > 0, "nobody");
export const User = z.object({
  username: z.string(),
  first_name: z.string().nullish(),
  last_name: z.string().nullish(),
  nickname: z.string().nullish(),
  delete_at: Ms.nullish(),
  locale: z.string().max(35).nullish().catch(null),
  profile_image: z.string().nullish(),
  roles: z.string().nullish(),
  teams: listOf(z.object({
    name: z.string(),
    channels: listOf(z.object({ name: z.string(), roles: z.string().nullish() })).nullish(),
  })).nullish(),
});
export const Bot = z.object({ username: z.string(), display_name: z.string().nullish(), delete_at: Ms.nullish() });
