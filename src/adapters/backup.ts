// Copies of a database, and a database that was brought back from one.
import { closeSync, existsSync, openSync, realpathSync, renameSync, rmSync, utimesSync } from "node:fs";
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import type { Clock } from "@/core/clock.ts";
import { renewEpochs } from "./epochs.ts";
import { claimDatabase, openStore, SQLITE, sqlitePathOf } from "./open.ts";
import { ENDS, replace, restoredOf, sync } from "./sqlite_claim.ts";

const FILE_MODE = 0o600;
/** More pages than any database has: a copy in several steps would start anew with every commit in between. */
const AT_ONCE = 2 ** 31 - 1;

/**
 * Writes what is committed in the SQLite database at `url` to the new file `to`; a gateway may go on writing meanwhile.
 * Throws an Error whose message is for the terminal.
 */
export async function backUp(url: string, to: string): Promise<void> {
  const path = fileOf(url);
  if (path === undefined) throw new Error("Only an SQLite file is copied here; for PostgreSQL use pg_dump");
  if (!existsSync(path)) throw new Error(`${path} is not there`);
  // Never over a file that is there, and for its owner only.
  closeSync(openSync(to, "wx", FILE_MODE));
  try {
    using db = new DatabaseSync(path, { readOnly: true });
    await backup(db, to, { rate: AT_ONCE });
    using copy = new DatabaseSync(to);
    copy.exec("pragma journal_mode = delete");
    sync(to);
  } catch (cause) {
    rmSync(to);
    throw cause;
  }
}

/**
 * Puts the backup `from` in the place of the SQLite database at `url`, which is kept under another name; without `from`, takes
 * the database for one that was restored. Every stream gets a new epoch: what it told after the backup is gone, and its places
 * will be taken by other events, so no client may go on from where it was. Resolves to where the old database is now, if
 * there was one. Throws an Error whose message is for the terminal.
 */
export async function restore(url: string, from: string | undefined, clock: Clock): Promise<string | undefined> {
  const path = fileOf(url);
  if (path === undefined) {
    if (from !== undefined) {
      throw new Error("Only an SQLite file is put back here; for PostgreSQL use pg_restore first");
    }
    return await renewed(url, clock);
  }
  if (from !== undefined && !hasTables(from)) throw new Error(`${from} is no backup of a gateway`);
  using _claim = await claimDatabase(url);
  if (from === undefined) return await renewed(url, clock);
  // Made ready beside the old one, which stays where it is until then.
  const fresh = `${path}.restoring`;
  for (const end of ENDS) rmSync(`${fresh}${end}`, { force: true });
  await backUp(`${SQLITE}${from}`, fresh);
  await renewed(`${SQLITE}${fresh}`, clock);
  utimesSync(fresh, clock.now() / 1000, clock.now() / 1000);
  sync(fresh);
  // From here on it is decided, whatever becomes of this process.
  renameSync(fresh, restoredOf(path));
  sync(dirname(path));
  try {
    return replace(path).old;
  } catch (cause) {
    // Told as failed, it must not happen later.
    if (existsSync(path)) rmSync(restoredOf(path));
    throw cause;
  }
}

/** The path of an SQLite database, behind links; `undefined` for any other. */
function fileOf(url: string): string | undefined {
  const path = sqlitePathOf(url);
  if (path === ":memory:") throw new Error("A database in memory is neither copied nor put back");
  return path !== undefined && existsSync(path) ? realpathSync(path) : path;
}

/** Whether the file is a whole database of a gateway. */
function hasTables(path: string): boolean {
  if (!existsSync(path)) throw new Error(`${path} is not there`);
  try {
    using db = new DatabaseSync(path, { readOnly: true });
    const isWhole = Object.values(db.prepare("pragma quick_check(1)").get() ?? {})[0] === "ok";
    return isWhole && db.prepare("select 1 from sqlite_master where name = 'migration'").get() !== undefined;
  } catch {
    return false;
  }
}

async function renewed(url: string, clock: Clock): Promise<undefined> {
  const store = await openStore(url, clock);
  try {
    await renewEpochs(store.db, (part) => store.write(({ db }) => part(db)));
  } finally {
    await store.close();
  }
}
