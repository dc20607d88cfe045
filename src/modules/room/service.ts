// Rooms: create, list, read, update and archive.
import type { Actor, RoomRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalStream, roomEvent, roomStream } from "@/core/event/event.ts";
import { type EventFilterOf, redactFor } from "@/core/event/event_view.ts";
import { assertAllFound, Fault, invalidField } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { asReadOnly, type Context } from "@/core/operation.ts";
import { type Cursors, fitToPage, type Page } from "@/core/page.ts";
import { assertVersion, jsonOf, patchedOr, withoutUndefined } from "@/core/patch.ts";
import type { IdentityService, PrincipalRow } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import { type AnyDatabase, type Store, type Transaction, whenTaken } from "@/ports/store.ts";
import { assertDirectRoom, assertDirectUpdate, directKeyOf, directRoomName } from "./direct_room.ts";
import {
  assertCanReceiveEvents,
  effectiveRole,
  hiddenUpTo,
  notifiableIn,
  type RoomAccess,
  withinBounds,
} from "./room_access.ts";
import type { RoomMembers } from "./members.ts";
import { type CountUnread, newRoomData, profileFields, roomChanges, RoomPresenter } from "./presenter.ts";
import {
  AgentPolicy,
  type Room,
  type RoomCreate,
  type RoomEvents,
  type RoomList,
  type RoomReadInclude,
  type RoomUpdate,
} from "./schema.ts";
import {
  canBrowsePublic,
  DEFAULT_MEMBER_SETTINGS,
  type MemberRow,
  readerOf,
  type RoomRow,
  RoomStore,
  type RoomTables,
  slugOf,
  storedSlug,
} from "./store.ts";
import type { RoomViews } from "./room_views.ts";

/** Fields that only the owner of a room may change. */
const OWNER_FIELDS = ["slug", "visibility", "historyVisibility", "state", "agentPolicy", "retentionDays"] as const;

type Deps = {
  store: Store<RoomTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  retention: RetentionService;
  members: RoomMembers;
  identity: IdentityService;
  notifications: NotificationService;
  countUnread: CountUnread;
  views: RoomViews;
  /** Called once for each room created. */
  onCreated: () => void;
  eventFilterOf: EventFilterOf;
};

