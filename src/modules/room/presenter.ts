// Rooms as JSON: the part that events contain, and the part that differs between viewers.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { type Changes, changesBetween, shorten, type Shortened } from "@/core/event/event_data.ts";
import { presentStatus } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomGrant } from "./room_access.ts";
import { LONG_FIELDS, type Member, type Room, type SharedRoom } from "./schema.ts";
import { badgeCount, presentSettings } from "./room_settings.ts";
import { type ProfileColumns, type RoomRow, slugOf, type ViewedRoom } from "./store.ts";
import type { RoomInclude } from "./view_schema.ts";
import type { RoomViews } from "./room_views.ts";

/** The read position of a member in a room, and the head of the room. */
export type ReadPosition = { id: string; lastReadSeq: number; head: number };
/** The columns that decide the read position of a viewer. */
export type RoomReadState = Pick<
  ViewedRoom,
  | "id"
  | "history_visibility"
  | "head"
  | "my_last_read_seq"
  | "my_joined_seq"
  | "owner_joined_seq"
  | "my_notify_level"
  | "my_muted_until"
>;
export type UnreadCount = { unreadCount: number; mentionCount: number };
/** By room. */
export type UnreadCounts = ReadonlyMap<string, UnreadCount>;
/** Counts what is unread of one principal in rooms it is a member of. */
export type CountUnread = (
  tenantId: string,
  principalId: string,
  rooms: readonly ReadPosition[],
) => Promise<UnreadCounts>;

export const NO_UNREAD: UnreadCount = { unreadCount: 0, mentionCount: 0 };

export class RoomPresenter {
  readonly #deps: { countUnread: CountUnread; views: RoomViews; clock: Clock };

  constructor(deps: { countUnread: CountUnread; views: RoomViews; clock: Clock }) {
    this.#deps = deps;
  }

  async one(actor: Actor, grant: RoomGrant, include: readonly RoomInclude[]): Promise<Room> {
    const [room] = await this.many(actor, [grant], include);
    if (room === undefined) throw new Error("Expected a room, received none");
    return room;
  }

  async many(actor: Actor, grants: readonly RoomGrant[], include: readonly RoomInclude[]): Promise<Room[]> {
    const { countUnread, views, clock } = this.#deps;
    const rooms = grants.map(({ room }) => room);
    const [counts, extrasOf] = await Promise.all([
      countUnread(actor.tenantId, actor.principalId, rooms.flatMap(readPositions)),
      views.loadExtras(actor, rooms, include),
    ]);
    return grants.map((grant) => ({ ...presentRoom(grant, counts, clock.now()), ...extrasOf(grant.room) }));
  }
}

/** A room as seen by one principal; `now` decides whether it is muted. */
export function presentRoom({ room, role }: RoomGrant, counts: UnreadCounts, now: number): Room {
  const unread = counts.get(room.id) ?? NO_UNREAD;
  return {
    ...presentSharedRoom(room, room.epoch ?? ""),
    lastSeq: room.head ?? 0,
    ...unread,
    badgeCount: badgeCount(room, unread, now),
    lastReadSeq: room.my_last_read_seq ?? 0,
    mySettings: presentSettings(room),
    myRole: role,
  };
}

/** The read position of a viewer in a room; empty without membership. */
export function readPositions(room: RoomReadState): ReadPosition[] {
  if (room.my_last_read_seq === null) return [];
  return [{ id: room.id, lastReadSeq: Math.max(room.my_last_read_seq, hiddenUpTo({ room })), head: room.head ?? 0 }];
}

/** The fields that are the same for all viewers. */
function presentSharedRoom(row: RoomRow, epoch: string): SharedRoom {
  return {
    id: row.id,
    name: row.name,
    slug: slugOf(row),
    topic: row.topic,
    description: row.description,
    kind: row.kind,
    visibility: row.visibility,
    historyVisibility: row.history_visibility,
    state: row.state,
    agentPolicy: JSON.parse(row.agent_policy_json),
    retentionDays: row.retention_days,
    memberCount: row.member_count,
    epoch,
    lastMessageAt: row.last_message_at,
    metadata: JSON.parse(row.metadata_json),
    version: row.version,
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

type BriefRoom = Shortened<SharedRoom, (typeof LONG_FIELDS)[number]>;
export type NewRoomData = { room: BriefRoom["value"]; omitted: BriefRoom["omitted"] };

/** The room in `room.created` and `member.joined`. */
export function newRoomData(row: RoomRow, epoch: string): NewRoomData {
  const { value: room, omitted } = shorten(presentSharedRoom(row, epoch), LONG_FIELDS);
  return { room, omitted };
}

/** The data of `room.updated` and `room.archived`. */
export function roomChanges(was: RoomRow, is: RoomRow): Changes<SharedRoom> & { roomId: string } {
  return { roomId: is.id, ...changesBetween(presentSharedRoom(was, ""), presentSharedRoom(is, "")) };
}

/** The profile of a principal in events about a member; `now` decides whether its status has expired. */
export function profileFields(
  row: ProfileColumns,
  now: number,
): Pick<Member, "kind" | "handle" | "displayName" | "avatarFileId" | "status" | "disabled"> {
  const { kind, handle, display_name: displayName, avatar_file_id: avatarFileId, is_disabled } = row;
  return { kind, handle, displayName, avatarFileId, status: presentStatus(row, now), disabled: is_disabled === 1 };
}
