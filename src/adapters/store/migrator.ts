// Applies the migrations that a database lacks.
import { type Kysely, sql } from "kysely";
import { logOf } from "@/core/log.ts";
import type { Dialect, MigrationOwner } from "@/core/migration.ts";
import type { CoreTables } from "./core_tables.ts";
import { migrations } from "./migrations.ts";

const CORE = { name: "core", migrations };
/** An arbitrary number that no other user of the database locks. */
const MIGRATION_LOCK_KEY = 5_170_321;

const log = logOf("store");

/**
 * Applies missing migrations, the core's first, then those of `modules` in their order; without `modules` only those of the core.
 * Runs inside one transaction, so a step that fails changes nothing.
 */
export async function applyMigrations(
  db: Kysely<CoreTables>,
  { dialect, modules, at }: { dialect: Dialect; modules: readonly MigrationOwner[] | undefined; at: string },
): Promise<void> {
  if (dialect === "postgres") {
    // Another node may be migrating; this waits as long as that takes, but not for tables in use.
    await sql`set local statement_timeout = 0`.execute(db);
    await sql`set local lock_timeout = 0`.execute(db);
    await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK_KEY})`.execute(db);
    await sql`set local lock_timeout to default`.execute(db);
  }
  await db.schema.createTable("migration").ifNotExists().addColumn("name", "text", (column) => column.primaryKey())
    .addColumn("at", "text", (column) => column.notNull())
    .execute();
  const steps = [CORE, ...modules ?? []].flatMap((owner) =>
    (owner.migrations ?? []).map(({ name, up }) => ({ name: `${owner.name}/${name}`, up }))
  );
  const rows = await db.selectFrom("migration").select("name").execute();
  const applied = new Set(rows.map((row) => row.name));
  const unknown = [...applied].find((name) =>
    !steps.some((step) => step.name === name) && (modules !== undefined || name.startsWith(`${CORE.name}/`))
  );
  if (unknown !== undefined) {
    throw new Error(`The database is newer than this gateway, or older than 0.1: unknown migration ${unknown}`);
  }
  const missing = steps.filter((step) => !applied.has(step.name));
  const startedAt = performance.now();
  for (const { name, up } of missing) {
    // Nothing is served until all are applied, which may take a while where there is much to change.
    if (applied.size > 0) log.info("applying database migration", { migration: name });
    await up(db as unknown as Kysely<unknown>, dialect);
    await db.insertInto("migration").values({ name, at }).execute();
  }
  if (applied.size > 0 && missing.length > 0) {
    log.info("database schema is up to date", { ms: Math.round(performance.now() - startedAt) });
  }
}
