// SQL of access to rooms. Queried for every message, so it reads no column that messages change.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import { inJsonList, jsonRows } from "@/ports/sql/filters.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Reader, RoomRow, RoomTables, ViewedRoom, Viewer } from "./tables.ts";

/** The columns that decide who has access to a room. None of them changes when a message is sent or read. */
export type RoomAccessRow =
  & Pick<
    RoomRow,
    "tenant_id" | "id" | "kind" | "visibility" | "history_visibility" | "state" | "member_count" | "agent_policy_json"
  >
  & Pick<ViewedRoom, "my_role" | "my_joined_seq" | "owner_role" | "owner_joined_seq">;

const ACCESS_COLUMNS = [
  "room.tenant_id",
  "room.id",
  "room.kind",
  "room.visibility",
  "room.history_visibility",
  "room.state",
  "room.member_count",
  "room.agent_policy_json",
] as const;
const MEMBERSHIP_COLUMNS = [
  "me.role as my_role",
  "me.joined_seq as my_joined_seq",
  "owner.role as owner_role",
  "owner.joined_seq as owner_joined_seq",
] as const;

/** Within a query about `room`: a ban hides it, even from those who only browse. `principalId` is a value or a column. */
export function isNotBanned(principalId: string | RawBuilder<string>): RawBuilder<SqlBool> {
  return sql<SqlBool>`not exists (select 1 from ban where ban.tenant_id = room.tenant_id
    and ban.room_id = room.id and ban.principal_id = ${principalId})`;
}

/**
 * Rooms with the memberships of a viewer and its owner: by the room's id, which is unique. If they had the tenant as well,
 * PostgreSQL could read all memberships of the viewer once for each room. The return type is inferred: it is a query under
 * construction.
 */
// deno-lint-ignore explicit-module-boundary-types
export function roomsForViewer(db: Kysely<RoomTables>, me: string, owner: string) {
  return db.selectFrom("room")
    .leftJoin("member as me", (join) => join.onRef("me.room_id", "=", "room.id").on("me.principal_id", "=", me))
    .leftJoin(
      "member as owner",
      (join) => join.onRef("owner.room_id", "=", "room.id").on("owner.principal_id", "=", owner),
    )
    .where(isNotBanned(me))
    .select(MEMBERSHIP_COLUMNS);
}

/** Ids of the reader's rooms, and of public rooms if it may browse: a superset of the rooms that it can see. */
// deno-lint-ignore explicit-module-boundary-types
export function visibleRoomIds(db: Kysely<RoomTables>, tenantId: string, { principalId, withPublic }: Reader) {
  const own = db.selectFrom("member").select("member.room_id as id").where("member.tenant_id", "=", tenantId)
    .where("member.principal_id", "=", principalId);
  if (!withPublic) return own;
  // A literal, so that the partial index of public rooms is used.
  const open = db.selectFrom("room").select("room.id").where("room.tenant_id", "=", tenantId)
    .where("room.visibility", "=", sql.lit("public"));
  return own.unionAll(open);
}

const accessById = prepared(
  (db: Kysely<RoomTables>, value: Param<AccessQuery>) =>
    roomsForViewer(db, value("principalId"), value("ownerId")).select(ACCESS_COLUMNS)
      .where("room.tenant_id", "=", value("tenantId")).where("room.id", "=", value("id")),
  { cacheable: true },
);

/** A viewer and a room. */
export type AccessQuery = Viewer & { id: string };
type AccessQueryRow = { n: number; room_id: string; me: string; owner: string };

/** Access rows for many queries, each an `AccessQueryRow`; PostgreSQL only. */
const accessByIds = prepared((db: Kysely<RoomTables>, value: Param<{ tenantId: string; queries: string }>) =>
  db.selectFrom(
    jsonRows<AccessQueryRow, "wanted">(value("queries"), sql`wanted(n int, room_id text, me text, owner text)`),
  )
    .innerJoin(
      "room",
      (join) => join.onRef("room.id", "=", "wanted.room_id").on("room.tenant_id", "=", value("tenantId")),
    )
    .leftJoin(
      "member as me",
      (join) => join.onRef("me.room_id", "=", "room.id").onRef("me.principal_id", "=", "wanted.me"),
    )
    .leftJoin(
      "member as owner",
      (join) => join.onRef("owner.room_id", "=", "room.id").onRef("owner.principal_id", "=", "wanted.owner"),
    )
    .where(isNotBanned(sql.ref("wanted.me")))
    .select(ACCESS_COLUMNS).select(MEMBERSHIP_COLUMNS).select("wanted.n")
);

