// Another node of the gateway, as far as PostgreSQL sees it: a connection that locks and writes what a node would.
import postgres from "postgres";
import { DEFAULT_MEMBER_SETTINGS } from "@/modules/room/mod.ts";
import { until } from "../wait.ts";

type Sql = postgres.ISql<Record<never, never>>;

export function connectNode(environment: Readonly<Record<string, string>>): postgres.Sql & AsyncDisposable {
  const sql = postgres(environment["SVC_DATABASE_URL"] ?? "", { max: 1, onnotice: () => {} });
  return Object.assign(sql, { [Symbol.asyncDispose]: () => sql.end() });
}

/** Resolves once a statement of the gateway waits for what the transaction has locked. */
export function untilLockWait(sql: Sql, what: string): Promise<void> {
  return until(async () => {
    await sql`select pg_stat_clear_snapshot()`;
    const waiting = await sql`select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`;
    return waiting.length > 0;
  }, what);
}

/** Adds the row of a member. */
export async function insertMember(
  sql: postgres.Sql,
  roomId: string,
  principalId: string,
  role: string,
): Promise<void> {
  await sql`insert into member ${
    sql({
      tenant_id: "default",
      room_id: roomId,
      principal_id: principalId,
      role,
      joined_at: "2026-03-01T12:00:00.000Z",
      joined_seq: 0,
      last_read_seq: 0,
      published_version: 0,
      ...DEFAULT_MEMBER_SETTINGS,
    })
  }`;
}
