// Members of rooms: add, join, change roles, leave, remove and ban. Subscriptions end with the commit of a removal.
import { type Actor, isAtLeast, outranks, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalStream, roomEvent } from "@/core/event/event.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { asReadOnly, type Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type IdentityService, type PrincipalRow, resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { AnyDatabase, AnyTransaction, Store, Transaction } from "@/ports/store.ts";
import { isMuted, type RoomAccess, type RoomGrant } from "./room_access.ts";
import { redactJoining } from "./former_member.ts";
import { newRoomData, profileFields } from "./presenter.ts";
import { ReadReceiptStore } from "./read_receipt_store.ts";
import type { Ban, Member, MemberList, MemberPut, MemberRemove } from "./schema.ts";
import {
  DEFAULT_MEMBER_SETTINGS,
  type ListedMember,
  type MemberRow,
  type RoomRow,
  RoomStore,
  type RoomTables,
} from "./store.ts";
import { OwnershipStore } from "./ownership_store.ts";
import { ownershipClaimJob } from "./ownership_transfer.ts";

type Deps = {
  store: Store<RoomTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  identity: IdentityService;
  notifications: NotificationService;
  membersMax: number;
};

export class RoomMembers {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(context: Context, { id, limit, cursor, ...filter }: MemberList): Promise<Page<Member>> {
    const { actor } = context;
    const { roomAccess, store, cursors } = this.#deps;
    await roomAccess.require(asReadOnly(context), id, { least: "observer" });
    const bind = ["member.list", actor.tenantId, actor.principalId, id, filter];
    const after = cursors.decodeId(cursor, bind);
    const [rows, shared] = await Promise.all([
      new RoomStore(store.db).members(actor.tenantId, id, filter, after, limit + 1),
      this.#membersSharingReads(store.db, actor, id),
    ]);
    return cursors.page(
      rows,
      limit,
      bind,
      (row) => [row.principal_id],
      (row) => presentMember(row, shared, this.#deps.clock.now()),
    );
  }

  /** Joins a public room, adds a member, or changes a role. */
  put(context: Context, { id, principalId: ref, role }: MemberPut): Promise<{ member: Member; isNew: boolean }> {
    const { actor } = context;
    const principalId = resolvePrincipalId(actor, ref);
    return this.#deps.store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const grant = await this.#authorize(tx, context, id, principalId === actor.principalId);
      const present = await rooms.member(actor.tenantId, id, principalId);
      if (present !== undefined) {
        if (role !== undefined && role !== present.role) await this.#changeRole(tx, actor, grant, present, role);
        return { member: await this.#read(tx.db, actor, id, principalId), isNew: false };
      }
      await this.#add(tx, actor, grant, principalId, role);
      return { member: await this.#read(tx.db, actor, id, principalId), isNew: true };
    });
  }

