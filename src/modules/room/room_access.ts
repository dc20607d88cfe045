// Authorization for rooms: who has access with which role, checked inside the transaction that does the work.
import { type Actor, isAtLeast, isGuest, lowerOf, missingEventScope, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import { type Context, requiredRoomRole } from "@/core/operation.ts";
import type { AnyDatabase, AnyTransaction, SeqRange, Store } from "@/ports/store.ts";
import { AccessCache } from "./access_cache.ts";
import { AccessStore, type RoomAccessRow } from "./access_store.ts";
import type { AgentPolicy } from "./schema.ts";
import {
  canBrowsePublic,
  type RoomRow,
  RoomStore,
  type RoomTables,
  type RoomViewer,
  type ViewedRoom,
  type Viewer,
} from "./store.ts";

/**
 * `least`: a room role instead of the one that the operation declares. `resource`: what in the room is not found where the caller does
 * not see it, whatever its role is: a role that is missing would reveal that it exists.
 */
type Required = {
  least?: RoomRole | undefined;
  resource?: { noun: string; isVisible?: (grant: RoomGrant) => boolean };
};
/** `tx`: the write that the access is for. */
type AccessOptions = Required & { tx?: AnyTransaction | undefined };

type Subject = Pick<Actor, "tenantId" | "principalId" | "role" | "ownerId" | "kind" | "bounds">;

/** Granted access to a room. `role` is null for a caller that browses a public room without being a member. */
export type RoomGrant = { room: ViewedRoom; role: RoomRole | null };
/** The same with fewer columns of the room. */
export type SendGrant = { room: RoomAccessRow; role: RoomRole | null };

/** Throws unless the token may receive events of rooms: they contain the messages. */
export function assertCanReceiveEvents(actor: Actor): void {
  const scope = missingEventScope(actor);
  if (scope !== undefined) throw new Fault("scope_missing", `The token lacks the scope ${scope}`);
}

export class RoomAccess {
  readonly #store: Store<RoomTables>;
  readonly #cache = new AccessCache();

  constructor(store: Store<RoomTables>) {
    this.#store = store;
  }

  /**
   * Requires the room role that the running operation declares for the kind of room, or `least`.
   * Throws `not_found` for a room that the caller cannot see, `forbidden` for a role too low, `agent_muted` for an agent
   * that may only read, `room_archived` for a write there. A write in the room passes its `tx`.
   */
  async require(context: Context, roomId: string, { tx, ...required }: AccessOptions = {}): Promise<RoomGrant> {
    const grant = await this.#authorize(context, roomId, required, tx?.db);
    if (tx !== undefined) this.#recheckBeforeCommit(tx, context, roomId, required);
    else context.checks?.push((actor) => this.#authorize({ ...context, actor }, roomId, required, undefined));
    return grant;
  }

  async #authorize(
    context: Context,
    roomId: string,
    { least, resource }: Required,
    db: AnyDatabase | undefined,
  ): Promise<RoomGrant> {
    const grant = await this.find(context.actor, roomId, db);
    if (resource !== undefined && (grant === undefined || resource.isVisible?.(grant) === false)) {
      throw notVisible(resource.noun);
    }
    const declared = requiredRoomRole(grant?.room.kind, context.access, context.actor);
    return assertGranted(context, grant, least ?? declared ?? "observer");
  }

  /**
   * A write in a room commits before the commit that revokes the right, or not at all: access is checked again at the end
   * of the write, with the room's stream locked. Every change of rights locks that stream, too. A stream that was locked
   * before the first check needs no second one. SQLite has one writer at a time, so nothing changes in between.
   */
  #recheckBeforeCommit(tx: AnyTransaction, context: Context, roomId: string, required: Required): void {
    if (context.isReadOnly || context.access.ownOnly === true || this.#store.dialect === "sqlite") return;
    const { tenantId } = context.actor;
    const stream = roomStream(roomId);
    tx.checkBeforeCommit(
      `${stream} ${required.least ?? ""}`,
      tx.holds(tenantId, stream) ? undefined : async (tx) => {
        await Promise.all([tx.lock(tenantId, stream), this.#authorize(context, roomId, required, tx.db)]);
      },
    );
  }

  /** The same for a caller that needs few columns. Cheap: these columns seldom change, unlike the room's head. */
  async requireForSend(context: Context, roomId: string, tx: AnyTransaction): Promise<SendGrant> {
    const { actor, access } = context;
    const room = await new AccessStore(tx.db).find(viewerOf(actor), roomId);
    const grant = assertGranted(context, grantFor(actor, room), access.room ?? "observer");
    this.#recheckBeforeCommit(tx, context, roomId, { least: access.room });
    return grant;
  }

  /**
   * Checks many requests together and returns a grant or a fault for each, in the same order. On PostgreSQL, the transaction
   * has locked the rooms' streams, or `locking` does so.
   */
  async requireManyForSend(
    tx: AnyTransaction,
    requests: readonly { context: Context; roomId: string }[],
    locking: Promise<ReadonlyMap<string, SeqRange>>,
  ): Promise<(SendGrant | Fault)[]> {
    // On SQLite most rows are cached; elsewhere every query is a round trip to the database.
    if (this.#store.dialect === "sqlite") {
      return await Promise.all(
        requests.map(({ context, roomId }) => this.requireForSend(context, roomId, tx).catch(asFault)),
      );
    }
    const rooms = await this.#cache.findMany(
      new AccessStore(tx.db),
      requests.map(({ context, roomId }) => ({ ...viewerOf(context.actor), id: roomId })),
      locking,
    );
    return requests.map(({ context }, n) => {
      try {
        return assertGranted(context, grantFor(context.actor, rooms[n]), context.access.room ?? "observer");
      } catch (thrown) {
        return asFault(thrown);
      }
    });
  }

  /**
   * The same for a change: checks the right, locks the room, checks again, and returns what was read under the lock.
   */
  async requireForUpdate(tx: AnyTransaction, context: Context, roomId: string, least?: RoomRole): Promise<RoomGrant> {
    await this.#authorize(context, roomId, { least }, tx.db);
    await tx.lock(context.actor.tenantId, roomStream(roomId));
    return await this.#authorize(context, roomId, { least }, tx.db);
  }

  /** The room as seen by the subject; `undefined` without access. */
  async find(subject: Subject, roomId: string, db: AnyDatabase = this.#store.db): Promise<RoomGrant | undefined> {
    return grantFor(subject, await new RoomStore(db).findForViewer(viewerOf(subject), roomId));
  }

  /** Those of the rooms that the subject has access to, by id. */
  async findMany(
    subject: Subject,
    roomIds: Iterable<string>,
    db: AnyDatabase = this.#store.db,
  ): Promise<ReadonlyMap<string, RoomGrant>> {
    const rooms = await new RoomStore(db).findManyForViewer(viewerOf(subject), [...new Set(roomIds)]);
    return new Map(rooms.flatMap((room) => {
      const grant = grantFor(subject, room);
      return grant === undefined ? [] : [[room.id, grant]];
    }));
  }

  /** Of these principals, those that are enabled and can see the room. */
  async filterViewers(
    room: Pick<RoomRow, "tenant_id" | "id" | "kind" | "visibility">,
    ids: readonly string[],
    db: AnyDatabase = this.#store.db,
  ): Promise<Map<string, RoomViewer>> {
    const viewers = await new RoomStore(db).viewers(room.tenant_id, room.id, ids);
    return new Map(viewers.filter((viewer) => canSee(viewer, room)).map((viewer) => [viewer.id, viewer]));
  }

  /** Of these principals, those that share a room with the subject. */
  async filterSharingRoom(
    { tenantId, principalId, ownerId }: Pick<Actor, "tenantId" | "principalId" | "ownerId">,
    ids: readonly string[],
    db: AnyDatabase = this.#store.db,
  ): Promise<Set<string>> {
    return new Set(
      await new AccessStore(db).filterSharingRoom(
        { tenantId, principalId, viewerOwnerId: ownerId ?? principalId },
        ids,
      ),
    );
  }

  /** Of these viewers, those that share a room with the principal. */
  async filterViewersSharingRoom(
    tenantId: string,
    principalId: string,
    viewerIds: readonly string[],
  ): Promise<Set<string>> {
    return new Set(await new AccessStore(this.#store.db).filterViewersSharingRoom(tenantId, principalId, viewerIds));
  }
}

type AccessFields = Pick<
  ViewedRoom,
  "id" | "kind" | "state" | "visibility" | "my_role" | "owner_role" | "owner_joined_seq" | "agent_policy_json"
>;
type Grant<Room> = { room: Room; role: RoomRole | null };

function grantFor<Room extends AccessFields>(subject: Subject, found: Room | undefined): Grant<Room> | undefined {
  if (found === undefined || found.state === "deleted") return undefined;
  const room = withinBounds(subject, found);
  if (room === undefined) return undefined;
  const role = effectiveRole(subject, room);
  return role === undefined ? undefined : { room, role };
}

/** The room as seen by an agent on behalf of others: with the lowest of their roles, and the latest of their history starts. */
export function withinBounds<Room extends Pick<ViewedRoom, "id" | "my_role" | "owner_joined_seq">>(
  { bounds }: Pick<Subject, "bounds">,
  room: Room,
): Room | undefined {
  if (bounds === undefined) return room;
  const bound = bounds.boundIn(room.id);
  if (bound === undefined || room.my_role === null) return undefined;
  return {
    ...room,
    my_role: lowerOf(ROOM_ROLES, room.my_role, bound.role),
    owner_joined_seq: Math.max(room.owner_joined_seq ?? 0, bound.joinedSeq),
  };
}

/** Throws unless the grant suffices for the running operation. */
export function assertGranted<Room extends AccessFields>(
  context: Context,
  grant: Grant<Room> | undefined,
  least: RoomRole,
): Grant<Room> {
  if (grant === undefined) throw notVisible("room");
  const isBrowsing = grant.role === null;
  if (
    isBrowsing ? least !== "observer" || !context.isReadOnly : !isAtLeast(ROOM_ROLES, grant.role ?? "observer", least)
  ) {
    throw new Fault(
      "forbidden",
      isBrowsing
        ? `${context.operation} requires membership of the room; join it first`
        : grant.room.kind === "direct"
        ? `${context.operation} is not available in a direct room, whose members all have the same role`
        : `${context.operation} requires the room role ${least}, the caller has ${grant.role}`,
    );
  }
  if (!context.isReadOnly && context.access.muted !== true) assertUnmuted(context.actor, grant.room);
  if (grant.room.state === "archived" && !context.isReadOnly && context.access.archived !== true) {
    throw new Fault("room_archived", "The room is archived; its owner can activate it");
  }
  return grant;
}

function canSee(
  { kind, role, owner_id: ownerId, my_role, owner_role }: RoomViewer,
  room: Pick<RoomRow, "kind" | "visibility">,
): boolean {
  const fields = { kind: room.kind, visibility: room.visibility, my_role, owner_role };
  return effectiveRole({ kind, role, ownerId }, fields) !== undefined;
}

/** Whether the actor may mention a viewer of the room; guests of the tenant know only its members. */
export function canMention(actor: Pick<Actor, "role">, { my_role: role }: Pick<RoomViewer, "my_role">): boolean {
  return role !== null || !isGuest(actor);
}

/**
 * The effective role: `null` = may browse, `undefined` = no access. All members of a direct room have the same role,
 * whatever their rows say: none may remove or moderate others.
 */
export function effectiveRole(
  subject: Pick<Subject, "role" | "ownerId" | "kind">,
  room: Pick<ViewedRoom, "kind" | "visibility" | "my_role" | "owner_role">,
): RoomRole | null | undefined {
  if (room.my_role === null) return room.visibility === "public" && canBrowsePublic(subject) ? null : undefined;
  if (subject.ownerId !== null && room.owner_role === null) return undefined;
  if (room.kind === "direct") return "member";
  return lowerOf(ROOM_ROLES, room.my_role, room.owner_role ?? room.my_role);
}

/** Whether the room's policy gives this agent read-only access. */
export function isMuted(
  { kind, principalId }: Pick<Actor, "kind" | "principalId">,
  room: Pick<RoomRow, "agent_policy_json">,
): boolean {
  if (kind !== "agent") return false;
  const { mode, allowedAgentIds }: AgentPolicy = JSON.parse(room.agent_policy_json);
  return mode === "off" || allowedAgentIds?.includes(principalId) === false;
}

export function assertUnmuted(
  actor: Pick<Actor, "kind" | "principalId">,
  room: Pick<RoomRow, "agent_policy_json">,
): void {
  if (isMuted(actor, room)) {
    throw new Fault("agent_muted", "The agentPolicy of the room allows this agent to read only");
  }
}

/** Of these principals, those that the room may notify: not agents with read-only access. */
export function notifiableIn<One extends Pick<RoomViewer, "id" | "kind">>(
  room: Pick<RoomRow, "agent_policy_json">,
  principals: readonly One[],
): One[] {
  return principals.filter(({ id: principalId, kind }) => !isMuted({ kind, principalId }, room));
}

/** A fault as a value; any other error is rethrown. */
function asFault(thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  throw thrown;
}

/** Which history a viewer has; `head` matters only without membership. */
type HistoryBounds =
  & Pick<ViewedRoom, "history_visibility" | "my_joined_seq" | "owner_joined_seq">
  & Partial<Pick<ViewedRoom, "head">>;

/** Positions up to and including this one are hidden from the viewer; from an agent also those hidden from its owner. */
export function hiddenUpTo({ room }: { room: HistoryBounds }): number {
  if (room.history_visibility === "shared") return 0;
  return Math.max(room.my_joined_seq ?? room.head ?? 0, room.owner_joined_seq ?? 0);
}

/** The viewer for queries of the store; no principal has an empty id. */
export function viewerOf(
  { tenantId, principalId, ownerId }: Pick<Actor, "tenantId" | "principalId" | "ownerId">,
): Viewer {
  return { tenantId, principalId, ownerId: ownerId ?? "" };
}
