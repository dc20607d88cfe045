// The store on PostgreSQL, for any number of gateways on one database.
import { HOUR_MS } from "@/core/time/clock.ts";
import { SqlStore, type StoreOptions } from "../sql_store.ts";
import { CONNECT_TIMEOUT_MS, PostgresConnection } from "./connection.ts";
import { resetAfterFailover } from "./failover.ts";
import { PostgresPool } from "./pool.ts";

const RESPONSE_TIMEOUT_MS = 15_000;
const MIGRATION_TIMEOUT_MS = HOUR_MS;

/** Sessions on a server. */
export type SessionCounts = {
  /** Connections that write, each with its own batch; default 4. */
  writeConnections?: number;
  /** Connections that read; default 4. */
  readConnections?: number;
};

/** Connections to the database at `url` that only read. */
export function openPostgresPool(url: string, max: number): PostgresPool {
  return new PostgresPool(settingsOf(url), max);
}

/** Opens a store on the database at `url`; connections are opened when they are first needed. */
export function openPostgresStore<Tables>(url: string, options: StoreOptions & SessionCounts): SqlStore<Tables> {
  const { writeConnections = 4, readConnections = 4 } = options;
  const settings = settingsOf(url);
  let known: string | undefined;
  const onSession = (connection: PostgresConnection): Promise<boolean> =>
    resetAfterFailover(connection, (serverId) => {
      const isOther = known !== undefined && serverId !== known;
      known = serverId;
      if (isOther) store.onFailover();
    });
  const store = new SqlStore<Tables>({
    dialect: "postgres",
    writers: Array.from({ length: writeConnections }, () => new PostgresConnection({ ...settings, onSession })),
    // A writer that waits for a lock delays those before it in the batch; it runs first in the next one instead.
    rules: { isExclusive: false, beforeSavepoint: "set local lock_timeout = 50; ", gather: () => undefined },
    reads: new PostgresPool(settings, readConnections),
    migrationWriter: () => new PostgresConnection({ ...settings, responseTimeoutMs: MIGRATION_TIMEOUT_MS }),
  }, options);
  return store;
}

function settingsOf(url: string) {
  return { url, connectTimeoutMs: CONNECT_TIMEOUT_MS, responseTimeoutMs: RESPONSE_TIMEOUT_MS };
}
