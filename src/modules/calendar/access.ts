// Access to events: in full, as busy time only, or not at all; and the right to change one.
import { type Actor, hasScope, isAtLeast, isGuest, ROOM_ROLES } from "@/core/actor.ts";
import { queryInChunks } from "@/core/page.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import {
  effectiveRole,
  notifiableIn,
  type RoomAccess,
  RoomStore,
  type RoomViewer,
  type ViewedRoom,
  viewerOf,
  withinBounds,
} from "@/modules/room/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { type AttendeeRow, CalendarStore, type CalendarTables, type EventAggregate, type EventRow } from "./store.ts";

export type AccessLevel = "full" | "busy";
type Viewer = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind" | "bounds">;
type EventWithAttendees = { row: EventRow; attendees: readonly AttendeeRow[] };

export class CalendarAccess {
  readonly #store: Store<CalendarTables>;
  readonly #roomAccess: RoomAccess;

  constructor({ store, roomAccess }: { store: Store<CalendarTables>; roomAccess: RoomAccess }) {
    this.#store = store;
    this.#roomAccess = roomAccess;
  }

  /** The access of a viewer; `undefined` if the event is not visible. */
  async level(
    viewer: Viewer,
    event: EventWithAttendees,
    db: AnyDatabase = this.#store.db,
  ): Promise<AccessLevel | undefined> {
    const { room_id: id } = event.row;
    return levelOf(viewer, event, id === null ? null : await roomAs(viewer, id, db));
  }

  /** The same for many events; their rooms are loaded together. */
  async levels(
    viewer: Viewer,
    events: readonly EventWithAttendees[],
    db: AnyDatabase = this.#store.db,
  ): Promise<(event: EventWithAttendees) => AccessLevel | undefined> {
    const ids = new Set(events.flatMap(({ row }) => row.room_id ?? []));
    const visible = await new RoomStore(db).findManyForViewer(viewerOf(viewer), [...ids]);
    const rooms = new Map(visible.flatMap((found) => {
      const room = found.state === "deleted" ? undefined : withinBounds(viewer, found);
      return room === undefined ? [] : [[room.id, room]];
    }));
    return (event) => levelOf(viewer, event, event.row.room_id === null ? null : rooms.get(event.row.room_id));
  }

  /** Locks the events with these uids that a viewer knows of in a room or (null) in their own calendar; by uid. */
  async lockByUid(
    tx: Transaction<CalendarTables>,
    viewer: Viewer,
    roomId: string | null,
    uids: readonly string[],
  ): Promise<Map<string, EventAggregate>> {
    const { tenantId, principalId } = viewer;
    const events = new CalendarStore(tx.db);
    const ids = await events.idsByUid(tenantId, roomId, principalId, uids);
    const found = await events.lockAggregates(tenantId, ids);
    const levelOf = await this.levels(viewer, found, tx.db);
    const own = found.filter(({ row }) => row.created_by === principalId);
    // Their own come last, to take precedence over others with the same uid.
    const accessible = [...found.filter((event) => levelOf(event) === "full"), ...own];
    return new Map(accessible.map((event) => [event.row.uid, event]));
  }

  /** Locks an event with its parts for a caller who may change it: its creator, and members of its room. */
  async requireForUpdate(
    tx: Transaction<CalendarTables>,
    context: Context,
    id: string,
    least: "member" | "moderator",
  ): Promise<EventAggregate> {
    const event = await new CalendarStore(tx.db).lockAggregate(context.actor.tenantId, id);
    if (event === undefined) throw notVisible("event");
    await this.assertMayUpdate(tx, context, event, least);
    return event;
  }

  /** Throws unless the caller may change the event; once its room is locked, its members do not change before the commit. */
  async assertMayUpdate(
    tx: Transaction<CalendarTables>,
    context: Context,
    event: EventWithAttendees,
    least: "member" | "moderator",
  ): Promise<void> {
    const { actor } = context;
    const { row } = event;
    const level = await this.level(actor, event, tx.db);
    if (level === undefined) throw notVisible("event");
    const isCreator = row.created_by === actor.principalId;
    if (row.room_id !== null) {
      const room = await roomAs(actor, row.room_id, tx.db);
      if (room !== undefined && effectiveRole(actor, room) !== undefined) {
        const { role } = await this.#roomAccess.require(context, row.room_id, { tx, least: "member" });
        const isModerator = role !== null && isAtLeast(ROOM_ROLES, role, "moderator");
        const isOfRoom = row.visibility === "room" && least === "member";
        if (isCreator || (level === "full" && (isModerator || isOfRoom))) return;
      }
    } else if (isCreator) return;
    throw new Fault(
      "forbidden",
      row.room_id === null
        ? "Only its creator may change an event of a personal calendar"
        : `${context.operation} requires being the creator of the event or having the role ${least} in the room`,
    );
  }
}

