// SQL of what decides who comes into a room; asked for every message, so it reads nothing that messages change.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import { rowsOf } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { Reader, RoomRow, RoomTables, SeenRoom, Who } from "../store.ts";

/** What decides who comes into a room, and little else: nothing of it changes when somebody writes or reads there. */
export type DoorRoom =
  & Pick<
    RoomRow,
    "tenant_id" | "id" | "kind" | "visibility" | "history_visibility" | "state" | "member_count" | "agent_policy_json"
  >
  & Pick<SeenRoom, "my_role" | "my_joined_seq" | "owner_role" | "owner_joined_seq">;

const DOOR = [
  "room.tenant_id",
  "room.id",
  "room.kind",
  "room.visibility",
  "room.history_visibility",
  "room.state",
  "room.member_count",
  "room.agent_policy_json",
] as const;
const STANDING = [
  "me.role as my_role",
  "me.joined_seq as my_joined_seq",
  "boss.role as owner_role",
  "boss.joined_seq as owner_joined_seq",
] as const;

/** Within a query about `room`: a ban hides it, also from who would only look in. `who` is a value or a column. */
export function isNotBanned(who: string | RawBuilder<string>): RawBuilder<SqlBool> {
  return sql<SqlBool>`not exists (select 1 from ban where ban.tenant_id = room.tenant_id
    and ban.room_id = room.id and ban.principal_id = ${who})`;
}

/** A room as one principal stands before it. The return type is inferred: it is a query under construction. */
// deno-lint-ignore explicit-module-boundary-types
export function facing(db: Kysely<RoomTables>, me: string, owner: string) {
  return db.selectFrom("room")
    .leftJoin("member as me", (join) =>
      join.onRef("me.room_id", "=", "room.id").on("me.principal_id", "=", me)
        .onRef("me.tenant_id", "=", "room.tenant_id"))
    .leftJoin("member as boss", (join) =>
      join.onRef("boss.room_id", "=", "room.id").on("boss.principal_id", "=", owner)
        .onRef("boss.tenant_id", "=", "room.tenant_id"))
    .where(isNotBanned(me))
    .select(STANDING);
}

/** Ids of the rooms a reader is in, and of the public ones who looks into those: all that they see are among them. */
// deno-lint-ignore explicit-module-boundary-types
export function roomsInReach(db: Kysely<RoomTables>, tenantId: string, { principalId, withPublic }: Reader) {
  const own = db.selectFrom("member").select("member.room_id as id").where("member.tenant_id", "=", tenantId)
    .where("member.principal_id", "=", principalId);
  if (!withPublic) return own;
  // Said in the query itself, so that the index of such rooms serves.
  const open = db.selectFrom("room").select("room.id").where("room.tenant_id", "=", tenantId)
    .where("room.visibility", "=", sql.lit("public"));
  return own.unionAll(open);
}

const doorById = prepared(
  (db: Kysely<RoomTables>, value: Param<Question>) =>
    facing(db, value("principalId"), value("ownerId"))
      .select(DOOR)
      .where("room.tenant_id", "=", value("tenantId")).where("room.id", "=", value("id")),
  { mayKeep: true },
);

/** Who stands before which room. */
export type Question = Who & { id: string };
type Asked = { n: number; room_id: string; me: string; owner: string };

/** Many doors at once, each question an `Asked`; PostgreSQL only. */
const doorsById = prepared((db: Kysely<RoomTables>, value: Param<{ tenantId: string; asked: string }>) =>
  db.selectFrom(rowsOf<Asked, "asked">(value("asked"), sql`asked(n int, room_id text, me text, owner text)`))
    .innerJoin(
      "room",
      (join) => join.onRef("room.id", "=", "asked.room_id").on("room.tenant_id", "=", value("tenantId")),
    )
    .leftJoin(
      "member as me",
      (join) =>
        join.onRef("me.room_id", "=", "room.id").onRef("me.principal_id", "=", "asked.me")
          .onRef("me.tenant_id", "=", "room.tenant_id"),
    )
    .leftJoin(
      "member as boss",
      (join) =>
        join.onRef("boss.room_id", "=", "room.id").onRef("boss.principal_id", "=", "asked.owner")
          .onRef("boss.tenant_id", "=", "room.tenant_id"),
    )
    .where(isNotBanned(sql.ref("asked.me")))
    .select(DOOR).select(STANDING).select("asked.n")
);

export class DoorStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  async one(who: Who, id: string): Promise<DoorRoom | undefined> {
    return await doorById.first(this.#db, { ...who, id });
  }

  /** The doors of one tenant that are asked for, in the same order, by one query; PostgreSQL only. */
  async many(tenantId: string, asked: readonly Question[]): Promise<(DoorRoom | undefined)[]> {
    const questions = asked.map(({ principalId, ownerId, id }, n): Asked => ({
      n,
      room_id: id,
      me: principalId,
      owner: ownerId,
    }));
    const rows = await doorsById.all(this.#db, { tenantId, asked: JSON.stringify(questions) });
    const found = new Map(rows.map((row) => [row.n, row]));
    return asked.map((_, n) => found.get(n));
  }
}
