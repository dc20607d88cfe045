// A connection of `node:sqlite`: caches prepared statements, checks parameters, translates errors.
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { measureCpu } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { PreparedOptions } from "@/ports/sql/prepared.ts";
import { UniqueViolation } from "@/ports/store.ts";
import {
  ConnectionLost,
  quoteIdentifier,
  type Row,
  type Rows,
  SerializationRetry,
  type SqlConnection,
  type SqlValue,
  sqlValue,
} from "../sql_session.ts";
import { type CachedQuery, type ColumnUsage, type QueryCache, trackColumnUsage } from "./query_cache.ts";

const STATEMENTS_MAX = 500;
/** Waiting inside SQLite stops the whole program, so it is short; the write queue tries again. */
const BUSY_TIMEOUT_MS = 20;
/** The log is cut to it when all that it has is in the file: it grows while a backup reads, and with a large transaction. */
const LOG_MAX_BYTES = 32 * 1024 * 1024;
/** Rows of one insert, where there are as many: a quarter cheaper than one by one, and more would not be cheaper still. */
const WIDE_ROWS = 8;
const BUSY = 5;
const FULL = 13;
const UNIQUE = new Set([1555, 2067]);
/** Primary codes of a database that cannot serve now: locked, out of memory, I/O, corrupt, full, cannot open. */
const UNAVAILABLE = new Set([6, 7, 10, 11, 13, 14]);

type Statement = {
  statement: StatementSync;
  /** Names of what it returns; none of a statement that only writes. */
  columns: readonly string[];
  columnUsage: ColumnUsage;
  cachedQuery: CachedQuery | undefined;
};

export class SqliteConnection implements SqlConnection {
  readonly #db: DatabaseSync;
  readonly #cache: QueryCache;
  readonly #columnUsage: ReturnType<typeof trackColumnUsage>;
  #isOpen = false;
  readonly #statements = new LruMap<string, Statement>(STATEMENTS_MAX);
  readonly #inserts = new InsertStatements();

  /** The cache is shared by all connections of a file. */
  constructor(path: string, cache: QueryCache, options: { isReadOnly: boolean; image?: Uint8Array | undefined }) {
    this.#db = new DatabaseSync(path, { readOnly: options.isReadOnly, enableForeignKeyConstraints: true });
    if (options.image !== undefined) this.#db.deserialize(options.image);
    this.#cache = cache;
    this.#db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}; pragma cache_size = -32000; pragma temp_store = memory`);
    if (path !== ":memory:") this.#db.exec("pragma mmap_size = 268435456");
    if (!options.isReadOnly) {
      this.#db.exec("pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 4000");
      // What is deleted is overwritten: its pages stay in the file, and in backups, until they are used again.
      this.#db.exec(`pragma journal_size_limit = ${LOG_MAX_BYTES}; pragma secure_delete = on`);
    }
    // The engine's own `lower` knows ASCII only; on PostgreSQL a migration makes this function.
    this.#db.function("fold_case", { deterministic: true }, foldCase);
    this.#columnUsage = trackColumnUsage(this.#db);
  }

  /** Runs at once; async only so that a failure is a rejection. */
  // deno-lint-ignore require-await
  async run(sql: string, parameters: readonly unknown[], prepared?: PreparedOptions): Promise<Rows> {
    const cacheable = prepared?.cacheable === true;
    // The time of a writer is charged as a whole.
    return this.#isOpen
      ? this.#run(sql, parameters, cacheable)
      : measureCpu(() => this.#run(sql, parameters, cacheable));
  }

  #run(sql: string, parameters: readonly unknown[], cacheable: boolean): Rows {
    const values = parameters.map(sqlValue);
    try {
      const entry = this.#prepare(sql);
      const { statement, columns, columnUsage } = entry;
      if (columnUsage.writes.length > 0) this.#cache.markWritten(columnUsage.writes);
      if (columns.length === 0) return { rows: [], changed: Number(statement.run(...values).changes) };
      const read = (): Rows => nameColumns(columns, statement.all(...values));
      if (!cacheable || columnUsage.reads.length === 0) return read();
      entry.cachedQuery ??= this.#cache.createQuery(columnUsage);
      return this.#cache.getOrRead(entry.cachedQuery, values, this.#isOpen, read);
    } catch (thrown) {
      throw this.#translate(thrown);
    }
  }

  // deno-lint-ignore require-await
  async insertMany(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const { sql, columns } = this.#inserts.of(table, rows);
    const wide = rows.length < WIDE_ROWS ? sql : sql + `, ${placeholders(columns)}`.repeat(WIDE_ROWS - 1);
    try {
      for (let from = 0; from < rows.length;) {
        const isWide = rows.length - from >= WIDE_ROWS;
        const { statement, columnUsage } = this.#prepare(isWide ? wide : sql);
        this.#cache.markWritten(columnUsage.writes);
        const values: SqlValue[] = [];
        const end = from + (isWide ? WIDE_ROWS : 1);
        for (; from < end; from++) {
          for (const column of columns) values.push(sqlValue(rows[from]?.[column]));
        }
        statement.run(...values);
      }
    } catch (thrown) {
      throw this.#translate(thrown);
    }
  }

