// SQL of read receipts: which members share their read positions.
import { type Kysely, sql } from "kysely";
import { sharesReadReceipts } from "@/modules/identity/mod.ts";
import { tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { PRESENCE_MAX } from "./schema.ts";
import type { MemberRow, RoomTables } from "./store.ts";

/** A member in a receipt. */
export type ReadPositionRow =
  & Pick<MemberRow, "room_id" | "principal_id" | "last_read_seq">
  & Pick<RoomTables["principal"], "kind">;

export class ReadReceiptStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  /** The members who share their positions, in those of these rooms that are small enough. */
  async sharedPositions(tenantId: string, roomIds: readonly string[]): Promise<ReadPositionRow[]> {
    const rows = await this.#db.selectFrom("room")
      .innerJoin(
        "member",
        (join) => join.onRef("member.tenant_id", "=", "room.tenant_id").onRef("member.room_id", "=", "room.id"),
      )
      .innerJoin(
        "principal",
        (join) =>
          join.onRef("principal.tenant_id", "=", "member.tenant_id").onRef("principal.id", "=", "member.principal_id"),
      )
      .leftJoin(
        "principal as owner",
        (join) =>
          join.onRef("owner.tenant_id", "=", "principal.tenant_id").onRef("owner.id", "=", "principal.owner_id"),
      )
      .select(["member.room_id", "member.principal_id", "member.last_read_seq", "principal.kind"])
      .select(({ fn }) => fn.coalesce("owner.prefs_json", "principal.prefs_json").as("prefs_json"))
      .where(tenantIsUnindexed(tenantId, "room.tenant_id")).where("room.id", "in", roomIds)
      .where("room.state", "<>", sql.lit("deleted")).where("room.member_count", "<=", PRESENCE_MAX)
      .execute();
    return rows.filter(sharesReadReceipts);
  }
}
