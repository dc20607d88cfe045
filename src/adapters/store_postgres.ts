// The store on PostgreSQL, for any number of gateways on one database.
import { PostgresConnection, PostgresPool } from "./postgres_connection.ts";
import { renewAfterTakeover } from "./postgres_timeline.ts";
import { SqlStore, type StoreOptions } from "./sql_store.ts";

const ANSWER_TIMEOUT_MS = 15_000;
const MIGRATION_TIMEOUT_MS = 3_600_000;

export type PostgresStoreOptions = StoreOptions & {
  /** Connections that write, each with its own batch; default 4. */
  writeLanes?: number;
  /** Connections that read; default 4. */
  readConnections?: number;
  /** Default 3000. */
  connectTimeoutMs?: number;
};

/** Opens a store on the database at `url`; connections are made when they are first needed. */
export function openPostgresStore<Tables>(url: string, options: PostgresStoreOptions): SqlStore<Tables> {
  const { writeLanes = 4, readConnections = 4, connectTimeoutMs = 3000 } = options;
  const connection = { url, connectTimeoutMs, answerTimeoutMs: ANSWER_TIMEOUT_MS };
  let known: string | undefined;
  const onSession = (lane: PostgresConnection): Promise<boolean> =>
    renewAfterTakeover(lane, (life) => {
      const isOther = known !== undefined && life !== known;
      known = life;
      if (isOther) store.onTakeover();
    });
  const store = new SqlStore<Tables>({
    dialect: "postgres",
    lanes: Array.from(
      { length: writeLanes },
      () => new PostgresConnection({ ...connection, onSession }),
    ),
    // A writer that waits for a lock keeps waiting those before it in the batch; better it runs first in the next one.
    rules: { beforeSavepoint: "set local lock_timeout = 50; ", gather: () => undefined },
    reads: new PostgresPool(connection, readConnections),
    migrationLane: () => new PostgresConnection({ ...connection, answerTimeoutMs: MIGRATION_TIMEOUT_MS }),
  }, options);
  return store;
}
