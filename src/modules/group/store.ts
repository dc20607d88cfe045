// SQL of groups and their members.
import { type Kysely, sql } from "kysely";
import { queryInChunks } from "@/core/page.ts";
import type { IdentityTables, PrincipalRow } from "@/modules/identity/mod.ts";
import { containsText, tenantIsUnindexed } from "@/ports/sql/filters.ts";

export type GroupRow = {
  tenant_id: string;
  id: string;
  /** Null: the group cannot be mentioned. */
  handle: string | null;
  name: string;
  /** In lower case. */
  name_key: string;
  description: string | null;
  external_id: string | null;
  version: number;
  created_at: string;
  updated_at: string;
};
type GroupMemberRow = { tenant_id: string; group_id: string; principal_id: string; added_at: string };
export type GroupTables = { user_group: GroupRow; user_group_member: GroupMemberRow };
export type MentionableGroup = { id: string; handle: string };
/** A group with the number of its members. */
export type CountedGroup = GroupRow & { member_count: number };
export type ListedMember = GroupMemberRow & Pick<PrincipalRow, "id" | "owner_id" | "display_name" | "handle"> & {
  is_disabled: number;
};
type Filter = {
  q?: string | undefined;
  /** Groups of all of these. */
  memberIds: readonly string[];
};

const MEMBER_COUNT = sql<number>`(select count(*) from user_group_member
  where user_group_member.group_id = user_group.id)`;

export class GroupStore {
  readonly #db: Kysely<GroupTables & Pick<IdentityTables, "principal">>;

  constructor(db: Kysely<GroupTables & Pick<IdentityTables, "principal">>) {
    this.#db = db;
  }

  async find(tenantId: string, id: string): Promise<CountedGroup | undefined> {
    const row = await this.#counted(tenantId).where("id", "=", id).executeTakeFirst();
    return row && numbered(row);
  }

  /** In the order of their names, after a name. */
  async list(tenantId: string, { q, memberIds }: Filter, after: string, limit: number): Promise<CountedGroup[]> {
    let query = this.#counted(tenantId).where("name_key", ">", after);
    if (q !== undefined) query = query.where(({ or }) => or([containsText("name", q), containsText("handle", q)]));
    for (const id of memberIds) {
      query = query.where(
        "id",
        "in",
        ({ selectFrom }) =>
          selectFrom("user_group_member").select("group_id").where("tenant_id", "=", tenantId)
            .where("principal_id", "=", id),
      );
    }
    return (await query.orderBy("name_key").limit(limit).execute()).map(numbered);
  }

  async count(tenantId: string): Promise<number> {
    const row = await this.#db.selectFrom("user_group").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Whether another group has the name, in any case. */
  async hasName(tenantId: string, nameKey: string, id: string): Promise<boolean> {
    const row = await this.#db.selectFrom("user_group").select("id").where("tenant_id", "=", tenantId)
      .where("name_key", "=", nameKey).where("id", "<>", id).executeTakeFirst();
    return row !== undefined;
  }

  async add(row: GroupRow): Promise<void> {
    await this.#db.insertInto("user_group").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<GroupRow>): Promise<void> {
    await this.#db.updateTable("user_group").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Deletes the group with its memberships. */
  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("user_group_member").where(tenantIsUnindexed(tenantId)).where("group_id", "=", id)
      .execute();
    await this.#db.deleteFrom("user_group").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Groups that can be mentioned, in the order of these handles or ids; for some viewers only those that they are in. */
  async mentionable(
    tenantId: string,
    column: "handle" | "id",
    values: readonly string[],
    viewers: readonly string[],
  ): Promise<MentionableGroup[]> {
    let query = this.#db.selectFrom("user_group").select(["id", "handle"]).where("tenant_id", "=", tenantId)
      .where(column, "in", values);
    for (const viewer of viewers) {
      query = query.where(({ exists, selectFrom }) =>
        exists(
          selectFrom("user_group_member").select("group_id").whereRef("group_id", "=", "user_group.id")
            .where("principal_id", "=", viewer),
        )
      );
    }
    const groups = await query.where("handle", "is not", null).$narrowType<MentionableGroup>().execute();
    return groups.sort((a, b) => values.indexOf(a[column]) - values.indexOf(b[column]));
  }

  /** Members by id, after an id. */
  members(tenantId: string, groupId: string, after: string, limit: number): Promise<ListedMember[]> {
    return this.#db.selectFrom("user_group_member").innerJoin(
      "principal",
      (join) =>
        join.onRef("principal.tenant_id", "=", "user_group_member.tenant_id")
          .onRef("principal.id", "=", "user_group_member.principal_id"),
    )
      .selectAll("user_group_member")
      .select(["principal.id", "principal.owner_id", "principal.display_name", "principal.handle"])
      .select("principal.is_disabled")
      .where(tenantIsUnindexed(tenantId, "user_group_member.tenant_id")).where("group_id", "=", groupId)
      .where("principal_id", ">", after).orderBy("principal_id").limit(limit).execute();
  }

  async memberIds(tenantId: string, groupId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("user_group_member").select("principal_id")
      .where(tenantIsUnindexed(tenantId)).where("group_id", "=", groupId).orderBy("principal_id").execute();
    return rows.map((row) => row.principal_id);
  }

  /** Those of these principals that are members. */
  async filterMembers(tenantId: string, groupId: string, ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.selectFrom("user_group_member").select("principal_id")
      .where(tenantIsUnindexed(tenantId)).where("group_id", "=", groupId).where("principal_id", "in", ids).execute();
    return new Set(rows.map((row) => row.principal_id));
  }

  /** Those of these principals that are people. */
  async filterPeople(tenantId: string, ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.selectFrom("principal").select("id").where("tenant_id", "=", tenantId)
      .where("kind", "=", "human").where("id", "in", ids).execute();
    return new Set(rows.map(({ id }) => id));
  }

  /** Those of these principals that are in so many groups, or more. */
  async membersOfMany(tenantId: string, ids: readonly string[], groups: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("user_group_member").select("principal_id")
      .where("tenant_id", "=", tenantId).where("principal_id", "in", ids).groupBy("principal_id")
      .having(({ fn }) => fn.countAll<number>(), ">=", groups).execute();
    return rows.map((row) => row.principal_id);
  }

  async removeMembers(tenantId: string, groupId: string, ids: readonly string[]): Promise<void> {
    await queryInChunks(
      ids,
      (some) =>
        this.#db.deleteFrom("user_group_member").where(tenantIsUnindexed(tenantId)).where("group_id", "=", groupId)
          .where("principal_id", "in", some).execute(),
    );
  }

  #counted(tenantId: string) {
    return this.#db.selectFrom("user_group").selectAll().select(MEMBER_COUNT.as("member_count"))
      .where("tenant_id", "=", tenantId);
  }
}

/** PostgreSQL counts in texts. */
function numbered(row: CountedGroup): CountedGroup {
  return { ...row, member_count: Number(row.member_count) };
}
