// SQL of groups in rooms: which of their members are there, and which are not.
import type { Kysely } from "kysely";
import type { GroupTables } from "@/modules/group/mod.ts";
import { tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { RoomTables } from "./tables.ts";

type Tables = RoomTables & GroupTables;

export class RoomGroupStore {
  readonly #db: Kysely<Tables>;

  constructor(db: Kysely<Tables>) {
    this.#db = db;
  }

  /** Enabled members of a group that are members of the room, at most `limit`. */
  async membersIn(tenantId: string, groupId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#members(tenantId, groupId)
      .innerJoin(
        "member",
        (join) =>
          join.onRef("member.principal_id", "=", "user_group_member.principal_id").on("member.room_id", "=", roomId),
      )
      .limit(limit).execute();
    return rows.map(({ id }) => id);
  }

  /** Enabled members of a group that are not in the room, at most `limit`. */
  async membersOutside(tenantId: string, groupId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#members(tenantId, groupId)
      .where(({ not, exists, selectFrom }) =>
        not(exists(
          selectFrom("member").select("member.role").where("member.room_id", "=", roomId)
            .whereRef("member.principal_id", "=", "user_group_member.principal_id"),
        ))
      )
      .limit(limit).execute();
    return rows.map(({ id }) => id);
  }

  #members(tenantId: string, groupId: string) {
    return this.#db.selectFrom("user_group_member")
      .innerJoin("principal", (join) =>
        join.onRef("principal.tenant_id", "=", "user_group_member.tenant_id")
          .onRef("principal.id", "=", "user_group_member.principal_id"))
      .select("principal.id").where(tenantIsUnindexed(tenantId, "user_group_member.tenant_id"))
      .where("user_group_member.group_id", "=", groupId).where("principal.is_disabled", "=", 0).orderBy("principal.id");
  }
}
