// SQL of the rooms to which a changed profile has yet to be published.
import { type Kysely, sql } from "kysely";
import { type MemberRow, PROFILE_COLUMNS, type ProfileColumns, type RoomTables } from "./store.ts";

export type ProfileTables = RoomTables & {
  principal: RoomTables["principal"] & { version: number };
};

/** A member with the profile to publish. */
type MemberProfile =
  & Pick<MemberRow, "role">
  & ProfileColumns
  & Pick<ProfileTables["principal"], "version">
  & { member_count: number };

export class ProfileStore {
  readonly #db: Kysely<ProfileTables>;

  constructor(db: Kysely<ProfileTables>) {
    this.#db = db;
  }

  /** Ids of the rooms, after `after`, in which the newest version of the principal is not published yet, at most `limit`. */
  async pendingRooms(tenantId: string, principalId: string, after: string, limit: number): Promise<string[]> {
    const rows = await this.#pending(tenantId, principalId).select("member.room_id").where("member.room_id", ">", after)
      .orderBy("member.room_id").limit(limit).execute();
    return rows.map((row) => row.room_id);
  }

  /** What to publish in one room; `undefined` if it is published, the room is deleted, or the membership ended. */
  pending(tenantId: string, principalId: string, roomId: string): Promise<MemberProfile | undefined> {
    return this.#pending(tenantId, principalId).select(["member.role", "room.member_count"])
      .select(PROFILE_COLUMNS).select("principal.version")
      .where("member.room_id", "=", roomId).executeTakeFirst();
  }

  async markPublished(tenantId: string, principalId: string, roomId: string, version: number): Promise<void> {
    await this.#db.updateTable("member").set({ published_version: version }).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("principal_id", "=", principalId).execute();
  }

  #pending(tenantId: string, principalId: string) {
    return this.#db.selectFrom("member")
      .innerJoin(
        "principal",
        (join) =>
          join.onRef("principal.tenant_id", "=", "member.tenant_id").onRef("principal.id", "=", "member.principal_id"),
      )
      .innerJoin("room", "room.id", "member.room_id")
      .where("member.tenant_id", "=", tenantId).where("member.principal_id", "=", principalId)
      .whereRef("member.published_version", "<", "principal.version").where("room.state", "<>", sql.lit("deleted"));
  }
}
