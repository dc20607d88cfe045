// Opens the adapters of a configuration. Each is loaded only when it is used, so a small gateway starts fast and needs little memory.
import { join } from "node:path";
import { sql } from "kysely";
import type { Clock, TimeSource } from "@/core/time/clock.ts";
import { isFault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { MigrationOwner } from "@/core/migration.ts";
import { DatabaseClock } from "@/core/time/database_clock.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Limiter } from "@/ports/limiter.ts";
import type { Outbound } from "@/ports/outbound.ts";
import type { Presence } from "@/ports/presence.ts";
import type { Store } from "@/ports/store.ts";
import type { VectorEngines } from "@/ports/vectors.ts";
import type { S3Options } from "./blob/s3.ts";
import type { NodeLock } from "./store/lease_takeover.ts";
import type { SessionCounts } from "./store/postgres/store.ts";
import { findMisconfiguration, NO_POOLER } from "./store/postgres/errors.ts";

export const SQLITE_SCHEME = "sqlite:";

/** An object that is stored and deleted at the start, and the longest wait for each. */
const BLOB_PROBE_KEY = "probe";
const BLOB_PROBE_TIMEOUT_MS = 2000;

const log = logOf("store");

// Each module sees the store through its own tables; only the composition root sees them all.
// deno-lint-ignore no-explicit-any
export type AnyStore = Store<any>;

/** The path of an SQLite database, or `:memory:`; `undefined` for any other. */
export function sqlitePathOf(url: string): string | undefined {
  return url.startsWith(SQLITE_SCHEME) ? url.slice(SQLITE_SCHEME.length) : undefined;
}

/** Ensures that no other gateway uses a database that allows only one. */
export async function lockDatabase(url: string): Promise<Disposable | undefined> {
  const path = sqlitePathOf(url);
  if (path === undefined || path === ":memory:") return undefined;
  const { lockDatabaseFile, DatabaseInUse } = await import("./store/sqlite/lock.ts");
  return await lockDatabaseFile(path).catch((cause) => {
    if (cause instanceof DatabaseInUse) throw cause;
    throwUnusable(cause);
  });
}

/** The clock of a gateway: that of a database with several gateways, else the host's. */
export function clockFor(url: string, source: TimeSource): Clock {
  return sqlitePathOf(url) === undefined ? new DatabaseClock(source) : source.clock;
}

/** Opens the store at `sqlite:<path>` or `postgres://…`. Its tables exist once `migrateStore` has run. */
export function openStore(url: string, clock: Clock, sessions?: SessionCounts): Promise<AnyStore> {
  return withOpenErrors(async () => {
    const store = await createStore(url, clock, sessions);
    await assertServerSettings(store).catch(async (cause) => {
      await store.close();
      throw cause;
    });
    return store;
  });
}

/** Migrates the tables of the core and of `modules`; without `modules` only those of the core. */
export function migrateStore(store: AnyStore, modules?: readonly MigrationOwner[]): Promise<void> {
  return withOpenErrors(() => store.migrate(modules));
}

/** Adds the setting's name to the errors of `work`. */
async function withOpenErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    const misconfiguration = findMisconfiguration(cause);
    if (misconfiguration !== undefined) throwUnusable(misconfiguration);
    // The caller waits for one that may become available; any other URL is wrong.
    if (isFault(cause, "unavailable")) throw cause;
    throwUnusable(cause);
  }
}

/** Checks settings that waiting does not change and that would fail only under load. */
async function assertServerSettings({ db, dialect }: AnyStore): Promise<void> {
  if (dialect !== "postgres") return;
  const { rows: [server] } = await sql<
    { timeout: string; readonly: string; encoding: string; fsync: string; pages: string }
  >`select
    current_setting('statement_timeout') as timeout,
    current_setting('default_transaction_read_only') as readonly,
    current_setting('server_encoding') as encoding,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as pages`.execute(db);
  if (server?.timeout === "0" || server?.readonly !== "on") throw new Error(NO_POOLER);
  if (server.encoding !== "UTF8") {
    throw new Error(`The database encoding is ${server.encoding}: create the database with UTF8`);
  }
  const off = Object.entries({ fsync: server.fsync, full_page_writes: server.pages })
    .filter(([, value]) => value === "off").map(([name]) => name);
  if (off.length > 0) {
    log.warn("PostgreSQL can lose or corrupt committed data if its host crashes: turn these settings on", { off });
  }
}

