// Connections of postgres.js: a pool that reads, and one connection that holds a transaction open and never mistakes a
// new socket for the one its transaction began on.
import { Socket } from "node:net";
import postgres from "postgres";
import { Deadlines } from "@/core/deadline.ts";
import { Fault } from "@/core/fault.ts";
import { manyRows } from "./postgres_rows.ts";
import { translate } from "./postgres_sql.ts";
import {
  type Connection,
  Rerun,
  type Row,
  type Rows,
  type Session,
  SessionLost,
  type SqlValue,
  sqlValue,
} from "./session.ts";

const BEGIN = "begin isolation level read committed read write";
const CLOSE_TIMEOUT_SECONDS = 5;
/** So long a read is tried again that found no connection, and with pauses of up to so much. */
const AGAIN_MAX_MS = 1000;
const AGAIN_PAUSE_MS = 100;
/**
 * A statement with more has a list in it, and so as many texts as lists have lengths. Each that is prepared is kept, here and
 * by the server, for as long as its connection lasts.
 */
const PREPARED_PARAMETERS_MAX = 20;

export type PostgresOptions = {
  url: string;
  connectTimeoutMs: number;
  /** Longer than the server's own limit for a statement, so that it ends one only when the server is out of reach. */
  answerTimeoutMs: number;
  /** Runs at the beginning of a new session's first transaction; true when what it did is to be committed by itself. */
  onSession?: (connection: PostgresConnection) => Promise<boolean>;
};

/** An option that the package has and its types lack. */
const unlisted = { socket: openSocket };

type Sql = ReturnType<typeof connect>;

// The return type is inferred, because it carries the parsers given in the options.
function connect({ url, connectTimeoutMs }: PostgresOptions, max: number, onclose: () => void) {
  return postgres(url, {
    max,
    onclose,
    // Neither age nor idleness may end a connection that has a transaction open.
    max_lifetime: null,
    idle_timeout: undefined,
    backoff: () => 0.1,
    connect_timeout: connectTimeoutMs / 1000,
    ...unlisted,
    fetch_types: false,
    onnotice: () => {},
    types: {
      bigint: { to: 20, from: [20], serialize: String, parse: Number },
      numeric: { to: 1700, from: [1700], serialize: String, parse: Number },
    },
    connection: {
      application_name: "collaboration-gateway",
      // Only `begin read write` may change anything: a statement that strays out of its transaction fails.
      default_transaction_read_only: true,
      statement_timeout: 10_000,
      lock_timeout: 5_000,
      // A node that froze or was cut off holds the streams of its batch until the server ends its session.
      idle_in_transaction_session_timeout: 10_000,
    },
  });
}

/**
 * A socket that tells of a server, or a proxy before it, that closes without a word. The package by itself takes that
 * for no failure and connects again at once, for ever.
 */
function openSocket({ host, port, path }: { host: string[]; port: number[]; path?: string | false }): Socket {
  const socket = new Socket();
  socket.once("close", (hadError) => {
    if (!hadError && socket.bytesRead === 0) {
      socket.emit("error", Object.assign(new Error("Closed without an answer"), { code: "ECONNRESET" }));
    }
  });
  const [hostname = "localhost"] = host;
  if (path) socket.connect(path);
  else socket.connect(port[0] ?? 5432, hostname);
  // The package looks here for the name that the server's certificate must have.
  return Object.assign(socket, { host: hostname });
}

/**
 * Committed state, read over a few connections that pipeline. A network that swallows packets closes no socket, so after
 * one late answer reads go over new connections; the old ones get as long again for what was sent on them.
 */
export class PostgresPool implements Pick<Session, "run"> {
  readonly #open: () => Sql;
  readonly #answerTimeoutMs: number;
  readonly #deadlines: Deadlines;
  #sql: Sql;
  #left: Promise<unknown> = Promise.resolve();

  constructor(options: PostgresOptions, max: number) {
    this.#open = () => connect(options, max, () => {});
    this.#answerTimeoutMs = options.answerTimeoutMs;
    this.#deadlines = new Deadlines(options.answerTimeoutMs);
    this.#sql = this.#open();
  }

