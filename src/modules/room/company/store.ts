// SQL of who meets whom: members of one room.
import { type Kysely, sql } from "kysely";
import { isOneOf } from "@/ports/list.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { RoomTables } from "../store.ts";

/** Whom it is about, and the one through whom it sees rooms: its owner, or itself. */
type Met = { tenantId: string; principalId: string; bossId: string; ids: string };

/**
 * Of the principals in a JSON array, members of rooms that somebody sees as a member. Only the latter's rooms are gone through:
 * without their tenant the others are found by room alone, however many rooms they are in.
 */
const metByIds = prepared((db: Kysely<RoomTables>, value: Param<Met>, dialect) =>
  db.selectFrom("principal").select("principal.id").where("principal.tenant_id", "=", value("tenantId"))
    .where(isOneOf(dialect, "principal.id", value("ids")))
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom("member as me").select(sql<number>`1`.as("is_met"))
          .innerJoin("member as boss", (join) =>
            join.onRef("boss.room_id", "=", "me.room_id").on("boss.principal_id", "=", value("bossId")))
          .innerJoin("member as other", (join) =>
            join.onRef("other.room_id", "=", "me.room_id")
              .onRef("other.principal_id", "=", "principal.id"))
          .innerJoin("room", (join) =>
            join.onRef("room.tenant_id", "=", "me.tenant_id").onRef("room.id", "=", "me.room_id"))
          .where("me.tenant_id", "=", value("tenantId")).where("me.principal_id", "=", value("principalId"))
          .where("room.state", "<>", "deleted"),
      )
    )
);

export class CompanyStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  async met(who: Omit<Met, "ids">, ids: readonly string[]): Promise<string[]> {
    const rows = await metByIds.all(this.#db, { ...who, ids: JSON.stringify(ids) });
    return rows.map(({ id }) => id);
  }
}
