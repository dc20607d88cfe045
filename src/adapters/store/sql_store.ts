// The store over SQL: what both engines share. An engine supplies its write connections and a connection to read from.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Kysely } from "kysely";
import { type Clock, iso, nextTick } from "@/core/time/clock.ts";
import type { MigrationOwner } from "@/core/migration.ts";
import type { Dialect, EventLog, Store, Transaction } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";
import { SqlEventLog } from "./event_log.ts";
import type { SavepointScope } from "./savepoint.ts";
import { applyMigrations } from "./migrator.ts";
import { createKysely, type SqlConnection, type SqlSession } from "./sql_session.ts";
import type { SqlTransaction } from "./transaction.ts";
import { WriteHealthcheck } from "./write_healthcheck.ts";
import { WriteQueue, type WriterRules } from "./write_queue.ts";

/** One engine, opened. */
type Engine = {
  dialect: Dialect;
  writers: readonly SqlConnection[];
  rules: WriterRules;
  /** Committed state. Absent = reads go to the one connection there is, between its batches. */
  reads?: Pick<SqlSession, "run"> & { close(): Promise<void> };
  /** A connection that waits for as long as a migration takes. Absent = an ordinary one does. */
  migrationWriter?: () => SqlConnection;
  /** Returns `false` while a batch is written. Absent = the engine's log is its own affair. */
  emptyLog?: () => boolean;
};

export type StoreOptions = { clock: Clock };

/** Ticks within which a batch ends, or the log is emptied next time. */
const EMPTY_TRIES = 1000;

export class SqlStore<Tables> implements Store<Tables> {
  /** What is read of the store inside a `write`, which should read its transaction: joins it, or is refused, as in tests. */
  static readsInsideWrites: "join" | "refuse" = "join";
  readonly dialect: Dialect;
  /** Reads committed state, or the transaction that encloses the caller. */
  readonly db: Kysely<Tables>;
  readonly log: EventLog;
  onCommit: Store<Tables>["onCommit"] = () => {};
  onFailover: () => void = () => {};
  onBytesWritten: (key: string, bytes: number) => void = () => {};
  authorizeWrite: (tx: Transaction<Tables>) => Promise<void> | undefined = () => undefined;
  readonly #engine: Engine;
  readonly #options: StoreOptions;
  readonly #queue: WriteQueue<Tables>;
  readonly #healthcheck: WriteHealthcheck;
  readonly #scopes = new AsyncLocalStorage<SavepointScope<SqlTransaction<Tables>> | undefined>();

  #closing: Promise<void> | undefined;

  constructor(engine: Engine, options: StoreOptions) {
    this.dialect = engine.dialect;
    this.#engine = engine;
    this.#options = options;
    this.#queue = this.#createQueue(engine.writers);
    this.db = createKysely<Tables>(engine.dialect, this.#reader());
    // The core tables are part of every database, whatever else `Tables` names.
    const core = this as unknown as Store<CoreTables>;
    this.log = new SqlEventLog(core);
    this.#healthcheck = new WriteHealthcheck({ store: core, writeHealth: this.#queue.writeHealth });
  }

  /** How many commits there were, and for how many writers. */
  get commits(): Readonly<{ batches: number; writers: number }> {
    return this.#queue.commits;
  }

  get isInTransaction(): boolean {
    return this.#currentTransaction() !== undefined;
  }

  write<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    const transaction = this.#currentTransaction();
    return transaction === undefined ? this.#queue.write(work) : transaction.runNested(work);
  }

  enclose<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    return this.write((tx) => {
      const frame = this.#scopes.getStore();
      if (frame !== undefined) frame.encloses = true;
      return work(tx);
    });
  }

  runOutside<Result>(work: () => Result): Result {
    return this.#scopes.run(undefined, work);
  }

  async checkHealth(): Promise<void> {
    // Where reads have connections of their own, those may fail by themselves.
    await Promise.all([this.#healthcheck.run(), this.#engine.reads?.run("select 1", [])]);
  }

  async emptyLog(): Promise<void> {
    const { emptyLog } = this.#engine;
    for (let tries = 0; tries < EMPTY_TRIES && emptyLog?.() === false; tries++) await nextTick();
  }

  async migrate(modules?: readonly MigrationOwner[]): Promise<void> {
    const { dialect, migrationWriter } = this.#engine;
    const at = iso(this.#options.clock.now());
    const queue = migrationWriter === undefined ? this.#queue : this.#createQueue([migrationWriter()]);
    try {
      // The core tables are part of every database, whatever else `Tables` names.
      await queue.write(({ db }) => applyMigrations(db as unknown as Kysely<CoreTables>, { dialect, modules, at }));
    } finally {
      if (queue !== this.#queue) await queue.close();
    }
    // An SQLite connection that is open already prepares statements for the schema that it knows, and notes their columns. It
    // reads the schema again when it runs one.
    if (dialect === "sqlite") await this.#engine.reads?.run("select name from migration limit 1", []);
  }

  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    await this.#queue.drain();
    await this.#engine.reads?.close();
    // Last: SQLite checkpoints its WAL into the file when the last connection closes, if that one may write.
    await this.#queue.close();
  }

  #createQueue(writers: readonly SqlConnection[]): WriteQueue<Tables> {
    return new WriteQueue<Tables>({
      dialect: this.dialect,
      clock: this.#options.clock,
      scopes: this.#scopes,
      authorizeWrite: (tx) => this.authorizeWrite(tx),
      writers,
      rules: this.#engine.rules,
      onCommitted: (committed) => this.onCommit(committed),
      onBytesWritten: (key, bytes) => this.onBytesWritten(key, bytes),
    });
  }

  /** The transaction the caller is in, if it still runs. */
  #currentTransaction(): SqlTransaction<Tables> | undefined {
    const frame = this.#scopes.getStore();
    return frame?.isOpen === true ? frame.transaction : undefined;
  }

  #reader(): Pick<SqlSession, "run"> {
    const { reads, writers: [connection] } = this.#engine;
    const committed: Pick<SqlSession, "run"> = reads ?? {
      run: (sql, parameters, prepared) =>
        this.#queue.readBetweenBatches(() =>
          connection?.run(sql, parameters, prepared) ??
            Promise.reject(new Error("Expected at least one write connection, received none"))
        ),
    };
    return {
      run: (sql, parameters, prepared) => {
        const frame = this.#scopes.getStore();
        if (frame?.isOpen !== true) return committed.run(sql, parameters, prepared);
        if (!frame.encloses && SqlStore.readsInsideWrites === "refuse") {
          throw new Error(`Expected a read through the transaction inside a write, received one of the store: ${sql}`);
        }
        return frame.transaction.run(sql, parameters, prepared);
      },
    };
  }
}
