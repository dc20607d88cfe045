// Who may know what of an event: everything, that time is taken, or nothing; and who may change it.
import { type Actor, hasScope, isAtLeast, isGuest, ROOM_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import {
  addressedIn,
  effectiveRole,
  type RoomGate,
  type RoomRow,
  RoomStore,
  type SeenRoom,
  seer,
  type Visitor,
} from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { AttendeeRow, CalendarTables, EventRow } from "./store.ts";

export type Level = "full" | "busy";
type Who = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind">;
type Event = { row: EventRow; attendees: readonly AttendeeRow[] };

export class CalendarAccess {
  readonly #store: Store<CalendarTables>;
  readonly #gate: RoomGate;

  constructor({ store, gate }: { store: Store<CalendarTables>; gate: RoomGate }) {
    this.#store = store;
    this.#gate = gate;
  }

  /** What somebody may know of an event; `undefined`: not even that it exists. */
  async level(who: Who, event: Event): Promise<Level | undefined> {
    const { room_id: id } = event.row;
    return levelOf(who, event, id === null ? null : await this.room(who, id));
  }

  /** The same of many events, whose rooms are looked at together. */
  async levels(who: Who, events: readonly Event[]): Promise<(event: Event) => Level | undefined> {
    const ids = new Set(events.flatMap(({ row }) => row.room_id ?? []));
    const seen = await new RoomStore(this.#store.db).seenAll(seer(who), [...ids]);
    const rooms = new Map(seen.flatMap((room) => room.state === "deleted" ? [] : [[room.id, room]]));
    return (event) => levelOf(who, event, event.row.room_id === null ? null : rooms.get(event.row.room_id));
  }

  /** The room as somebody sees it; `undefined` when it is gone. */
  async room(who: Who, roomId: string): Promise<SeenRoom | undefined> {
    const room = await new RoomStore(this.#store.db).seen(seer(who), roomId);
    return room?.state === "deleted" ? undefined : room;
  }

  /** Lets in who may change the event: its creator, and members of the room whose event it is. */
  async enterToWrite(context: Context, event: Event, least: "member" | "moderator"): Promise<void> {
    const { actor } = context;
    const { row } = event;
    const level = await this.level(actor, event);
    if (level === undefined) throw absent();
    const isCreator = row.created_by === actor.principalId;
    if (row.room_id !== null) {
      const room = await this.room(actor, row.room_id);
      if (room !== undefined && effectiveRole(actor, room) !== undefined) {
        const { role } = await this.#gate.enter(context, row.room_id, "member");
        const isModerator = role !== null && isAtLeast(ROOM_ROLES, role, "moderator");
        const isOfRoom = row.visibility === "room" && least === "member";
        if (isCreator || (level === "full" && (isModerator || isOfRoom))) return;
      }
    } else if (isCreator) return;
    throw new Fault(
      "forbidden",
      row.room_id === null
        ? "Only its creator changes an event of a personal calendar"
        : `${context.operation} of this event needs its creator or a ${least} of the room`,
    );
  }
}

/** The same with the room at hand; `null` when the event is of no room. */
function levelOf(who: Who, event: Event, room: SeenRoom | null | undefined): Level | undefined {
  const { row } = event;
  if (room === undefined) return undefined;
  const role = room === null ? undefined : effectiveRole(who, room);
  if (isTheirs(who.principalId, event)) {
    if (who.ownerId === null) return "full";
    // An agent never learns more than its owner may know; what it made for itself it knows already.
    const isOwnersToo = (room === null && row.created_by === who.principalId) || isTheirs(who.ownerId, event) ||
      (room !== null && room.owner_role !== null && row.visibility === "room");
    if (isOwnersToo) return "full";
  }
  if (role === undefined) return undefined;
  const isMember = role !== null;
  if (isMember && (row.visibility === "room" || (row.created_by === who.principalId && who.ownerId === null))) {
    return "full";
  }
  return row.visibility === "private" ? undefined : "busy";
}

/** Of these principals, those who may know everything of an event; not who is disabled, or banned from its room. */
export async function knowing(rooms: RoomStore, event: Event, ids: readonly string[]): Promise<string[]> {
  return (await meet(rooms, event, ids)).knowers.map(({ id }) => id);
}

/** Of those, whom the event is brought to: not agents that its room lets do nothing but read. */
export async function addressed(rooms: RoomStore, event: Event, ids: readonly string[]): Promise<string[]> {
  const { knowers, room } = await meet(rooms, event, ids);
  return (room ? addressedIn(room, knowers) : knowers).map(({ id }) => id);
}

async function meet(
  rooms: RoomStore,
  event: Event,
  ids: readonly string[],
): Promise<{ knowers: Visitor[]; room: RoomRow | null | undefined }> {
  const { tenant_id: tenantId, room_id: roomId } = event.row;
  const found = roomId === null ? null : await rooms.find(tenantId, roomId);
  const room = found?.state === "deleted" ? undefined : found;
  const visitors = await rooms.visitors(tenantId, roomId ?? "", ids);
  const knowers = visitors.filter(({ id: principalId, kind, role, owner_id: ownerId, my_role, owner_role }) => {
    const met = room && { ...room, my_role, owner_role };
    return levelOf({ tenantId, principalId, kind, role, ownerId }, event, met) === "full";
  });
  return { knowers, room };
}

/** Throws for who may not ask when others are busy: a refusal because they are tells just that. */
export function checkMayAsk(actor: Actor): void {
  if (!hasScope(actor, "calendar.read")) {
    throw new Fault("scope_missing", "ifFree needs the scope calendar.read, for it tells when others are busy");
  }
  if (isGuest(actor)) {
    throw new Fault("forbidden", "ifFree needs the tenant role member, for it tells when others are busy");
  }
}

/** An event of the principal's own calendar, or one it is invited to. */
function isTheirs(principalId: string, { row, attendees }: Event): boolean {
  if (row.room_id === null && row.created_by === principalId) return true;
  return attendees.some((attendee) => attendee.principal_id === principalId);
}

export function absent(): Fault {
  return new Fault("not_found", "No such event, or not visible to the caller");
}
