// Which adapters a configuration asks for. Each is loaded when it is used, so a small gateway starts fast and needs little.
import { sql } from "kysely";
import type { Clock, Machine } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { SharedClock } from "@/core/shared_clock.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Limiter } from "@/ports/limiter.ts";
import type { Presence } from "@/ports/presence.ts";
import type { Store } from "@/ports/store.ts";
import type { S3Options } from "./blob_s3.ts";
import { refusalIn } from "./postgres_sql.ts";

export const SQLITE = "sqlite:";

// Each module sees the store through its own tables; only the composition root sees them all.
// deno-lint-ignore no-explicit-any
export type AnyStore = Store<any>;

/** The path of an SQLite database, or `:memory:`; `undefined` for any other. */
export function sqlitePathOf(url: string): string | undefined {
  return url.startsWith(SQLITE) ? url.slice(SQLITE.length) : undefined;
}

/** Makes sure that no other gateway uses a database that only one may use. */
export async function claimDatabase(url: string): Promise<Disposable | undefined> {
  const path = sqlitePathOf(url);
  if (path === undefined || path === ":memory:") return undefined;
  const { claimSqlite } = await import("./sqlite_claim.ts");
  return await claimSqlite(path).catch(refuse);
}

/** The clock that a gateway on this machine goes by: that of a database with several gateways, else the machine's own. */
export function clockAt(url: string, machine: Machine): Clock {
  return sqlitePathOf(url) === undefined ? new SharedClock(machine) : machine.clock;
}

/** Opens the store at `sqlite:<path>` or `postgres://…` and brings its tables up to date. */
export async function openStore(url: string, clock: Clock): Promise<AnyStore> {
  try {
    const store = await storeAt(url, clock);
    await requireServer(store).then(() => store.migrate()).catch(async (cause) => {
      await store.close();
      throw cause;
    });
    return store;
  } catch (cause) {
    const refusal = refusalIn(cause);
    if (refusal !== undefined) refuse(refusal);
    // One that may answer later is waited for; any other was named wrongly.
    if (cause instanceof Fault && cause.code === "unavailable") throw cause;
    refuse(cause);
  }
}

/**
 * What no waiting mends, and what would be found out only under load. A pooler may answer one session's statements from several
 * sessions of the server: these know nothing of what it has set and prepared.
 */
async function requireServer({ db, dialect }: AnyStore): Promise<void> {
  if (dialect !== "postgres") return;
  const { rows: [server] } = await sql<{ timeout: string; readonly: string; encoding: string }>`select
    current_setting('statement_timeout') as timeout,
    current_setting('default_transaction_read_only') as readonly,
    current_setting('server_encoding') as encoding`.execute(db);
  if (server?.timeout === "0" || server?.readonly !== "on") {
    throw new Error("Settings of a session are lost on the way: name the server itself, not a pooler before it");
  }
  if (server.encoding !== "UTF8") {
    throw new Error(`Its encoding is ${server.encoding}, which has not every character: create it with UTF8`);
  }
}

function refuse(cause: unknown): never {
  throw new Error("SVC_DATABASE_URL names no database that this gateway can use", { cause });
}

async function storeAt(url: string, clock: Clock): Promise<AnyStore> {
  const path = sqlitePathOf(url);
  if (path !== undefined) {
    const { openSqliteStore } = await import("./store_sqlite.ts");
    return openSqliteStore(path, { clock });
  }
  const { openPostgresStore } = await import("./store_postgres.ts");
  return openPostgresStore(url, { clock });
}

/** What the database's own clock says. Asked outside of a transaction, so that the answer does not wait for one. */
export async function databaseTime({ db }: AnyStore): Promise<number> {
  const { rows: [row] } = await sql<{ ms: number }>`select extract(epoch from clock_timestamp()) * 1000 as ms`
    .execute(db);
  if (row === undefined) throw new Error("Expected the database's time, received none");
  return row.ms;
}

/** Opens the blob store: S3 when it is configured, the folder when not. */
export async function openBlobs(s3: S3Options | undefined, folder: string): Promise<Blobs> {
  if (s3 === undefined) {
    const { DiskBlobs } = await import("./blob_disk.ts");
    return new DiskBlobs(folder);
  }
  const { S3Blobs } = await import("./blob_s3.ts");
  return new S3Blobs(s3);
}

/** What nodes share: over Redis when there is a URL, within this process when not. */
export async function openShared(
  redisUrl: string | undefined,
): Promise<{ bus: Bus; presence: Presence; limiter: Limiter }> {
  if (redisUrl === undefined) {
    const [{ MemoryBus }, { MemoryPresence }, { MemoryLimiter }] = await Promise.all([
      import("./bus_memory.ts"),
      import("./presence_memory.ts"),
      import("./limiter_memory.ts"),
    ]);
    return { bus: new MemoryBus(), presence: new MemoryPresence(), limiter: new MemoryLimiter() };
  }
  const [{ RedisBus }, { RedisPresence }, { RedisLimiter }] = await Promise.all([
    import("./bus_redis.ts"),
    import("./presence_redis.ts"),
    import("./limiter_redis.ts"),
  ]);
  // A server's databases share its channels.
  const database = Number(new URL(redisUrl).pathname.slice(1));
  const bus = database === 0 ? new RedisBus(redisUrl) : new RedisBus(redisUrl, { prefix: `svc:${database}:` });
  return { bus, presence: new RedisPresence(redisUrl), limiter: new RedisLimiter(redisUrl) };
}
