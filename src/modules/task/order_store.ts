// SQL of the order of lists of tasks.
import { type RawBuilder, type SelectQueryBuilder, sql } from "kysely";
import type { CursorKey } from "@/core/page.ts";
import { MAX_DATE } from "@/core/time/clock.ts";
import type { Sort } from "./schema.ts";
import type { TaskRow, TaskTables } from "./tables.ts";

/** Sort expression of the due date, exactly as in its index. Tasks without one are last. */
export const dueOrder: RawBuilder<string> = sql<string>`coalesce(task.due_at, ${sql.lit(MAX_DATE)})`;

/** In the order of a list: rows after a key, up to another one. */
export function ordered<Row>(
  query: SelectQueryBuilder<TaskTables, "task", Row>,
  isWide: boolean,
  sort: Sort,
  after: CursorKey | undefined,
  to?: CursorKey,
): SelectQueryBuilder<TaskTables, "task", Row> {
  const isDescending = sort.startsWith("-");
  const columns = sortColumns(sort);
  for (const [key, comparison] of [[after, isDescending ? "<" : ">"], [to, isDescending ? ">=" : "<="]] as const) {
    if (key === undefined) continue;
    query = query.where(sql<boolean>`(${sql.join(columns)}) ${sql.raw(comparison)} (${sql.join(key)})`);
    // In a row comparison, SQLite seeks in an index by columns only, not by an expression.
    if (isWide && columns[0] === dueOrder) {
      query = query.where(sql<boolean>`${dueOrder} ${sql.raw(`${comparison.slice(0, 1)}=`)} ${key[0]}`);
    }
  }
  for (const column of columns) query = query.orderBy(column, isDescending ? "desc" : "asc");
  return query;
}

/** The cursor of a row: the values of its sort columns. */
export function sortKey(sort: Sort, row: TaskRow): CursorKey {
  switch (sort) {
    case "position":
      return [row.room_id, row.position, row.id];
    case "dueAt":
    case "-dueAt":
      return [row.due_at ?? MAX_DATE, row.id];
    case "priority":
    case "-priority":
      return [row.priority, row.id];
    case "createdAt":
    case "-createdAt":
      return [row.created_at, row.id];
    default:
      return [row.updated_at, row.id];
  }
}

/** The columns that a list is sorted by. */
export function sortColumns(sort: Sort): RawBuilder<string | number>[] {
  const id = sql.ref<string | number>("task.id");
  switch (sort) {
    case "position":
      return [sql.ref<string | number>("task.room_id"), sql.ref<string | number>("task.position"), id];
    case "dueAt":
    case "-dueAt":
      return [dueOrder, id];
    case "priority":
    case "-priority":
      return [sql.ref<string | number>("task.priority"), id];
    case "createdAt":
    case "-createdAt":
      return [sql.ref<string | number>("task.created_at"), id];
    default:
      return [sql.ref<string | number>("task.updated_at"), id];
  }
}
