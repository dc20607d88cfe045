// Connections of postgres.js, and one that holds a transaction open and never mistakes a new socket for the one its
// transaction began on.
import { Socket } from "node:net";
import postgres from "postgres";
import { currentAccount } from "@/core/caller.ts";
import { TimeoutQueue } from "@/core/time/timeout_queue.ts";
import {
  ConnectionLost,
  type Row,
  type Rows,
  SerializationRetry,
  type SqlConnection,
  type SqlValue,
  sqlValue,
} from "../sql_session.ts";
import { bulkInsert } from "./bulk_insert.ts";
import { translateError } from "./errors.ts";

const BEGIN = "begin isolation level read committed read write";
/**
 * A commit is acknowledged when it is on disk, whatever the server's default is. Its other values do that as well, and are
 * pinned: a setting of the session is not changed by a reload of the server's configuration.
 */
const ENSURE_DURABLE_COMMIT =
  `select set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)`;
export const APPLICATION_NAME = "collaboration-gateway";
export const CONNECT_TIMEOUT_MS = 3000;
export const STATEMENT_TIMEOUT_MS = 10_000;
export const CLOSE_TIMEOUT_SECONDS = 5;
const ALONE_CONNECT_TIMEOUT_MS = 5000;
/** After so long without a response, a session may have ended unnoticed; others are not asked before their commit. */
const STILL_MS = 1000;
/** What a statement costs the thread, and a row that it returns, about: the package works at a time of its own. */
const STATEMENT_MS = 0.1;
const ROW_MS = 0.01;
/**
 * A statement with more parameters contains a list, so its text differs for each length of the list. Each prepared statement
 * stays in memory, here and on the server, until its connection closes.
 */
const PREPARED_PARAMETERS_MAX = 20;

/** The first byte of a server's reply to the question whether it supports TLS. */
const TLS_ACCEPTED = "S".charCodeAt(0);
const NO_TLS = "The server does not support TLS, which sslmode requires";
/** What a server reports that refuses a connection because it is not encrypted as its rules require. */
const REFUSED = { severity: "FATAL", code: "28000" };

export type PostgresOptions = {
  url: string;
  connectTimeoutMs: number;
  /** Longer than the server's own limit for a statement, so that it ends one only when the server is out of reach. */
  responseTimeoutMs: number;
  /** Runs at the beginning of a new session's first transaction; true when what it did is to be committed by itself. */
  onSession?: (connection: PostgresConnection) => Promise<boolean>;
};

/** An option that the package has and its types lack. */
const untypedOptions = { socket: openSocket };

export type Sql = ReturnType<typeof connect>;

/** Opens up to `max` connections when they are needed. `settings` are those of the server for these sessions. */
// The return type is inferred, because it carries the parsers given in the options.
// deno-lint-ignore explicit-module-boundary-types
export function connect(
  { url, connectTimeoutMs }: Pick<PostgresOptions, "url" | "connectTimeoutMs">,
  max: number,
  onclose: () => void,
  settings: Record<string, number> = {},
) {
  return postgres(url, {
    max,
    onclose,
    ...socketOf(url),
    // Neither age nor idleness may end a connection that has a transaction open.
    max_lifetime: null,
    idle_timeout: undefined,
    backoff: () => 0.1,
    connect_timeout: connectTimeoutMs / 1000,
    ...untypedOptions,
    fetch_types: false,
    onnotice: () => {},
    types: {
      bigint: { to: 20, from: [20], serialize: String, parse: Number },
      numeric: { to: 1700, from: [1700], serialize: String, parse: Number },
    },
    connection: {
      application_name: APPLICATION_NAME,
      // Only `begin read write` may change anything: a statement that strays out of its transaction fails.
      default_transaction_read_only: true,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      lock_timeout: 5_000,
      // To compile a statement takes longer than most of them run, and their estimates are far above what they read.
      jit: "off",
      // A node that froze or was cut off holds the streams of its batch until the server ends its session.
      idle_in_transaction_session_timeout: 10_000,
      // A machine that loses power closes no connection: the server ends its sessions after about ten seconds.
      tcp_keepalives_idle: 4,
      tcp_keepalives_interval: 2,
      tcp_keepalives_count: 3,
      ...settings,
    },
  });
}

/** Runs a statement over a connection of its own: one that takes long, such as building an index, or that no transaction may contain. */
export async function runStatementAlone(url: string, statement: string): Promise<void> {
  const settings = { statement_timeout: 0, lock_timeout: 0, default_transaction_read_only: 0 };
  const connection = connect({ url, connectTimeoutMs: ALONE_CONNECT_TIMEOUT_MS }, 1, () => {}, settings);
  try {
    await connection.unsafe(statement);
  } finally {
    await connection.end({ timeout: CLOSE_TIMEOUT_SECONDS });
  }
}

type SocketOptions = { host: string[]; port: number[]; path?: string | false; ssl?: string | false };

/** The host, if it is the directory of a Unix socket, with / written as %2F: the package does not decode it. */
function socketOf(url: string): { host?: string } {
  const host = decodeURIComponent(URL.parse(url)?.hostname ?? "");
  return host.startsWith("/") ? { host } : {};
}

/**
 * A socket that reports a failure when the server, or a proxy in front of it, closes without a message. The package does not
 * treat that as a failure, and would reconnect in an endless loop.
 */
