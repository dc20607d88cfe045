// A session: one place where SQL runs, and Kysely on top of it. Both engines and every transaction are sessions.
import {
  type CompiledQuery,
  type DatabaseConnection,
  DefaultQueryExecutor,
  type Dialect as KyselyDialect,
  type DialectAdapter,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import { RetryTransaction } from "@/core/fault.ts";
import { bindPrepared, type PreparedOptions } from "@/ports/sql/prepared.ts";
import type { Dialect } from "@/ports/store.ts";

export type Row = Record<string, unknown>;
export type Rows = { rows: Row[]; changed: number };

export interface SqlSession {
  /** `prepared` says that the query is one; the text of any other depends on what it is for, such as the filters of a list. */
  run(sql: string, parameters: readonly unknown[], prepared?: PreparedOptions): Promise<Rows>;
  /** All rows have the keys of the first. */
  insertMany(table: string, rows: readonly Row[]): Promise<void>;
}

/** A session of its own that can hold a transaction open. */
export interface SqlConnection extends SqlSession {
  begin(): Promise<void>;
  /** Sends a savepoint command; a failure is reported by the next statement. */
  control(sql: string): void;
  /**
   * Resolves once the transaction is durable. Throws `SerializationRetry` when it certainly is not, a `Fault` when a retry would
   * fail as well, any other error when the outcome is unknown.
   */
  commit(): Promise<void>;
  /** Never throws. */
  rollback(): Promise<void>;
  close(): Promise<void>;
}

/** The engine aborted a transaction that may succeed when it runs again. */
export class SerializationRetry extends RetryTransaction {
  override readonly name = "Rerun";
}

/** The connection broke, and its open transaction with it. */
export class ConnectionLost extends RetryTransaction {
  override readonly name = "SessionLost";
}

type DialectParts = { adapter: DialectAdapter; compiler: SqliteQueryCompiler | PostgresQueryCompiler };

const DIALECT_PARTS: Readonly<Record<Dialect, DialectParts>> = {
  sqlite: { adapter: new SqliteAdapter(), compiler: new SqliteQueryCompiler() },
  postgres: { adapter: new PostgresAdapter(), compiler: new PostgresQueryCompiler() },
};

/** Kysely over a session. Transactions are not its business: `store.write` owns them. */
export function createKysely<Tables>(dialect: Dialect, session: Pick<SqlSession, "run">): Kysely<Tables> {
  const { adapter, compiler } = DIALECT_PARTS[dialect];
  const connection: DatabaseConnection = {
    async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
      const { rows, changed } = await session.run(sql, parameters);
      // The row type is the caller's claim about its own query.
      return { rows: rows as R[], numAffectedRows: BigInt(changed) };
    },
    streamQuery(): never {
      throw new TypeError("Expected a paginated query, received a stream");
    },
  };
  const executor = new DefaultQueryExecutor(compiler, adapter, {
    provideConnection: (consumer) => consumer(connection),
  });
  const db = new Kysely<Tables>({
    config: { dialect: DIALECTS[dialect] },
    dialect: DIALECTS[dialect],
    driver: DRIVER,
    executor,
  });
  bindPrepared(db, { dialect, run: (sql, parameters, options) => session.run(sql, parameters, options) });
  return db;
}

function rejectTransaction(): never {
  throw new TypeError("Expected store.write, received an explicit transaction");
}

const DRIVER: Driver = {
  init: () => Promise.resolve(),
  acquireConnection: rejectTransaction,
  beginTransaction: rejectTransaction,
  commitTransaction: rejectTransaction,
  rollbackTransaction: rejectTransaction,
  releaseConnection: () => Promise.resolve(),
  destroy: () => Promise.resolve(),
};

const DIALECTS: Readonly<Record<Dialect, KyselyDialect>> = {
  sqlite: {
    createAdapter: () => DIALECT_PARTS.sqlite.adapter,
    createDriver: () => DRIVER,
    createQueryCompiler: () => DIALECT_PARTS.sqlite.compiler,
    createIntrospector: (db) => new SqliteIntrospector(db),
  },
  postgres: {
    createAdapter: () => DIALECT_PARTS.postgres.adapter,
    createDriver: () => DRIVER,
    createQueryCompiler: () => DIALECT_PARTS.postgres.compiler,
    createIntrospector: (db) => new PostgresIntrospector(db),
  },
};

export type SqlValue = string | number | bigint | null | Uint8Array;

/** A value as both engines take it. Booleans are 0 and 1; what an engine would silently misread is refused. */
export function sqlValue(value: unknown): SqlValue {
  switch (typeof value) {
    case "string":
    case "number":
    case "bigint":
      return value;
    case "boolean":
      return value ? 1 : 0;
  }
  if (value === null || value instanceof Uint8Array) return value;
  const kind = value === undefined ? "undefined" : typeof value === "object" ? value.constructor?.name : typeof value;
  throw new TypeError(`Expected text, number, boolean, bytes or null as a SQL parameter, received ${kind}`);
}

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