  /** Adds some principals as members, with one commit; returns how many. Those who are members or banned stay so. */
  addSeveral(context: Context, id: string, principalIds: readonly string[], role: RoomRole): Promise<number> {
    const { actor } = context;
    return this.#deps.store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const grant = await this.#authorize(tx, context, id, false);
      let added = 0;
      for (const principalId of principalIds) {
        const isBanned = await rooms.isBanned(actor.tenantId, id, principalId);
        if (isBanned || await rooms.member(actor.tenantId, id, principalId) !== undefined) continue;
        const room = { ...grant.room, member_count: grant.room.member_count + added };
        await this.#add(tx, actor, { ...grant, room }, principalId, role);
        added++;
      }
      return added;
    });
  }

  /** Adds a principal that the caller has just created, as a member; for a moderator. */
  async addCreated(tx: AnyTransaction, context: Context, id: string, principal: PrincipalRow): Promise<void> {
    const grant = await this.#authorize(tx, context, id, false);
    await this.#add(tx, context.actor, grant, principal.id, "member", principal);
  }

  /** Leaves a room, or removes or bans a member with a lower role. */
  async remove(context: Context, { id, principalId: ref, ban, reason }: MemberRemove): Promise<void> {
    const { actor } = context;
    const principalId = resolvePrincipalId(actor, ref);
    const isSelf = principalId === actor.principalId;
    await this.#deps.store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const { room, role } = await this.#deps.roomAccess.requireForUpdate(
        tx,
        isSelf ? { ...context, access: { ...context.access, muted: true } } : context,
        id,
        isSelf && !ban ? "observer" : "moderator",
      );
      const target = await rooms.member(actor.tenantId, id, principalId);
      if (!isSelf && target !== undefined && !outranks(ROOM_ROLES, role ?? "observer", target.role)) {
        throw new Fault("forbidden", `The role ${role} cannot remove a member with the role ${target.role}`);
      }
      if (isSelf && ban) throw invalidField("/ban", "members cannot ban themselves");
      // A viewer of a public room may subscribe without being a member; a ban ends that subscription.
      const isViewer = ban && target === undefined && room.visibility === "public" &&
        !await rooms.isBanned(actor.tenantId, id, principalId);
      if (ban) {
        await this.#deps.identity.requireEnabledFor(actor, principalId, tx.db);
        await rooms.addBan({
          tenant_id: actor.tenantId,
          room_id: id,
          principal_id: principalId,
          reason: reason ?? null,
          created_by: actor.principalId,
          created_at: iso(this.#deps.clock.now()),
        });
      }
      if (target === undefined && !ban) throw new Fault("not_found", `${principalId} is not a member of the room`);
      if (target === undefined && !isViewer) return;
      await this.#assertOwnerRemains(
        tx,
        room,
        principalId,
        "The room needs at least one owner; make another member owner, or delete the room",
      );
      await this.end(tx, actor, room, principalId, ban ? "banned" : isSelf ? "left" : "removed");
    });
  }

  /** Throws if a room may not have this many members. */
  assertCapacity(memberCount: number): void {
    const { membersMax } = this.#deps;
    if (memberCount > membersMax) throw new Fault("limit_reached", `A room has at most ${membersMax} members`);
  }

  async bans(
    context: Context,
    { id, limit, cursor }: { id: string; limit: number; cursor?: string | undefined },
  ): Promise<Page<Ban>> {
    const { actor } = context;
    await this.#deps.roomAccess.require(context, id);
    const bind = ["ban.list", actor.tenantId, actor.principalId, id];
    const after = this.#deps.cursors.decodeId(cursor, bind);
    const rows = await new RoomStore(this.#deps.store.db).bans(actor.tenantId, id, after, limit + 1);
    return this.#deps.cursors.page(rows, limit, bind, (row) => [row.principal_id], (row) => ({
      principalId: row.principal_id,
      reason: row.reason,
      createdBy: row.created_by,
      createdAt: row.created_at,
    }));
  }

  async unban(context: Context, id: string, principalId: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      await this.#deps.roomAccess.require(context, id, { tx });
      if (!await new RoomStore(tx.db).removeBan(context.actor.tenantId, id, principalId)) {
        throw new Fault("not_found", `${principalId} is not banned`);
      }
    });
  }

  /** Everyone who can see a public room may join it; all else requires a moderator. */
  async #authorize(tx: Transaction<RoomTables>, context: Context, id: string, isSelf: boolean): Promise<RoomGrant> {
    if (!isSelf) return await this.#deps.roomAccess.requireForUpdate(tx, context, id, "moderator");
    return await this.#deps.roomAccess.requireForUpdate(tx, asReadOnly(context), id, "observer");
  }

  async #add(
    tx: Transaction<RoomTables>,
    actor: Actor,
    grant: RoomGrant,
    principalId: string,
    role: RoomRole = "member",
    created?: PrincipalRow,
  ): Promise<void> {
    const rooms = new RoomStore(tx.db);
    await assertMayAdd(rooms, grant, principalId, role);
    const { room } = grant;
    const principal = created ?? await this.#deps.identity.requireEnabledFor(actor, principalId, tx.db);
    const { owner_id: ownerId, kind } = principal;
    if (ownerId !== null && await rooms.member(actor.tenantId, room.id, ownerId) === undefined) {
      throw new Fault("conflict", ownerMissingMessage(principalId, ownerId));
    }
    const memberCount = room.member_count + 1;
    this.assertCapacity(memberCount);
    const data = {
      roomId: room.id,
      principalId,
      role,
      memberCount,
      ...profileFields(principal, this.#deps.clock.now()),
    };
    const joined = roomEvent(actor, room.id, "member.joined", data);
    const [stored] = await tx.emit(joined);
    await rooms.addMembers([{
      tenant_id: actor.tenantId,
      room_id: room.id,
      principal_id: principalId,
      role,
      joined_at: iso(this.#deps.clock.now()),
      joined_seq: (stored?.seq ?? 1) - 1,
      last_read_seq: stored?.seq ?? 0,
      published_version: principal.version,
      ...DEFAULT_MEMBER_SETTINGS,
    }]);
    await rooms.recountMembers(actor.tenantId, room.id);
    await this.#claimWithoutOwner(tx, grant, principalId);
    const roomData = newRoomData({ ...room, member_count: memberCount }, room.epoch ?? "");
    await tx.emit({
      ...joined,
      stream: principalStream(principalId),
      data: { ...data, ...roomData, lastReadSeq: stored?.seq ?? 0 },
    });
    await this.#deps.notifications.notify({
      tenantId: actor.tenantId,
      principalIds: isMuted({ kind, principalId }, room) ? [] : [principalId],
      kind: "invitation",
      actor,
      roomId: room.id,
    });
  }

  /**
   * Ends a membership, and those of the agents that have access through it, in public rooms as well: agents cannot browse
   * them. The caller has locked the room.
   */
  async end(
    tx: Transaction<RoomTables>,
    by: Actor | { tenantId: string },
    { id, kind, visibility }: Pick<RoomRow, "id" | "kind" | "visibility">,
    principalId: string,
    reason: "left" | "removed" | "banned",
  ): Promise<void> {
    const { tenantId } = by;
    const rooms = new RoomStore(tx.db);
    const removed = new Set([principalId]);
    // An agent owned by an agent is rare, but tokens can create one.
    for (let owners = [principalId]; owners.length > 0;) {
      owners = (await rooms.agentMembers(tenantId, id, owners)).filter((agentId) => !removed.has(agentId));
      for (const agentId of owners) removed.add(agentId);
    }
    const former = await rooms.removeMembers(tenantId, id, [...removed]);
    // A direct room belongs to a fixed set of members; without the key, they can create another one.
    if (kind === "direct") await rooms.update(tenantId, id, { direct_key: null });
    let memberCount = await rooms.recountMembers(tenantId, id) + removed.size;
    await tx.emit(...[...removed].flatMap((removedId): EventDraft[] => {
      const isAgent = removedId !== principalId;
      const data = {
        roomId: id,
        principalId: removedId,
        reason: isAgent && reason === "banned" ? "removed" : reason,
        memberCount: --memberCount,
      };
      const left = roomEvent(by, id, "member.left", data);
      const evictReason = `${reason === "left" ? "left" : "removed from"} the room${isAgent ? " with its owner" : ""}`;
      // Those who may still browse the public room subscribe again, without being members.
      const canStillBrowse = visibility === "public" && reason === "left" && !isAgent;
      return [
        {
          ...left,
          effect: {
            kind: "evict",
            principalIds: [removedId],
            reason: evictReason,
            ...(canStillBrowse ? { resubscribe: true } : {}),
          },
        },
        { ...left, stream: principalStream(removedId) },
      ];
    }));
    await redactJoining(tx, former, iso(this.#deps.clock.now()));
  }

  /** Throws if the principal is the only effective owner: disabled owners and agents do not count. */
  async #assertOwnerRemains(
    tx: Transaction<RoomTables>,
    { tenant_id: tenantId, id, kind }: RoomGrant["room"],
    principalId: string,
    message: string,
  ): Promise<void> {
    // Direct rooms have no owners.
    if (kind === "direct") return;
    const owners = await new OwnershipStore(tx.db).effectiveOwners(tenantId, id);
    if (owners.length === 1 && owners[0] === principalId) throw new Fault("last_owner", message);
  }

  /** A new member or role may be the first that can own a room whose owners are all disabled. */
  async #claimWithoutOwner(
    tx: Transaction<RoomTables>,
    { room: { tenant_id: tenantId, id }, role: callerRole }: RoomGrant,
    principalId: string,
  ): Promise<void> {
    if (callerRole === "owner" || (await new OwnershipStore(tx.db).effectiveOwners(tenantId, id)).length > 0) return;
    await tx.enqueue(ownershipClaimJob(tenantId, principalId));
  }

  async #changeRole(
    tx: Transaction<RoomTables>,
    actor: Actor,
    { room, role: callerRole }: RoomGrant,
    target: MemberRow,
    role: RoomRole,
  ): Promise<void> {
    const rooms = new RoomStore(tx.db);
    if (room.kind === "direct") {
      throw new Fault("forbidden", "/role: the members of a direct room all have the same role");
    }
    const isSelf = target.principal_id === actor.principalId;
    const mayChange = callerRole !== null && outranks(ROOM_ROLES, callerRole, role) &&
      (isSelf || outranks(ROOM_ROLES, callerRole, target.role));
    if (!mayChange) {
      throw new Fault("forbidden", `/role: a ${callerRole} cannot change the role ${target.role} to ${role}`);
    }
    await this.#assertOwnerRemains(tx, room, target.principal_id, "The room needs at least one owner");
    await rooms.setRole(actor.tenantId, room.id, target.principal_id, role);
    await this.#claimWithoutOwner(tx, { room, role: callerRole }, target.principal_id);
    const data = { roomId: room.id, principalId: target.principal_id, role, memberCount: room.member_count };
    const updated = roomEvent(actor, room.id, "member.updated", data);
    await tx.emit(updated, { ...updated, stream: principalStream(target.principal_id) });
  }

  async #read(db: AnyDatabase, actor: Actor, roomId: string, principalId: string): Promise<Member> {
    const [[row], shared] = await Promise.all([
      new RoomStore(db).members(actor.tenantId, roomId, {}, undefined, 1, principalId),
      this.#membersSharingReads(db, actor, roomId),
    ]);
    if (row === undefined) throw new Fault("not_found", `${principalId} is not a member of the room`);
    return presentMember(row, shared, this.#deps.clock.now());
  }

  /** Ids of the members whose read positions the caller sees: all who share theirs if the caller does, else only its own. */
  async #membersSharingReads(
    db: AnyDatabase,
    { tenantId, principalId }: Actor,
    roomId: string,
  ): Promise<ReadonlySet<string>> {
    const readers = await new ReadReceiptStore(db).sharedPositions(tenantId, [roomId]);
    const ids = new Set(readers.map((reader) => reader.principal_id));
    return ids.has(principalId) ? ids : new Set([principalId]);
  }
}

