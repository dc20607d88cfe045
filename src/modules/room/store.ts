// SQL of rooms, members and bans.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import { type Actor, isGuest, type PrincipalKind, type RoomRole } from "@/core/actor.ts";
import { queryInChunks } from "@/core/page.ts";
import { deleteSome } from "@/ports/sql/deletion.ts";
import { containsText, inSubquery, isSmallResult, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { roomsForViewer, visibleRoomIds } from "./access_store.ts";
import {
  type BanRow,
  type ListedMember,
  type MemberRow,
  type MemberSettingsRow,
  PROFILE_COLUMNS,
  type Reader,
  type RoomRow,
  type RoomTables,
  type RoomViewer,
  type ViewedRoom,
  type Viewer,
} from "./tables.ts";

export {
  DEFAULT_MEMBER_SETTINGS,
  type ListedMember,
  type MemberRow,
  type MemberSettingsRow,
  PROFILE_COLUMNS,
  type ProfileColumns,
  type Reader,
  type RestoreState,
  type RoomRow,
  type RoomTables,
  type RoomViewer,
  slugOf,
  storedSlug,
  type ViewedRoom,
  type Viewer,
} from "./tables.ts";

/** Columns with the viewer's settings of a room. */
export const VIEWER_SETTINGS = [
  "me.notify_level as my_notify_level",
  "me.muted_until as my_muted_until",
  "me.favorite_order as my_favorite_order",
] as const;

/** All rooms as seen by one principal; `owner` is that of an agent. */
function viewedRooms(db: Kysely<RoomTables>, me: string, owner: string) {
  return roomsForViewer(db, me, owner)
    .leftJoin("stream", (join) =>
      join.onRef("stream.tenant_id", "=", "room.tenant_id")
        .on("stream.name", "=", sql<string>`'room:' || room.id`))
    .selectAll("room")
    .select(["me.last_read_seq as my_last_read_seq", "stream.epoch", "stream.head"])
    .select(VIEWER_SETTINGS);
}

/**
 * The rooms that a viewer is a member of. Values, not "is not null": only they let an engine begin with the memberships instead of
 * all rooms of the tenant. The return type is inferred: it is a query under construction.
 */
// deno-lint-ignore explicit-module-boundary-types
export function roomsOfMember(db: Kysely<RoomTables>, { tenantId, principalId, ownerId }: Viewer) {
  return viewedRooms(db, principalId, ownerId).where("room.tenant_id", "=", tenantId)
    .where("me.tenant_id", "=", tenantId).where("me.principal_id", "=", principalId);
}

export function readerOf(actor: Actor): Reader {
  const { principalId, ownerId, bounds } = actor;
  return {
    principalId,
    ownerId: ownerId ?? "",
    isOwned: ownerId !== null,
    withPublic: canBrowsePublic(actor),
    roomIds: bounds && [...bounds.rooms().keys()],
  };
}

/** Whether the actor can see public rooms without being a member. */
export function canBrowsePublic({ role, kind }: Pick<Actor, "role" | "kind">): boolean {
  return !isGuest({ role }) && kind !== "agent";
}

/** Within `roomsForViewer`: whether the reader can see the room. */
function isVisibleTo({ isOwned, withPublic, roomIds }: Omit<Reader, "principalId" | "ownerId">): RawBuilder<SqlBool> {
  const isMember = isOwned
    ? sql<SqlBool>`me.role is not null and owner.role is not null`
    : sql<SqlBool>`me.role is not null`;
  if (roomIds !== undefined) return sql<SqlBool>`(${isMember} and ${isOneOf("room.id", roomIds)})`;
  return withPublic ? sql<SqlBool>`(${isMember} or room.visibility = 'public')` : isMember;
}

/** Whether a column has one of these values; there may be none. */
function isOneOf(column: string, values: readonly string[]): RawBuilder<SqlBool> {
  return values.length === 0 ? sql<SqlBool>`1 = 0` : sql<SqlBool>`${sql.ref(column)} in (${sql.join(values)})`;
}

/**
 * Whether the reader can see the room whose id is in `column`: the condition of every list of resources in rooms. Where it is one of
 * `named`, these are looked up once, not for each row.
 */
export function isInVisibleRoom(
  db: Kysely<RoomTables>,
  tenantId: string,
  column: string,
  reader: Reader,
  named?: readonly string[],
): RawBuilder<SqlBool> {
  const visible = roomsForViewer(db, reader.principalId, reader.ownerId).clearSelect().select("room.id")
    .where("room.state", "<>", sql.lit("deleted")).where(isVisibleTo(reader));
  if (named !== undefined) {
    const among = visible.where(tenantIsUnindexed(tenantId, "room.tenant_id")).where(isOneOf("room.id", named));
    return sql<SqlBool>`${sql.ref(column)} in ${among}`;
  }
  const own = visible.where("room.tenant_id", "=", tenantId).where("room.id", "=", sql<string>`${sql.ref(column)}`)
    // With an offset, PostgreSQL asks this of each row. Else it could begin with all rooms that the reader can see, and then read
    // and sort everything in them for one page.
    .limit(sql.lit(1)).offset(sql.lit(0));
  return sql<SqlBool>`exists ${own}`;
}

/** Members joined with their principals. The return type is inferred: it is a query under construction. */
// deno-lint-ignore explicit-module-boundary-types
export function membersWithPrincipal(db: Kysely<RoomTables>) {
  return db.selectFrom("member").innerJoin(
    "principal",
    (join) =>
      join.onRef("principal.tenant_id", "=", "member.tenant_id").onRef("principal.id", "=", "member.principal_id"),
  );
}

const viewedRoomById = prepared(
  (db: Kysely<RoomTables>, value: Param<Viewer & { id: string }>) =>
    viewedRooms(db, value("principalId"), value("ownerId")).where("room.tenant_id", "=", value("tenantId"))
      .where("room.id", "=", value("id")),
  { cacheable: true },
);

/** The minute of `active_at`; a generated column. */
const activeMinute = sql<string>`room.active_minute`;

/** Those who see more rooms of a tenant find them in the order of the list: for fewer, most of the others would be read. */
const VISIBLE_MAX = 500;

type RoomListFilter = {
  q?: string | undefined;
  kind?: RoomRow["kind"] | undefined;
  visibility?: RoomRow["visibility"] | undefined;
  /** Without one, those that are not deleted; deleted ones are of the viewer as their owner. */
  state?: RoomRow["state"] | undefined;
  updatedSince?: string | undefined;
  /** Include public rooms that the viewer is not a member of. */
  withPublic: boolean;
  sort: "-lastMessageAt" | "name";
};

export class RoomStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  async findForViewer(viewer: Viewer, id: string): Promise<ViewedRoom | undefined> {
    return await viewedRoomById.first(this.#db, { ...viewer, id });
  }

  /** Those of these rooms that exist. */
  findManyForViewer({ tenantId, principalId, ownerId }: Viewer, ids: readonly string[]): Promise<ViewedRoom[]> {
    return queryInChunks(
      ids,
      (some) =>
        viewedRooms(this.#db, principalId, ownerId).where(tenantIsUnindexed(tenantId, "room.tenant_id"))
          .where("room.id", "in", some).execute(),
    );
  }

  /** The room without a viewer, for work of the gateway itself. */
  find(tenantId: string, id: string): Promise<ViewedRoom | undefined> {
    return this.findForViewer({ tenantId, principalId: "", ownerId: "" }, id);
  }

  async list(
    viewer: Viewer & Pick<Reader, "isOwned" | "roomIds">,
    filter: RoomListFilter,
    after: readonly (string | number)[] | undefined,
    limit: number,
  ): Promise<ViewedRoom[]> {
    const { withPublic } = filter;
    let query = withPublic
      ? viewedRooms(this.#db, viewer.principalId, viewer.ownerId).where("room.tenant_id", "=", viewer.tenantId)
      : roomsOfMember(this.#db, viewer);
    const visible = visibleRoomIds(this.#db, viewer.tenantId, { ...viewer, withPublic });
    if (withPublic && await isSmallResult(visible, VISIBLE_MAX)) {
      query = query.where(inSubquery(this.#db, "room.id", visible));
    }
    query = query.where("room.state", filter.state === "deleted" ? "=" : "<>", "deleted")
      .where(isVisibleTo({ ...viewer, withPublic }));
    if (filter.state === "deleted") query = query.where("me.role", "=", "owner");
    if (filter.q !== undefined) query = query.where(containsText("room.name", filter.q));
    if (filter.kind !== undefined) query = query.where("room.kind", "=", filter.kind);
    if (filter.visibility !== undefined) query = query.where("room.visibility", "=", filter.visibility);
    if (filter.state !== undefined) query = query.where("room.state", "=", filter.state);
    if (filter.updatedSince !== undefined) query = query.where("room.updated_at", ">=", filter.updatedSince);
    const isByName = filter.sort === "name";
    const column = isByName ? "room.name" as const : "room.active_at" as const;
    if (after !== undefined) {
      const [key, id] = [String(after[0]), String(after[1])];
      query = query.where(({ eb, refTuple, tuple }) =>
        eb(refTuple(column, "room.id"), isByName ? ">" : "<", tuple(key, id))
      );
      if (!isByName) query = query.where(sql<SqlBool>`${activeMinute} <= substr(${key}, 1, 16)`);
    }
    const direction = isByName ? "asc" : "desc";
    // The index is on the minute; within one the engine sorts.
    if (!isByName) query = query.orderBy(activeMinute, direction);
    return await query.orderBy(column, direction).orderBy("room.id", direction).limit(limit).execute();
  }

  async add(row: RoomRow): Promise<void> {
    await this.#db.insertInto("room").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<RoomRow>): Promise<void> {
    await this.#db.updateTable("room").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async isSlugTaken(tenantId: string, slug: string): Promise<boolean> {
    const row = await this.#db.selectFrom("room").select("id").where("tenant_id", "=", tenantId)
      .where("slug", "=", slug).executeTakeFirst();
    return row !== undefined;
  }

  findByDirectKey(tenantId: string, key: string): Promise<{ id: string } | undefined> {
    return this.#db.selectFrom("room").select("id").where("tenant_id", "=", tenantId).where("direct_key", "=", key)
      .executeTakeFirst();
  }

  async addMembers(rows: readonly MemberRow[]): Promise<void> {
    if (rows.length > 0) await this.#db.insertInto("member").values(rows).execute();
  }

  member(tenantId: string, roomId: string, principalId: string): Promise<MemberRow | undefined> {
    return this.#db.selectFrom("member").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("principal_id", "=", principalId).executeTakeFirst();
  }

  async memberIds(tenantId: string, roomId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("member").select("principal_id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).execute();
    return rows.map((row) => row.principal_id);
  }

  members(
    tenantId: string,
    roomId: string,
    filter: { role?: RoomRole | undefined; kind?: PrincipalKind | undefined },
    after: string | undefined,
    limit: number,
    only?: string,
  ): Promise<ListedMember[]> {
    let query = membersWithPrincipal(this.#db).selectAll("member").select(PROFILE_COLUMNS)
      .where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId);
    if (filter.role !== undefined) query = query.where("member.role", "=", filter.role);
    if (filter.kind !== undefined) query = query.where("principal.kind", "=", filter.kind);
    if (only !== undefined) query = query.where("member.principal_id", "=", only);
    if (after !== undefined) query = query.where("member.principal_id", ">", after);
    return query.orderBy("member.principal_id").limit(limit).execute();
  }

  /** Members of a room that have one of these handles. */
  membersByHandle(
    tenantId: string,
    roomId: string,
    handles: readonly string[],
  ): Promise<Pick<RoomTables["principal"], "id" | "handle">[]> {
    return this.#db.selectFrom("principal")
      .innerJoin("member", (join) =>
        join.onRef("member.tenant_id", "=", "principal.tenant_id")
          .onRef("member.principal_id", "=", "principal.id").on("member.room_id", "=", roomId))
      .select(["principal.id", "principal.handle"])
      .where("principal.tenant_id", "=", tenantId).where("principal.handle", "in", handles).execute();
  }

  /** Enabled principals of these ids with what decides whether they see the room. */
  async viewers(tenantId: string, roomId: string, ids: readonly string[]): Promise<RoomViewer[]> {
    if (ids.length === 0) return [];
    return await this.#db.selectFrom("principal")
      .leftJoin(
        "member as me",
        (join) =>
          join.onRef("me.tenant_id", "=", "principal.tenant_id").onRef("me.principal_id", "=", "principal.id")
            .on("me.room_id", "=", roomId),
      )
      .leftJoin(
        "member as owner",
        (join) =>
          join.onRef("owner.tenant_id", "=", "principal.tenant_id").onRef(
            "owner.principal_id",
            "=",
            "principal.owner_id",
          )
            .on("owner.room_id", "=", roomId),
      )
      .select(["principal.id", "principal.kind", "principal.role", "principal.owner_id"])
      .select(["me.role as my_role", "me.joined_seq as my_joined_seq", "me.last_read_seq"])
      .select(["me.notify_level", "me.muted_until"])
      .select(["owner.role as owner_role", "owner.joined_seq as owner_joined_seq"])
      .where("principal.tenant_id", "=", tenantId).where("principal.id", "in", ids)
      .where("principal.is_disabled", "=", 0)
      .where(({ not, exists, selectFrom }) =>
        not(exists(
          selectFrom("ban").select("ban.principal_id").where("ban.tenant_id", "=", tenantId)
            .where("ban.room_id", "=", roomId).whereRef("ban.principal_id", "=", "principal.id"),
        ))
      ).execute();
  }

  async setRole(tenantId: string, roomId: string, principalId: string, role: RoomRole): Promise<void> {
    await this.#db.updateTable("member").set({ role }).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("principal_id", "=", principalId).execute();
  }

  async updateMemberSettings(
    tenantId: string,
    roomId: string,
    principalId: string,
    settings: MemberSettingsRow,
  ): Promise<void> {
    await this.#db.updateTable("member").set(settings).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("principal_id", "=", principalId).execute();
  }

  removeMembers(tenantId: string, roomId: string, principalIds: readonly string[]): Promise<MemberRow[]> {
    return this.#db.deleteFrom("member").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("principal_id", "in", principalIds).returningAll().execute();
  }

  /** Ids of the members that are agents of these principals. */
  async agentMembers(tenantId: string, roomId: string, ownerIds: readonly string[]): Promise<string[]> {
    const rows = await membersWithPrincipal(this.#db).select("member.principal_id")
      .where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId)
      .where("principal.owner_id", "in", ownerIds).orderBy("member.principal_id").execute();
    return rows.map((row) => row.principal_id);
  }

  /** Recounts the members; the count is computed, never incremented, so it cannot drift. */
  async recountMembers(tenantId: string, roomId: string): Promise<number> {
    const row = await this.#db.updateTable("room").set(({ selectFrom }) => ({
      member_count: selectFrom("member").select(({ fn }) => fn.countAll<number>().as("n"))
        .where("tenant_id", "=", tenantId).where("room_id", "=", roomId),
    })).where("tenant_id", "=", tenantId).where("id", "=", roomId).returning("member_count").executeTakeFirstOrThrow();
    return Number(row.member_count);
  }

  async addBan(row: BanRow): Promise<void> {
    await this.#db.insertInto("ban").values(row).onConflict((conflict) =>
      conflict.columns(["tenant_id", "room_id", "principal_id"]).doUpdateSet({ reason: row.reason })
    ).execute();
  }

  bans(tenantId: string, roomId: string, after: string | undefined, limit: number): Promise<BanRow[]> {
    let query = this.#db.selectFrom("ban").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId);
    if (after !== undefined) query = query.where("principal_id", ">", after);
    return query.orderBy("principal_id").limit(limit).execute();
  }

  async isBanned(tenantId: string, roomId: string, principalId: string): Promise<boolean> {
    const row = await this.#db.selectFrom("ban").select("principal_id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("principal_id", "=", principalId).executeTakeFirst();
    return row !== undefined;
  }

  async removeBan(tenantId: string, roomId: string, principalId: string): Promise<boolean> {
    const rows = await this.#db.deleteFrom("ban").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("principal_id", "=", principalId).returning("principal_id").execute();
    return rows.length > 0;
  }

  /** Deletes some rows of a room, its own the last; returns whether there are more. */
  async purge(tenantId: string, roomId: string): Promise<boolean> {
    const ofRoom = sql<SqlBool>`tenant_id = ${tenantId} and room_id = ${roomId}`;
    if (await deleteSome(this.#db, "ban", ofRoom) || await deleteSome(this.#db, "member", ofRoom)) return true;
    await this.#db.deleteFrom("room").where("tenant_id", "=", tenantId).where("id", "=", roomId).execute();
    return false;
  }

  /** Sizes of the largest rooms of all tenants, and of all rooms together, for the metric. */
  async largestRooms(largest: number): Promise<{ rooms: { id: string; members: number }[]; total: number }> {
    const living = this.#db.selectFrom("room").where("state", "<>", sql.lit("deleted"));
    const rows = await living.select(["id", "member_count"]).orderBy("member_count", "desc").limit(largest).execute();
    const sum = await living.select(({ fn }) => fn.sum<number>("member_count").as("n")).executeTakeFirst();
    return { rooms: rows.map((row) => ({ id: row.id, members: row.member_count })), total: Number(sum?.n ?? 0) };
  }
}