/** The room as seen by the viewer; `undefined` if it is deleted. */
async function roomAs(viewer: Viewer, roomId: string, db: AnyDatabase): Promise<ViewedRoom | undefined> {
  const room = await new RoomStore(db).findForViewer(viewerOf(viewer), roomId);
  return room === undefined || room.state === "deleted" ? undefined : withinBounds(viewer, room);
}

/** `room` is null for an event without a room, `undefined` if the room is not accessible. */
function levelOf(
  viewer: Viewer,
  event: EventWithAttendees,
  room: ViewedRoom | null | undefined,
): AccessLevel | undefined {
  const { row } = event;
  if (room === undefined) return undefined;
  const role = room === null ? undefined : effectiveRole(viewer, room);
  if (viewer.bounds !== undefined) {
    // Others read what it says: an event that only participants see is not for them.
    if (role === undefined || row.visibility === "private") return undefined;
    return row.visibility === "room" ? "full" : "busy";
  }
  if (isParticipant(viewer.principalId, event)) {
    if (viewer.ownerId === null) return "full";
    // An agent sees no more than its owner, besides the events of its own calendar.
    const isOwnersToo = (room === null && row.created_by === viewer.principalId) ||
      isParticipant(viewer.ownerId, event) ||
      (room !== null && room.owner_role !== null && row.visibility === "room");
    if (isOwnersToo) return "full";
  }
  if (role === undefined) return undefined;
  const isMember = role !== null;
  if (isMember && (row.visibility === "room" || (row.created_by === viewer.principalId && viewer.ownerId === null))) {
    return "full";
  }
  return row.visibility === "private" ? undefined : "busy";
}

/** The room of an event, and those of its creator and attendees with full access. */
type EventViewers = { room: ViewedRoom | null | undefined; viewers: RoomViewer[] };

/** The viewers of these events, without disabled and banned ones; rooms and principals are loaded together. */
export async function viewersOfEvents(
  rooms: RoomStore,
  events: readonly EventWithAttendees[],
): Promise<(event: EventWithAttendees) => EventViewers> {
  const loaded = new Map<string | null, { room: ViewedRoom | null | undefined; candidates: Map<string, RoomViewer> }>();
  for (const [roomId, group] of Map.groupBy(events, ({ row }) => row.room_id)) {
    const tenantId = group[0]?.row.tenant_id ?? "";
    const room = roomId === null ? null : await rooms.find(tenantId, roomId);
    const ids = [...new Set(group.flatMap(participantIds))];
    const candidates = await queryInChunks(ids, (some) => rooms.viewers(tenantId, roomId ?? "", some));
    loaded.set(roomId, { room, candidates: new Map(candidates.map((candidate) => [candidate.id, candidate])) });
  }
  return (event) => {
    const { room, candidates } = loaded.get(event.row.room_id) ?? { room: undefined, candidates: undefined };
    const active = room?.state === "deleted" ? undefined : room;
    const viewers = participantIds(event).flatMap((id) => candidates?.get(id) ?? []).filter((candidate) => {
      const { id: principalId, kind, role, owner_id: ownerId, my_role, owner_role } = candidate;
      const viewed = active && { ...active, my_role, owner_role };
      return levelOf({ tenantId: event.row.tenant_id, principalId, kind, role, ownerId }, event, viewed) === "full";
    });
    return { room, viewers };
  };
}

/** Of these participants of the event, those who may be notified: not agents that may only read in its room. */
export async function notifiable(
  rooms: RoomStore,
  event: EventWithAttendees,
  ids: readonly string[],
): Promise<string[]> {
  const { room, viewers } = (await viewersOfEvents(rooms, [event]))(event);
  const wanted = viewers.filter(({ id }) => ids.includes(id));
  return (room ? notifiableIn(room, wanted) : wanted).map(({ id }) => id);
}

export function participantIds({ row, attendees }: EventWithAttendees): string[] {
  return [...new Set([row.created_by, ...attendees.flatMap(({ principal_id }) => principal_id ?? [])])];
}

/** Throws for callers who may not read busy times, because `time_conflict` reveals them. */
export function assertCanCheckBusy(actor: Actor): void {
  if (!hasScope(actor, "calendar.read")) {
    throw new Fault(
      "scope_missing",
      "ifFree requires the scope calendar.read, because it reveals when others are busy",
    );
  }
  if (isGuest(actor)) {
    throw new Fault("forbidden", "ifFree requires the tenant role member, because it reveals when others are busy");
  }
}

/** Whether the event is in the principal's own calendar or it is an attendee. */
function isParticipant(principalId: string, { row, attendees }: EventWithAttendees): boolean {
  if (row.room_id === null && row.created_by === principalId) return true;
  return attendees.some((attendee) => attendee.principal_id === principalId);
}
