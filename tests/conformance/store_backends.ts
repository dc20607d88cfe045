// The databases that the store's suites run on. Each opened store starts empty and is deleted when it is disposed.
import type { PGlite } from "npm:@electric-sql/pglite@0.5.16";
import type { Kysely } from "kysely";
import { type AnyStore, migrateStore, openStore } from "@/adapters/open.ts";
import { bulkInsert } from "@/adapters/store/postgres/bulk_insert.ts";
import { translateError } from "@/adapters/store/postgres/errors.ts";
import { type Row, type Rows, SerializationRetry, type SqlConnection, sqlValue } from "@/adapters/store/sql_session.ts";
import { SqlStore } from "@/adapters/store/sql_store.ts";
import { openPostgresStore } from "@/adapters/store/postgres/store.ts";
import { openSqliteStore } from "@/adapters/store/sqlite/store.ts";
import type { Clock } from "@/core/time/clock.ts";
import type { Migration, MigrationOwner } from "@/core/migration.ts";
import { withAdminConnection } from "../temporary_database.ts";
import { WAIT_MS } from "../wait.ts";

/** What the suites write to, besides the core tables. */
export type Notes = { note: { id: string; body: string | null; stars: number } };

const baseline: Migration = {
  name: "0001_baseline",
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.createTable("note")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("body", "text")
      .addColumn("stars", "bigint", (column) => column.notNull())
      .execute();
  },
};

/**
 * Options of connections to PostgreSQL that wait for as long as a test does. To connect has no timeout: the package keeps the timer
 * of a connection that was ended while it reconnected.
 */
export const PATIENT = { connectTimeoutMs: 0, responseTimeoutMs: WAIT_MS };

/** The one module of these databases. */
export const notes = { name: "note", migrations: [baseline] } satisfies MigrationOwner;

/** A clock that tests move by hand. */
class ManualClock implements Clock {
  ms = Date.parse("2026-01-01T00:00:00.000Z");

  now(): number {
    return this.ms;
  }
}

export type OpenedStore = {
  store: SqlStore<Notes>;
  /** A second store on the same database, as another process would have. */
  openSecond: () => SqlStore<Notes>;
  clock: ManualClock;
  [Symbol.asyncDispose](): Promise<void>;
};

export type Backend = {
  name: string;
  /** Whether `another` can be had. */
  isShared: boolean;
  hasOwnTimers?: true;
  open(): Promise<OpenedStore>;
};

type OpenStore = (clock: Clock) => SqlStore<Notes>;

async function openMigrated(open: OpenStore, drop: () => Promise<void>): Promise<OpenedStore> {
  const clock = new ManualClock();
  const store = open(clock);
  await store.migrate([notes]);
  return {
    store,
    clock,
    openSecond: () => open(clock),
    async [Symbol.asyncDispose]() {
      await store.close();
      await drop();
    },
  };
}

export const sqliteMemory: Backend = {
  name: "sqlite :memory:",
  isShared: false,
  open: () => openMigrated((clock) => openSqliteStore(":memory:", { clock }), () => Promise.resolve()),
};

export const sqliteFile: Backend = {
  name: "sqlite file",
  isShared: true,
  async open() {
    const folder = await Deno.makeTempDir({ prefix: "gateway-store-" });
    return await openMigrated(
      (clock) => openSqliteStore(`${folder}/data/gateway.db`, { clock }),
      () => Deno.remove(folder, { recursive: true }),
    );
  },
};

/** A store that has the core tables. */
export async function openMigratedStore(url: string, clock: Clock): Promise<AnyStore> {
  const store = await openStore(url, clock);
  await migrateStore(store).catch(async (cause) => {
    await store.close();
    throw cause;
  });
  return store;
}

/** The URL of a PostgreSQL server with a schema of its own, dropped at the end. */
export async function createTemporarySchema(url: string): Promise<{ url: string; drop(): Promise<void> }> {
  const schema = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  const run = (sql: string): Promise<void> => withAdminConnection(url, (admin) => admin.unsafe(sql));
  await run(`create schema ${schema}`);
  const withSchema = new URL(url);
  withSchema.searchParams.set("search_path", schema);
  return { url: withSchema.href, drop: () => run(`drop schema ${schema} cascade`) };
}

/** A PostgreSQL server. */
export function postgresBackend(url: string): Backend {
  return {
    name: "postgres",
    isShared: true,
    async open() {
      const schema = await createTemporarySchema(url);
      return await openMigrated(
        (clock) => openPostgresStore(schema.url, { clock }),
        () => schema.drop(),
      );
    },
  };
}

/** PostgreSQL inside the test: everything of the store but its sockets. */
export function pgliteBackend(pglite: PGlite): Backend {
  return {
    name: "pglite",
    isShared: false,
    hasOwnTimers: true,
    async open() {
      await pglite.exec("drop schema if exists public cascade; create schema public");
      return await openMigrated((clock) =>
        new SqlStore<Notes>({
          dialect: "postgres",
          writers: [new PgliteConnection(pglite)],
          rules: { isExclusive: false, beforeSavepoint: "", gather: () => undefined },
        }, { clock }), () => Promise.resolve());
    },
  };
}

class PgliteConnection implements SqlConnection {
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
      throw translateError(thrown);
    }
  }

  async insertMany(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const { sql, parameters } = bulkInsert(table, rows);
    await this.run(sql, parameters);
  }

  control(sql: string): void {
    this.#controls = this.#controls.then(() => this.#pglite.exec(sql)).catch(() => {});
  }

  async commit(): Promise<void> {
    await this.#controls;
    const { rows } = await this.#pglite.query<{ isOk: boolean }>(`select true as "isOk"`).catch(() => ({ rows: [] }));
    await this.#pglite.exec("commit");
    if (rows.length === 0) throw new SerializationRetry("The transaction was aborted");
  }

  async rollback(): Promise<void> {
    await this.#controls;
    await this.#pglite.exec("rollback");
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
