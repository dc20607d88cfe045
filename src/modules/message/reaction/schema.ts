// Reactions as calls name them, and the events they cause.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { MessageId, Reaction } from "../schema.ts";

export const REACTION_KINDS_MAX = 50;
const KEY_MAX = 64;
const NAME = /^:[A-Za-z0-9_+-]{1,62}:$/;
/** Neither space nor control, and something besides marks and what formats. */
const VISIBLE = /^(?=.*[^\p{M}\p{Cf}])[^\s\p{Cc}]+$/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** One visible character as people see it, however many code points it takes; or a name between colons. */
export const ReactionKey = z.string().min(1).max(KEY_MAX).refine(
  (key) => NAME.test(key) || (VISIBLE.test(key) && [...graphemes.segment(key)].length === 1),
  "one character such as 👍, or a name such as :shipit:",
);

export const ReactionRef = z.strictObject({ id: MessageId, key: ReactionKey });
export type ReactionRef = z.output<typeof ReactionRef>;

export const Reactions = z.object({ reactions: z.array(Reaction) }).meta({ id: "Reactions" });

const changed = z.object({
  roomId: RoomId,
  messageId: MessageId,
  key: z.string(),
  principalId: PrincipalId,
  reactions: z.array(Reaction).describe("All of the message after the change"),
});

/** Durable events of reactions, on the stream of the room. */
export const REACTION_EVENTS: readonly EventType[] = [
  { type: "reaction.added", summary: "Somebody reacted to a message", data: changed },
  { type: "reaction.removed", summary: "Somebody took a reaction back", data: changed },
];
