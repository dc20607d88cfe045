// Saved messages in the API, and their events on the stream of who saved them.
import { z } from "@zod/zod";
import { DAY_MS } from "@/core/time/clock.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { IncludeSenders, Message, MessageId } from "@/modules/message/mod.ts";
import { RoomId, Senders } from "@/modules/room/mod.ts";

/** Saved messages per principal, and how far ahead a reminder may be. */
export const SAVED_MAX = 1000;
export const REMINDER_AHEAD_MS = 366 * DAY_MS;

const State = z.enum(["open", "done"]).meta({ id: "SavedMessageState" }).describe("done: the caller has dealt with it");

export const SavedMessage = z.object({
  messageId: MessageId.describe("The saved message"),
  roomId: RoomId,
  state: State,
  remindAt: z.iso.datetime().nullable().describe("When the caller is notified; null: not, or not again"),
  savedAt: z.iso.datetime().describe("When it was saved first"),
}).meta({ id: "SavedMessage" });
export type SavedMessage = z.output<typeof SavedMessage>;

export const SavedMessagePut = z.strictObject({
  id: MessageId,
  state: State.optional().describe("Default: as it is; open with a new reminder, and when it is saved first"),
  remindAt: TimeInput.nullable().optional().describe(
    "When to notify the caller of the message, at most one year ahead; null: not. One that is done has no reminder. " +
      "Default: as it is",
  ),
});
export type SavedMessagePut = z.output<typeof SavedMessagePut>;

export const SavedMessageList = z.strictObject({
  ...pageInput,
  state: State.optional().describe("Default: both"),
  include: IncludeSenders,
});
export type SavedMessageList = z.output<typeof SavedMessageList>;

export const SavedMessages = pageSchema(
  SavedMessage.extend({ message: Message.describe("Message as it is now") }).meta({ id: "ListedSavedMessage" }),
).extend({ senders: Senders }).meta({ id: "SavedMessages" });
export type SavedMessages = z.output<typeof SavedMessages>;

/** Durable events on the stream of who saved the message. */
export const SAVED_MESSAGE_EVENTS: readonly EventType[] = eventTypes("message.read", [
  {
    type: "saved_message.updated",
    streams: ["principal"],
    summary: "The principal saved a message, or what it saved has changed",
    data: z.object({ savedMessage: SavedMessage }),
  },
  {
    type: "saved_message.removed",
    streams: ["principal"],
    summary: "A message is no longer saved; it may have been deleted",
    data: z.object({ messageIds: z.array(MessageId) }),
  },
]);
