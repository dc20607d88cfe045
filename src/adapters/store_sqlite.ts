// The store on SQLite: the embedded default. One connection writes, another reads what is committed.
import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { nextTurn } from "@/core/clock.ts";
import { KeptAnswers } from "./kept.ts";
import { SqliteConnection } from "./sqlite_connection.ts";
import { SqlStore, type StoreOptions } from "./sql_store.ts";

/** Two batches closer than this mean that more writers are on their way. */
const BUSY_MS = 2;
const FILE_MODE = 0o600;

/** Opens the database file at `path`, making it and its folder when missing; `:memory:` keeps all in memory. */
export function openSqliteStore<Tables>(path: string, options: StoreOptions): SqlStore<Tables> {
  const isFile = path !== ":memory:";
  if (isFile) {
    mkdirSync(dirname(path), { recursive: true });
    // For its owner only; the engine gives its log the mode of the file. One that is there is not opened, for to close it would
    // take away the locks (POSIX) that another connection of this process has on it.
    if (!existsSync(path)) closeSync(openSync(path, "a", FILE_MODE));
  }
  const kept = new KeptAnswers();
  const lane = new SqliteConnection(path, kept, { isReadOnly: false });
  return new SqlStore<Tables>({
    dialect: "sqlite",
    lanes: [lane],
    rules: { beforeSavepoint: "", gather: gatherWhenBusy() },
    ...(isFile ? { reads: new SqliteConnection(path, kept, { isReadOnly: true }) } : {}),
  }, options);
}

/**
 * SQLite answers without leaving the current turn of the event loop, so writers whose requests have arrived would each
 * commit alone. Under load a batch therefore waits one turn; a lone writer never does. For the same reason a writer that
 * begins again as soon as it is done, as for the next page of a long list, would keep everybody waiting to the end of it.
 */
function gatherWhenBusy(): () => Promise<void> | undefined {
  let last = -Infinity;
  let isTurnOver = true;
  const begin = (): void => {
    isTurnOver = false;
    setImmediate(() => isTurnOver = true);
  };
  return () => {
    const now = performance.now();
    const mustWait = now - last < BUSY_MS || !isTurnOver;
    last = now;
    return mustWait ? nextTurn().then(begin) : void begin();
  };
}
