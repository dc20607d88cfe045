// The store on SQLite, the embedded default. One connection writes, another reads committed state.
import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { delay, nextTick } from "@/core/time/clock.ts";
import { SqlStore, type StoreOptions } from "../sql_store.ts";
import { SqliteConnection } from "./connection.ts";
import { FILE_MODE } from "./lock.ts";
import { QueryCache } from "./query_cache.ts";

/** Two batches closer than this mean that more writers are about to arrive. */
const BUSY_MS = 2;

/**
 * Opens the database file at `path`, created with its folder when missing; `:memory:` stores nothing on disk, and starts as a copy
 * of `image`, the bytes of a database file.
 */
export function openSqliteStore<Tables>(
  path: string,
  { image, ...options }: StoreOptions & { image?: Uint8Array | undefined },
): SqlStore<Tables> {
  const isFile = path !== ":memory:";
  if (isFile) {
    mkdirSync(dirname(path), { recursive: true });
    // Readable by its owner only; the engine gives its log the same mode. An existing file is not opened: closing it would release
    // the POSIX locks of other connections of this process.
    if (!existsSync(path)) closeSync(openSync(path, "a", FILE_MODE));
  }
  const cache = new QueryCache();
  const connection = new SqliteConnection(path, cache, { isReadOnly: false, image });
  return new SqlStore<Tables>({
    dialect: "sqlite",
    writers: [connection],
    rules: { isExclusive: true, beforeSavepoint: "", gather: gatherWhenBusy() },
    ...(isFile
      ? { reads: new SqliteConnection(path, cache, { isReadOnly: true }), emptyLog: () => connection.emptyLog() }
      : {}),
  }, options);
}

/**
 * SQLite runs synchronously within a tick, so writers whose requests have arrived would each commit alone. Under load a batch
 * therefore waits one tick; a single writer never does. For the same reason a writer that starts again as soon as it is done, as
 * for the next page of a long list, would delay all others until its end. After a batch of one tenant, as
 * much time is left to reads of others, whose ticks would each wait for a commit; meanwhile more writers arrive for the next one.
 */
function gatherWhenBusy(): (restMs: number) => Promise<void> | undefined {
  let last = -Infinity;
  let isTurnOver = true;
  const begin = (): void => {
    isTurnOver = false;
    setImmediate(() => isTurnOver = true);
  };
  return (restMs) => {
    if (restMs >= BUSY_MS) return delay(restMs).then(begin);
    const now = performance.now();
    const mustWait = now - last < BUSY_MS || !isTurnOver;
    last = now;
    return mustWait ? nextTick().then(begin) : void begin();
  };
}
