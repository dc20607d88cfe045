// The statements that a database is asked while something runs, and how SQLite would go about them.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { CompiledQuery } from "kysely";
import { PostgresConnection } from "@/adapters/store/postgres/connection.ts";
import { PostgresPool } from "@/adapters/store/postgres/pool.ts";
import type { SqlSession } from "@/adapters/store/sql_session.ts";
import { SqliteConnection } from "@/adapters/store/sqlite/connection.ts";
import type { PreparedOptions } from "@/ports/sql/prepared.ts";
import type { Harness } from "../harness.ts";

export type LoggedQuery = { sql: string; parameters: readonly unknown[]; prepared?: PreparedOptions | undefined };

const recordingScope = new AsyncLocalStorage<true>();

/**
 * The statements that SQLite, or PostgreSQL outside of writes, runs for this work; not those of what is done in the background at
 * the same time.
 */
export function recordQueries(work: () => Promise<unknown>): Promise<LoggedQuery[]> {
  return record([SqliteConnection.prototype, PostgresPool.prototype], work);
}

/** The same of writes on PostgreSQL, but for the rows that they insert. */
export function recordWrites(work: () => Promise<unknown>): Promise<LoggedQuery[]> {
  return record([PostgresConnection.prototype], work);
}

/** The statements of writes on the engine of these settings. */
export function writesOn(environment: Readonly<Record<string, string>>): typeof recordQueries {
  return environment["SVC_DATABASE_URL"] === undefined ? recordQueries : recordWrites;
}

async function record(
  prototypes: readonly Pick<SqlSession, "run">[],
  work: () => Promise<unknown>,
): Promise<LoggedQuery[]> {
  const statements: LoggedQuery[] = [];
  const originals = prototypes.map((prototype) => ({ prototype, run: prototype.run }));
  for (const { prototype, run } of originals) {
    prototype.run = function (...call) {
      if (recordingScope.getStore()) statements.push({ sql: call[0], parameters: call[1], prepared: call[2] });
      return run.apply(this, call);
    };
  }
  try {
    await recordingScope.run(true, work);
  } finally {
    for (const { prototype, run } of originals) prototype.run = run;
  }
  assert.ok(statements.length > 0, "no statement is recorded: is the work done in the background?");
  return statements;
}

/** Fails for a statement that reads all rows that a table has of the tenant. */
export async function assertNoTenantScan(
  gateway: Harness,
  { sql, parameters }: LoggedQuery,
  table: string,
): Promise<void> {
  const plan = await gateway.app.store.db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]),
  );
  for (const { detail } of plan.rows) {
    if (`${detail} `.includes(` ${table} `)) assert.doesNotMatch(detail, /SCAN|\(tenant_id=\?\)/, `${detail}: ${sql}`);
  }
}
