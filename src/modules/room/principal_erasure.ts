// What becomes of the tables when a person is erased.
import { DELETED_NAME, type ErasedPerson, type PrincipalErasure, WORK_OF_ROOM } from "@/core/erasure.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { principalStream, roomEvent, roomStream } from "@/core/event/event.ts";
import { truncateText } from "@/core/text/text.ts";
import { redactEvents } from "@/ports/sql/event_redaction.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { RoomMembers } from "./members.ts";
import { directRoomName, SEPARATOR } from "./direct_room.ts";
import { roomChanges } from "./presenter.ts";
import { deleteRoom } from "./room_deletion.ts";
import { DIRECT_MEMBERS_MAX, NAME_MAX } from "./schema.ts";
import { type RoomRow, RoomStore, type RoomTables } from "./store.ts";

type Deps = { store: Store<RoomTables>; clock: Clock; members: Pick<RoomMembers, "end"> };

/** Data of an event with a room, or with changes of one. */
type RoomData = { room?: { id: string; name: string }; changes?: { name?: string } };

/** Memberships end with the events that clients expect. A private room in which nobody is left is deleted: none could read it. */
export const roomErasure = (deps: Deps): PrincipalErasure => ({
  room: {
    key: ["id"],
    renames: ["created_by"],
    json: ["agent_policy_json", "metadata_json", "restore_state_json"],
    keeps: {
      name: WORK_OF_ROOM,
      topic: WORK_OF_ROOM,
      description: WORK_OF_ROOM,
      slug: WORK_OF_ROOM,
      direct_key: "a digest, removed with the membership",
    },
  },
  member: {
    key: ["room_id", "principal_id"],
    deletes: ["principal_id"],
    removal: {
      of: "principal_id",
      run: (person, rows) => endMemberships(deps, person, rows.map(({ room_id }) => String(room_id))),
    },
  },
  ban: {
    key: ["tenant_id", "room_id", "principal_id"],
    deletes: ["principal_id"],
    renames: ["created_by"],
    keeps: { reason: "deleted with the ban" },
  },
});

/** Ends memberships in one transaction, and publishes which pseudonym takes the place of the id. */
async function endMemberships(
  { store, clock, members }: Deps,
  { tenantId, principalId, pseudonymId }: ErasedPerson,
  roomIds: readonly string[],
): Promise<number> {
  return await store.write(async (tx) => {
    await tx.lock(tenantId, ...roomIds.map(roomStream));
    const rooms = new RoomStore(tx.db);
    let ended = 0;
    for (const roomId of roomIds) {
      const [room, [member]] = [
        await rooms.find(tenantId, roomId),
        await rooms.members(tenantId, roomId, {}, undefined, 1, principalId),
      ];
      if (room === undefined || member === undefined) continue;
      await members.end(tx, { tenantId }, room, principalId, "removed");
      if (room.kind === "direct") await renameDirectRoom(tx, room, member.display_name, clock.now());
      const data = { roomId, principalId, pseudonymId };
      await tx.emit(roomEvent({ tenantId }, roomId, "principal.erased", data));
      const isEmpty = room.visibility === "private" && room.state !== "deleted" &&
        (await rooms.memberIds(tenantId, roomId)).length === 0;
      if (isEmpty) await deleteRoom(tx, { tenantId }, room, { now: clock.now(), purge: false });
      ended++;
    }
    return ended;
  });
}

/** A direct room has the names that its members had when it was created, unless it was renamed. */
async function renameDirectRoom(
  tx: Transaction<RoomTables>,
  room: RoomRow,
  displayName: string,
  now: number,
): Promise<void> {
  const { tenant_id: tenantId, id } = room;
  const others = await new RoomStore(tx.db).members(tenantId, id, {}, undefined, DIRECT_MEMBERS_MAX);
  const name = nameWithout(displayName, room.name, others.map((member) => member.display_name));
  const principals = others.map((member) => principalStream(member.principal_id));
  if (principals.length > 0) await tx.lock(tenantId, ...principals);
  const range = { tenantId, from: room.created_at, to: iso(now) };
  for (const stream of [roomStream(id), ...principals]) {
    for (const type of ["room.created", "room.updated", "member.joined"]) {
      await redactEvents(tx.db, { ...range, stream, type }, id, (data) => withName(data, id, name));
    }
  }
  if (name === room.name) return;
  const set = { name, version: room.version + 1 };
  await new RoomStore(tx.db).update(tenantId, id, set);
  await tx.emit(roomEvent({ tenantId }, id, "room.updated", roomChanges(room, { ...room, ...set })));
}

/** What an event says of the room, with its present name instead of an earlier one, which may have a former name of the person. */
function withName(data: RoomData, id: string, name: string): RoomData | undefined {
  if (data.room?.id === id) return { ...data, room: { ...data.room, name } };
  return data.changes?.name === undefined ? undefined : { ...data, changes: { ...data.changes, name } };
}

/** Without the present name of the person; if it may have a former one instead, it is rebuilt from the names of the others. */
function nameWithout(displayName: string, name: string, others: readonly string[]): string {
  if (name.includes(displayName)) return truncateText(name.replaceAll(displayName, DELETED_NAME), NAME_MAX);
  const parts = name.split(SEPARATOR);
  const isOfMembers = parts.length > others.length || parts.some((part) => others.includes(part));
  const erased = Array.from({ length: Math.max(1, parts.length - others.length) }, () => DELETED_NAME);
  return isOfMembers && parts.length > 1 ? directRoomName([...others, ...erased]) : name;
}
