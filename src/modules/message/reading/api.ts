// Operations on read positions.
import { z } from "@zod/zod";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { ReadPut, Unread, UnreadList } from "./schema.ts";
import type { ReadingService } from "./service.ts";

/** The operations, for the message module. */
export function readingOperations(reading: ReadingService): Operation[] {
  return [
    defineOperation({
      name: "read.put",
      summary: "Say how far one has read in a room",
      description: "Threads are on the room's line, so this reads them too; so it does notifications about the room.",
      access: { scope: "message.write", room: "observer", archived: true, muted: true },
      http: { method: "PUT", path: "/v1/rooms/:id/read", status: 200 },
      input: ReadPut,
      output: Unread,
      faults: ["not_found"],
      example: { id: "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60", seq: 1 },
      run: (context, input) => reading.put(context, input),
    }),
    defineOperation({
      name: "unread.list",
      summary: "Count what is unread in the caller's rooms",
      access: { scope: "message.read" },
      http: { method: "GET", path: "/v1/collaboration/unreads", status: 200 },
      input: UnreadList,
      output: z.object({ items: z.array(Unread) }).meta({ id: "Unreads" }),
      async run({ actor }, { roomIds }) {
        return { items: await reading.list(actor, roomIds) };
      },
    }),
  ];
}
