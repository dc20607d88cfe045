// Liveness of the nodes of one PostgreSQL database: an advisory lock that lasts as long as the node's session. It ends
// with the node's process immediately, independently of any clock, and costs nothing meanwhile.
import { type Kysely, sql } from "kysely";
import { delay, withTimeout } from "@/core/time/clock.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { NodeLock } from "../lease_takeover.ts";
import { APPLICATION_NAME, connect, CONNECT_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from "./connection.ts";

/** Any number that no other user of the database locks by two numbers. */
const LOCK_SPACE = 5_170_322;
const ID_MAX = 2 ** 31 - 1;
const RETRY_MS = 250;

const log = logOf("store");

type Session = ReturnType<typeof connect>;

export class PostgresNode implements NodeLock {
  readonly id: string = String(1 + Math.floor(Math.random() * (ID_MAX - 1)));
  readonly #url: string;
  readonly #db: Kysely<unknown>;
  #session: Session | undefined;
  #acquiring: Promise<void> | undefined;
  #isClosed = false;

  /** `db` is where other nodes are looked for. */
  constructor(url: string, db: Kysely<unknown>) {
    this.#url = url;
    this.#db = db;
  }

  /** Resolves once the lock is acquired; after that it is acquired again whenever its session ends. */
  acquire(): Promise<void> {
    return this.#acquiring ??= this.#acquire().finally(() => this.#acquiring = undefined);
  }

  async findStopped(ids: readonly string[]): Promise<string[]> {
    const stopped: string[] = [];
    for (const id of ids) {
      // Taken for the length of this statement only.
      const { rows } = await sql<{ isFree: boolean }>`
        select pg_try_advisory_xact_lock(${LOCK_SPACE}::integer, ${Number(id)}::integer) as "isFree"`.execute(this.#db);
      if (rows[0]?.isFree !== true) continue;
      if (id === this.id) this.#reacquire(this.#session);
      else stopped.push(id);
    }
    return stopped;
  }

  /**
   * The server applies no timeout to a statement while it waits for the client's next message about it, as for the parameters of
   * one that it has just parsed. A node that froze then would hold its locks until it continues.
   */
  async endFrozenSessions(afterMs = STATEMENT_TIMEOUT_MS): Promise<void> {
    const { rows } = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and usename = current_user and application_name = ${APPLICATION_NAME}
        and state = 'active' and wait_event = 'ClientRead'
        and query_start < now() - ${afterMs} * interval '1 millisecond'`.execute(this.#db);
    if (rows.length > 0) log.warn("sessions of a frozen node were ended", { sessions: rows.length });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#acquiring;
    await this.#session?.end({ timeout: 1 });
  }

  async #acquire(): Promise<void> {
    while (!this.#isClosed) {
      const options = { url: this.#url, connectTimeoutMs: CONNECT_TIMEOUT_MS };
      const session = connect(options, 1, () => this.#reacquire(session));
      try {
        // Shared, so that a session of ours that the server still believes in does not keep us waiting.
        const lock = session.unsafe("select pg_advisory_lock_shared($1, $2)", [LOCK_SPACE, Number(this.id)]);
        if (await withTimeout(lock, CONNECT_TIMEOUT_MS) !== undefined) {
          this.#session = session;
          return;
        }
      } catch (cause) {
        log.debug("locking this node's id failed", failureOf(cause));
      }
      // It is lost already.
      session.end({ timeout: 0 }).catch(() => {});
      await delay(RETRY_MS);
    }
  }

  /** Takes the lock over a new session. */
  #reacquire(session: Session | undefined): void {
    if (this.#isClosed || session === undefined || session !== this.#session) return;
    this.#session = undefined;
    // It is lost already.
    session.end({ timeout: 0 }).catch(() => {});
    void this.acquire();
  }
}
