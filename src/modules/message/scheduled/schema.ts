// Messages for later as seen from outside, and the events on their sender's own stream.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { Mentions, Message } from "../schema.ts";

/** How many a principal has waiting at most, and how far ahead. */
export const SCHEDULED_MAX = 100;
export const SCHEDULED_AHEAD_MS = 366 * 86_400_000;

export const ScheduledId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");

export const ScheduledMessage = z.object({
  id: ScheduledId,
  roomId: RoomId,
  sendAt: z.iso.datetime(),
  state: z.enum(["scheduled", "failed"]).describe("failed: the sender had no right to when the time came"),
  failure: z.object({ code: z.string(), detail: z.string() }).nullable(),
  message: z.object({
    text: z.string(),
    fileIds: z.array(z.string()),
    type: Message.shape.type,
    format: Message.shape.format,
    threadId: Message.shape.threadId,
    replyToId: Message.shape.replyToId,
    mentions: Mentions,
    clientMessageId: Message.shape.clientMessageId,
    metadata: Message.shape.metadata,
  }),
  version: z.int(),
  createdAt: z.iso.datetime(),
}).meta({ id: "ScheduledMessage" });
export type ScheduledMessage = z.output<typeof ScheduledMessage>;

export const ScheduledList = z.strictObject({ ...pageInput, roomId: RoomId.optional() });
export type ScheduledList = z.output<typeof ScheduledList>;

export const ScheduledMessages = pageOf(ScheduledMessage);

const one = z.object({ scheduledMessage: ScheduledMessage });

/** Durable events on the stream of the sender. */
export const SCHEDULED_EVENTS: readonly EventType[] = [
  { type: "scheduled_message.created", streams: ["principal"], summary: "I scheduled a message", data: one },
  {
    type: "scheduled_message.failed",
    streams: ["principal"],
    summary: "A scheduled message could not be sent",
    data: one,
  },
  {
    type: "scheduled_message.removed",
    streams: ["principal"],
    summary: "A scheduled message was sent or cancelled",
    data: z.object({
      scheduledMessageId: ScheduledId,
      messageId: z.string().nullable().describe("The message it became; null when cancelled"),
    }),
  },
];
