// What a client is told when it comes, and when it comes again.
import { z } from "@zod/zod";
import { Principal } from "@/modules/identity/mod.ts";
import { Unread } from "@/modules/message/mod.ts";
import { Room, RoomEvent, RoomId } from "@/modules/room/mod.ts";

export const WAIT_MAX_SECONDS = 30;
/** A delta larger than this is a fresh start instead. */
export const EVENTS_MAX = 1000;
export const EVENT_BYTES_MAX = 4 * 1024 * 1024;

export const SyncRead = z.strictObject({
  since: z.string().min(1).max(60_000).optional().describe("`cursor` of the answer before; absent = start"),
  wait: z.int().min(0).max(WAIT_MAX_SECONDS).default(0)
    .describe("With `since`: seconds to wait for something new when there is nothing"),
});
export type SyncRead = z.output<typeof SyncRead>;

const Position = z.object({
  channel: z.string().describe("`room:<id>` or `principal:<id>`"),
  epoch: z.string(),
  offset: z.int(),
}).meta({ id: "SyncPosition" });

const Event = z.object({ channel: z.string(), ...RoomEvent.shape }).meta({ id: "SyncEvent" });

export const Sync = z.object({
  cursor: z.string().describe("Pass as `since` next time"),
  limited: z.boolean().describe("Too much has happened since: this is a fresh start, forget what you had"),
  principal: Principal,
  rooms: z.array(Room).describe(
    "At the start all rooms I am a member of; later those that are new to me or that I am back in: complete, read their messages again",
  ),
  leftRoomIds: z.array(RoomId).describe("Rooms that I see no more; forget them"),
  unreads: z.array(Unread).describe("At the start of all rooms; later of those where something happened"),
  unreadNotificationCount: z.int(),
  positions: z.array(Position).describe(
    "What this answer is true for, of all streams at the start and later of those that moved: subscribe with `recover` from here",
  ),
  events: z.array(Event).describe(
    "Everything since, the principal's own stream first; in the order of the positions within each stream",
  ),
}).meta({ id: "Sync" });
export type Sync = z.output<typeof Sync>;
export type SyncEvent = z.output<typeof Event>;
