// Operations on reactions.
import { z } from "@zod/zod";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { ReactionRef, Reactions } from "./schema.ts";
import type { ReactionService } from "./service.ts";

const PATH = "/v1/messages/:id/reactions/:key";
const EXAMPLE = { id: "msg_0190c5d2e7f07b1c9d0a1b2c3d4e5f60", key: "👍" };

/** The operations, for the message module. */
export function reactionOperations(reactions: ReactionService): Operation[] {
  return [
    defineOperation({
      name: "reaction.add",
      summary: "React to a message; doing it twice changes nothing",
      access: { scope: "message.write", room: "member" },
      http: { method: "PUT", path: PATH, status: 200 },
      input: ReactionRef,
      output: Reactions,
      faults: ["not_found", "room_archived", "too_many_kinds"],
      example: EXAMPLE,
      async run(context, input) {
        return { reactions: await reactions.add(context, input) };
      },
    }),
    defineOperation({
      name: "reaction.remove",
      summary: "Take one's reaction back; without one nothing changes",
      access: { scope: "message.write", room: "member" },
      http: { method: "DELETE", path: PATH, status: 204 },
      input: ReactionRef,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: EXAMPLE,
      run: (context, input) => reactions.remove(context, input),
    }),
  ];
}
