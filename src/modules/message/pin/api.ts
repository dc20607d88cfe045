// Operations on pins.
import { z } from "@zod/zod";
import { defineOperation, type Operation } from "@/core/operation.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { Message, MessageId } from "../schema.ts";
import type { PinService } from "./service.ts";

const PATH = "/v1/messages/:id/pin";
const EXAMPLE = { id: "msg_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" };

/** The operations, for the message module. */
export function pinOperations(pins: PinService): Operation[] {
  return [
    defineOperation({
      name: "pin.add",
      summary: "Pin a message; at most 100 in a room",
      access: { scope: "message.write", room: "moderator", direct: "member" },
      http: { method: "PUT", path: PATH, status: 204 },
      input: z.strictObject({ id: MessageId }),
      output: z.void(),
      faults: ["not_found", "room_archived", "pin_limit"],
      example: EXAMPLE,
      run: (context, { id }) => pins.set(context, id, true),
    }),
    defineOperation({
      name: "pin.remove",
      summary: "Unpin a message",
      access: { scope: "message.write", room: "moderator", direct: "member" },
      http: { method: "DELETE", path: PATH, status: 204 },
      input: z.strictObject({ id: MessageId }),
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: EXAMPLE,
      run: (context, { id }) => pins.set(context, id, false),
    }),
    defineOperation({
      name: "pin.list",
      summary: "List the pinned messages of a room, those pinned last first",
      access: { scope: "message.read", room: "observer" },
      http: { method: "GET", path: "/v1/rooms/:id/pins", status: 200 },
      input: z.strictObject({ id: RoomId }),
      output: z.object({ items: z.array(Message) }).meta({ id: "Pins" }),
      faults: ["not_found"],
      example: { id: "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" },
      async run(context, { id }) {
        return { items: await pins.list(context, id) };
      },
    }),
  ];
}
