// Backup and restore of a database.
import { closeSync, existsSync, openSync, realpathSync, renameSync, rmSync, utimesSync } from "node:fs";
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import type { Clock } from "@/core/time/clock.ts";
import { lockDatabase, migrateStore, openStore, SQLITE_SCHEME, sqlitePathOf } from "../open.ts";
import { FILE_MODE, FILE_SUFFIXES, fsyncPath, restoreCandidate, swapDatabase } from "./sqlite/lock.ts";
import { resetAllEpochs } from "./stream_reset.ts";

/** More pages than any database has: a copy in several steps would restart at every commit in between. */
const ALL_PAGES = 2 ** 31 - 1;

/**
 * Writes the committed state of the SQLite database at `url` to the new file `to`; a gateway may write meanwhile.
 * Throws an Error whose message is for the terminal.
 */
export async function createBackup(url: string, to: string): Promise<void> {
  const path = databaseFile(url);
  if (path === undefined) {
    throw new Error("Only SQLite databases are backed up by this command; for PostgreSQL, use pg_dump");
  }
  if (!existsSync(path)) throw new Error(`${path} does not exist`);
  // Readable by its owner only.
  closeSync(createFile(to));
  try {
    using db = new DatabaseSync(path, { readOnly: true });
    await backup(db, to, { rate: ALL_PAGES });
    using copy = new DatabaseSync(to);
    copy.exec("pragma journal_mode = delete");
    fsyncPath(to);
  } catch (cause) {
    rmSync(to);
    throw cause;
  }
}

/**
 * Replaces the SQLite database at `url` by the backup `from`; the old database is renamed. Without `from`, marks the database as
 * restored. Every stream gets a new epoch: its events after the backup are lost and their seqs will be used again, so no client
 * may continue from its offset. Resolves to the path of the old database, if there was one. Throws an Error whose message is for
 * the terminal.
 */
export async function restore(url: string, from: string | undefined, clock: Clock): Promise<string | undefined> {
  const path = databaseFile(url);
  if (path === undefined) {
    if (from !== undefined) {
      throw new Error(
        "Only SQLite databases are restored from a file; for PostgreSQL, run pg_restore, then this command " +
          "without a file",
      );
    }
    await assertNoGateways(url);
    return await markRestored(url, clock);
  }
  if (from !== undefined && !isGatewayDatabase(from)) {
    throw new Error(`${from} is not a backup of the gateway's database`);
  }
  using _lock = await lockDatabase(url);
  if (from === undefined) return await markRestored(url, clock);
  // Prepared beside the old database, which stays in use until then.
  const fresh = `${path}.restoring`;
  for (const suffix of FILE_SUFFIXES) rmSync(`${fresh}${suffix}`, { force: true });
  await createBackup(`${SQLITE_SCHEME}${from}`, fresh);
  await markRestored(`${SQLITE_SCHEME}${fresh}`, clock);
  utimesSync(fresh, clock.now() / 1000, clock.now() / 1000);
  fsyncPath(fresh);
  // From here on the restore completes, even if this process ends.
  renameSync(fresh, restoreCandidate(path));
  fsyncPath(dirname(path));
  try {
    return swapDatabase(path).old;
  } catch (cause) {
    // Reported as failed, so it must not complete later.
    if (existsSync(path)) rmSync(restoreCandidate(path));
    throw cause;
  }
}

/** Creates a file, and never overwrites one. */
function createFile(path: string): number {
  try {
    return openSync(path, "wx", FILE_MODE);
  } catch (cause) {
    if (existsSync(path)) throw new Error(`${path} already exists; name another file`);
    if (!existsSync(dirname(path))) throw new Error(`The directory ${dirname(path)} does not exist; create it first`);
    throw cause;
  }
}

/** The real path of an SQLite database; `undefined` for any other. */
function databaseFile(url: string): string | undefined {
  const path = sqlitePathOf(url);
  if (path === ":memory:") throw new Error("An in-memory database cannot be backed up or restored");
  return path !== undefined && existsSync(path) ? realpathSync(path) : path;
}

/** Whether the file is an intact database of a gateway. */
function isGatewayDatabase(path: string): boolean {
  if (!existsSync(path)) throw new Error(`${path} does not exist`);
  try {
    using db = new DatabaseSync(path, { readOnly: true });
    const isIntact = Object.values(db.prepare("pragma quick_check(1)").get() ?? {})[0] === "ok";
    return isIntact && db.prepare("select 1 from sqlite_master where name = 'migration'").get() !== undefined;
  } catch {
    return false;
  }
}

/** Throws while gateways have the PostgreSQL database open: their clients would continue from their offsets. */
async function assertNoGateways(url: string): Promise<void> {
  const { openPostgresPool } = await import("./postgres/store.ts");
  const pool = openPostgresPool(url, 1);
  try {
    const { rows: [row] } = await pool.run(
      `select count(*) as sessions from pg_stat_activity
        where datname = current_database() and application_name = current_setting('application_name')
          and pid <> pg_backend_pid()`,
      [],
    );
    const sessions = Number(row?.["sessions"] ?? 0);
    if (sessions > 0) {
      throw new Error(`${sessions} gateway sessions are open on this database; stop all gateways first`);
    }
  } finally {
    await pool.close();
  }
}

async function markRestored(url: string, clock: Clock): Promise<undefined> {
  const store = await openStore(url, clock);
  try {
    // The next start migrates the tables of modules.
    await migrateStore(store);
    await resetAllEpochs(store.db, (reset) => store.write(({ db }) => reset(db)));
  } finally {
    await store.close();
  }
}
