// The databases that the store's suites run on. Each opened store starts empty and is gone when it is disposed.
import type { PGlite } from "npm:@electric-sql/pglite@0.5.16";
import type { Kysely } from "kysely";
import { core } from "@/adapters/migrations/0001_core.ts";
import { streamRights } from "@/adapters/migrations/0027_stream_rights.ts";
import type { Migration } from "@/adapters/migrations/migration.ts";
import { manyRows } from "@/adapters/postgres_rows.ts";
import { translate } from "@/adapters/postgres_sql.ts";
import { type Connection, Rerun, type Row, type Rows, sqlValue } from "@/adapters/session.ts";
import { SqlStore } from "@/adapters/sql_store.ts";
import { openPostgresStore } from "@/adapters/store_postgres.ts";
import { openSqliteStore } from "@/adapters/store_sqlite.ts";
import type { Clock } from "@/core/clock.ts";
import { asAdmin, type TemporaryDatabase } from "../temporary_database.ts";

/** What the suites write to, besides the core tables. */
export type Notes = { note: { id: string; body: string | null; stars: number } };

const notes: Migration = {
  name: "9999_note",
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.createTable("note")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("body", "text")
      .addColumn("stars", "bigint", (column) => column.notNull())
      .execute();
  },
};

export const testMigrations: readonly Migration[] = [core, streamRights, notes];

/** A clock that tests move by hand. */
export class HandClock implements Clock {
  ms = Date.parse("2026-01-01T00:00:00.000Z");

  now(): number {
    return this.ms;
  }
}

export type Opened = {
  store: SqlStore<Notes>;
  /** A second store on the same database, as another process would have. */
  another: (migrations?: readonly Migration[]) => SqlStore<Notes>;
  clock: HandClock;
  [Symbol.asyncDispose](): Promise<void>;
};

export type Backend = {
  name: string;
  /** Whether `another` can be had. */
  isShared: boolean;
  hasOwnTimers?: true;
  open(): Promise<Opened>;
};

type Open = (clock: Clock, migrations: readonly Migration[]) => SqlStore<Notes>;

async function opened(open: Open, drop: () => Promise<void>): Promise<Opened> {
  const clock = new HandClock();
  const store = open(clock, testMigrations);
  await store.migrate();
  return {
    store,
    clock,
    another: (migrations = testMigrations) => open(clock, migrations),
    async [Symbol.asyncDispose]() {
      await store.close();
      await drop();
    },
  };
}

export const sqliteMemory: Backend = {
  name: "sqlite :memory:",
  isShared: false,
  open: () =>
    opened((clock, migrations) => openSqliteStore(":memory:", { clock, migrations }), () => Promise.resolve()),
};

export const sqliteFile: Backend = {
  name: "sqlite file",
  isShared: true,
  async open() {
    const folder = await Deno.makeTempDir({ prefix: "gateway-store-" });
    return await opened(
      (clock, migrations) => openSqliteStore(`${folder}/data/gateway.db`, { clock, migrations }),
      () => Deno.remove(folder, { recursive: true }),
    );
  },
};

/** The URL of a PostgreSQL server with a schema of its own, dropped at the end. */
export async function temporarySchema(url: string): Promise<TemporaryDatabase> {
  const schema = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  const run = (sql: string): Promise<void> => asAdmin(url, (admin) => admin.unsafe(sql));
  await run(`create schema ${schema}`);
  const withSchema = new URL(url);
  withSchema.searchParams.set("search_path", schema);
  return { url: withSchema.href, drop: () => run(`drop schema ${schema} cascade`) };
}

/** A PostgreSQL server. */
export function postgresServer(url: string): Backend {
  return {
    name: "postgres",
    isShared: true,
    async open() {
      const schema = await temporarySchema(url);
      return await opened(
        (clock, migrations) => openPostgresStore(schema.url, { clock, migrations }),
        () => schema.drop(),
      );
    },
  };
}

/** PostgreSQL inside the test: everything of the store but its sockets. */
export function pgliteServer(pglite: PGlite): Backend {
  return {
    name: "pglite",
    isShared: false,
    hasOwnTimers: true,
    async open() {
      await pglite.exec("drop schema if exists public cascade; create schema public");
      return await opened((clock, migrations) =>
        new SqlStore<Notes>({
          dialect: "postgres",
          lanes: [new PgliteConnection(pglite)],
          rules: { beforeSavepoint: "", gather: () => undefined },
        }, { clock, migrations }), () => Promise.resolve());
    },
  };
}

class PgliteConnection implements Connection {
  readonly #pglite: PGlite;
  #controls: Promise<unknown> = Promise.resolve();

  constructor(pglite: PGlite) {
    this.#pglite = pglite;
  }

  async begin(): Promise<void> {
    await this.#pglite.exec("begin isolation level read committed read write");
  }

  async run(sql: string, parameters: readonly unknown[]): Promise<Rows> {
    await this.#controls;
    try {
      // Values go as text and the server decides their type, as they do over a socket.
      const values = parameters.map(sqlValue).map((value) => typeof value === "number" ? String(value) : value);
      const { rows, affectedRows } = await this.#pglite.query<Row>(sql, values, {
        parsers: { 20: Number, 1700: Number },
      });
      return { rows, changed: affectedRows ?? 0 };
    } catch (thrown) {
      throw translate(thrown);
    }
  }

  async insertMany(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const { sql, parameters } = manyRows(table, rows);
    await this.run(sql, parameters);
  }

  control(sql: string): void {
    this.#controls = this.#controls.then(() => this.#pglite.exec(sql)).catch(() => {});
  }

  async commit(): Promise<void> {
    await this.#controls;
    const { rows } = await this.#pglite.query<{ isOk: boolean }>(`select true as "isOk"`).catch(() => ({ rows: [] }));
    await this.#pglite.exec("commit");
    if (rows.length === 0) throw new Rerun("The transaction had been aborted");
  }

  async rollback(): Promise<void> {
    await this.#controls;
    await this.#pglite.exec("rollback");
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
