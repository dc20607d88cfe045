// SQL of which rooms have yet to hear what a member is called and looks like by now.
import type { Kysely } from "kysely";
import type { MemberRow, RoomTables } from "../store.ts";

export type ProfileTables = RoomTables & {
  principal: RoomTables["principal"] & { version: number };
};

/** A member as the room is to be told of it. */
export type Profile =
  & Pick<MemberRow, "role">
  & Pick<ProfileTables["principal"], "kind" | "display_name" | "avatar_file_id" | "version">
  & { member_count: number };

export class ProfileStore {
  readonly #db: Kysely<ProfileTables>;

  constructor(db: Kysely<ProfileTables>) {
    this.#db = db;
  }

  /** Ids of the rooms, after `after`, that have not heard of the newest version of one of their members, at most `limit`. */
  async behind(tenantId: string, principalId: string, after: string, limit: number): Promise<string[]> {
    const rows = await this.#untold(tenantId, principalId).select("member.room_id").where("member.room_id", ">", after)
      .orderBy("member.room_id").limit(limit).execute();
    return rows.map((row) => row.room_id);
  }

  /** What one of these rooms is to be told; `undefined` when it has heard, is deleted, or they are no member any more. */
  untold(tenantId: string, principalId: string, roomId: string): Promise<Profile | undefined> {
    return this.#untold(tenantId, principalId).select(["member.role", "room.member_count"])
      .select(["principal.kind", "principal.display_name", "principal.avatar_file_id", "principal.version"])
      .where("member.room_id", "=", roomId).executeTakeFirst();
  }

  async markTold(tenantId: string, principalId: string, roomId: string, version: number): Promise<void> {
    await this.#db.updateTable("member").set({ told_version: version }).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("principal_id", "=", principalId).execute();
  }

  #untold(tenantId: string, principalId: string) {
    return this.#db.selectFrom("member")
      .innerJoin("principal", (join) =>
        join.onRef("principal.tenant_id", "=", "member.tenant_id")
          .onRef("principal.id", "=", "member.principal_id"))
      .innerJoin("room", "room.id", "member.room_id")
      .where("member.tenant_id", "=", tenantId).where("member.principal_id", "=", principalId)
      .whereRef("member.told_version", "<", "principal.version").where("room.state", "<>", "deleted");
  }
}
