// Deletion of many rows in parts, so that no transaction is long.
import { type Expression, sql, type SqlBool } from "kysely";
import type { AnyDatabase } from "@/core/migration.ts";
import { inSubquery } from "./filters.ts";
import { dialectOf } from "./prepared.ts";

/** Rows that one transaction deletes of what there may be any number of. */
const ROWS_AT_ONCE = 1000;

/** Deletes some of the rows of a table that meet a condition; returns whether there may be more. */
export async function deleteSome(db: AnyDatabase, table: string, condition: Expression<SqlBool>): Promise<boolean> {
  const rowId = dialectOf(db) === "sqlite" ? "rowid" : "ctid";
  const some = db.selectFrom(table).select(sql.ref(rowId).as("row_id")).where(condition).limit(ROWS_AT_ONCE);
  const { numDeletedRows } = await db.deleteFrom(table).where(inSubquery(db, rowId, some)).executeTakeFirstOrThrow();
  return numDeletedRows === BigInt(ROWS_AT_ONCE);
}
