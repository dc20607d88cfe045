// Members of rooms: joined, added, given roles, left, removed and banned. Who goes stops hearing in the same commit.
import { type Actor, isAtLeast, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { asRead, type Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type IdentityService, idOf, type PrincipalRow } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { type Entry, isMuted, type RoomGate, seer } from "./gate.ts";
import { looksOf, presentShared, roomEvent } from "./presenter.ts";
import type { Ban, Member, MemberList, MemberPut, MemberRemove } from "./schema.ts";
import { type ListedMember, type MemberRow, RoomStore, type RoomTables } from "./store.ts";
import { SuccessionStore } from "./succession/store.ts";

type Deps = {
  store: Store<RoomTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
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
    const { gate, store, cursors } = this.#deps;
    await gate.enter(asRead(context), id, "observer");
    const bind = ["member.list", actor.tenantId, actor.principalId, id, filter];
    const after = cursors.open(cursor, bind)?.[0]?.toString();
    const rows = await new RoomStore(store.db).members(actor.tenantId, id, filter, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.principal_id], (row) => presentMember(actor, row));
  }

  /** Joins a public room, adds somebody, or changes a role; says whether somebody is new. */
  put(context: Context, { id, principalId: ref, role }: MemberPut): Promise<{ member: Member; isNew: boolean }> {
    const { actor } = context;
    const principalId = idOf(actor, ref);
    return this.#deps.store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const entry = await this.#enter(tx, context, id, principalId === actor.principalId);
      const present = await rooms.member(actor.tenantId, id, principalId);
      if (present !== undefined) {
        if (role !== undefined && role !== present.role) await this.#changeRole(tx, actor, entry, present, role);
        return { member: await this.#read(actor, id, principalId), isNew: false };
      }
      await this.#add(tx, actor, entry, principalId, role);
      return { member: await this.#read(actor, id, principalId), isNew: true };
    });
  }

  /** Leaves, or removes or bans somebody of a lower role. */
  async remove(context: Context, { id, principalId: ref, ban, reason }: MemberRemove): Promise<void> {
    const { actor } = context;
    const principalId = idOf(actor, ref);
    const isSelf = principalId === actor.principalId;
    await this.#deps.store.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const { room, role } = await this.#deps.gate.enterToChange(
        tx,
        isSelf ? { ...context, access: { ...context.access, muted: true } } : context,
        id,
        isSelf && !ban ? "observer" : "moderator",
      );
      const target = await rooms.member(actor.tenantId, id, principalId);
      if (
        !isSelf && role !== "owner" && target !== undefined && isAtLeast(ROOM_ROLES, target.role, role ?? "observer")
      ) {
        throw new Fault("forbidden", `A ${role} cannot remove a ${target.role}`);
      }
      if (isSelf && ban) throw new Fault("validation_failed", "/ban: nobody bans themselves");
      // Who is no member may still be looking in.
      const isVisitor = ban && target === undefined && room.visibility === "public" &&
        !await rooms.isBanned(actor.tenantId, id, principalId);
      if (ban) {
        await this.#principal(actor, principalId);
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
      if (target === undefined && !isVisitor) return;
      await this.#checkStaysOwned(
        tx,
        room,
        principalId,
        "The last owner cannot go; make somebody else owner, or delete the room",
      );
      await this.#end(tx, actor, room, principalId, ban ? "banned" : isSelf ? "left" : "removed");
    });
  }

  /** Throws unless a room may have so many members. */
  checkFits(memberCount: number): void {
    const { membersMax } = this.#deps;
    if (memberCount > membersMax) throw new Fault("limit_reached", `A room has at most ${membersMax} members`);
  }

  async bans(
    context: Context,
    { id, limit, cursor }: { id: string; limit: number; cursor?: string | undefined },
  ): Promise<Page<Ban>> {
    const { actor } = context;
    await this.#deps.gate.enter(context, id);
    const bind = ["ban.list", actor.tenantId, actor.principalId, id];
    const after = this.#deps.cursors.open(cursor, bind)?.[0]?.toString();
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
      await this.#deps.gate.enter(context, id);
      if (!await new RoomStore(tx.db).removeBan(context.actor.tenantId, id, principalId)) {
        throw new Fault("not_found", `${principalId} is not banned`);
      }
    });
  }

  /** Anybody who sees a public room may join it; everything else takes a moderator. */
  async #enter(tx: Transaction<RoomTables>, context: Context, id: string, isSelf: boolean): Promise<Entry> {
    if (!isSelf) return await this.#deps.gate.enterToChange(tx, context, id, "moderator");
    return await this.#deps.gate.enterToChange(tx, asRead(context), id, "observer");
  }

  async #add(
    tx: Transaction<RoomTables>,
    actor: Actor,
    { room, role: own }: Entry,
    principalId: string,
    role: RoomRole = "member",
  ): Promise<void> {
    const rooms = new RoomStore(tx.db);
    if (room.state === "archived") throw new Fault("room_archived", "The room is archived");
    if (room.kind === "direct") throw new Fault("conflict", "A direct room keeps its members; start another one");
    if (await rooms.isBanned(actor.tenantId, room.id, principalId)) {
      throw new Fault("banned", `${principalId} is banned from the room`);
    }
    if (!isAtLeast(ROOM_ROLES, own ?? "member", role)) {
      throw new Fault("forbidden", `/role: a ${own ?? "new member"} cannot give the role ${role}`);
    }
    const principal = await this.#principal(actor, principalId);
    const { owner_id: ownerId, kind } = principal;
    if (ownerId !== null && await rooms.member(actor.tenantId, room.id, ownerId) === undefined) {
      throw new Fault("conflict", blindWithout(principalId, ownerId));
    }
    const memberCount = room.member_count + 1;
    this.checkFits(memberCount);
    const data = { roomId: room.id, principalId, role, memberCount, ...looksOf(principal) };
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
      told_version: principal.version,
    }]);
    await rooms.recount(actor.tenantId, room.id);
    const shared = presentShared({ ...room, member_count: memberCount }, room.epoch ?? "");
    await tx.emit({
      ...joined,
      stream: principalStream(principalId),
      data: { ...data, room: shared, lastReadSeq: stored?.seq ?? 0 },
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
   * Ends a membership, and those of the agents that see the room through it. They leave a public room as well: its gate
   * lets people look in who are no members, but never an agent.
   */
  async #end(
    tx: Transaction<RoomTables>,
    actor: Actor,
    { id, kind, visibility }: Entry["room"],
    principalId: string,
    reason: "left" | "removed" | "banned",
  ): Promise<void> {
    const { tenantId } = actor;
    const rooms = new RoomStore(tx.db);
    const gone = new Set([principalId]);
    // An agent whose owner is an agent is seldom, but tokens can make one.
    for (let owners = [principalId]; owners.length > 0;) {
      owners = (await rooms.agentMembers(tenantId, id, owners)).filter((agentId) => !gone.has(agentId));
      for (const agentId of owners) gone.add(agentId);
    }
    await rooms.removeMembers(tenantId, id, [...gone]);
    // With somebody gone it is not the room of these people any more; whoever wants to may start that anew.
    if (kind === "direct") await rooms.update(tenantId, id, { direct_key: null });
    let memberCount = await rooms.recount(tenantId, id) + gone.size;
    await tx.emit(...[...gone].flatMap((goneId): EventDraft[] => {
      const isAgent = goneId !== principalId;
      const data = {
        roomId: id,
        principalId: goneId,
        reason: isAgent && reason === "banned" ? "removed" : reason,
        memberCount: --memberCount,
      };
      const left = roomEvent(actor, id, "member.left", data);
      const because = `${reason === "left" ? "left" : "removed from"} the room${isAgent ? " with its owner" : ""}`;
      // Who may still look into a public room asks again and is let in as a visitor.
      const staysVisitor = visibility === "public" && reason === "left" && !isAgent;
      return [
        {
          ...left,
          effect: {
            kind: "evict",
            principalIds: [goneId],
            reason: because,
            ...(staysVisitor ? { resubscribe: true } : {}),
          },
        },
        { ...left, stream: principalStream(goneId) },
      ];
    }));
  }

  /** Throws where somebody is the only owner in effect: others who are disabled, or agents, do not keep a room. */
  async #checkStaysOwned(
    tx: Transaction<RoomTables>,
    { tenant_id: tenantId, id }: Entry["room"],
    principalId: string,
    message: string,
  ): Promise<void> {
    const owners = await new SuccessionStore(tx.db).owners(tenantId, id);
    if (owners.length === 1 && owners[0] === principalId) throw new Fault("last_owner", message);
  }

  async #changeRole(
    tx: Transaction<RoomTables>,
    actor: Actor,
    { room, role: own }: Entry,
    target: MemberRow,
    role: RoomRole,
  ): Promise<void> {
    const rooms = new RoomStore(tx.db);
    const isOwner = own === "owner";
    const isSelf = target.principal_id === actor.principalId;
    const ranksAbove = isOwner || (own !== null && !isAtLeast(ROOM_ROLES, target.role, own)) || isSelf;
    if (own === null || !ranksAbove || !isAtLeast(ROOM_ROLES, own, role)) {
      throw new Fault("forbidden", `/role: a ${own} cannot turn a ${target.role} into a ${role}`);
    }
    await this.#checkStaysOwned(tx, room, target.principal_id, "A room keeps at least one owner");
    await rooms.setRole(actor.tenantId, room.id, target.principal_id, role);
    const data = { roomId: room.id, principalId: target.principal_id, role, memberCount: room.member_count };
    const updated = roomEvent(actor, room.id, "member.updated", data);
    await tx.emit(updated, { ...updated, stream: principalStream(target.principal_id) });
  }

  async #principal(actor: Actor, id: string): Promise<PrincipalRow> {
    const principal = (await this.#deps.identity.enabledFor(actor, [id])).get(id);
    if (principal === undefined) throw new Fault("not_found", `No principal ${id}`);
    return principal;
  }

  async #read(actor: Actor, roomId: string, principalId: string): Promise<Member> {
    const { tenantId } = seer(actor);
    const rows = await new RoomStore(this.#deps.store.db).members(tenantId, roomId, {}, undefined, 1, principalId);
    const row = rows[0];
    if (row === undefined) throw new Fault("not_found", `${principalId} is not a member of the room`);
    return presentMember(actor, row);
  }
}

/** Why an agent is not taken in alone. */
export function blindWithout(agentId: string, ownerId: string): string {
  return `Agent ${agentId} sees only what its owner sees; add ${ownerId} first`;
}

function presentMember(actor: Actor, row: ListedMember): Member {
  return {
    principalId: row.principal_id,
    ...looksOf(row),
    role: row.role,
    joinedAt: row.joined_at,
    lastReadSeq: row.principal_id === actor.principalId ? row.last_read_seq : null,
  };
}
