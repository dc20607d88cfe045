// Rooms: made, listed, read, changed and archived.
import type { Actor, RoomRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream, roomStream, shownTo } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { asRead, type Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { checkVersion } from "@/core/patch.ts";
import type { IdentityService, PrincipalRow } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import { type Store, type Transaction, UniqueViolation } from "@/ports/store.ts";
import { checkDirect, keyOf, nameOf } from "./direct.ts";
import { addressedIn, effectiveRole, hiddenUpTo, type RoomGate, seer } from "./gate.ts";
import { blindWithout, type RoomMembers } from "./members.ts";
import { type CountUnread, looksOf, presentShared, roomEvent, RoomPresenter } from "./presenter.ts";
import { AgentPolicy, type Room, type RoomCreate, type RoomEvents, type RoomList, type RoomUpdate } from "./schema.ts";
import { looksIntoPublic, type MemberRow, type RoomRow, RoomStore, type RoomTables } from "./store.ts";

/** Fields that only the owner of a room may change. */
const OWNER_FIELDS = ["slug", "visibility", "historyVisibility", "state", "agentPolicy", "retentionDays"] as const;

type Deps = {
  store: Store<RoomTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  members: RoomMembers;
  identity: IdentityService;
  notifications: NotificationService;
  countUnread: CountUnread;
  /** Called once for each room created. */
  onCreated: () => void;
};

export class RoomService {
  readonly #deps: Deps;
  readonly #presenter: RoomPresenter;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#presenter = new RoomPresenter(deps.countUnread);
  }

  /** Makes a room with the caller as owner; a direct room that exists for the same people is returned instead. */
  async create(context: Context, input: RoomCreate): Promise<{ room: Room; isNew: boolean }> {
    const { actor } = context;
    // An agent sees only what its owner sees, so the owner comes along.
    const memberIds = actor.ownerId === null ? input.memberIds : [actor.ownerId, ...input.memberIds];
    const others = [...new Set(memberIds)].filter((id) => id !== actor.principalId);
    this.#deps.members.checkFits(others.length + 1);
    const isDirect = input.kind === "direct";
    if (isDirect) checkDirect(input, others);
    const directKey = isDirect ? keyOf([actor.principalId, ...others]) : null;
    const make = async (tx: Transaction<RoomTables>): Promise<{ id: string; isNew: boolean }> => {
      const rooms = new RoomStore(tx.db);
      const existing = directKey === null ? undefined : await rooms.byDirectKey(actor.tenantId, directKey);
      if (existing !== undefined) {
        const { tenantId } = actor;
        if (keyOf(await rooms.memberIds(tenantId, existing.id)) === directKey) return { id: existing.id, isNew: false };
        // Somebody left it before leaving took the key along.
        await rooms.update(tenantId, existing.id, { direct_key: null });
      }
      const known = await this.#checkExist(actor, others);
      const name = input.name ?? nameOf([actor.displayName, ...others.map((id) => known.get(id)?.display_name ?? id)]);
      const row = this.#newRow(actor, { ...input, name }, directKey, others.length + 1);
      const ids = [actor.principalId, ...others];
      await rooms.add(row);
      const { epoch } = await tx.reserve(actor.tenantId, roomStream(row.id), 0);
      const shared = presentShared(row, epoch);
      const events = await tx.emit(
        roomEvent(actor, row.id, "room.created", { room: shared }),
        ...ids.map((principalId) =>
          roomEvent(actor, row.id, "member.joined", this.#joined(row, principalId, actor, known))
        ),
      );
      await rooms.addMembers(ids.map((principalId): MemberRow => ({
        tenant_id: actor.tenantId,
        room_id: row.id,
        principal_id: principalId,
        role: roleAtStart(principalId, actor),
        joined_at: row.created_at,
        joined_seq: 0,
        last_read_seq: events.at(-1)?.seq ?? 0,
        told_version: known.get(principalId)?.version ?? 0,
      })));
      const lastReadSeq = events.at(-1)?.seq ?? 0;
      await tx.emit(...ids.map((principalId): EventDraft => ({
        ...roomEvent(actor, row.id, "member.joined", {
          ...this.#joined(row, principalId, actor, known),
          room: shared,
          lastReadSeq,
        }),
        stream: principalStream(principalId),
      })));
      // A direct room speaks for itself with its first message.
      const invited = isDirect ? [] : addressedIn(row, others.flatMap((id) => known.get(id) ?? []));
      const principalIds = invited.map(({ id }) => id);
      const { tenantId } = actor;
      await this.#deps.notifications.notify({ tenantId, principalIds, kind: "invitation", actor, roomId: row.id });
      return { id: row.id, isNew: true };
    };
    const { id, isNew } = await this.#write(make).catch((thrown) => {
      // Of those who start the same direct room at once, one makes it and the others find it.
      if (directKey === null || Fault.from(thrown).code !== "slug_taken") throw thrown;
      return this.#write(make);
    });
    if (isNew) this.#deps.onCreated();
    return { room: await this.read(context, id, []), isNew };
  }

  async read(context: Context, id: string, include: readonly "members"[]): Promise<Room> {
    const entry = await this.#deps.gate.enter(asRead(context), id, "observer");
    const room = await this.#presenter.one(context.actor, entry);
    if (!include.includes("members")) return room;
    const { items } = await this.#deps.members.list(context, { id, limit: 200 });
    return { ...room, members: items };
  }

  async list({ actor }: Context, { limit, cursor, member, ...filter }: RoomList): Promise<Page<Room>> {
    const { cursors, store } = this.#deps;
    const updatedSince = filter.updatedSince && iso(Date.parse(filter.updatedSince));
    const bind = ["room.list", actor.tenantId, actor.principalId, member, filter];
    const withPublic = member === "any" && looksIntoPublic(actor);
    const rows = await new RoomStore(store.db).list(
      { ...seer(actor), isOwned: actor.ownerId !== null },
      { ...filter, updatedSince, withPublic },
      cursors.open(cursor, bind),
      limit + 1,
    );
    const page = cursors.page(
      rows,
      limit,
      bind,
      (row) => [filter.sort === "name" ? row.name : row.active_at, row.id],
      (row) => ({ room: row, role: effectiveRole(actor, row) ?? null }),
    );
    return { ...page, items: await this.#presenter.many(actor, page.items) };
  }

  async update(context: Context, { id, version, state, agentPolicy, ...input }: RoomUpdate): Promise<Room> {
    const { actor } = context;
    await this.#write(async (tx) => {
      const { room, role } = await this.#deps.gate.enterToChange(tx, context, id);
      const given = { ...input, state, agentPolicy };
      const ownerField = OWNER_FIELDS.find((field) => given[field] !== undefined);
      if (ownerField !== undefined && role !== "owner") {
        throw new Fault("forbidden", `/${ownerField}: only the owner of the room may change it`);
      }
      if (room.state === "archived" && state !== "active") {
        throw new Fault("room_archived", "The room is archived; make it active first");
      }
      checkVersion("room", room.version, version);
      if (room.kind === "direct" && input.visibility === "public") {
        throw new Fault("validation_failed", "/visibility: a direct room is private");
      }
      if (Object.values(given).every((value) => value === undefined)) return;
      const set: Partial<RoomRow> = {
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.slug === undefined ? {} : { slug: input.slug }),
        ...(input.topic === undefined ? {} : { topic: input.topic }),
        ...(input.description === undefined ? {} : { description: input.description }),
        ...(input.visibility === undefined ? {} : { visibility: input.visibility }),
        ...(input.historyVisibility === undefined ? {} : { history_visibility: input.historyVisibility }),
        ...(input.retentionDays === undefined ? {} : { retention_days: input.retentionDays }),
        ...(input.metadata === undefined ? {} : { metadata_json: JSON.stringify(input.metadata) }),
        ...(state === undefined ? {} : { state }),
        ...(agentPolicy === undefined ? {} : {
          agent_policy_json: JSON.stringify(
            AgentPolicy.parse({ ...JSON.parse(room.agent_policy_json), ...agentPolicy }),
          ),
        }),
        version: room.version + 1,
        updated_at: iso(this.#deps.clock.now()),
      };
      await new RoomStore(tx.db).update(actor.tenantId, id, set);
      const type = state === "archived" && room.state === "active" ? "room.archived" : "room.updated";
      // Who may still listen, and to how much, is asked anew of every subscriber: members come back at once with nothing lost.
      const isAskedAnew = (input.visibility === "private" && room.visibility === "public") ||
        (input.historyVisibility ?? room.history_visibility) !== room.history_visibility;
      await tx.emit({
        ...roomEvent(actor, id, type, { room: presentShared({ ...room, ...set }, room.epoch ?? "") }),
        ...(isAskedAnew
          ? { effect: { kind: "evict", principalIds: "*", reason: "visibility changed", resubscribe: true } }
          : {}),
      });
    });
    return await this.read(context, id, []);
  }

  /** Events of the room after a position, as REST readers and bots catch up. */
  async events(
    context: Context,
    { id, after, epoch, limit }: { id: string; after: number; epoch?: string | undefined; limit: number },
  ): Promise<RoomEvents> {
    const { store } = this.#deps;
    const entry = await this.#deps.gate.enter(context, id);
    const stream = roomStream(id);
    const { tenantId } = context.actor;
    const position = await store.log.position(tenantId, stream);
    if (epoch !== undefined && epoch !== position.epoch) {
      throw new Fault("epoch_changed", "The room's positions started anew; read the room again");
    }
    const hidden = hiddenUpTo(entry);
    const from = Math.max(after, hidden);
    const events = await store.log.read(tenantId, stream, from, limit);
    // They may have been trimmed since the position was read.
    if (from < position.floor || (from < position.head && events[0]?.seq !== from + 1)) {
      throw new Fault("gone", `Events after ${from} are no longer kept; read the messages instead`);
    }
    return {
      epoch: position.epoch,
      events: events.map((event) => ({ seq: event.seq, ...JSON.parse(shownTo(event, hidden).json) })),
      lastSeq: Math.max(position.head, events.at(-1)?.seq ?? 0),
      complete: (events.at(-1)?.seq ?? from) >= position.head,
    };
  }

  /** The caller and those who come along; throws unless each exists, and agents come with their owners. */
  async #checkExist(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, PrincipalRow>> {
    const known = await this.#deps.identity.enabled(actor.tenantId, [actor.principalId, ...ids]);
    const missing = ids.filter((id) => !known.has(id));
    if (missing.length > 0) {
      throw new Fault("validation_failed", `/memberIds: no such principal ${missing.slice(0, 5).join(", ")}`, {
        errors: missing.map((id) => ({ pointer: "/memberIds", code: "not_found", detail: `No principal ${id}` })),
      });
    }
    for (const { id, owner_id: ownerId } of known.values()) {
      if (id === actor.principalId || ownerId === null || ownerId === actor.principalId || known.has(ownerId)) continue;
      throw new Fault("validation_failed", `/memberIds: ${blindWithout(id, ownerId)}`);
    }
    return known;
  }

  #newRow(actor: Actor, input: RoomCreate & { name: string }, directKey: string | null, memberCount: number): RoomRow {
    const now = iso(this.#deps.clock.now());
    return {
      tenant_id: actor.tenantId,
      id: newId("room"),
      name: input.name,
      slug: input.slug ?? null,
      topic: input.topic ?? null,
      description: input.description ?? null,
      kind: input.kind,
      visibility: input.visibility,
      history_visibility: input.historyVisibility,
      state: "active",
      agent_policy_json: JSON.stringify(input.agentPolicy),
      retention_days: input.retentionDays,
      metadata_json: JSON.stringify(input.metadata),
      member_count: memberCount,
      direct_key: directKey,
      last_message_at: null,
      active_at: now,
      version: 1,
      created_by: actor.principalId,
      created_at: now,
      updated_at: now,
      deleted_at: null,
      undo_json: null,
    };
  }

  #joined(
    row: RoomRow,
    principalId: string,
    actor: Actor,
    known: ReadonlyMap<string, PrincipalRow>,
  ): Record<string, unknown> {
    const { kind, displayName } = actor;
    const principal = known.get(principalId);
    return {
      roomId: row.id,
      principalId,
      role: roleAtStart(principalId, actor),
      memberCount: row.member_count,
      ...(principal === undefined ? { kind, displayName, avatarFileId: null } : looksOf(principal)),
    };
  }

  async #write<Result>(work: (tx: Transaction<RoomTables>) => Promise<Result>): Promise<Result> {
    try {
      return await this.#deps.store.write(work);
    } catch (error) {
      if (error instanceof UniqueViolation) throw new Fault("slug_taken", "The slug is taken", { cause: error });
      throw error;
    }
  }
}

function roleAtStart(principalId: string, creator: Actor): RoomRole {
  return principalId === creator.principalId || principalId === creator.ownerId ? "owner" : "member";
}
