// SQL of rooms, members and bans.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import { type Actor, isGuest, type PrincipalKind, type RoomRole, type TenantRole } from "@/core/actor.ts";
import { byChunks } from "@/core/chunks.ts";
import { contains } from "@/ports/like.ts";
import { isOfTenant } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import { facing } from "./door/store.ts";

export type RoomRow = {
  tenant_id: string;
  id: string;
  name: string;
  slug: string | null;
  topic: string | null;
  description: string | null;
  kind: "channel" | "direct" | "task" | "meeting";
  visibility: "public" | "private";
  history_visibility: "shared" | "joined";
  state: "active" | "archived" | "deleted";
  agent_policy_json: string;
  retention_days: number | null;
  metadata_json: string;
  member_count: number;
  /** The members of a direct room, sorted and hashed; one room per set. */
  direct_key: string | null;
  last_message_at: string | null;
  /** What the list is sorted by: the last message, or the making. */
  active_at: string;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  /** Of a deleted room, the `Undo` that restores what deleting took; null before and after. */
  undo_json: string | null;
};

export type Undo = Pick<RoomRow, "slug" | "state">;

export type MemberRow = {
  tenant_id: string;
  room_id: string;
  principal_id: string;
  role: RoomRole;
  joined_at: string;
  /** Head of the stream when they joined. */
  joined_seq: number;
  last_read_seq: number;
  /** Version of the principal that the room has heard of: as they joined, or by `member.updated` since. */
  told_version: number;
};

/** A member with what others see of the principal. */
export type ListedMember = MemberRow & Pick<RoomTables["principal"], "kind" | "display_name" | "avatar_file_id">;

export type BanRow = {
  tenant_id: string;
  room_id: string;
  principal_id: string;
  reason: string | null;
  created_by: string;
  created_at: string;
};

export type RoomTables = {
  room: RoomRow;
  member: MemberRow;
  ban: BanRow;
  principal: {
    tenant_id: string;
    id: string;
    kind: PrincipalKind;
    display_name: string;
    avatar_file_id: string | null;
    role: TenantRole;
    owner_id: string | null;
    is_disabled: number;
  };
  stream: { tenant_id: string; name: string; epoch: string; head: number; floor: number };
};

/** A room as one principal meets it. */
export type SeenRoom = RoomRow & {
  my_role: RoomRole | null;
  my_joined_seq: number | null;
  my_last_read_seq: number | null;
  owner_role: RoomRole | null;
  owner_joined_seq: number | null;
  epoch: string | null;
  head: number | null;
};

/** Somebody at the door of a room. */
export type Visitor = Pick<RoomTables["principal"], "id" | "kind" | "role" | "owner_id"> & {
  my_role: RoomRole | null;
  my_joined_seq: number | null;
  owner_role: RoomRole | null;
  owner_joined_seq: number | null;
  last_read_seq: number | null;
};

/** Whom a query is about; the owner of an agent, or nobody. */
export type Who = { tenantId: string; principalId: string; ownerId: string };

/** All rooms as one principal meets them; `owner` is that of an agent. The return type is inferred: it is a query under construction. */
// deno-lint-ignore explicit-module-boundary-types
export function seenRooms(db: Kysely<RoomTables>, me: string, owner: string) {
  return facing(db, me, owner)
    .leftJoin("stream", (join) =>
      join.onRef("stream.tenant_id", "=", "room.tenant_id")
        .on("stream.name", "=", sql<string>`'room:' || room.id`))
    .selectAll("room")
    .select(["me.last_read_seq as my_last_read_seq", "stream.epoch", "stream.head"]);
}

/** Who asks for a list across rooms: `isOwned` bounds an agent by its owner, `withPublic` adds rooms it may look into. */
export type Reader = { principalId: string; ownerId: string; isOwned: boolean; withPublic: boolean };

export function readerOf(actor: Actor): Reader {
  const { principalId, ownerId } = actor;
  return { principalId, ownerId: ownerId ?? "", isOwned: ownerId !== null, withPublic: looksIntoPublic(actor) };
}

/** Whether somebody sees public rooms without being a member. */
export function looksIntoPublic({ role, kind }: Pick<Actor, "role" | "kind">): boolean {
  return !isGuest({ role }) && kind !== "agent";
}

/** For a room faced: whether the reader sees it. */
function sees({ isOwned, withPublic }: Pick<Reader, "isOwned" | "withPublic">): RawBuilder<SqlBool> {
  const isMember = isOwned
    ? sql<SqlBool>`me.role is not null and boss.role is not null`
    : sql<SqlBool>`me.role is not null`;
  return withPublic ? sql<SqlBool>`(${isMember} or room.visibility = 'public')` : isMember;
}

/** Whether the reader sees the room whose id is in `column`: the one condition of all lists of what lies in rooms. */
export function isInSeenRoom(
  db: Kysely<RoomTables>,
  tenantId: string,
  column: string,
  reader: Reader,
): RawBuilder<SqlBool> {
  const seen = facing(db, reader.principalId, reader.ownerId).clearSelect().select("room.id")
    .where("room.tenant_id", "=", tenantId).where("room.id", "=", sql<string>`${sql.ref(column)}`)
    .where("room.state", "<>", "deleted").where(sees(reader));
  return sql<SqlBool>`exists ${seen}`;
}

const seenRoomById = prepared(
  (db: Kysely<RoomTables>, value: Param<Who & { id: string }>) =>
    seenRooms(db, value("principalId"), value("ownerId")).where("room.tenant_id", "=", value("tenantId"))
      .where("room.id", "=", value("id")),
  { mayKeep: true },
);