export class RoomService {
  readonly #deps: Deps;
  readonly #presenter: RoomPresenter;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#presenter = new RoomPresenter(deps);
  }

  /** Creates a room with the caller as owner, or returns the direct room that exists for the same members. */
  async create(context: Context, input: RoomCreate): Promise<{ room: Room; isNew: boolean }> {
    const { actor } = context;
    // An agent has access only to rooms of its owner, so the owner becomes a member as well.
    const memberIds = actor.ownerId === null ? input.memberIds : [actor.ownerId, ...input.memberIds];
    const others = [...new Set(memberIds)].filter((id) => id !== actor.principalId);
    this.#deps.members.assertCapacity(others.length + 1);
    const isDirect = input.kind === "direct";
    if (isDirect) assertDirectRoom(input, others);
    const directKey = isDirect ? directKeyOf([actor.principalId, ...others]) : null;
    const createRoom = async (tx: Transaction<RoomTables>): Promise<{ id: string; isNew: boolean }> => {
      const existingId = directKey === null ? undefined : await this.#findDirectRoom(tx, actor, directKey);
      if (existingId !== undefined) return { id: existingId, isNew: false };
      const known = await this.#requirePrincipals(tx.db, actor, input.memberIds);
      await this.#assertAgentsVisible(tx.db, actor, input.agentPolicy);
      await this.#deps.retention.assertMayKeepMessages(tx.db, actor.tenantId, input.retentionDays);
      const name = input.name ??
        directRoomName([actor.displayName, ...others.map((id) => known.get(id)?.display_name ?? id)]);
      const row = this.#newRow(actor, { ...input, name }, directKey, others.length + 1);
      await this.#add(tx, actor, row, [actor.principalId, ...others], known);
      // In a direct room, the first message notifies.
      const invited = isDirect ? [] : notifiableIn(row, others.flatMap((id) => known.get(id) ?? []));
      const principalIds = invited.map(({ id }) => id);
      const { tenantId } = actor;
      await this.#deps.notifications.notify({ tenantId, principalIds, kind: "invitation", actor, roomId: row.id });
      return { id: row.id, isNew: true };
    };
    const { id, isNew } = await this.#write(createRoom).catch((thrown) => {
      // Of concurrent creations of one direct room, one succeeds; the others find it on the second attempt.
      if (directKey === null || Fault.from(thrown).code !== "slug_taken") throw thrown;
      return this.#write(createRoom);
    });
    if (isNew) this.#deps.onCreated();
    return { room: await this.read(context, id, []), isNew };
  }

  async read(context: Context, id: string, include: readonly RoomReadInclude[]): Promise<Room> {
    const { actor } = context;
    const { roomAccess, members, views } = this.#deps;
    assertCanInclude(actor, include);
    const grant = await roomAccess.require(asReadOnly(context), id, { least: "observer" });
    const listMembers = async (filter: { kind?: "agent" }) =>
      (await members.list(context, { id, limit: 200, ...filter })).items;
    return {
      ...await this.#presenter.one(actor, grant, include.filter((part) => part === "lastMessage")),
      ...include.includes("members") ? { members: await listMembers({}) } : {},
      ...include.includes("agents") ? { agents: await listMembers({ kind: "agent" }) } : {},
      ...include.includes("pins") ? { pins: await views.pinnedIn(actor, grant) } : {},
    };
  }

  async list({ actor }: Context, { limit, cursor, member, include, ...filter }: RoomList): Promise<Page<Room>> {
    assertCanInclude(actor, include);
    const { cursors, store } = this.#deps;
    const bind = ["room.list", actor.tenantId, actor.principalId, member, filter];
    const withPublic = member === "any" && filter.state !== "deleted" && canBrowsePublic(actor);
    const rows = await new RoomStore(store.db).list(
      { tenantId: actor.tenantId, ...readerOf(actor) },
      { ...filter, withPublic },
      cursors.decode(cursor, bind),
      limit + 1,
    );
    const page = cursors.page(
      rows,
      limit,
      bind,
      (row) => [filter.sort === "name" ? row.name : row.active_at, row.id],
      (row) => withinBounds(actor, row) ?? [],
    );
    const grants = page.items.flat().map((room) => ({ room, role: effectiveRole(actor, room) ?? null }));
    return { ...page, items: await this.#presenter.many(actor, grants, include) };
  }

  async update(context: Context, { id, version, state, agentPolicy, ...input }: RoomUpdate): Promise<Room> {
    const { actor } = context;
    await this.#write(async (tx) => {
      const { room, role } = await this.#deps.roomAccess.requireForUpdate(tx, context, id);
      const given = { ...input, state, agentPolicy };
      const ownerField = OWNER_FIELDS.find((field) => given[field] !== undefined);
      if (room.kind === "direct") assertDirectUpdate(given);
      else if (ownerField !== undefined && role !== "owner") {
        throw new Fault("forbidden", `/${ownerField}: only the owner of the room can change it`);
      }
      if (room.state === "archived" && state !== "active") {
        throw new Fault("room_archived", "The room is archived; activate it first");
      }
      assertVersion("room", room.version, version);
      if (Object.values(given).every((value) => value === undefined)) return;
      if (agentPolicy !== undefined) await this.#assertAgentsVisible(tx.db, actor, agentPolicy);
      await this.#deps.retention.assertMayKeepMessages(tx.db, actor.tenantId, input.retentionDays);
      const { name, topic, description, visibility, metadata } = input;
      const set: Partial<RoomRow> = withoutUndefined({
        name,
        slug: input.slug === undefined && visibility === undefined
          ? undefined
          : storedSlug({ id, visibility: visibility ?? room.visibility }, patchedOr(input.slug, slugOf(room))),
        topic,
        description,
        visibility,
        history_visibility: input.historyVisibility,
        retention_days: input.retentionDays,
        metadata_json: jsonOf(metadata),
        state,
        agent_policy_json: agentPolicy === undefined
          ? undefined
          : JSON.stringify(AgentPolicy.parse({ ...JSON.parse(room.agent_policy_json), ...agentPolicy })),
        version: room.version + 1,
        updated_at: iso(this.#deps.clock.now()),
      });
      await new RoomStore(tx.db).update(actor.tenantId, id, set);
      const type = state === "archived" && room.state === "active" ? "room.archived" : "room.updated";
      // Every subscription ends and is authorized again; members resume at once without a gap.
      const revalidates = (visibility === "private" && room.visibility === "public") ||
        (input.historyVisibility ?? room.history_visibility) !== room.history_visibility;
      await tx.emit({
        ...roomEvent(actor, id, type, roomChanges(room, { ...room, ...set })),
        ...(revalidates
          ? { effect: { kind: "evict", principalIds: "*", reason: "visibility changed", resubscribe: true } }
          : {}),
      });
    });
    return await this.read(context, id, []);
  }

  /** Events of the room after a position, for clients without a socket. */
  async events(
    context: Context,
    { id, after, epoch, limit }: { id: string; after: number; epoch?: string | undefined; limit: number },
  ): Promise<RoomEvents> {
    const { store } = this.#deps;
    const grant = await this.#deps.roomAccess.require(context, id);
    const stream = roomStream(id);
    const { tenantId } = context.actor;
    const position = await store.log.position(tenantId, stream);
    if (epoch !== undefined && epoch !== position.epoch) {
      throw new Fault("stream_reset", "The stream of the room was reset; read the room again");
    }
    const view = { hiddenUpTo: hiddenUpTo(grant), filter: this.#deps.eventFilterOf(context.actor) };
    // A position that the stream has not reached is one of another stream. Events might be missed in silence.
    if (after > position.head) {
      throw new Fault("stream_reset", `The last position of the room is ${position.head}; read the room again`);
    }
    const from = Math.max(after, view.hiddenUpTo);
    const read = await store.log.read(tenantId, stream, from, limit);
    const events = fitToPage(read.map((event) => redactFor(event, view)), limit);
    // They may have been trimmed since the position was read.
    if (from < position.floor || (from < position.head && events[0]?.seq !== from + 1)) {
      throw new Fault("gone", `Events after ${from} are no longer stored; read the messages instead`);
    }
    return {
      epoch: position.epoch,
      events: events.map((event) => ({ seq: event.seq, ...JSON.parse(event.json) })),
      lastSeq: Math.max(position.head, events.at(-1)?.seq ?? 0),
      complete: (events.at(-1)?.seq ?? from) >= position.head,
    };
  }

  /** The direct room of exactly these members, if there is one. */
  async #findDirectRoom(
    tx: Transaction<RoomTables>,
    { tenantId }: Actor,
    directKey: string,
  ): Promise<string | undefined> {
    const rooms = new RoomStore(tx.db);
    const existing = await rooms.findByDirectKey(tenantId, directKey);
    if (existing === undefined) return undefined;
    if (directKeyOf(await rooms.memberIds(tenantId, existing.id)) === directKey) return existing.id;
    // A member left it before leaving cleared the key.
    await rooms.update(tenantId, existing.id, { direct_key: null });
    return undefined;
  }

  /** Adds a room with its first members, and publishes that to its stream and to those of the members. */
  async #add(
    tx: Transaction<RoomTables>,
    actor: Actor,
    row: RoomRow,
    ids: readonly string[],
    known: ReadonlyMap<string, PrincipalRow>,
  ): Promise<void> {
    const rooms = new RoomStore(tx.db);
    await rooms.add(row);
    const { epoch } = await tx.reserve(actor.tenantId, roomStream(row.id), 0);
    const roomData = newRoomData(row, epoch);
    const joined = ids.map((id) => roomEvent(actor, row.id, "member.joined", this.#joinedData(row, id, actor, known)));
    const events = await tx.emit(roomEvent(actor, row.id, "room.created", roomData), ...joined);
    const lastReadSeq = events.at(-1)?.seq ?? 0;
    await rooms.addMembers(ids.map((principalId): MemberRow => ({
      tenant_id: actor.tenantId,
      room_id: row.id,
      principal_id: principalId,
      role: initialRole(row, principalId, actor),
      joined_at: row.created_at,
      joined_seq: 0,
      last_read_seq: lastReadSeq,
      published_version: known.get(principalId)?.version ?? 0,
      ...DEFAULT_MEMBER_SETTINGS,
    })));
    await tx.emit(...ids.map((principalId): EventDraft => ({
      ...roomEvent(actor, row.id, "member.joined", {
        ...this.#joinedData(row, principalId, actor, known),
        ...roomData,
        lastReadSeq,
      }),
      stream: principalStream(principalId),
    })));
  }

  /** The caller with its owner, and the other members; throws unless all exist, and agents come with their owners. */
  async #requirePrincipals(
    db: AnyDatabase,
    actor: Actor,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, PrincipalRow>> {
    const owner = actor.ownerId === null ? [] : [actor.ownerId];
    const known = await this.#deps.identity.findEnabledFor(actor, [actor.principalId, ...owner, ...ids], db);
    assertAllFound(ids, new Set(known.keys()), "/memberIds", (id) => `no principal ${id}`);
    for (const { id, owner_id: ownerId } of known.values()) {
      if (id === actor.principalId || ownerId === null || ownerId === actor.principalId || known.has(ownerId)) continue;
      throw invalidField(`/memberIds/${ids.indexOf(id)}`, `requires ${ownerId}, the owner of agent ${id}`);
    }
    return known;
  }

  async #assertAgentsVisible(
    db: AnyDatabase,
    actor: Actor,
    { allowedAgentIds }: Pick<AgentPolicy, "allowedAgentIds">,
  ): Promise<void> {
    await this.#deps.identity.assertVisible(actor, allowedAgentIds ?? [], "/agentPolicy/allowedAgentIds", db);
  }

  #newRow(actor: Actor, input: RoomCreate & { name: string }, directKey: string | null, memberCount: number): RoomRow {
    const now = iso(this.#deps.clock.now());
    const id = newId("room");
    return {
      tenant_id: actor.tenantId,
      id,
      name: input.name,
      slug: storedSlug({ id, visibility: input.visibility }, input.slug ?? null),
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
      restore_state_json: null,
    };
  }

  #joinedData(
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
      role: initialRole(row, principalId, actor),
      memberCount: row.member_count,
      ...(principal === undefined
        ? { kind, handle: null, displayName, avatarFileId: null, status: null }
        : profileFields(principal, this.#deps.clock.now())),
    };
  }

  #write<Result>(work: (tx: Transaction<RoomTables>) => Promise<Result>): Promise<Result> {
    return this.#deps.store.write(work)
      .catch(whenTaken((cause) => new Fault("slug_taken", "The slug is already taken", { cause })));
  }
}

function initialRole({ kind }: RoomRow, principalId: string, creator: Actor): RoomRole {
  if (kind === "direct") return "member";
  return principalId === creator.principalId || principalId === creator.ownerId ? "owner" : "member";
}

/** Messages require the scopes for messages. */
function assertCanInclude(actor: Actor, include: readonly RoomReadInclude[]): void {
  if (include.includes("lastMessage") || include.includes("pins")) assertCanReceiveEvents(actor);
}
