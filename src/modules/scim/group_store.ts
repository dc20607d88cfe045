// SQL of groups as a provider finds them.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import type { GroupRow } from "@/modules/group/mod.ts";
import { tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { Condition, GroupField, Operator } from "./filter.ts";
import { compare, type ScimTables, whereOf } from "./store.ts";

/** A group with the number of its members. */
export type ListedGroup = GroupRow & { member_count: number };

const COLUMNS: Readonly<Record<Exclude<GroupField, "member">, RawBuilder<string>>> = {
  id: sql.ref("user_group.id"),
  displayName: sql.ref("user_group.name_key"),
  externalId: sql`coalesce(user_group.external_id, '')`,
  lastModified: sql.ref("user_group.updated_at"),
};

export class ScimGroupStore {
  readonly #db: Kysely<ScimTables>;

  constructor(db: Kysely<ScimTables>) {
    this.#db = db;
  }

  async list(
    tenantId: string,
    condition: Condition<GroupField>,
    { offset, limit }: { offset: number; limit: number },
  ): Promise<ListedGroup[]> {
    const rows = await this.#found(tenantId, condition).selectAll()
      .select(sql<number>`(select count(*) from user_group_member where group_id = user_group.id)`.as("member_count"))
      .orderBy("id").offset(offset).limit(limit).execute();
    return rows.map((row) => ({ ...row, member_count: Number(row.member_count) }));
  }

  async count(tenantId: string, condition: Condition<GroupField>): Promise<number> {
    const row = await this.#found(tenantId, condition).select(({ fn }) => fn.countAll<number>().as("n"))
      .executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Members of these groups, with their names. */
  async members(
    tenantId: string,
    groupIds: readonly string[],
  ): Promise<{ group_id: string; principal_id: string; display_name: string }[]> {
    if (groupIds.length === 0) return [];
    return await this.#db.selectFrom("user_group_member").innerJoin(
      "principal",
      (join) =>
        join.onRef("principal.tenant_id", "=", "user_group_member.tenant_id")
          .onRef("principal.id", "=", "user_group_member.principal_id"),
    )
      .select(["user_group_member.group_id", "user_group_member.principal_id", "principal.display_name"])
      .where(tenantIsUnindexed(tenantId, "user_group_member.tenant_id"))
      .where("user_group_member.group_id", "in", groupIds)
      .orderBy("user_group_member.principal_id").execute();
  }

  #found(tenantId: string, condition: Condition<GroupField>) {
    return this.#db.selectFrom("user_group").where("tenant_id", "=", tenantId).where(whereOf(condition, compareGroup));
  }
}

/** A comparison of members holds if any of them fulfils it. */
function compareGroup(field: GroupField, operator: Operator, value: string): RawBuilder<SqlBool> {
  if (field !== "member") return compare(COLUMNS[field], operator, value);
  return sql`exists (select 1 from user_group_member where user_group_member.group_id = user_group.id
    and ${compare(sql.ref("user_group_member.principal_id"), operator, value)})`;
}
