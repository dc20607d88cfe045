// SQL of names: of authors, and of members of direct rooms.
import { type Kysely, sql } from "kysely";
import { queryInChunks } from "@/core/page.ts";
import { membersWithPrincipal, PROFILE_COLUMNS, type ProfileColumns, type RoomTables } from "./store.ts";

export type PersonRow = ProfileColumns & Pick<RoomTables["principal"], "id" | "owner_id">;

const PERSON_COLUMNS = ["principal.id", "principal.owner_id", ...PROFILE_COLUMNS] as const;

export class PeopleStore {
  readonly #db: Kysely<RoomTables>;

  constructor(db: Kysely<RoomTables>) {
    this.#db = db;
  }

  /** Those of these principals that exist, and whether each is a member of one of the rooms. */
  async findWithMembership(
    tenantId: string,
    ids: readonly string[],
    roomIds: readonly string[],
  ): Promise<(PersonRow & { is_member: number })[]> {
    const isMember = sql<number>`case when exists (select 1 from member where member.tenant_id = principal.tenant_id
      and member.principal_id = principal.id and member.room_id in (${sql.join(roomIds)})) then 1 else 0 end`;
    return await queryInChunks(
      ids,
      (some) =>
        this.#db.selectFrom("principal").select(PERSON_COLUMNS).select(isMember.as("is_member"))
          .where("principal.tenant_id", "=", tenantId).where("principal.id", "in", some).orderBy("principal.id")
          .execute(),
    );
  }

  /** The members of direct rooms except one principal, with the room of each. */
  async otherMembers(
    tenantId: string,
    principalId: string,
    roomIds: readonly string[],
  ): Promise<(PersonRow & { room_id: string })[]> {
    return await queryInChunks(
      roomIds,
      (some) =>
        membersWithPrincipal(this.#db)
          .select(PERSON_COLUMNS).select("member.room_id").where("member.room_id", "in", some)
          .where("member.tenant_id", "=", tenantId).where("member.principal_id", "<>", principalId)
          .orderBy("member.room_id").orderBy("member.principal_id").execute(),
    );
  }
}