function openSocket({ host, port, path, ssl }: SocketOptions): Socket {
  const socket = new Socket();
  if (ssl && ssl !== "prefer") {
    // The package begins TLS whatever the server replies, and then it looks as if the connection was lost.
    socket.once("data", ([reply]) => {
      if (reply !== TLS_ACCEPTED) socket.emit("error", Object.assign(new Error(NO_TLS), REFUSED));
    });
  }
  socket.once("close", (hadError) => {
    if (!hadError && socket.bytesRead === 0) {
      socket.emit("error", Object.assign(new Error("Connection closed without a response"), { code: "ECONNRESET" }));
    }
  });
  const [hostname = "localhost"] = host;
  if (path) socket.connect(path);
  else socket.connect(port[0] ?? 5432, hostname);
  // The package looks here for the name that the server's certificate must have.
  return Object.assign(socket, { host: hostname });
}

/**
 * One write connection. Statements are sent immediately, and their results arrive in the same order, so a caller that needs no
 * result need not wait. After a failed statement the server refuses all others until a rollback, so none is applied.
 */
export class PostgresConnection implements SqlConnection {
  readonly #options: PostgresOptions;
  readonly #timeouts: TimeoutQueue;
  #sql: Sql | undefined;
  /** Whether the socket has answered before, so that statements may be sent before its next `begin` is answered. */
  #isEstablished = false;
  #isLost = false;
  #respondedAt = 0;
  /** Settles when everything that was sent is answered. */
  #settled: Promise<unknown> = Promise.resolve();

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.#timeouts = new TimeoutQueue(options.responseTimeoutMs);
  }

  async begin(): Promise<void> {
    const sql = this.#sql ??= connect(this.#options, 1, () => this.#disconnect(sql));
    this.#isLost = false;
    if (this.#isEstablished) return this.control(BEGIN);
    try {
      // Before the transaction, whose rollback would undo it.
      await this.#send(ENSURE_DURABLE_COMMIT, []);
      await this.#send(BEGIN, []);
      if (await this.#options.onSession?.(this)) {
        await this.commit();
        this.control(BEGIN);
      }
    } catch (cause) {
      // A server that begins nothing, such as a standby, is disconnected: its name may lead to another one by the next time.
      this.#disconnect(sql);
      throw cause;
    }
    this.#isEstablished = true;
  }

  run(sql: string, parameters: readonly unknown[]): Promise<Rows> {
    const response = this.#send(sql, parameters.map(sqlValue));
    this.#settled = Promise.allSettled([this.#settled, response]).then(ignoreResult);
    return response;
  }

  async insertMany(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const { sql, parameters } = bulkInsert(table, rows);
    await this.run(sql, parameters);
  }

  control(sql: string): void {
    // Not waited for: a failure aborts the transaction, which the next statement or the commit reports.
    this.#sql?.unsafe(sql).catch(() => {});
  }

  async commit(): Promise<void> {
    await this.#settled;
    // A server ends a session that is idle in a transaction: what ends before the commit is sent is certainly not committed.
    if (performance.now() - this.#respondedAt > STILL_MS) await this.#send("select 1", []).catch(ignoreResult);
    if (this.#isLost) throw new SerializationRetry("Connection lost before commit");
    const { command } = await this.#send("commit", []);
    if (this.#isLost) throw new ConnectionLost("Connection lost during commit");
    // PostgreSQL reports success for the commit of an aborted transaction; only the command tag says "ROLLBACK".
    if (command !== "COMMIT") throw new SerializationRetry("The transaction was aborted");
  }

  async rollback(): Promise<void> {
    await this.#settled;
    if (this.#isLost) return;
    await this.#send("rollback", []).catch(() => this.#disconnect(this.#sql));
  }

  async close(): Promise<void> {
    await this.#settled;
    await this.#sql?.end({ timeout: CLOSE_TIMEOUT_SECONDS });
  }

  async #send(sql: string, values: SqlValue[]): Promise<Rows & { command: string }> {
    const on = this.#sql;
    if (this.#isLost || on === undefined) throw new ConnectionLost("Connection lost");
    try {
      const result = await execute(on, sql, values, this.#timeouts);
      this.#respondedAt = performance.now();
      charge(result);
      return result;
    } catch (thrown) {
      const failure = translateError(thrown);
      if (failure instanceof ConnectionLost) this.#disconnect(on);
      throw failure;
    }
  }

  /** Drops the socket for good; the next `begin` makes a new one. */
  #disconnect(sql: Sql | undefined): void {
    if (sql === undefined || sql !== this.#sql) return;
    this.#sql = undefined;
    this.#isLost = true;
    this.#isEstablished = false;
    // All pending statements of the connection get the failure.
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

/** Charges the caller for what a statement and its rows cost the thread. */
export function charge({ rows }: Rows): void {
  currentAccount()?.consume(STATEMENT_MS + rows.length * ROW_MS);
}

/** Not even the server's own statement timeout was reported. */
export class NoResponse extends ConnectionLost {}

function noResponse(): NoResponse {
  return new NoResponse("No response from the database");
}

/** Returns no result: a chain of promises with results would retain all earlier ones. */
function ignoreResult(): void {}

/** Runs a statement; `timeouts` limit how long its response may take. */
export async function execute(
  sql: Sql,
  text: string,
  values: SqlValue[],
  timeouts: TimeoutQueue,
): Promise<Rows & { command: string }> {
  // `bigint` is not in the package's parameter types unless its own `BigInt` type is used; it is sent as digits.
  const parameters = values.map((value) => typeof value === "bigint" ? String(value) : value);
  const query = sql.unsafe(text, parameters, { prepare: parameters.length <= PREPARED_PARAMETERS_MAX });
  const result = await timeouts.run(query, noResponse);
  const response = { rows: [...result], changed: result.count ?? 0, command: result.command };
  // Query objects of the package live until the next full garbage collection. So parameters and results are detached from them:
  // for a busy gateway they are most of what the collector would have to copy.
  result.length = 0;
  Object.assign(query, { args: [], parameters: [] });
  return response;
}
