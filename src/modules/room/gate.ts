// The gate of a room: who may come in with which role, asked inside the transaction that does the work.
import { type Actor, isAtLeast, isGuest, lacksToHear, lowerOf, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { type Context, roomRoleIn } from "@/core/operation.ts";
import type { Reserved, Store, Transaction } from "@/ports/store.ts";
import { CompanyStore } from "./company/store.ts";
import { KeptDoors } from "./door/kept.ts";
import { type DoorRoom, DoorStore } from "./door/store.ts";
import type { AgentPolicy } from "./schema.ts";
import { looksIntoPublic, type RoomRow, RoomStore, type RoomTables, type SeenRoom, type Visitor } from "./store.ts";

type Who = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind">;

/** A room somebody was let into. `role` is null for one who looks into a public room without being a member. */
export type Entry = { room: SeenRoom; role: RoomRole | null };
/** The same with less of the room. */
export type Pass = { room: DoorRoom; role: RoomRole | null };

/** Throws unless the token may hear what happens in rooms: the events hold the messages. */
export function checkHears(actor: Actor): void {
  const lacking = lacksToHear(actor);
  if (lacking !== undefined) throw new Fault("scope_missing", `The token lacks the scope ${lacking}`);
}

export class RoomGate {
  readonly #store: Store<RoomTables>;
  readonly #doors = new KeptDoors();

  constructor(store: Store<RoomTables>) {
    this.#store = store;
  }

  /**
   * Lets the caller into a room with the room role that the running operation declares for its kind (or `least`).
   * Throws `not_found` for a room the caller does not see, `forbidden` for a role too low, `agent_muted` for an agent that
   * may only read, `room_archived` for a write there.
   */
  async enter(context: Context, roomId: string, least?: RoomRole): Promise<Entry> {
    const entry = await this.look(context.actor, roomId);
    return admitted(context, entry, least ?? roomRoleIn(entry?.room.kind, context.access) ?? "observer");
  }

  /** The same for a caller that needs little of the room. Cheap: what it reads seldom changes, unlike the room's head. */
  async pass(context: Context, roomId: string): Promise<Pass> {
    const { actor, access } = context;
    const room = await new DoorStore(this.#store.db).one(seer(actor), roomId);
    return admitted(context, entryOf(actor, room), access.room ?? "observer");
  }

  /**
   * Many of these at once, in the same order; who is not let in finds the fault in place of the pass. On PostgreSQL it is asked
   * within a transaction that holds the rooms' streams, or is `holding` them.
   */
  async passAll(
    asked: readonly { context: Context; roomId: string }[],
    holding: Promise<ReadonlyMap<string, Reserved>>,
  ): Promise<(Pass | Fault)[]> {
    // On SQLite each answer is likely to be kept; elsewhere every question is a way to the database and back.
    if (this.#store.dialect === "sqlite") {
      return await Promise.all(asked.map(({ context, roomId }) => this.pass(context, roomId).catch(faultOf)));
    }
    const rooms = await this.#doors.all(
      new DoorStore(this.#store.db),
      asked.map(({ context, roomId }) => ({ ...seer(context.actor), id: roomId })),
      holding,
    );
    return asked.map(({ context }, n) => {
      try {
        return admitted(context, entryOf(context.actor, rooms[n]), context.access.room ?? "observer");
      } catch (thrown) {
        return faultOf(thrown);
      }
    });
  }

  /**
   * The same for a change: read once no other writer can be at work in the room, so what is read stays until the commit.
   */
  async enterToChange(
    tx: Pick<Transaction<unknown>, "reserve">,
    context: Context,
    roomId: string,
    least?: RoomRole,
  ): Promise<Entry> {
    await this.enter(context, roomId, least);
    await tx.reserve(context.actor.tenantId, roomStream(roomId), 0);
    return await this.enter(context, roomId, least);
  }

  /** The room as somebody sees it; `undefined` when they do not. */
  async look(who: Who, roomId: string): Promise<Entry | undefined> {
    return entryOf(who, await new RoomStore(this.#store.db).seen(seer(who), roomId));
  }

  /** Those of the rooms that somebody sees, by id. */
  async lookAll(who: Who, roomIds: Iterable<string>): Promise<ReadonlyMap<string, Entry>> {
    const rooms = await new RoomStore(this.#store.db).seenAll(seer(who), [...new Set(roomIds)]);
    return new Map(rooms.flatMap((room) => {
      const entry = entryOf(who, room);
      return entry === undefined ? [] : [[room.id, entry]];
    }));
  }

  /** Of these principals, those who are enabled and see the room. */
  async seeing(
    room: Pick<RoomRow, "tenant_id" | "id" | "visibility">,
    ids: readonly string[],
  ): Promise<Map<string, Visitor>> {
    const visitors = await new RoomStore(this.#store.db).visitors(room.tenant_id, room.id, ids);
    return new Map(visitors.filter((visitor) => sees(visitor, room)).map((visitor) => [visitor.id, visitor]));
  }

  /** Of these principals, those who are members of a room that somebody sees as a member. */
  async met(who: Pick<Actor, "tenantId" | "principalId" | "ownerId">, ids: readonly string[]): Promise<Set<string>> {
    const { tenantId, principalId, ownerId } = who;
    return new Set(
      await new CompanyStore(this.#store.db).met({ tenantId, principalId, bossId: ownerId ?? principalId }, ids),
    );
  }
}

type Standing = Pick<SeenRoom, "state" | "visibility" | "my_role" | "owner_role" | "agent_policy_json">;
type Let<Room> = { room: Room; role: RoomRole | null };

function entryOf<Room extends Standing>(who: Who, room: Room | undefined): Let<Room> | undefined {
  if (room === undefined || room.state === "deleted") return undefined;
  const role = effectiveRole(who, room);
  return role === undefined ? undefined : { room, role };
}

/** Throws unless the entry suffices for the running operation. */
export function admitted<Room extends Standing>(
  context: Context,
  entry: Let<Room> | undefined,
  least: RoomRole,
): Let<Room> {
  if (entry === undefined) throw notFound();
  const mayOnlyLook = entry.role === null;
  if (
    mayOnlyLook ? least !== "observer" || !context.isRead : !isAtLeast(ROOM_ROLES, entry.role ?? "observer", least)
  ) {
    throw new Fault(
      "forbidden",
      mayOnlyLook
        ? `${context.operation} needs membership in the room; join it first`
        : `${context.operation} needs the room role ${least}, the caller is ${entry.role}`,
    );
  }
  if (!context.isRead && context.access.muted !== true && isMuted(context.actor, entry.room)) {
    throw new Fault("agent_muted", "The room's agentPolicy lets this agent read, and nothing else");
  }
  if (entry.room.state === "archived" && !context.isRead && context.access.archived !== true) {
    throw new Fault("room_archived", "The room is archived; its owner can make it active again");
  }
  return entry;
}

function sees(
  { kind, role, owner_id: ownerId, my_role, owner_role }: Visitor,
  room: Pick<RoomRow, "visibility">,
): boolean {
  const { visibility } = room;
  return effectiveRole({ kind, role, ownerId }, { visibility, my_role, owner_role }) !== undefined;
}

/** Whether somebody may know of one who sees the room: to guests of the tenant only its members are there. */
export function mayName(who: Pick<Actor, "role">, { my_role: role }: Pick<Visitor, "my_role">): boolean {
  return role !== null || !isGuest(who);
}

/** The role rows give to somebody: `null` = may look in, `undefined` = does not see the room. */
export function effectiveRole(
  who: Pick<Who, "role" | "ownerId" | "kind">,
  room: Pick<SeenRoom, "visibility" | "my_role" | "owner_role">,
): RoomRole | null | undefined {
  if (room.my_role === null) {
    return room.visibility === "public" && looksIntoPublic(who) ? null : undefined;
  }
  if (who.ownerId === null) return room.my_role;
  return room.owner_role === null ? undefined : lowerOf(ROOM_ROLES, room.my_role, room.owner_role);
}

/** Whether the room lets an agent do nothing but read: it wants none, or others. */
export function isMuted(
  { kind, principalId }: Pick<Actor, "kind" | "principalId">,
  room: Pick<RoomRow, "agent_policy_json">,
): boolean {
  if (kind !== "agent") return false;
  const { mode, allowedAgentIds }: AgentPolicy = JSON.parse(room.agent_policy_json);
  return mode === "off" || allowedAgentIds?.includes(principalId) === false;
}

/** Of these principals, those whom what happens in the room is brought to: not agents that it lets do nothing but read. */
export function addressedIn<One extends Pick<Visitor, "id" | "kind">>(
  room: Pick<RoomRow, "agent_policy_json">,
  principals: readonly One[],
): One[] {
  return principals.filter(({ id: principalId, kind }) => !isMuted({ kind, principalId }, room));
}

/** A fault as a value; anything else is thrown on. */
function faultOf(thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  throw thrown;
}

/** Where somebody came in; `head` matters only for who is not a member. */
type Horizon =
  & Pick<SeenRoom, "history_visibility" | "my_joined_seq" | "owner_joined_seq">
  & Partial<Pick<SeenRoom, "head">>;

/** Positions up to and including this one are hidden from the visitor; from an agent also what is hidden from its owner. */
export function hiddenUpTo({ room }: { room: Horizon }): number {
  if (room.history_visibility === "shared") return 0;
  return Math.max(room.my_joined_seq ?? room.head ?? 0, room.owner_joined_seq ?? 0);
}

/** The caller as the store's queries want it; nobody has an empty id. */
export function seer(who: Pick<Actor, "tenantId" | "principalId" | "ownerId">): {
  tenantId: string;
  principalId: string;
  ownerId: string;
} {
  return { tenantId: who.tenantId, principalId: who.principalId, ownerId: who.ownerId ?? "" };
}

export function notFound(): Fault {
  return new Fault("not_found", "No such room, or not visible to the caller");
}
