// Every order that lists of tasks and documents offer has an index, and SQLite, which knows nothing of how many rows there are,
// is told what a large tenant looks like: without that it reads all tasks of the tenant for those of one room.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

/**
 * By table and index: all rows, then how many have the same first column, first two columns and so on. A tenant has so few of all
 * that its pages are not sought among those of others, a parent so few that children are not sought in the room.
 */
const SIZES: Record<string, Record<string, string>> = {
  task: {
    sqlite_autoindex_task_1: "1000000 1",
    sqlite_autoindex_task_2: "1000000 20000 1",
    task_board: "1000000 20000 200 1",
    task_open: "1000000 20000 200 100",
    task_updated: "1000000 20000 1 1",
    task_created: "1000000 20000 1 1",
    task_priority: "1000000 20000 4000 1",
    task_due_order: "1000000 20000 2 1",
    task_creator: "1000000 20000 200 1 1",
    task_unassigned: "250000 5000 1 1",
    task_parent: "200000 4000 1",
    task_source: "100000 2000 1",
  },
  task_assignee: { sqlite_autoindex_task_assignee_1: "1000000 20000 200 1", task_assignee_task: "1000000 2" },
  task_label: { sqlite_autoindex_task_label_1: "1000000 20000 200 1", task_label_task: "1000000 2" },
  document: {
    sqlite_autoindex_document_1: "1000000 1",
    document_room: "1000000 20000 200 1 1",
    document_updated: "1000000 20000 1 1",
    document_created: "1000000 20000 1 1",
    document_title: "1000000 20000 2 1",
    document_parent: "300000 6000 1",
    document_deleted: "50000 1000 1",
  },
};

export const listOrders: Migration = {
  name: "0029_list_orders",
  async up(db, dialect) {
    await db.schema.createIndex("task_created").on("task").columns(["tenant_id", "created_at", "id"]).execute();
    await db.schema.createIndex("task_priority").on("task").columns(["tenant_id", "priority", "id"]).execute();
    await db.schema.createIndex("document_created").on("document").columns(["tenant_id", "created_at", "id"]).execute();
    await db.schema.createIndex("document_title").on("document").columns(["tenant_id", "title", "id"]).execute();
    // For those who look into public rooms without being in them.
    await sql`create index room_public on room (tenant_id, id) where visibility = 'public'`.execute(db);
    if (dialect === "postgres") return;
    // Only the engine itself makes the table of sizes: it does so when it is to look at any table, best a small one.
    await sql`analyze migration`.execute(db);
    for (const [table, indexes] of Object.entries(SIZES)) {
      for (const [index, sizes] of Object.entries(indexes)) {
        // Skipping from tenant to tenant, or room to room, is never better for what is asked here.
        await sql`insert into sqlite_stat1 (tbl, idx, stat) values (${table}, ${index}, ${`${sizes} noskipscan`})`
          .execute(db);
      }
    }
    // Has this connection take them up; others do because the schema is another.
    await sql`analyze sqlite_schema`.execute(db);
  },
};
