// SQL of the effective owners of rooms, and of the next owner.
import { type Kysely, sql } from "kysely";
import { membersWithPrincipal, type RoomTables } from "./store.ts";

/** Which rooms of a principal: those that it owns, or all that it is a member of. */
export type OwnedRooms = "owned" | "all";

export class OwnershipStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  /** Ids of the rooms that the principal is in, or only of those in which it has the role owner; after `after`, at most `limit`. */
  async roomsOf(
    tenantId: string,
    principalId: string,
    which: OwnedRooms,
    { after, limit }: { after: string; limit: number },
  ): Promise<string[]> {
    const rows = await this.#db.selectFrom("member").select("room_id").where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).where("room_id", ">", after)
      .$if(which === "owned", (query) => query.where("role", "=", sql.lit("owner")))
      .orderBy("room_id").limit(limit).execute();
    return rows.map((row) => row.room_id);
  }

  /** Who has the role owner: this principal, or any other. */
  async ownerByRole(tenantId: string, roomId: string, principalId: string): Promise<string | undefined> {
    const row = await this.#db.selectFrom("member").select("principal_id")
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("role", "=", sql.lit("owner"))
      .orderBy(({ eb }) => eb.case().when("principal_id", "=", principalId).then(0).else(1).end())
      .orderBy("principal_id").limit(1).executeTakeFirst();
    return row?.principal_id;
  }

  /**
   * Ids of the effective owners of a room, at most two: enabled, and not an owned agent, which has no more rights than its
   * owner.
   */
  async effectiveOwners(tenantId: string, roomId: string): Promise<string[]> {
    const rows = await this.#enabledMembers(tenantId, roomId).select("member.principal_id")
      .where("member.role", "=", sql.lit("owner")).where("principal.owner_id", "is", null).limit(2).execute();
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
    return membersWithPrincipal(this.#db).where("member.tenant_id", "=", tenantId).where("member.room_id", "=", roomId)
      .where("principal.is_disabled", "=", 0);
  }
}