function throwUnusable(cause: unknown): never {
  throw new Error("SVC_DATABASE_URL: the database cannot be used", { cause });
}

async function createStore(url: string, clock: Clock, sessions?: SessionCounts): Promise<AnyStore> {
  const path = sqlitePathOf(url);
  if (path !== undefined) {
    const { openSqliteStore } = await import("./store/sqlite/store.ts");
    return openSqliteStore(path, { clock });
  }
  const { openPostgresStore } = await import("./store/postgres/store.ts");
  return openPostgresStore(url, { clock, ...sessions });
}

export type Node = NodeLock & { acquire(): Promise<void>; close(): Promise<void> };

/** This node among those of its database, before it is acquired; `undefined` where there can be only one. */
export async function openNode(url: string, { db }: AnyStore): Promise<Node | undefined> {
  if (sqlitePathOf(url) !== undefined) return undefined;
  const { PostgresNode } = await import("./store/postgres/node.ts");
  return new PostgresNode(url, db);
}

/** The time of the database's clock. Read outside of a transaction, so that it does not wait for one. */
export async function readDatabaseTime({ db }: AnyStore): Promise<number> {
  const { rows: [row] } = await sql<{ ms: number }>`select extract(epoch from clock_timestamp()) * 1000 as ms`
    .execute(db);
  if (row === undefined) throw new Error("Expected the database's time, received none");
  return row.ms;
}

/** Opens the blob store: S3 when configured, where only unfinished parts are in the folder, else the folder. */
export async function openBlobs(s3: S3Options | undefined, directory: string, outbound: Outbound): Promise<Blobs> {
  if (s3 === undefined) {
    const { DiskBlobs } = await import("./blob/disk.ts");
    return new DiskBlobs(directory);
  }
  const { S3Blobs } = await import("./blob/s3.ts");
  const folder = join(directory, "incoming");
  await reportUnusable(new S3Blobs(outbound, s3, { folder, responseTimeoutMs: BLOB_PROBE_TIMEOUT_MS }));
  return new S3Blobs(outbound, s3, { folder });
}

/** Logs why contents cannot be stored. What needs none is served all the same, so the start does not depend on it. */
async function reportUnusable(blobs: Blobs): Promise<void> {
  try {
    await blobs.put(BLOB_PROBE_KEY, ReadableStream.from([new Uint8Array(1)]));
    await blobs.delete(BLOB_PROBE_KEY);
  } catch (cause) {
    logOf("file").warn("the file store of SVC_S3_ENDPOINT cannot be used; uploads fail until it can", failureOf(cause));
  }
}

/** Opens what stores and compares vectors: the database where it can, and the gateway within so many bytes of memory. */
export async function openVectors(url: string, store: AnyStore, memoryBytes: number): Promise<VectorEngines> {
  const { ScanVectors } = await import("./vectors/scan.ts");
  const scan = new ScanVectors(store, { memoryBytes });
  if (store.dialect === "sqlite") return [scan];
  const [{ openPgvector }, { runStatementAlone }] = await Promise.all([
    import("./vectors/pgvector.ts"),
    import("./store/postgres/connection.ts"),
  ]);
  const pgvector = await openPgvector(store, { runAlone: (statement) => runStatementAlone(url, statement) });
  return pgvector === undefined ? [scan] : [pgvector, scan];
}

/** Opens what nodes share: over Redis when there is a URL, else within this process. */
export async function openSharedServices(
  redisUrl: string | undefined,
): Promise<{ bus: Bus; presence: Presence; limiter: Limiter }> {
  if (redisUrl === undefined) {
    const [{ MemoryBus }, { MemoryPresence }, { MemoryLimiter }] = await Promise.all([
      import("./bus/memory.ts"),
      import("./presence/memory.ts"),
      import("./limiter/memory.ts"),
    ]);
    return { bus: new MemoryBus(), presence: new MemoryPresence(), limiter: new MemoryLimiter() };
  }
  const [{ RedisBus }, { RedisPresence }, { RedisLimiter }] = await Promise.all([
    import("./bus/redis.ts"),
    import("./presence/redis.ts"),
    import("./limiter/redis.ts"),
  ]);
  // A server's databases share its channels.
  const database = Number(new URL(redisUrl).pathname.slice(1));
  const bus = database === 0 ? new RedisBus(redisUrl) : new RedisBus(redisUrl, { prefix: `svc:${database}:` });
  return { bus, presence: new RedisPresence(redisUrl), limiter: new RedisLimiter(redisUrl) };
}
