// The statements that SQLite is asked while something runs, and how it would go about them.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { SqliteConnection } from "@/adapters/sqlite_connection.ts";
import type { Harness } from "../harness.ts";

export type Asked = { sql: string; parameters: readonly unknown[] };

/** The statements that SQLite runs meanwhile. */
export async function asked(work: () => Promise<unknown>): Promise<Asked[]> {
  const run = SqliteConnection.prototype.run;
  const statements: Asked[] = [];
  SqliteConnection.prototype.run = function (...call: Parameters<typeof run>) {
    statements.push({ sql: call[0], parameters: call[1] });
    return run.apply(this, call);
  };
  try {
    await work();
  } finally {
    SqliteConnection.prototype.run = run;
  }
  return statements;
}

/** Fails for a statement that reads all rows that a table has of the tenant. */
export async function readsNoTenant(gateway: Harness, { sql, parameters }: Asked, table: string): Promise<void> {
  const plan = await gateway.app.store.db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]),
  );
  for (const { detail } of plan.rows) {
    if (detail.includes(` ${table} `)) assert.doesNotMatch(detail, /SCAN|\(tenant_id=\?\)/, `${detail}: ${sql}`);
  }
}
