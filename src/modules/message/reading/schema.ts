// How far somebody has read, and what is left to read.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const Unread = z.object({
  roomId: RoomId,
  lastReadSeq: z.int(),
  unreadCount: z.int().describe("Messages of others after it, at most 10000"),
  mentionCount: z.int().describe("Those that mention me or the room, at most 10000"),
  lastSeq: z.int().describe("Position of the room that the counts are true for"),
}).meta({ id: "Unread" });
export type Unread = z.output<typeof Unread>;

export const ReadPut = z.strictObject({
  id: RoomId,
  seq: z.int().min(0).describe("Everything up to here is read; a position behind the current one changes nothing"),
});
export type ReadPut = z.output<typeof ReadPut>;

export const UnreadList = z.strictObject({
  roomIds: z.array(RoomId).max(200).optional().describe("Default: all rooms the caller is a member of"),
});
export type UnreadList = z.output<typeof UnreadList>;

/** Durable events on the stream of the principal who reads. */
export const READING_EVENTS: readonly EventType[] = [
  {
    type: "read.updated",
    streams: ["principal"],
    summary: "I read on, on one of my devices; the counts are true for the room's position lastSeq",
    data: Unread,
  },
];
