// Lists as one parameter: JSON that the engine takes apart, so that a prepared query takes lists of any length.
import {
  type AliasedRawBuilder,
  type Expression,
  type RawBuilder,
  type SelectQueryBuilder,
  type Simplify,
  sql,
  type SqlBool,
} from "kysely";
import type { Dialect } from "./store.ts";

/** Whether `column` is one of the texts of a JSON array. PostgreSQL gets it as an array, since it plans joins with lists badly. */
export function isOneOf(dialect: Dialect, column: string, json: string): RawBuilder<SqlBool> {
  return dialect === "sqlite"
    ? sql<SqlBool>`${sql.ref(column)} in (select value from json_each(${json}))`
    : sql<SqlBool>`${sql.ref(column)} = any(array(select json_array_elements_text(${json}::text::json)))`;
}

/** That a text column has a value, said so that no index is sought for it. */
export function isUnsought(column: string, value: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`${sql.ref(column)} || '' = ${value}`;
}

/**
 * That a row is of the tenant, with no index sought for it. For a list of ids: SQLite takes any index that begins with the tenant
 * for a better way than more than a few ids, and reads all rows of the tenant.
 */
export function isOfTenant(tenantId: string, column = "tenant_id"): RawBuilder<SqlBool> {
  return isUnsought(column, tenantId);
}

/** Which rows of a tenant: those of some ids, or a page of all by id. */
export type Which = { ids: readonly string[] } | { after: string; limit: number };

/** Those of the rows of a query over one table with `tenant_id` and `id`. */
export async function picked<Database, Table extends keyof Database, Row>(
  query: SelectQueryBuilder<Database, Table, Row>,
  tenantId: string,
  which: Which,
): Promise<Simplify<Row>[]> {
  if ("ids" in which) {
    const { ids } = which;
    if (ids.length === 0) return [];
    return await query.where(isOfTenant(tenantId)).where(sql<SqlBool>`id in (${sql.join(ids)})`).execute();
  }
  const { after, limit } = which;
  const isNext = sql<SqlBool>`tenant_id = ${tenantId} and id > ${after}`;
  return await query.where(isNext).orderBy(sql`id`).limit(limit).execute();
}

/** So few rows are sorted sooner than many are passed by. */
const FEW = 2000;

/** Whether the rows of a query are few enough to be read all, whatever is wanted of them; looks at no more. */
export async function areFew<Database, Table extends keyof Database, Row>(
  query: SelectQueryBuilder<Database, Table, Row>,
): Promise<boolean> {
  return (await query.limit(1).offset(FEW).execute()).length === 0;
}

/** The objects of a JSON array as rows of a table `as`, such as ``asked(n int, id text)``; PostgreSQL only. */
export function rowsOf<Row, Alias extends string>(
  json: string,
  as: Expression<unknown>,
): AliasedRawBuilder<Row, Alias> {
  return sql<Row>`json_to_recordset(${json}::text::json)`.as<Alias>(as);
}
