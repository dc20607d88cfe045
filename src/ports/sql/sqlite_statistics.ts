// Fixed statistics for SQLite's planner, describing a large tenant: without them it reads all rows of a tenant for those of one room.
import { type Kysely, sql } from "kysely";

/** By table and index: the number of rows, then the average number with equal first column, first two columns and so on. */
export type TableStatistics = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Makes the planner assume these sizes, whatever the tables contain. For migrations on SQLite. */
export async function setTableStatistics(db: Kysely<unknown>, sizes: TableStatistics): Promise<void> {
  // Only the engine can create `sqlite_stat1`: it does so when it analyzes any table, here a small one.
  await sql`analyze migration`.execute(db);
  for (const [table, indexes] of Object.entries(sizes)) {
    for (const [index, stat] of Object.entries(indexes)) {
      // Skip scans over tenants or rooms are never better for these queries.
      await sql`insert into sqlite_stat1 (tbl, idx, stat) values (${table}, ${index}, ${`${stat} noskipscan`})`
        .execute(db);
    }
  }
  // Loads them into this connection. Others load them when the schema changes, and in an upgrade nothing else changes it.
  await sql`analyze sqlite_schema`.execute(db);
  await sql`create view new_statistics as select 1`.execute(db);
  await sql`drop view new_statistics`.execute(db);
}
