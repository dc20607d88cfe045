// SQL of the effective owners of rooms, and of the next owner.
import { type Kysely, sql } from "kysely";
import { membersWithPrincipal, type RoomTables } from "./store.ts";

export class OwnershipStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  /** Ids of the rooms in which the principal has the role owner, after `after`, at most `limit`. */
  async roomsOwnedBy(tenantId: string, principalId: string, after: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("member").select("room_id").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("role", "=", "owner").where("room_id", ">", after)
      .orderBy("room_id").limit(limit).execute();
    return rows.map((row) => row.room_id);
  }

  /**
   * Ids of the effective owners of a room, at most two: enabled, and not an owned agent, which has no more rights than its
   * owner.
   */
  async effectiveOwners(tenantId: string, roomId: string): Promise<string[]> {
    const rows = await this.#enabledMembers(tenantId, roomId).select("member.principal_id").where(
      "member.role",
      "=",
      "owner",
    )
      .where("principal.owner_id", "is", null).limit(2).execute();
    return rows.map((row) => row.principal_id);
  }

  /** The moderator, else the member, who joined first; only people, and guests of the tenant after all others. */
  async nextOwner(tenantId: string, roomId: string): Promise<string | undefined> {
    const row = await this.#enabledMembers(tenantId, roomId).select("member.principal_id")
      .where("principal.kind", "=", "human").where("member.role", "in", ["moderator", "member"])
      .orderBy(sql`case when principal.role = 'guest' then 1 else 0 end`)
      .orderBy(sql`case when member.role = 'moderator' then 0 else 1 end`)
      .orderBy("member.joined_at").orderBy("member.joined_seq").orderBy("member.principal_id")
      .limit(1).executeTakeFirst();
    return row?.principal_id;
  }

  #enabledMembers(tenantId: string, roomId: string) {
    return membersWithPrincipal(this.#db)
      .where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId)
      .where("principal.is_disabled", "=", 0);
  }
}
