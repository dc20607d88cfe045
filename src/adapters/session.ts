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
import { Again } from "@/core/fault.ts";
import { bindPrepared } from "@/ports/prepared.ts";
import type { Dialect } from "@/ports/store.ts";

export type Row = Record<string, unknown>;
export type Rows = { rows: Row[]; changed: number };

export interface Session {
  /** `mayKeep`: the rows may be those of an earlier run, where it is certain that they are the same; nobody changes them. */
  run(sql: string, parameters: readonly unknown[], mayKeep?: boolean): Promise<Rows>;
  /** All rows have the keys of the first. */
  insertMany(table: string, rows: readonly Row[]): Promise<void>;
}

/** A session of its own that can hold a transaction open. */
export interface Connection extends Session {
  begin(): Promise<void>;
  /** Sends a savepoint command; what goes wrong with it shows in the next statement. */
  control(sql: string): void;
  /**
   * Resolves once the transaction is durable. Throws `Rerun` when it surely is not, a `Fault` when it would not be another
   * time either, anything else when nobody knows.
   */
  commit(): Promise<void>;
  /** Never throws. */
  rollback(): Promise<void>;
  close(): Promise<void>;
}

/** The engine gave up on a transaction that may well succeed when it runs again. */
export class Rerun extends Again {
  override readonly name = "Rerun";
}

/** The connection broke; what was open on it is gone. */
export class SessionLost extends Again {
  override readonly name = "SessionLost";
}

type DialectParts = { adapter: DialectAdapter; compiler: SqliteQueryCompiler | PostgresQueryCompiler };

const PARTS: Readonly<Record<Dialect, DialectParts>> = {
  sqlite: { adapter: new SqliteAdapter(), compiler: new SqliteQueryCompiler() },
  postgres: { adapter: new PostgresAdapter(), compiler: new PostgresQueryCompiler() },
};

/** Kysely over a session. Transactions are not its business: `store.write` owns them. */
export function kyselyOver<Tables>(dialect: Dialect, session: Pick<Session, "run">): Kysely<Tables> {
  const { adapter, compiler } = PARTS[dialect];
  const connection: DatabaseConnection = {
    async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
      const { rows, changed } = await session.run(sql, parameters);
      // The row type is the caller's claim about its own query.
      return { rows: rows as R[], numAffectedRows: BigInt(changed) };
    },
    streamQuery(): never {
      throw new TypeError("Expected a query read in pages, received a stream");
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
  bindPrepared(db, { dialect, run: (sql, parameters, mayKeep) => session.run(sql, parameters, mayKeep) });
  return db;
}

function refuse(): never {
  throw new TypeError("Expected store.write, received a transaction begun by hand");
}

const DRIVER: Driver = {
  init: () => Promise.resolve(),
  acquireConnection: refuse,
  beginTransaction: refuse,
  commitTransaction: refuse,
  rollbackTransaction: refuse,
  releaseConnection: () => Promise.resolve(),
  destroy: () => Promise.resolve(),
};

const DIALECTS: Readonly<Record<Dialect, KyselyDialect>> = {
  sqlite: {
    createAdapter: () => PARTS.sqlite.adapter,
    createDriver: () => DRIVER,
    createQueryCompiler: () => PARTS.sqlite.compiler,
    createIntrospector: (db) => new SqliteIntrospector(db),
  },
  postgres: {
    createAdapter: () => PARTS.postgres.adapter,
    createDriver: () => DRIVER,
    createQueryCompiler: () => PARTS.postgres.compiler,
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

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
