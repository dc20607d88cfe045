// Operations on messages.
import { Buffer } from "node:buffer";
import { z } from "@zod/zod";
import { Again } from "@/core/fault.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { type Context, defineOperation, Outcome, type Rate } from "@/core/operation.ts";
import { pageOf } from "@/core/page.ts";
import { type MessageNotifier, NOTIFY_JOB, NotifyPayload } from "./notifier.ts";
import { pinOperations } from "./pin/api.ts";
import type { PinService } from "./pin/service.ts";
import { reactionOperations } from "./reaction/api.ts";
import { REACTION_EVENTS } from "./reaction/schema.ts";
import type { ReactionService } from "./reaction/service.ts";
import { readingOperations } from "./reading/api.ts";
import { READING_EVENTS } from "./reading/schema.ts";
import type { ReadingService } from "./reading/service.ts";
import { scheduledOperations } from "./scheduled/api.ts";
import { SCHEDULED_EVENTS, ScheduledMessage } from "./scheduled/schema.ts";
import { EXPIRE_JOB, type RetentionService } from "./retention/service.ts";
import { type ScheduledService, SEND_JOB } from "./scheduled/service.ts";
import {
  Message,
  MESSAGE_EVENTS,
  MessageDetail,
  MessageHistory,
  MessageId,
  MessageList,
  MessageRead,
  Messages,
  MessageSend,
  MessageUpdate,
  MessageVersion,
} from "./schema.ts";
import type { MessageSender } from "./sender.ts";
import type { MessageService } from "./service.ts";

const PATH = "/v1/messages";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const MESSAGE = "msg_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const byId = z.strictObject({ id: MessageId });

/** What is counted about messages. */
export type MessageMeter = {
  received(): void;
  /** A new message is on disk. */
  committed(type: string, bytes: number, seconds: number): void;
};

type Deps = {
  sender: MessageSender;
  messages: MessageService;
  reactions: ReactionService;
  pins: PinService;
  reading: ReadingService;
  scheduled: ScheduledService;
  retention: RetentionService;
  notifier: MessageNotifier;
  meter: MessageMeter;
  rate: { human: Rate; agent: Rate };
};

/** The message module. */
export function messageModule(deps: Deps): Module {
  const { sender, messages, reactions, pins, reading, scheduled, retention, notifier, meter, rate } = deps;
  return {
    name: "message",
    events: [...MESSAGE_EVENTS, ...REACTION_EVENTS, ...READING_EVENTS, ...SCHEDULED_EVENTS],
    async purgeRoom(tenantId, roomId) {
      await scheduled.purgeRoom(tenantId, roomId);
      await messages.purgeRoom(tenantId, roomId);
    },
    jobs: [
      defineJob({
        kind: NOTIFY_JOB,
        payload: NotifyPayload,
        run: ({ tenantId, payload }) => notifier.run(tenantId, payload),
      }),
      defineJob({
        kind: EXPIRE_JOB,
        payload: z.strictObject({ roomId: z.string() }),
        run: ({ tenantId, payload }) => retention.expire(tenantId, payload.roomId),
      }),
      defineJob({
        kind: SEND_JOB,
        payload: z.strictObject({ id: z.string() }),
        async run({ tenantId, payload }) {
          const startedAt = performance.now();
          const message = await scheduled.deliver(tenantId, payload.id);
          if (message !== undefined) count(message, startedAt);
        },
      }),
    ],
    operations: [
      ...reactionOperations(reactions),
      ...pinOperations(pins),
      ...readingOperations(reading),
      ...scheduledOperations(scheduled),
      defineOperation({
        name: "message.send",
        summary: "Send a message",
        description:
          "201 = it is on disk and has its place in the room. With a clientMessageId a repeat is answered 200. " +
          "With sendAt it is kept for later, which 202 and a ScheduledMessage say.",
        access: { scope: "message.write", room: "member" },
        http: { method: "POST", path: PATH, status: 201, also: [200, 202] },
        input: MessageSend,
        output: z.union([Message, ScheduledMessage]),
        faults: ["not_found", "room_archived", "client_message_id_conflict", "limit_reached"],
        example: { roomId: ROOM, text: "Hello, world", clientMessageId: "0c1f" },
        rate,
        overlaps: true,
        async run(context, input) {
          if (input.sendAt !== undefined) return await later(context, input);
          const startedAt = performance.now();
          const { message, isNew, json } = await sender.send(context, input).catch((thrown) => {
            if (!(thrown instanceof Again)) meter.received();
            throw thrown;
          });
          meter.received();
          if (isNew) count(message, startedAt);
          return new Outcome(message, { status: isNew ? 201 : 200, location: `${PATH}/${message.id}`, json });
        },
      }),
      defineOperation({
        name: "message.list",
        summary: "Read a page of a room's messages",
        description: "Without an anchor the newest; `before`, `after` and `around` take a position or a message id.",
        access: { scope: "message.read", room: "observer" },
        http: { method: "GET", path: PATH, status: 200 },
        input: MessageList,
        output: Messages,
        faults: ["not_found"],
        example: { roomId: ROOM },
        run: (context, input) => messages.list(context, input),
      }),
      defineOperation({
        name: "message.read",
        summary: "Read a message",
        access: { scope: "message.read", room: "observer" },
        http: { method: "GET", path: `${PATH}/:id`, status: 200 },
        input: MessageRead,
        output: MessageDetail,
        faults: ["not_found"],
        example: { id: MESSAGE },
        run: (context, { id, include }) => messages.read(context, id, include),
      }),
      defineOperation({
        name: "message.update",
        summary: "Edit one's own message; what it said before stays in its history",
        access: { scope: "message.write", room: "member" },
        http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
        input: MessageUpdate,
        output: Message,
        faults: ["not_found", "room_archived", "edit_window_closed", "version_mismatch"],
        example: { id: MESSAGE, text: "Hello, world!" },
        // Agents show their answers while they write them.
        rate,
        run: (context, input) => messages.update(context, input),
      }),
      defineOperation({
        name: "message.delete",
        summary: "Delete a message to a tombstone",
        description: "What it said goes for good, also from its history and from the events that told of it.",
        access: { scope: "message.write", room: "member" },
        http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
        input: byId,
        output: z.void(),
        faults: ["not_found", "room_archived"],
        example: { id: MESSAGE },
        run: (context, { id }) => messages.delete(context, id),
      }),
      defineOperation({
        name: "message.history",
        summary: "Read what a message said before it was edited, and says now",
        access: { scope: "message.read", room: "observer" },
        http: { method: "GET", path: `${PATH}/:id/history`, status: 200 },
        input: MessageHistory,
        output: pageOf(MessageVersion),
        faults: ["not_found", "invalid_cursor"],
        example: { id: MESSAGE },
        run: (context, input) => messages.history(context, input),
      }),
    ],
  };

  function count({ type, text }: Message, startedAt: number): void {
    meter.committed(type, Buffer.byteLength(text ?? ""), (performance.now() - startedAt) / 1000);
  }

  async function later(context: Context, input: MessageSend): Promise<Outcome<Message | ScheduledMessage>> {
    const kept = await scheduled.schedule(context, input);
    return "sendAt" in kept
      ? new Outcome(kept, { status: 202, location: `${PATH}/scheduled/${kept.id}` })
      : new Outcome(kept, { status: 200, location: `${PATH}/${kept.id}` });
  }
}
