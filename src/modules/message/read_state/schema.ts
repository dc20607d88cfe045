// Read positions and unread counts in the API, and their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const Unread = z.object({
  roomId: RoomId,
  lastReadSeq: z.int(),
  unreadCount: z.int().describe("Number of messages by others after it, at most 10000"),
  mentionCount: z.int().describe("Number of those that mention the caller or the room, at most 10000"),
  badgeCount: z.int().describe(
    "Count for a badge: `unreadCount` at notification level `all`, `mentionCount` at `mentions`, 0 at `none` " +
      "and while muted",
  ),
  lastSeq: z.int().describe("Position of the room to which the counts apply"),
}).meta({ id: "Unread" });
export type Unread = z.output<typeof Unread>;

export const ReadPut = z.strictObject({
  id: RoomId,
  seq: z.union([z.int().min(0), z.literal("all")]).describe(
    "New read position, or `all` for the whole room; a position before the current one has no effect",
  ),
});
export type ReadPut = z.output<typeof ReadPut>;

/** Rooms marked as read in one transaction. */
export const READ_BATCH = 100;

export const AllRead = z.object({
  roomCount: z.int().describe("Rooms whose read position moved; each publishes `read.updated`"),
}).meta({ id: "AllRead" });
export type AllRead = z.output<typeof AllRead>;

export const UnreadList = z.strictObject({
  roomIds: z.array(RoomId).max(200).optional().describe("Default: all rooms of the caller"),
});
export type UnreadList = z.output<typeof UnreadList>;

/** Durable events on the reader's stream. */
export const READ_STATE_EVENTS: readonly EventType[] = eventTypes("message.read", [
  {
    type: "read.updated",
    streams: ["principal"],
    summary:
      "The principal's read position moved, back if a message was marked as unread; the counts apply to the room's position " +
      "`lastSeq`",
    data: Unread,
  },
]);
