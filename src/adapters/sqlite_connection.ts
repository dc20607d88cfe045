// A connection of `node:sqlite`: prepared statements kept, parameters checked, errors translated.
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { Fault } from "@/core/fault.ts";
import { UniqueViolation } from "@/ports/store.ts";
import { type Connection, InsertTexts, Rerun, type Row, type Rows, SessionLost, sqlValue } from "./session.ts";

const STATEMENTS_MAX = 500;
/** Waiting inside SQLite stops the whole program, so it is short; the write queue tries again. */
const BUSY_TIMEOUT_MS = 20;
const BUSY = 5;
const UNIQUE = new Set([1555, 2067]);
/** Primary codes of a database that cannot serve now: locked, out of memory, I/O, corrupt, full, cannot open. */
const AWAY = new Set([6, 7, 10, 11, 13, 14]);

type Statement = { statement: StatementSync; isReader: boolean };

export class SqliteConnection implements Connection {
  readonly #db: DatabaseSync;
  #isOpen = false;
  readonly #statements = new Map<string, Statement>();
  readonly #inserts = new InsertTexts((table, columns) =>
    `insert into ${table} (${columns.join(", ")}) values (${columns.map(() => "?").join(", ")})`
  );

  constructor(path: string, options: { isReadOnly: boolean }) {
    this.#db = new DatabaseSync(path, { readOnly: options.isReadOnly, enableForeignKeyConstraints: true });
    this.#db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}; pragma cache_size = -32000; pragma temp_store = memory`);
    if (path !== ":memory:") this.#db.exec("pragma mmap_size = 268435456");
    if (!options.isReadOnly) {
      this.#db.exec("pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 4000");
    }
  }

  /** Runs at once; async only so that a failure is a rejection. */
  // deno-lint-ignore require-await
  async run(sql: string, parameters: readonly unknown[]): Promise<Rows> {
    const values = parameters.map(sqlValue);
    try {
      const { statement, isReader } = this.#prepare(sql);
      // Rows come without a prototype; copied, they are the plain objects other engines give.
      if (isReader) return rowsOf(statement.all(...values));
      return { rows: [], changed: Number(statement.run(...values).changes) };
    } catch (thrown) {
      throw this.#translate(thrown);
    }
  }

  // deno-lint-ignore require-await
  async insertMany(table: string, rows: readonly Row[]): Promise<void> {
    const first = rows[0];
    if (first === undefined) return;
    const { sql, columns } = this.#inserts.of(table, first);
    try {
      const { statement } = this.#prepare(sql);
      for (const row of rows) statement.run(...columns.map((column) => sqlValue(row[column])));
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
    this.control("commit");
    this.#isOpen = false;
  }

  // deno-lint-ignore require-await
  async rollback(): Promise<void> {
    this.#isOpen = false;
    if (this.#db.isTransaction) this.#db.exec("rollback");
  }

  // deno-lint-ignore require-await
  async close(): Promise<void> {
    this.#statements.clear();
    this.#db.close();
  }

  #prepare(sql: string): Statement {
    let entry = this.#statements.get(sql);
    if (entry !== undefined) {
      this.#statements.delete(sql);
    } else {
      const statement = this.#db.prepare(sql);
      entry = { statement, isReader: statement.columns().length > 0 };
      const oldest = this.#statements.size >= STATEMENTS_MAX ? this.#statements.keys().next().value : undefined;
      if (oldest !== undefined) this.#statements.delete(oldest);
    }
    this.#statements.set(sql, entry);
    return entry;
  }

  #translate(thrown: unknown): unknown {
    if (!(thrown instanceof Error) || !("errcode" in thrown) || typeof thrown.errcode !== "number") return thrown;
    // A full disk and its like undo the whole transaction, not only the statement.
    if (this.#isOpen && !this.#db.isTransaction) return new SessionLost(thrown.message, { cause: thrown });
    if (UNIQUE.has(thrown.errcode)) return new UniqueViolation(thrown.message, { cause: thrown });
    if ((thrown.errcode & 0xff) === BUSY) return new Rerun(thrown.message, { cause: thrown });
    if (!AWAY.has(thrown.errcode & 0xff)) return thrown;
    return new Fault("unavailable", "The database cannot serve now", { cause: thrown });
  }
}

function rowsOf(found: Row[]): Rows {
  const rows = found.map((row) => ({ ...row }));
  return { rows, changed: rows.length };
}
