// SQL of provisioned people. Their names are those of the identity provider; role and state are those of their principals.
import { type Expression, expressionBuilder, type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import type { GroupTables } from "@/modules/group/mod.ts";
import type { IdentityTables, PrincipalRow } from "@/modules/identity/mod.ts";
import { escapeLike } from "@/ports/sql/filters.ts";
import type { Condition, Operator, UserField } from "./filter.ts";

export type ScimUserRow = {
  tenant_id: string;
  /** The id of the principal. */
  id: string;
  user_name: string;
  /** In lower case. */
  user_name_key: string;
  /** Empty without one. */
  external_id: string;
  /** In lower case; empty without one. */
  email_key: string;
  /** Names and address as they were given. */
  profile_json: string;
  version: number;
  created_at: string;
  updated_at: string;
};
export type ScimTables = { scim_user: ScimUserRow } & Pick<IdentityTables, "principal"> & GroupTables;
/** With what its principal has. */
export type ScimUserEntry = ScimUserRow & Pick<PrincipalRow, "role" | "is_disabled"> & {
  principal_version: number;
  principal_updated_at: string;
};

/** Texts, all of them: `active` is `true` or `false`. */
const COLUMNS: Readonly<Record<UserField, RawBuilder<string>>> = {
  id: sql.ref("scim_user.id"),
  userName: sql.ref("scim_user.user_name_key"),
  externalId: sql.ref("scim_user.external_id"),
  email: sql.ref("scim_user.email_key"),
  emailType: sql`case scim_user.email_key when '' then '' else 'work' end`,
  active: sql`case principal.is_disabled when 0 then 'true' else 'false' end`,
  lastModified: sql`case when principal.updated_at > scim_user.updated_at then principal.updated_at
    else scim_user.updated_at end`,
};
const COMPARISONS = { eq: "=", ne: "<>", gt: ">", ge: ">=", lt: "<", le: "<=" } as const;
const PATTERNS = { co: ["%", "%"], sw: ["", "%"], ew: ["%", ""] } as const;

export class ScimUserStore {
  readonly #db: Kysely<ScimTables>;

  constructor(db: Kysely<ScimTables>) {
    this.#db = db;
  }

  async list(
    tenantId: string,
    condition: Condition<UserField>,
    offset: number,
    limit: number,
  ): Promise<ScimUserEntry[]> {
    return await this.#entries(tenantId).where(whereOf(condition, compareUser)).orderBy("scim_user.id").offset(offset)
      .limit(limit)
      .execute();
  }

  async count(tenantId: string, condition: Condition<UserField>): Promise<number> {
    const row = await this.#joined(tenantId).select(({ fn }) => fn.countAll<number>().as("n"))
      .where(whereOf(condition, compareUser)).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  find(tenantId: string, id: string): Promise<ScimUserEntry | undefined> {
    return this.#entries(tenantId).where("scim_user.id", "=", id).executeTakeFirst();
  }

  /** The groups of these people, by their names. */
  async groupsOf(
    tenantId: string,
    ids: readonly string[],
  ): Promise<{ principal_id: string; id: string; name: string }[]> {
    if (ids.length === 0) return [];
    return await this.#db.selectFrom("user_group_member")
      .innerJoin("user_group", "user_group.id", "user_group_member.group_id")
      .select(["user_group_member.principal_id", "user_group.id", "user_group.name"])
      .where("user_group_member.tenant_id", "=", tenantId).where("user_group_member.principal_id", "in", ids)
      .orderBy("user_group.name_key").execute();
  }

  /** What a principal is; `undefined` if there is none. */
  async kindOf(tenantId: string, id: string): Promise<PrincipalRow["kind"] | undefined> {
    const row = await this.#db.selectFrom("principal").select("kind").where("tenant_id", "=", tenantId)
      .where("id", "=", id).executeTakeFirst();
    return row?.kind;
  }

  /** Throws `UniqueViolation` if the principal or the name has an entry. */
  async add(row: ScimUserRow): Promise<void> {
    await this.#db.insertInto("scim_user").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<ScimUserRow>): Promise<void> {
    await this.#db.updateTable("scim_user").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("scim_user").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  #joined(tenantId: string) {
    return this.#db.selectFrom("scim_user")
      .innerJoin(
        "principal",
        (join) =>
          join.onRef("principal.tenant_id", "=", "scim_user.tenant_id").onRef("principal.id", "=", "scim_user.id"),
      )
      .where("scim_user.tenant_id", "=", tenantId);
  }

  #entries(tenantId: string) {
    return this.#joined(tenantId).selectAll("scim_user").select([
      "principal.role",
      "principal.is_disabled",
      "principal.version as principal_version",
      "principal.updated_at as principal_updated_at",
    ]);
  }
}

function compareUser(field: UserField, operator: Operator, value: string): RawBuilder<SqlBool> {
  return compare(COLUMNS[field], operator, value);
}

/** The condition in SQL, where `compareField` compares one field. */
export function whereOf<Field extends string>(
  condition: Condition<Field>,
  compareField: (field: Field, operator: Operator, value: string) => RawBuilder<SqlBool>,
): Expression<SqlBool> {
  const builder = expressionBuilder<ScimTables, "principal">();
  const part = (inner: Condition<Field>): Expression<SqlBool> => whereOf(inner, compareField);
  if ("all" in condition) return builder.and(condition.all.map(part));
  if ("any" in condition) return builder.or(condition.any.map(part));
  if ("not" in condition) return builder.not(part(condition.not));
  return compareField(condition.field, condition.operator, condition.value);
}

export function compare(column: RawBuilder<string>, operator: Operator, value: string): RawBuilder<SqlBool> {
  if (operator === "pr") return sql`${column} <> ''`;
  if (operator in COMPARISONS) {
    return sql`${column} ${sql.raw(COMPARISONS[operator as keyof typeof COMPARISONS])} ${value}`;
  }
  const [before, after] = PATTERNS[operator as keyof typeof PATTERNS];
  return sql`${column} like ${before + escapeLike(value) + after} escape '\\'`;
}
