// Who may read and change a fact: the right on its scope and, where it has sources, on one of them, as rights are now.
import { type Actor, isAdmin, isAtLeast, isGuest, ROOM_ROLES } from "@/core/actor.ts";
import { principalStream, roomStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import type { Context } from "@/core/operation.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { MessageAccess } from "@/modules/message/mod.ts";
import { hiddenUpTo, type RoomAccess } from "@/modules/room/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import type { ReaderAudience } from "./context/audience.ts";
import type { ReadableFact } from "./presenter.ts";
import type { NewScope } from "./schema.ts";
import type { Fact, MemoryScope, MemoryTables, SourceRow } from "./store.ts";

/** A stream without events, which serializes changes of the tenant's facts. */
const TENANT_LOCK = "memory/tenant";

type Tx = Transaction<MemoryTables>;
type Deps = {
  store: Store<MemoryTables>;
  roomAccess: RoomAccess;
  identity: IdentityService;
  messageAccess: MessageAccess;
};

export class MemoryAccess {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Those of the facts that the actor may read, and so may the audience; tombstones by the right on their scope. */
  async filterReadable(
    actor: Actor,
    facts: readonly Fact[],
    { db = this.#deps.store.db, audience }: { db?: AnyDatabase; audience?: ReaderAudience | undefined } = {},
  ): Promise<ReadableFact[]> {
    if (facts.length === 0) return [];
    const { roomAccess, messageAccess, identity } = this.#deps;
    const sources = facts.flatMap((fact) => fact.sources);
    const messages = await messageAccess.findVisible(actor, [...new Set(sources.map((one) => one.message_id))], db);
    const scopeRooms = facts.flatMap(({ row }) => row.scope_type === "room" ? [row.scope_id] : []);
    const rooms = await roomAccess.findMany(actor, [...scopeRooms, ...sources.map(({ room_id }) => room_id)], db);
    const floors = await audience?.floors([...rooms.values()]);
    const hasAgents = facts.some(({ row }) => row.scope_type === "agent" && row.scope_id !== actor.principalId);
    const agents = hasAgents && actor.kind !== "agent"
      ? new Set(await identity.agentsOf(actor.tenantId, actor.principalId, db))
      : new Set<string>();

    /** The last position of a room that is hidden; `undefined` where all of it is. */
    const floorOf = (roomId: string): number | undefined => {
      const grant = rooms.get(roomId);
      const own = grant === undefined ? undefined : hiddenUpTo(grant);
      const others = floors === undefined ? 0 : floors.get(roomId);
      return own === undefined || others === undefined ? undefined : Math.max(own, others);
    };
    const isVisible = ({ room_id, message_id }: SourceRow): boolean => {
      const [message, floor] = [messages.get(message_id), floorOf(room_id)];
      return message !== undefined && message.room_id === room_id && floor !== undefined && message.seq > floor;
    };
    const hasScope = ({ row, sources, subjectIds }: Fact): boolean => {
      const { scope_type: type, scope_id: id } = row;
      if (type === "room") {
        const floor = floorOf(id);
        return floor !== undefined && (sources.length > 0 || row.position > floor);
      }
      if (type === "principal") return isPrivateTo(actor, id, audience);
      // What the tenant or an agent knows about a person, that person may see.
      const isSubject = actor.kind === "human" && audience === undefined && subjectIds.includes(actor.principalId);
      if (type === "agent") return isSubject || id === actor.principalId || agents.has(id);
      // Readers of what an agent says in a room may be guests, unless the audience is known.
      const mayHaveGuest = audience === undefined ? actor.bounds !== undefined : audience.hasGuest;
      return isSubject || !isGuest(actor) && !mayHaveGuest;
    };
    return facts.flatMap((fact) => {
      const visibleSources = fact.sources.filter(isVisible);
      const isReadable = hasScope(fact) && (fact.sources.length === 0 || visibleSources.length > 0);
      return isReadable ? [{ ...fact, visibleSources }] : [];
    });
  }

  /** The scope of an input; `me` is the caller. */
  resolveScope({ actor }: Context, scope: NewScope): MemoryScope {
    if (scope.type === "tenant") return { type: "tenant", id: actor.tenantId };
    return { type: scope.type, id: scope.type === "room" ? scope.id : resolvePrincipalId(actor, scope.id) };
  }

  /** Throws unless the caller may add and change facts of the scope; locks it, together with rooms of sources. */
  async lockToWrite(tx: Tx, context: Context, scope: MemoryScope, roomIds: readonly string[] = []): Promise<void> {
    const { actor } = context;
    const { roomAccess } = this.#deps;
    if (scope.type === "room") return void await roomAccess.requireForUpdate(tx, context, scope.id);
    await this.#assertMayWrite(tx, actor, scope);
    const streams = [...new Set(roomIds)].map(roomStream);
    await tx.lock(actor.tenantId, ...streams, lockOf(scope));
  }

  /** Throws unless the caller may erase a fact that it may read: its creator, a moderator of the room, or its subject. */
  async lockToForget(tx: Tx, context: Context, { row, subjectIds }: Fact): Promise<void> {
    const { actor } = context;
    const scope = { type: row.scope_type, id: row.scope_id };
    // A person who may read what is known about them may erase it; whether they may is read again under the lock.
    if (subjectIds.includes(actor.principalId)) return void await tx.lock(actor.tenantId, lockOf(scope));
    const isOwn = row.created_by === actor.principalId;
    if (scope.type === "room") {
      const { role } = await this.#deps.roomAccess.requireForUpdate(tx, context, scope.id);
      if (isOwn || isAtLeast(ROOM_ROLES, role ?? "observer", "moderator")) return;
      throw new Fault(
        "forbidden",
        "Erasing a fact of others requires a moderator of the room; anyone may supersede it",
      );
    }
    if (!isOwn) await this.#assertMayWrite(tx, actor, scope);
    await tx.lock(actor.tenantId, lockOf(scope));
  }

  async #assertMayWrite({ db }: Tx, actor: Actor, { type, id }: MemoryScope): Promise<void> {
    if (type === "tenant") {
      if (isAdmin(actor)) return;
      throw new Fault("forbidden", "Changing facts of the tenant requires the tenant role admin");
    }
    if (id === actor.principalId && (type === "agent") === (actor.kind === "agent")) return;
    // An agent proposes what its owner may want to remember.
    if (type === "principal" && id === actor.ownerId) return;
    const agents = type === "agent" ? await this.#deps.identity.agentsOf(actor.tenantId, actor.principalId, db) : [];
    if (!agents.includes(id)) throw notVisible(type);
  }
}

/** Whether the actor may read what is private to a principal: that one, or its own agent if nobody else reads it. */
function isPrivateTo(actor: Actor, id: string, audience: ReaderAudience | undefined): boolean {
  if (audience?.isPublic === true) return false;
  const others = [...audience?.ids ?? []].filter((one) => one !== actor.principalId);
  if (id === actor.principalId) return others.length === 0;
  return id === actor.ownerId && others.length === 1 && others[0] === id;
}

/** Whether a hold is on a fact: on its scope, or on someone whom it is about. */
export async function isHeldFact(
  holds: Holds,
  db: AnyDatabase,
  { row, subjectIds }: Pick<Fact, "row" | "subjectIds">,
): Promise<boolean> {
  const { scope_type: type, scope_id: id } = row;
  const scope = type === "room" ? { roomId: id } : { principalId: type === "tenant" ? row.created_by : id };
  for (const subject of [scope, ...subjectIds.map((principalId) => ({ principalId }))]) {
    if (await holds.isHeld(db, row.tenant_id, subject)) return true;
  }
  return false;
}

/** The stream whose lock serializes changes of a scope. */
export function lockOf({ type, id }: MemoryScope): string {
  if (type === "room") return roomStream(id);
  return type === "tenant" ? TENANT_LOCK : principalStream(id);
}
