// SQL of who owns a room in effect, and who is next.
import { type Kysely, sql } from "kysely";
import type { RoomTables } from "../store.ts";

export class SuccessionStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  /** Ids of the rooms in which somebody has the role of owner, after `after`, at most `limit`. */
  async ownedBy(tenantId: string, principalId: string, after: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("member").select("room_id").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("role", "=", "owner").where("room_id", ">", after)
      .orderBy("room_id").limit(limit).execute();
    return rows.map((row) => row.room_id);
  }

  /**
   * Ids of those who own a room in effect, at most two: enabled, and no agent of somebody, which has no more rights than its
   * owner and so adds nobody.
   */
  async owners(tenantId: string, roomId: string): Promise<string[]> {
    const rows = await this.#members(tenantId, roomId).select("member.principal_id").where("member.role", "=", "owner")
      .where("principal.owner_id", "is", null).limit(2).execute();
    return rows.map((row) => row.principal_id);
  }

  /** The person who has been there longest: a moderator, else a member; one who is a guest of the tenant only if all are. */
  async heir(tenantId: string, roomId: string): Promise<string | undefined> {
    const row = await this.#members(tenantId, roomId).select("member.principal_id")
      .where("principal.kind", "=", "human").where("member.role", "in", ["moderator", "member"])
      .orderBy(sql`case when principal.role = 'guest' then 1 else 0 end`)
      .orderBy(sql`case when member.role = 'moderator' then 0 else 1 end`)
      .orderBy("member.joined_at").orderBy("member.joined_seq").orderBy("member.principal_id")
      .limit(1).executeTakeFirst();
    return row?.principal_id;
  }

  /** Members that are enabled. */
  #members(tenantId: string, roomId: string) {
    return this.#db.selectFrom("member")
      .innerJoin("principal", (join) =>
        join.onRef("principal.tenant_id", "=", "member.tenant_id")
          .onRef("principal.id", "=", "member.principal_id"))
      .where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId)
      .where("principal.is_disabled", "=", 0);
  }
}