/** The minute of `active_at`, which the database keeps. */
const activeMinute = sql<string>`room.active_minute`;

export type ListFilter = {
  q?: string | undefined;
  kind?: RoomRow["kind"] | undefined;
  visibility?: RoomRow["visibility"] | undefined;
  state?: "active" | "archived" | undefined;
  updatedSince?: string | undefined;
  /** Public rooms of others are listed as well. */
  withPublic: boolean;
  sort: "-lastMessageAt" | "name";
};

export class RoomStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  async seen(who: Who, id: string): Promise<SeenRoom | undefined> {
    return await seenRoomById.first(this.#db, { ...who, id });
  }

  /** Those of these rooms that are there. */
  seenAll({ tenantId, principalId, ownerId }: Who, ids: readonly string[]): Promise<SeenRoom[]> {
    return byChunks(
      ids,
      (some) =>
        seenRooms(this.#db, principalId, ownerId).where(isOfTenant(tenantId, "room.tenant_id"))
          .where("room.id", "in", some).execute(),
    );
  }

  /** The room as it is, for what the gateway does by itself: nobody's rights are in it. */
  find(tenantId: string, id: string): Promise<SeenRoom | undefined> {
    return this.seen({ tenantId, principalId: "", ownerId: "" }, id);
  }

  list(
    who: Who & { isOwned: boolean },
    filter: ListFilter,
    after: readonly (string | number)[] | undefined,
    limit: number,
  ): Promise<SeenRoom[]> {
    let query = seenRooms(this.#db, who.principalId, who.ownerId).where("room.tenant_id", "=", who.tenantId)
      .where("room.state", "<>", "deleted");
    query = query.where(sees({ isOwned: who.isOwned, withPublic: filter.withPublic }));
    if (filter.q !== undefined) query = query.where(contains("room.name", filter.q));
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
    return query.orderBy(column, direction).orderBy("room.id", direction).limit(limit).execute();
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

  byDirectKey(tenantId: string, key: string): Promise<{ id: string } | undefined> {
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

  /** Ids of the members of a room. */
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
    let query = this.#db.selectFrom("member")
      .innerJoin("principal", (join) =>
        join.onRef("principal.tenant_id", "=", "member.tenant_id")
          .onRef("principal.id", "=", "member.principal_id"))
      .selectAll("member").select(["principal.kind", "principal.display_name", "principal.avatar_file_id"])
      .where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId);
    if (filter.role !== undefined) query = query.where("member.role", "=", filter.role);
    if (filter.kind !== undefined) query = query.where("principal.kind", "=", filter.kind);
    if (only !== undefined) query = query.where("member.principal_id", "=", only);
    if (after !== undefined) query = query.where("member.principal_id", ">", after);
    return query.orderBy("member.principal_id").limit(limit).execute();
  }

  /** Enabled principals of these ids with what decides whether they see the room. */
  async visitors(tenantId: string, roomId: string, ids: readonly string[]): Promise<Visitor[]> {
    if (ids.length === 0) return [];
    return await this.#db.selectFrom("principal")
      .leftJoin(
        "member as me",
        (join) =>
          join.onRef("me.tenant_id", "=", "principal.tenant_id").onRef("me.principal_id", "=", "principal.id")
            .on("me.room_id", "=", roomId),
      )
      .leftJoin(
        "member as boss",
        (join) =>
          join.onRef("boss.tenant_id", "=", "principal.tenant_id").onRef("boss.principal_id", "=", "principal.owner_id")
            .on("boss.room_id", "=", roomId),
      )
      .select(["principal.id", "principal.kind", "principal.role", "principal.owner_id"])
      .select(["me.role as my_role", "me.joined_seq as my_joined_seq", "me.last_read_seq"])
      .select(["boss.role as owner_role", "boss.joined_seq as owner_joined_seq"])
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

  async removeMembers(tenantId: string, roomId: string, principalIds: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("member").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("principal_id", "in", principalIds).execute();
  }

  /** Ids of the members that are agents of these principals. */
  async agentMembers(tenantId: string, roomId: string, ownerIds: readonly string[]): Promise<string[]> {
    const rows = await this.#db.selectFrom("member")
      .innerJoin("principal", (join) =>
        join.onRef("principal.tenant_id", "=", "member.tenant_id")
          .onRef("principal.id", "=", "member.principal_id"))
      .select("member.principal_id")
      .where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId)
      .where("principal.owner_id", "in", ownerIds).orderBy("member.principal_id").execute();
    return rows.map((row) => row.principal_id);
  }

  /** Recounts the members; the count is computed, never incremented, so it cannot drift. */
  async recount(tenantId: string, roomId: string): Promise<number> {
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

  /** Removes what the room module keeps of a room. */
  async purge(tenantId: string, roomId: string): Promise<void> {
    for (const table of ["ban", "member"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("room_id", "=", roomId).execute();
    }
    await this.#db.deleteFrom("room").where("tenant_id", "=", tenantId).where("id", "=", roomId).execute();
  }

  /** Sizes of the largest rooms of all tenants, and of all rooms together, for the metric. */
  async sizes(largest: number): Promise<{ rooms: { id: string; members: number }[]; total: number }> {
    const rows = await this.#db.selectFrom("room").select(["id", "member_count"]).where("state", "<>", "deleted")
      .orderBy("member_count", "desc").limit(largest).execute();
    const sum = await this.#db.selectFrom("room").select(({ fn }) => fn.sum<number>("member_count").as("n"))
      .where("state", "<>", "deleted").executeTakeFirst();
    return { rooms: rows.map((row) => ({ id: row.id, members: row.member_count })), total: Number(sum?.n ?? 0) };
  }
}
