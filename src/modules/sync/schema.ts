// What a client is told when it comes, and when it comes again.
import { z } from "@zod/zod";
import { Principal, PrincipalId } from "@/modules/identity/mod.ts";
import { Unread } from "@/modules/message/mod.ts";
import { PRESENCE_MAX, Room, RoomEvent, RoomId } from "@/modules/room/mod.ts";

const WAIT_MAX_SECONDS = 30;
/** A delta larger than this is a fresh start instead. */
export const EVENTS_MAX = 1000;
export const EVENT_BYTES_MAX = 4 * 1024 * 1024;
/** How many rooms are asked who is there, and how many people are told. */
export const PRESENT_ROOMS_MAX = 100;
export const PRESENT_MAX = 1000;

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

const Present = z.object({ principalId: PrincipalId }).meta({ id: "SyncPresence" });

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
  presence: z.array(Present).max(PRESENT_MAX).describe(
    "Who has one of my rooms open on `/ws` now, each once, as the command `presence` there would tell: all of it in every " +
      "answer, so whoever is missing has gone. True to about 30 seconds, and never the reason why `wait` ends. Of the " +
      `${PRESENT_ROOMS_MAX} rooms with the newest messages, without those of more than ${PRESENCE_MAX} members or ` +
      `connections, and at most ${PRESENT_MAX} people`,
  ),
  positions: z.array(Position).describe(
    "What this answer is true for, of all streams at the start and later of those that moved: subscribe with `recover` from here",
  ),
  events: z.array(Event).describe(
    "Everything since, the principal's own stream first; in the order of the positions within each stream",
  ),
}).meta({ id: "Sync" });
export type Sync = z.output<typeof Sync>;
export type SyncEvent = z.output<typeof Event>;