/** Throws unless a caller with this role may add the principal with that one. */
async function assertMayAdd(
  rooms: RoomStore,
  { room, role: callerRole }: RoomGrant,
  principalId: string,
  role: RoomRole,
): Promise<void> {
  if (room.state === "archived") throw new Fault("room_archived", "The room is archived");
  if (room.kind === "direct") {
    throw new Fault("conflict", "The members of a direct room cannot change; create another one");
  }
  if (await rooms.isBanned(room.tenant_id, room.id, principalId)) {
    throw new Fault("banned", `${principalId} is banned from the room`);
  }
  // A caller that joins a public room becomes a member, or less.
  if (callerRole === null ? isAtLeast(ROOM_ROLES, role, "moderator") : !outranks(ROOM_ROLES, callerRole, role)) {
    throw new Fault("forbidden", `The role ${callerRole ?? "of new members"} cannot grant the role ${role}`);
  }
}

/** Why an agent cannot be added without its owner. */
function ownerMissingMessage(agentId: string, ownerId: string): string {
  return `Agent ${agentId} has access only to rooms of its owner; add ${ownerId} first`;
}

function presentMember(row: ListedMember, shared: ReadonlySet<string>, now: number): Member {
  return {
    principalId: row.principal_id,
    ...profileFields(row, now),
    role: row.role,
    joinedAt: row.joined_at,
    lastReadSeq: shared.has(row.principal_id) ? row.last_read_seq : null,
  };
}
