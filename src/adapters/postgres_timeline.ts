// Whether the server is still the one that clients know the streams of. One that took its place, such as a standby that
// followed at a distance or a copy that was put back, may lack what that one told, and gives the places anew.
import { logOf } from "@/core/log.ts";
import type { CoreTables } from "./core_tables.ts";
import { renewEpochs } from "./epochs.ts";
import { kyselyOver, type Session, SessionLost } from "./session.ts";

/** Which of the server's lives this is: a standby begins a new one when it takes over. */
const LIFE = `select concat(
    (select system_identifier from pg_control_system()), ':', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  ) as life, (select epoch from stream where tenant_id = '' and name = 'server') as known`;
const BEGIN = `insert into stream (tenant_id, name, epoch, head, floor) values ('', 'server', $1, 0, 0)
  on conflict do nothing`;
const HOLD = "select epoch as known from stream where tenant_id = '' and name = 'server' for update";
const SET = "update stream set epoch = $1 where tenant_id = '' and name = 'server'";

const log = logOf("store");

/**
 * To be called at the beginning of a session's first transaction, before anybody writes by it. Every stream gets a new epoch
 * where another server answers than before, so that nobody goes on from a place that this one may never have had. That none
 * of it is lacking cannot be told from here. True when there is something to commit; `heard` is told which server it is.
 */
export async function renewAfterTakeover(
  connection: Session & { control(sql: string): void },
  heard: (life: string) => void,
): Promise<boolean> {
  connection.control("savepoint life");
  let life: string;
  let known: unknown;
  try {
    const { rows: [row] } = await connection.run(LIFE, []);
    [life, known] = [String(row?.life), row?.known];
  } catch (thrown) {
    if (thrown instanceof SessionLost) throw thrown;
    // A server that does not say, or has no tables yet.
    connection.control("rollback to savepoint life");
    return false;
  }
  heard(life);
  if (life === known) return false;
  if (known === null) return (await connection.run(BEGIN, [life])).changed > 0;
  // Another node or another lane may have been at it meanwhile.
  const { rows: [held] } = await connection.run(HOLD, []);
  if (held?.known === life) return false;
  const db = kyselyOver<CoreTables>("postgres", connection);
  await renewEpochs(db, (part) => part(db));
  await connection.run(SET, [life]);
  log.warn("another server has taken the place of the database's: clients read anew what they know", {});
  return true;
}
