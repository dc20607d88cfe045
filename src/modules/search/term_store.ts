// Merges of FTS5, in parts. FTS5 would merge within the commits of others: what they wait for has no bound where it reads much that
// is deleted, and a tenth of deleted rows would make it rewrite the index.
import { sql } from "kysely";
import type { AnyDatabase } from "@/ports/store.ts";

const TABLES = ["search_terms", "search_part_terms"] as const;
/** Pages that one part writes: some milliseconds. It reads at most twice as many, and ends with a token. */
const PART_PAGES = 16;
/** In percent: the index is rewritten when so many of its rows are deleted. */
const DELETED_MAX = 50;

/** Lets FTS5 merge only when `mergeTerms` asks for it, unless very many small segments wait. */
export async function disableMergesInCommits(db: AnyDatabase): Promise<void> {
  for (const table of TABLES) {
    await configure(db, table, "automerge", 0);
    await configure(db, table, "deletemerge", DELETED_MAX);
  }
}

/** Does a part of the merges that are due; returns whether there may be more. */
export async function mergeTerms(db: AnyDatabase): Promise<boolean> {
  let isWorked = false;
  for (const table of TABLES) {
    const before = await countChanges(db);
    await configure(db, table, "merge", PART_PAGES);
    // The command itself counts as one.
    if (await countChanges(db) - before > 1) isWorked = true;
  }
  return isWorked;
}

async function configure(db: AnyDatabase, table: string, command: string, value: number): Promise<void> {
  await sql`insert into ${sql.table(table)} (${sql.ref(table)}, rank) values (${command}, ${sql.lit(value)})`.execute(
    db,
  );
}

async function countChanges(db: AnyDatabase): Promise<number> {
  const { rows: [row] } = await sql<{ n: number }>`select total_changes() as n`.execute(db);
  return row?.n ?? 0;
}
