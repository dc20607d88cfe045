// Reads of committed state over a few connections.
import { tenantOfCharged } from "@/core/actor.ts";
import { currentAccount, ownAccount } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import { type Slot, Slots } from "@/core/limit/slots.ts";
import { delay } from "@/core/time/clock.ts";
import { TimeoutQueue } from "@/core/time/timeout_queue.ts";
import type { PreparedOptions } from "@/ports/sql/prepared.ts";
import { ConnectionLost, type Rows, SerializationRetry, type SqlSession, sqlValue } from "../sql_session.ts";
import {
  charge,
  CLOSE_TIMEOUT_SECONDS,
  connect,
  execute,
  NoResponse,
  type PostgresOptions,
  type Sql,
} from "./connection.ts";
import { translateError } from "./errors.ts";
import { addPending, type Reader, ReaderChoice } from "./reader_choice.ts";

/** Statements that are sent over a connection before the first of them is answered: enough that the server waits for none. */
const PIPELINED_MAX = 4;
/** How long a read that found no connection is retried, and the longest pause between two tries. */
const READ_RETRY_MAX_MS = 1000;
const READ_RETRY_PAUSE_MS = 100;
/**
 * A plan for any values is made once, but knows neither how many rows are wanted nor how rare a value is: for a list with filters it
 * can read a hundred times as much. To plan for its values would cost a prepared query several times what it takes to run.
 */
const PLAN_FOR_VALUES = "set plan_cache_mode = force_custom_plan";
const PLAN_ONCE = "set plan_cache_mode = auto";

/** A connection that reads, how many statements wait for its responses, and when the last one came; `-Infinity` if it failed. */
type PoolReader = Reader & { sql: Sql };

/**
 * Committed state, read over a few connections that pipeline. A slow statement holds up those behind it, so nothing is sent
 * where one runs while there is another connection; and one principal with its agents reads over half of them at once, and a
 * tenant over all but one while others read, so there is one. What was sent cannot be overtaken, so little is, and tenants
 * take turns. A network that swallows packets closes no socket, so after one late response reads go over new connections;
 * the old ones get as long again for what was sent on them.
 */
export class PostgresPool implements Pick<SqlSession, "run"> {
  readonly #open: () => PoolReader[];
  readonly #responseTimeoutMs: number;
  readonly #retryMaxMs: number;
  readonly #timeouts: TimeoutQueue;
  readonly #slots: Slots;
  readonly #choice = new ReaderChoice();
  #readers: PoolReader[];
  #closing: Promise<unknown> = Promise.resolve();

  constructor(options: PostgresOptions, max: number, { retryMaxMs = READ_RETRY_MAX_MS } = {}) {
    this.#retryMaxMs = retryMaxMs;
    this.#slots = new Slots({
      total: max * PIPELINED_MAX,
      perKey: [Math.max(1, max - 1) * PIPELINED_MAX, Math.ceil(max / 2)],
    });
    this.#open = () =>
      Array.from({ length: max }, () => {
        const reader: PoolReader = {
          // Its next session begins with the settings of the server.
          sql: connect(options, 1, () => reader.plansForValues = false),
          pending: 0,
          tenants: new Map(),
          respondedAt: 0,
          plansForValues: false,
        };
        return reader;
      });
    this.#responseTimeoutMs = options.responseTimeoutMs;
    this.#timeouts = new TimeoutQueue(options.responseTimeoutMs);
    this.#readers = this.#open();
  }

  async run(sql: string, parameters: readonly unknown[], prepared?: PreparedOptions): Promise<Rows> {
    const owner = ownAccount()?.key;
    using _slot = owner === undefined ? undefined : await this.#slotOf(owner);
    const tenant = owner === undefined ? undefined : tenantOfCharged(owner);
    const result = await this.#read(sql, parameters, tenant, prepared === undefined);
    // To present it takes the thread. What arrives together is charged one by one, so that no more begins in a tick.
    const turn = currentAccount()?.takeTurn();
    if (turn !== undefined) await turn;
    charge(result);
    return result;
  }

  async close(): Promise<void> {
    await Promise.all([this.#closing, endAll(this.#readers, CLOSE_TIMEOUT_SECONDS)]);
  }

  /** Waits no longer than for a response: what a server that hangs is asked meanwhile would all be sent when it is back. */
  #slotOf(owner: string): Promise<Slot> {
    const waiting = new AbortController();
    const slot = this.#slots.acquire([tenantOfCharged(owner), owner], waiting.signal);
    return this.#timeouts.run(slot, () => {
      waiting.abort();
      return unavailable();
    });
  }

  /** A connection that ends, or that the server has no place for, costs no response while there are others. */
  async #read(
    sql: string,
    parameters: readonly unknown[],
    tenant: string | undefined,
    plansForValues: boolean,
  ): Promise<Rows> {
    const values = parameters.map(sqlValue);
    const retryUntil = performance.now() + this.#retryMaxMs;
    while (true) {
      const readers = this.#readers;
      const reader = this.#choice.pick(readers, tenant, plansForValues);
      if (reader.pending++ === 0) reader.respondedAt = performance.now();
      addPending(reader, tenant, 1);
      try {
        if (reader.plansForValues !== plansForValues) {
          // Answered before the statement is sent: what waits for a connection that is not open yet would open it again once it ends.
          reader.plansForValues = plansForValues;
          await execute(reader.sql, plansForValues ? PLAN_FOR_VALUES : PLAN_ONCE, [], this.#timeouts);
        }
        const result = await execute(reader.sql, sql, values, this.#timeouts);
        reader.respondedAt = performance.now();
        return result;
      } catch (thrown) {
        if (thrown instanceof NoResponse) this.#replace(readers);
        const failure = translateError(thrown);
        if (!(failure instanceof ConnectionLost || failure instanceof SerializationRetry)) throw failure;
        if (thrown instanceof NoResponse || performance.now() > retryUntil) throw unavailable(thrown);
        reader.respondedAt = -Infinity;
        await delay(Math.random() * READ_RETRY_PAUSE_MS);
      } finally {
        reader.pending--;
        addPending(reader, tenant, -1);
      }
    }
  }

  #replace(readers: PoolReader[]): void {
    if (readers !== this.#readers) return;
    this.#readers = this.#open();
    this.#closing = Promise.allSettled([this.#closing, endAll(readers, this.#responseTimeoutMs / 1000)]);
  }
}

function unavailable(cause?: unknown): Fault {
  return new Fault("unavailable", "The database is unavailable", { cause });
}

async function endAll(readers: readonly PoolReader[], timeout: number): Promise<void> {
  await Promise.all(readers.map(({ sql }) => sql.end({ timeout })));
}
