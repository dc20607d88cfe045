// What a list of tasks is ordered by: the same values order the rows and make the cursor.
import type { CursorKey } from "@/core/page.ts";
import type { Sort } from "./schema.ts";
import type { TaskRow } from "./tables.ts";

/** Later than every date, so that tasks without one come last. */
export const NEVER = "9999-12-31T23:59:59.999Z";

/** The values of one row, in the order of the columns it is sorted by. */
export function sortKey(sort: Sort, row: TaskRow): CursorKey {
  switch (sort) {
    case "position":
      return [row.room_id, row.position, row.id];
    case "dueAt":
    case "-dueAt":
      return [row.due_at ?? NEVER, row.id];
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