  // deno-lint-ignore require-await
  async begin(): Promise<void> {
    this.control("begin immediate");
    this.#isOpen = true;
  }

  control(sql: string): void {
    try {
      this.#prepare(sql).statement.run();
    } catch (thrown) {
      throw this.#translate(thrown);
    }
  }

  // deno-lint-ignore require-await
  async commit(): Promise<void> {
    try {
      this.#prepare("commit").statement.run();
    } catch (thrown) {
      // The mark that makes a transaction count is the last to need room. Any other failure may come after it.
      if (codeOf(thrown) !== FULL) throw this.#translate(thrown);
      throw new Fault("unavailable", "The disk is full: the change was not saved", { cause: thrown });
    }
    this.#isOpen = false;
    this.#cache.endBatch();
  }

  // deno-lint-ignore require-await
  async rollback(): Promise<void> {
    this.#isOpen = false;
    if (this.#db.isTransaction) this.#db.exec("rollback");
    this.#cache.endBatch();
  }

  /** Stores what the log has in the file, and empties it; returns `false` in a transaction. */
  emptyLog(): boolean {
    // A backup that still reads the log keeps it as it is.
    if (!this.#isOpen) this.control("pragma wal_checkpoint(truncate)");
    return !this.#isOpen;
  }

  // deno-lint-ignore require-await
  async close(): Promise<void> {
    this.#statements.clear();
    this.#db.close();
  }

  #prepare(sql: string): Statement {
    // In the order in which they were prepared: to move one at each use would cost more than to prepare it again some day.
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    this.#columnUsage.take();
    const statement = this.#db.prepare(sql);
    const columnUsage = this.#columnUsage.take();
    statement.setReturnArrays(true);
    const columns = statement.columns().map(({ name }) => name);
    const entry = { statement, columns, columnUsage, cachedQuery: undefined };
    this.#statements.set(sql, entry);
    return entry;
  }

  #translate(thrown: unknown): unknown {
    const code = codeOf(thrown);
    if (!(thrown instanceof Error) || code === undefined) return thrown;
    // A full disk and its like undo the whole transaction, not only the statement.
    if (this.#isOpen && !this.#db.isTransaction) return new ConnectionLost(thrown.message, { cause: thrown });
    if (UNIQUE.has(code)) return new UniqueViolation(thrown.message, { cause: thrown });
    if ((code & 0xff) === BUSY) return new SerializationRetry(thrown.message, { cause: thrown });
    if (!UNAVAILABLE.has(code & 0xff)) return thrown;
    return new Fault("unavailable", "The database is unavailable", { cause: thrown });
  }
}

/** The engine's own code of what it threw. */
function codeOf(thrown: unknown): number | undefined {
  return thrown instanceof Error && "errcode" in thrown && typeof thrown.errcode === "number"
    ? thrown.errcode
    : undefined;
}

/**
 * Texts of `insertMany`, one per table and set of columns. With `or fail`, the engine keeps nothing to undo one statement alone, and
 * nobody needs that: after a failure the savepoint is undone. To drop it took as long as there were pages to undo the savepoint.
 */
class InsertStatements {
  readonly #texts = new Map<string, { sql: string; columns: readonly string[] }>();

  /** The statement for `rows`, all with the same columns, without those that are null in all: null is their default. */
  of(table: string, rows: readonly Row[]): { sql: string; columns: readonly string[] } {
    const columns = Object.keys(rows[0] ?? {}).filter((column) => rows.some((row) => row[column] !== null));
    const key = `${table} ${columns.join(" ")}`;
    let text = this.#texts.get(key);
    if (text === undefined) {
      const sql = `insert or fail into ${quoteIdentifier(table)} (${columns.map(quoteIdentifier).join(", ")}) values ${
        placeholders(columns)
      }`;
      text = { sql, columns };
      this.#texts.set(key, text);
    }
    return text;
  }
}

function placeholders(columns: readonly string[]): string {
  return `(${columns.map(() => "?").join(", ")})`;
}

function foldCase(value: SqlValue): SqlValue {
  return typeof value === "string" ? value.toLowerCase() : value;
}

/** Rows as other engines give them. The objects of this one have no prototype, and take three times as long to read. */
function nameColumns(columns: readonly string[], found: readonly unknown[]): Rows {
  // Its types know objects only.
  const rows = (found as SqlValue[][]).map((values) => {
    const row: Row = {};
    let at = 0;
    for (const name of columns) row[name] = values[at++];
    return row;
  });
  return { rows, changed: rows.length };
}
