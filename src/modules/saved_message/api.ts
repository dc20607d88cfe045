// Operations on the caller's saved messages.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { MessageId } from "@/modules/message/mod.ts";
import { SAVED_MESSAGE_EVENTS, SavedMessage, SavedMessageList, SavedMessagePut, SavedMessages } from "./schema.ts";
import type { SavedMessageService } from "./service.ts";

const PATH = "/v1/messages/:id/saved";
const id = exampleId("msg");

export function savedMessageApi(saved: SavedMessageService): ModuleApi {
  return {
    events: SAVED_MESSAGE_EVENTS,
    operations: [
      defineOperation({
        name: "saved_message.put",
        summary: "Save a message, or update how it is saved",
        description:
          "Only the caller sees that. A reminder notifies the caller once, if it may still read the message.",
        access: { scope: "message.write", room: "observer", archived: true, muted: true, ownOnly: true },
        http: { method: "PUT", path: PATH, status: 200 },
        input: SavedMessagePut,
        output: SavedMessage,
        faults: ["not_found", "limit_reached"],
        example: { id, remindAt: "2027-03-01T09:00:00.000Z" },
        run: (context, input) => saved.put(context, input),
      }),
      defineOperation({
        name: "saved_message.remove",
        summary: "Remove a message from those that the caller saved",
        access: { scope: "message.write" },
        http: { method: "DELETE", path: PATH, status: 204 },
        input: z.strictObject({ id: MessageId }),
        output: z.void(),
        faults: ["not_found"],
        example: { id },
        run: ({ actor }, input) => saved.remove(actor, input.id),
      }),
      defineOperation({
        name: "saved_message.list",
        summary: "List the messages that the caller saved, the last one first",
        description:
          "Messages that were deleted or that the caller may not read now are omitted, so a page may have fewer than `limit`.",
        access: { scope: "message.read" },
        http: { method: "GET", path: "/v1/messages/saved", status: 200 },
        input: SavedMessageList,
        output: SavedMessages,
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => saved.list(actor, input),
      }),
    ],
  };
}
