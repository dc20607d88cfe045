// Scheduled messages in the API, and their events on the sender's stream.
import { z } from "@zod/zod";
import { DAY_MS } from "@/core/time/clock.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { Mentions, Message } from "../schema.ts";

/** Scheduled messages per principal, and how far ahead they may be. */
export const SCHEDULED_MAX = 100;
export const SCHEDULED_AHEAD_MS = 366 * DAY_MS;

export const ScheduledId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

export const ScheduledMessage = z.object({
  id: ScheduledId,
  roomId: RoomId,
  sendAt: z.iso.datetime().describe("When to send it"),
  state: z.enum(["scheduled", "failed"]).describe("failed: it could not be sent, and will not be; failure says why"),
  failure: z.object({ code: z.string().describe("Problem code"), detail: z.string() }).nullable(),
  message: z.object({
    text: z.string().describe("Text of the message"),
    fileIds: z.array(z.string()).describe("Files to attach"),
    type: Message.shape.type,
    format: Message.shape.format,
    threadId: Message.shape.threadId,
    replyToId: Message.shape.replyToId,
    mentions: Mentions,
    clientMessageId: Message.shape.clientMessageId,
    metadata: Message.shape.metadata,
  }).describe("Message to send"),
  version: z.int(),
  createdAt: z.iso.datetime(),
}).meta({ id: "ScheduledMessage" });
export type ScheduledMessage = z.output<typeof ScheduledMessage>;

export const ScheduledList = z.strictObject({ ...pageInput, roomId: RoomId.optional() });
export type ScheduledList = z.output<typeof ScheduledList>;

export const ScheduledMessages = pageSchema(ScheduledMessage);

const scheduledData = z.object({ scheduledMessage: ScheduledMessage });

/** Durable events on the sender's stream. */
export const SCHEDULED_EVENTS: readonly EventType[] = eventTypes("message.read", [
  {
    type: "scheduled_message.created",
    streams: ["principal"],
    summary: "The principal scheduled a message",
    data: scheduledData,
  },
  {
    type: "scheduled_message.failed",
    streams: ["principal"],
    summary: "A scheduled message could not be sent",
    data: scheduledData,
  },
  {
    type: "scheduled_message.removed",
    streams: ["principal"],
    summary: "A scheduled message was sent or cancelled",
    data: z.object({
      scheduledMessageId: ScheduledId,
      messageId: z.string().nullable().describe("The message that was sent; null if it was cancelled"),
    }),
  },
]);
