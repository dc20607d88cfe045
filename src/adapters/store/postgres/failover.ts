// Detects another database server behind the same address, such as a promoted standby or a restored backup. It may lack events
// that clients have received, and would assign their positions again.
import { logOf } from "@/core/log.ts";
import type { CoreTables } from "../core_tables.ts";
import { resetAllEpochs } from "../stream_reset.ts";
import { ConnectionLost, createKysely, type SqlSession } from "../sql_session.ts";

/** Identifies the server: a standby that takes over has another id. */
const SELECT_SERVER_ID = `select concat(
    (select system_identifier from pg_control_system()), ':', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  ) as server_id, (select epoch from stream where tenant_id = '' and name = 'server') as known`;
const INSERT_SERVER_ID = `insert into stream (tenant_id, name, epoch, head, floor) values ('', 'server', $1, 0, 0)
  on conflict do nothing`;
const LOCK_SERVER_ID = "select epoch as known from stream where tenant_id = '' and name = 'server' for update";
const UPDATE_SERVER_ID = "update stream set epoch = $1 where tenant_id = '' and name = 'server'";

const log = logOf("store");

/**
 * Called at the beginning of a session's first transaction, before any write. If the server is not the one seen before, every
 * stream gets a new epoch, so that no client continues from a position that this server may not have; whether events are
 * missing cannot be known. Resolves to true if there is something to commit; calls the listener with the server's id.
 */
export async function resetAfterFailover(
  connection: SqlSession & { control(sql: string): void },
  onServer: (serverId: string) => void,
): Promise<boolean> {
  connection.control("savepoint server");
  let serverId: string;
  let known: unknown;
  try {
    const { rows: [row] } = await connection.run(SELECT_SERVER_ID, []);
    [serverId, known] = [String(row?.server_id), row?.known];
  } catch (thrown) {
    if (thrown instanceof ConnectionLost) throw thrown;
    // A server that does not say, or has no tables yet.
    connection.control("rollback to savepoint server");
    return false;
  }
  onServer(serverId);
  if (serverId === known) return false;
  if (known === null) return (await connection.run(INSERT_SERVER_ID, [serverId])).changed > 0;
  // Another node or another connection may have been at it meanwhile.
  const { rows: [locked] } = await connection.run(LOCK_SERVER_ID, []);
  if (locked?.known === serverId) return false;
  const db = createKysely<CoreTables>("postgres", connection);
  await resetAllEpochs(db, (part) => part(db));
  await connection.run(UPDATE_SERVER_ID, [serverId]);
  log.warn("database failover detected; streams reset", {});
  return true;
}
