// Conditions that both engines understand. A list is one parameter, JSON, so that a prepared query takes lists of any length.
import type { AnyDatabase } from "@/core/migration.ts";
import type { RowSelection } from "@/core/page.ts";
import {
  type AliasedRawBuilder,
  type Expression,
  type RawBuilder,
  type SelectQueryBuilder,
  type Simplify,
  sql,
  type SqlBool,
} from "kysely";
import type { Dialect } from "../store.ts";
import { dialectOf } from "./prepared.ts";

/** Whether `column` is one of the texts of a JSON array. PostgreSQL gets an array, since it plans joins with lists badly. */
export function inJsonList(dialect: Dialect, column: string, json: string): RawBuilder<SqlBool> {
  return dialect === "sqlite"
    ? sql<SqlBool>`${sql.ref(column)} in (select value from json_each(${json}))`
    : sql<SqlBool>`${sql.ref(column)} = any(array(select json_array_elements_text(${json}::text::json)))`;
}

/** The same of a list: for some hundred values, PostgreSQL would read a table of less than some ten thousand rows as a whole. */
export function inList(db: object, column: string, values: readonly string[]): RawBuilder<SqlBool> {
  return inJsonList(dialectOf(db), column, JSON.stringify(values));
}

/** Whether `column` is one of the numbers of a JSON array. */
export function inJsonNumbers(dialect: Dialect, column: string, json: string): RawBuilder<SqlBool> {
  return dialect === "sqlite"
    ? inJsonList(dialect, column, json)
    : sql<SqlBool>`${sql.ref(column)} = any(array(select json_array_elements_text(${json}::text::json)::bigint))`;
}

/** Whether `column` is one of the values that a small query returns, each of which is looked up; PostgreSQL plans no join with it. */
export function inSubquery(db: object, column: string, query: Expression<unknown>): RawBuilder<SqlBool> {
  return dialectOf(db) === "sqlite"
    ? sql<SqlBool>`${sql.ref(column)} in ${query}`
    : sql<SqlBool>`${sql.ref(column)} = any(array(${query}))`;
}

/** Whether a text column has a value, written so that the planner uses no index for it. */
export function equalsUnindexed(column: string, value: string | RawBuilder<string>): RawBuilder<SqlBool> {
  return sql<SqlBool>`${sql.ref(column)} || '' = ${value}`;
}

/**
 * Whether a row belongs to the tenant, without an index for it. For lists of ids: SQLite prefers any index that begins with the
 * tenant to more than a few ids, and then reads all rows of the tenant.
 */
export function tenantIsUnindexed(tenantId: string, column = "tenant_id"): RawBuilder<SqlBool> {
  return equalsUnindexed(column, tenantId);
}

/** A query in the order of these columns, after a position in it if there is one. */
export function orderedAfter<Database, Table extends keyof Database, Row>(
  query: SelectQueryBuilder<Database, Table, Row>,
  columns: readonly string[],
  after: readonly unknown[] | undefined,
  direction: "asc" | "desc" = "asc",
): SelectQueryBuilder<Database, Table, Row> {
  const refs = columns.map((column) => sql.ref(column));
  const ordered = refs.reduce((some, ref) => some.orderBy(ref, direction), query);
  if (after === undefined) return ordered;
  const isBeyond = direction === "asc" ? sql`>` : sql`<`;
  return ordered.where(sql<SqlBool>`(${sql.join(refs)}) ${isBeyond} (${sql.join(after)})`);
}

/** Selected rows of a query over one table with `tenant_id` and `id`. */
export async function selectRows<Database, Table extends keyof Database, Row>(
  query: SelectQueryBuilder<Database, Table, Row>,
  tenantId: string,
  which: RowSelection,
): Promise<Simplify<Row>[]> {
  if ("ids" in which) {
    const { ids } = which;
    if (ids.length === 0) return [];
    return await query.where(tenantIsUnindexed(tenantId)).where(sql<SqlBool>`id in (${sql.join(ids)})`).execute();
  }
  const { after, limit } = which;
  const isNext = sql<SqlBool>`tenant_id = ${tenantId} and id > ${after}`;
  return await query.where(isNext).orderBy(sql`id`).limit(limit).execute();
}

/**
 * Rows that one statement reads of a list of which few may fit: on SQLite some milliseconds, in which the thread does nothing else;
 * on PostgreSQL so many that it takes longer than a round trip.
 */
const ROWS_AT_ONCE = { sqlite: 2000, postgres: 20_000 };

/** How many rows one statement reads of a list of which few may fit. */
export function rowsAtOnce(db: object): number {
  return ROWS_AT_ONCE[dialectOf(db)];
}

/** The id of the last row that the next statement reads after an id, by the ids of a tenant; `undefined` if it reads all others. */
export async function lastIdOfSlice(
  db: AnyDatabase,
  table: string,
  tenantId: string,
  after: string | undefined,
  order: "asc" | "desc",
): Promise<string | undefined> {
  let query = db.selectFrom(table).select("id").where("tenant_id", "=", tenantId);
  if (after !== undefined) query = query.where("id", order === "asc" ? ">" : "<", after);
  return (await query.orderBy("id", order).limit(1).offset(rowsAtOnce(db) - 1).executeTakeFirst())?.id;
}

/** Sorting so few rows is faster than skipping many. */
const SMALL_RESULT_ROWS = 2000;

/** Whether a query has few enough rows to read all of them; reads no more than that. */
export async function isSmallResult<Database, Table extends keyof Database, Row>(
  query: SelectQueryBuilder<Database, Table, Row>,
  rows: number = SMALL_RESULT_ROWS,
): Promise<boolean> {
  return (await query.limit(1).offset(rows).execute()).length === 0;
}

/** A text as part of a pattern of `like … escape '\\'`, where its wildcards are plain characters. */
export function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, "\\$&");
}

/** Whether a text column contains `part`, in any case; wildcards in `part` are plain characters. */
export function containsText(column: string, part: string): RawBuilder<SqlBool> {
  const pattern = `%${escapeLike(part)}%`;
  // The engine folds both sides: what it leaves unchanged in one it leaves unchanged in the other.
  return sql<SqlBool>`fold_case(${sql.ref(column)}) like fold_case(${pattern}) escape '\\'`;
}

/** The objects of a JSON array as rows of a table `as`, such as ``asked(n int, id text)``; PostgreSQL only. */
export function jsonRows<Row, Alias extends string>(
  json: string,
  as: Expression<unknown>,
): AliasedRawBuilder<Row, Alias> {
  return sql<Row>`json_to_recordset(${json}::text::json)`.as<Alias>(as);
}
