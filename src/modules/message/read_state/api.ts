// Operations on read positions.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { MessageId } from "../schema.ts";
import { AllRead, READ_BATCH, ReadPut, Unread, UnreadList } from "./schema.ts";
import type { ReadStateService } from "./service.ts";

export function readStateOperations(readState: ReadStateService): Operation[] {
  return [
    defineOperation({
      name: "read.put",
      summary: "Update the read position of the caller in a room",
      description:
        "Replies in threads and notifications about the room up to this position are marked as read as well.",
      access: { scope: "message.write", room: "observer", archived: true, muted: true, ownOnly: true },
      http: { method: "PUT", path: "/v1/rooms/:id/read", status: 200 },
      input: ReadPut,
      output: Unread,
      faults: ["not_found"],
      example: { id: exampleId("room"), seq: 1 },
      run: (context, input) => readState.markRead(context, input),
    }),
    defineOperation({
      name: "message.mark_unread",
      summary: "Mark a message and those after it as unread",
      description:
        "Moves the caller's read position in the room back to before the message; a message that is unread has no effect. " +
        "Notifications stay as they are.",
      access: { scope: "message.write", room: "observer", archived: true, muted: true, ownOnly: true },
      http: { method: "POST", path: "/v1/messages/:id/unread", status: 200 },
      input: z.strictObject({ id: MessageId }),
      output: Unread,
      faults: ["not_found"],
      example: { id: exampleId("msg") },
      run: (context, { id }) => readState.markUnread(context, id),
    }),
    defineOperation({
      name: "unread.list",
      summary: "Count unread messages in the caller's rooms",
      access: { scope: "message.read" },
      http: { method: "GET", path: "/v1/collaboration/unreads", status: 200 },
      input: UnreadList,
      output: z.object({ items: z.array(Unread) }).meta({ id: "Unreads" }),
      async run({ actor }, { roomIds }) {
        return { items: await readState.list(actor, roomIds) };
      },
    }),
    defineOperation({
      name: "unread.read_all",
      summary: "Mark all rooms of the caller as read",
      description:
        `Marks messages and their notifications as read up to the current position of each room, ${READ_BATCH} ` +
        "rooms per transaction. Can be repeated if it was interrupted.",
      access: { scope: "message.write" },
      http: { method: "POST", path: "/v1/collaboration/unreads/read", status: 200 },
      input: z.strictObject({}),
      output: AllRead,
      example: {},
      rate: { human: { perSecond: 0.1, burst: 10 } },
      run: ({ actor }) => readState.markAllRead(actor),
    }),
  ];
}
