// Indexes of what people look at most in a list of tasks: what nobody has, what they made themselves, and what is due first.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const taskViews: Migration = {
  name: "0024_task_views",
  async up(db) {
    await sql`create index task_unassigned on task (tenant_id, updated_at, id) where assignee_ids_json = '[]'`.execute(
      db,
    );
    await db.schema.createIndex("task_creator").on("task").columns(["tenant_id", "created_by", "updated_at", "id"])
      .execute();
    // The order of lists has a place for tasks without a date as well, which an index of dates lacks.
    await sql`create index task_due_order on task (tenant_id, coalesce(due_at, '9999-12-31T23:59:59.999Z'), id)`
      .execute(db);
    await db.schema.dropIndex("task_due").execute();
  },
};
