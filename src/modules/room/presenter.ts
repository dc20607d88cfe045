// Rooms as JSON: the shared part that events carry, and the part that differs from reader to reader.
import type { Actor } from "@/core/actor.ts";
import { type EventDraft, roomStream } from "@/core/event.ts";
import { type Entry, hiddenUpTo } from "./gate.ts";
import type { Member, Room, SharedRoom } from "./schema.ts";
import type { ListedMember, RoomRow, SeenRoom } from "./store.ts";

/** Up to where a member has read a room, and where the room stands. */
export type ReadPosition = { id: string; lastReadSeq: number; head: number };
/** What tells how far somebody has read a room. */
export type ReadRoom = Pick<
  SeenRoom,
  "id" | "history_visibility" | "head" | "my_last_read_seq" | "my_joined_seq" | "owner_joined_seq"
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

export const NOTHING_UNREAD: UnreadCount = { unreadCount: 0, mentionCount: 0 };

export class RoomPresenter {
  readonly #countUnread: CountUnread;

  constructor(countUnread: CountUnread) {
    this.#countUnread = countUnread;
  }

  async one(actor: Actor, entry: Entry): Promise<Room> {
    const [room] = await this.many(actor, [entry]);
    if (room === undefined) throw new Error("one room in, none out");
    return room;
  }

  async many(actor: Actor, entries: readonly Entry[]): Promise<Room[]> {
    const counts = await this.#countUnread(
      actor.tenantId,
      actor.principalId,
      entries.flatMap(({ room }) => readIn(room)),
    );
    return entries.map((entry) => presentRoom(entry, counts));
  }
}

/** A room as one principal sees it. */
export function presentRoom({ room, role }: Entry, counts: UnreadCounts): Room {
  return {
    ...presentShared(room, room.epoch ?? ""),
    lastSeq: room.head ?? 0,
    ...(counts.get(room.id) ?? NOTHING_UNREAD),
    lastReadSeq: room.my_last_read_seq ?? 0,
    myRole: role,
  };
}

/** How far somebody has read a room; nothing of who is no member. */
export function readIn(room: ReadRoom): ReadPosition[] {
  if (room.my_last_read_seq === null) return [];
  return [{ id: room.id, lastReadSeq: Math.max(room.my_last_read_seq, hiddenUpTo({ room })), head: room.head ?? 0 }];
}

/** What is the same for everybody. */
export function presentShared(row: RoomRow, epoch: string): SharedRoom {
  return {
    id: row.id,
    name: row.name,
    slug: row.slug,
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

/** What events about a member say of the principal. */
export function looksOf(
  { kind, display_name, avatar_file_id }: Pick<ListedMember, "kind" | "display_name" | "avatar_file_id">,
): Pick<Member, "kind" | "displayName" | "avatarFileId"> {
  return { kind, displayName: display_name, avatarFileId: avatar_file_id };
}

/** What somebody did, on the line of the room. */
export function roomEvent(actor: Actor, roomId: string, type: string, data: unknown): EventDraft {
  return { tenantId: actor.tenantId, stream: roomStream(roomId), type, actor, data };
}