/** `viewerOwnerId` is the owner that bounds the rooms of an agent, or the principal itself. */
type SharedRoomQuery = { tenantId: string; principalId: string; viewerOwnerId: string; ids: string };

/**
 * Of the principals in a JSON array, those that share a room with the viewer. Only the viewer's rooms are read: `other` is
 * looked up by room without its tenant, so that the number of its rooms does not matter.
 */
const sharingRoomByIds = prepared((db: Kysely<RoomTables>, value: Param<SharedRoomQuery>, dialect) =>
  db.selectFrom("principal").select("principal.id").where("principal.tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "principal.id", value("ids")))
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom("member as me").select(sql<number>`1`.as("shared"))
          .innerJoin("member as owner", (join) =>
            join.onRef("owner.room_id", "=", "me.room_id").on("owner.principal_id", "=", value("viewerOwnerId")))
          .innerJoin("member as other", (join) =>
            join.onRef("other.room_id", "=", "me.room_id").onRef("other.principal_id", "=", "principal.id"))
          .innerJoin("room", (join) =>
            join.onRef("room.tenant_id", "=", "me.tenant_id").onRef("room.id", "=", "me.room_id"))
          .where("me.tenant_id", "=", value("tenantId")).where("me.principal_id", "=", value("principalId"))
          .where("room.state", "<>", sql.lit("deleted")),
      )
    )
);

/**
 * The same for many viewers: those in a JSON array that share a room with a principal. Only rooms of the viewers are read. An
 * agent's rooms are bounded by those of its owner.
 */
const viewersSharingRoom = prepared((
  db: Kysely<RoomTables>,
  value: Param<{ tenantId: string; principalId: string; viewerIds: string }>,
  dialect,
) =>
  db.selectFrom("principal").select("principal.id").where("principal.tenant_id", "=", value("tenantId"))
    .where(inJsonList(dialect, "principal.id", value("viewerIds")))
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom("member as me").select(sql<number>`1`.as("shared"))
          .innerJoin("member as owner", (join) =>
            join.onRef("owner.room_id", "=", "me.room_id")
              .on("owner.principal_id", "=", sql<string>`coalesce(principal.owner_id, principal.id)`))
          .innerJoin(
            "member as other",
            (join) =>
              join.onRef("other.room_id", "=", "me.room_id").on("other.principal_id", "=", value("principalId")),
          )
          .innerJoin(
            "room",
            (join) => join.onRef("room.tenant_id", "=", "me.tenant_id").onRef("room.id", "=", "me.room_id"),
          )
          .where("me.tenant_id", "=", value("tenantId")).whereRef("me.principal_id", "=", "principal.id")
          .where("room.state", "<>", sql.lit("deleted")),
      )
    )
);

export class AccessStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  async find(viewer: Viewer, id: string): Promise<RoomAccessRow | undefined> {
    return await accessById.first(this.#db, { ...viewer, id });
  }

  /** Access rows of one tenant, in the order of the queries, read by one statement; PostgreSQL only. */
  async findMany(tenantId: string, queries: readonly AccessQuery[]): Promise<(RoomAccessRow | undefined)[]> {
    const queryRows = queries.map(({ principalId, ownerId, id }, n): AccessQueryRow => ({
      n,
      room_id: id,
      me: principalId,
      owner: ownerId,
    }));
    const rows = await accessByIds.all(this.#db, { tenantId, queries: JSON.stringify(queryRows) });
    const found = new Map(rows.map((row) => [row.n, row]));
    return queries.map((_, n) => found.get(n));
  }

  async filterSharingRoom(viewer: Omit<SharedRoomQuery, "ids">, ids: readonly string[]): Promise<string[]> {
    const rows = await sharingRoomByIds.all(this.#db, { ...viewer, ids: JSON.stringify(ids) });
    return rows.map(({ id }) => id);
  }

  async filterViewersSharingRoom(
    tenantId: string,
    principalId: string,
    viewerIds: readonly string[],
  ): Promise<string[]> {
    const value = { tenantId, principalId, viewerIds: JSON.stringify(viewerIds) };
    return (await viewersSharingRoom.all(this.#db, value)).map(({ id }) => id);
  }
}