  /** A connection that ends, or that the server has no place for, costs no answer while there are others. */
  async run(sql: string, parameters: readonly unknown[]): Promise<Rows> {
    const values = parameters.map(sqlValue);
    const patience = performance.now() + AGAIN_MAX_MS;
    while (true) {
      const on = this.#sql;
      try {
        return await answer(on, sql, values, this.#deadlines);
      } catch (thrown) {
        if (thrown instanceof NoAnswer) this.#leave(on);
        const failure = translate(thrown);
        if (!(failure instanceof SessionLost || failure instanceof Rerun)) throw failure;
        if (thrown instanceof NoAnswer || performance.now() > patience) {
          throw new Fault("unavailable", "The database cannot be reached now", { cause: thrown });
        }
        await new Promise((resolve) => setTimeout(resolve, Math.random() * AGAIN_PAUSE_MS));
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#left, this.#sql.end({ timeout: CLOSE_TIMEOUT_SECONDS })]);
  }

  #leave(sql: Sql): void {
    if (sql !== this.#sql) return;
    this.#sql = this.#open();
    this.#left = Promise.allSettled([this.#left, sql.end({ timeout: this.#answerTimeoutMs / 1000 })]);
  }
}

/**
 * One write lane. What is asked of it is sent at once and answered in that order; whoever needs no answer to go on need not
 * wait for it. After a statement that failed the server refuses all others until a rollback, so nothing can slip past it.
 */
export class PostgresConnection implements Connection {
  readonly #options: PostgresOptions;
  readonly #deadlines: Deadlines;
  #sql: Sql | undefined;
  /** Whether the socket has answered before, so that statements may be sent before its next `begin` is answered. */
  #isProven = false;
  #isLost = false;
  /** Settles when everything that was sent is answered. */
  #settled: Promise<unknown> = Promise.resolve();

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.answerTimeoutMs);
  }

  async begin(): Promise<void> {
    const sql = this.#sql ??= connect(this.#options, 1, () => this.#lose(sql));
    this.#isLost = false;
    if (this.#isProven) return this.control(BEGIN);
    try {
      await this.#send(BEGIN, []);
      if (await this.#options.onSession?.(this)) {
        await this.commit();
        this.control(BEGIN);
      }
    } catch (cause) {
      // A server that begins nothing, such as a standby, is left: its name may be another's by the next time.
      this.#lose(sql);
      throw cause;
    }
    this.#isProven = true;
  }

  run(sql: string, parameters: readonly unknown[]): Promise<Rows> {
    const answered = this.#send(sql, parameters.map(sqlValue));
    this.#settled = Promise.allSettled([this.#settled, answered]).then(nothing);
    return answered;
  }

  async insertMany(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const { sql, parameters } = manyRows(table, rows);
    await this.run(sql, parameters);
  }

  control(sql: string): void {
    // Not waited for: a failure aborts the transaction, which the next statement or the commit reports.
    this.#sql?.unsafe(sql).catch(() => {});
  }

  async commit(): Promise<void> {
    await this.#settled;
    if (this.#isLost) throw new Rerun("Connection lost before the commit was sent");
    const { command } = await this.#send("commit", []);
    if (this.#isLost) throw new SessionLost("Connection lost while the commit was under way");
    // PostgreSQL answers the commit of an aborted transaction with success, only by another name.
    if (command !== "COMMIT") throw new Rerun("The transaction had been aborted");
  }

  async rollback(): Promise<void> {
    await this.#settled;
    if (this.#isLost) return;
    await this.#send("rollback", []).catch(() => this.#lose(this.#sql));
  }

  async close(): Promise<void> {
    await this.#settled;
    await this.#sql?.end({ timeout: CLOSE_TIMEOUT_SECONDS });
  }

  async #send(sql: string, values: SqlValue[]): Promise<Rows & { command: string }> {
    const on = this.#sql;
    if (this.#isLost || on === undefined) throw new SessionLost("Connection lost");
    try {
      return await answer(on, sql, values, this.#deadlines);
    } catch (thrown) {
      const failure = translate(thrown);
      if (failure instanceof SessionLost) this.#lose(on);
      throw failure;
    }
  }

  /** Drops the socket for good; the next `begin` makes a new one. */
  #lose(sql: Sql | undefined): void {
    if (sql === undefined || sql !== this.#sql) return;
    this.#sql = undefined;
    this.#isLost = true;
    this.#isProven = false;
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

/** Not even the server's own limit for a statement was heard of. */
class NoAnswer extends SessionLost {}

function noAnswer(): NoAnswer {
  return new NoAnswer("No answer from the database");
}

/** What was answered is for whoever asked; kept here, each answer would hold all those before it. */
function nothing(): void {}

async function answer(
  sql: Sql,
  text: string,
  values: SqlValue[],
  deadlines: Deadlines,
): Promise<Rows & { command: string }> {
  // `bigint` is not in the package's parameter types unless its own `BigInt` type is used; it is sent as digits.
  const parameters = values.map((value) => typeof value === "bigint" ? String(value) : value);
  const query = sql.unsafe(text, parameters, { prepare: parameters.length <= PREPARED_PARAMETERS_MAX });
  const result = await deadlines.run(query, noAnswer);
  const answered = { rows: [...result], changed: result.count ?? 0, command: result.command };
  // The package's queries outlive their answers, until the next full collection. So they keep neither what was asked nor what
  // was answered: for a busy gateway that is most of what its collections would have to copy.
  result.length = 0;
  Object.assign(query, { args: [], parameters: [] });
  return answered;
}
