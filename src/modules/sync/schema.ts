// Requests and responses of sync.
import { z } from "@zod/zod";
import { Principal, PrincipalId } from "@/modules/identity/mod.ts";
import { Unread } from "@/modules/message/mod.ts";
import { PRESENCE_MAX, Room, RoomEvent, RoomId, RoomInclude } from "@/modules/room/mod.ts";

const WAIT_MAX_SECONDS = 30;
/** A larger delta is replaced by a new snapshot. */
export const EVENTS_MAX = 1000;
export const EVENT_BYTES_MAX = 4 * 1024 * 1024;
/** Maximum number of rooms whose presence is read, and of principals returned. */
export const PRESENT_ROOMS_MAX = 100;
export const PRESENT_MAX = 1000;

export const SyncRead = z.strictObject({
  // One byte per character in a URL: the engine itself rejects longer URLs.
  since: z.string().min(1).max(60_000).regex(/^[\w.-]+$/, "expected a cursor of an earlier response").optional()
    .describe("`cursor` of the previous response. Default: start from the current state"),
  wait: z.int().min(0).max(WAIT_MAX_SECONDS).default(0)
    .describe("With `since`: maximum number of seconds to wait for changes if there are none"),
  include: z.array(RoomInclude).max(1).default([]).describe(
    "`lastMessage`: include the newest message of each of `rooms`",
  ),
});
export type SyncRead = z.output<typeof SyncRead>;

const Position = z.object({
  channel: z.string().describe("`room:<id>` or `principal:<id>`"),
  epoch: z.string(),
  offset: z.int().describe("Position in the stream up to which the response is complete"),
}).meta({ id: "SyncPosition" });

const Present = z.object({ principalId: PrincipalId }).meta({ id: "SyncPresence" });

const Event = z.object({ channel: z.string().describe("`room:<id>` or `principal:<id>`"), ...RoomEvent.shape }).meta({
  id: "SyncEvent",
});

export const Sync = z.object({
  cursor: z.string().describe("Pass as `since` in the next call"),
  limited: z.boolean().describe(
    "Whether too much has changed since the cursor: the response is a full state; discard local state",
  ),
  principal: Principal,
  rooms: z.array(Room).describe(
    "Without `since` all rooms of the caller; otherwise rooms that were added or joined again, in full; read " +
      "their messages again",
  ),
  leftRoomIds: z.array(RoomId).describe("Rooms that are no longer visible to the caller; discard them"),
  unreads: z.array(Unread).describe("Without `since` all rooms; otherwise rooms with changes"),
  unreadNotificationCount: z.int().describe("0 if the token lacks the scope `notification.read`"),
  presence: z.array(Present).max(PRESENT_MAX).describe(
    "Principals with one of the caller's rooms open on `/ws`, without duplicates; always the complete list, " +
      `with a delay of up to 30 seconds. Changes do not end \`wait\`. Covers the ${PRESENT_ROOMS_MAX} rooms with ` +
      `the newest messages, except those with more than ${PRESENCE_MAX} members or connections, and at most ` +
      `${PRESENT_MAX} principals`,
  ),
  positions: z.array(Position).describe(
    "Positions of this response, of all streams or, with `since`, of those that changed: subscribe with " +
      "`recover` from here",
  ),
  events: z.array(Event).describe(
    "All events since the cursor: the stream of the principal first, ordered by position within each stream",
  ),
}).meta({ id: "Sync" });
export type Sync = z.output<typeof Sync>;
export type SyncEvent = z.output<typeof Event>;
