// The store over SQL: what both engines share. An engine brings its write lanes and a place to read from.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Kysely } from "kysely";
import { type Clock, iso } from "@/core/clock.ts";
import type { Committed, Dialect, EventLog, Store, Transaction } from "@/ports/store.ts";
import type { CoreTables } from "./core_tables.ts";
import { SqlEventLog } from "./event_log.ts";
import type { Frame } from "./frame.ts";
import type { Migration } from "./migrations/migration.ts";
import { applyMigrations, migrations } from "./migrations/mod.ts";
import { type Connection, kyselyOver, type Session } from "./session.ts";
import type { SqlTransaction } from "./transaction.ts";
import { WriteProbe } from "./write_probe.ts";
import { type LaneRules, WriteQueue } from "./write_queue.ts";

/** One engine, opened. */
export type Engine = {
  dialect: Dialect;
  lanes: readonly Connection[];
  rules: LaneRules;
  /** Committed state. Absent = reads go to the one lane there is, between its batches. */
  reads?: Pick<Session, "run"> & { close(): Promise<void> };
  /** A lane that waits for as long as a migration takes. Absent = an ordinary one does. */
  migrationLane?: () => Connection;
};

export type StoreOptions = {
  clock: Clock;
  /** Those of the program unless told otherwise. */
  migrations?: readonly Migration[];
};

export class SqlStore<Tables> implements Store<Tables> {
  readonly dialect: Dialect;
  /** Reads the transaction the caller is in, else committed state; so it may be kept. */
  readonly db: Kysely<Tables>;
  readonly log: EventLog;
  onCommit: (committed: Committed) => void = () => {};
  onTakeover: () => void = () => {};
  readonly #engine: Engine;
  readonly #options: StoreOptions;
  readonly #queue: WriteQueue<Tables>;
  readonly #probe: WriteProbe;
  readonly #frames = new AsyncLocalStorage<Frame<SqlTransaction<Tables>>>();

  #closing: Promise<void> | undefined;

  constructor(engine: Engine, options: StoreOptions) {
    this.dialect = engine.dialect;
    this.#engine = engine;
    this.#options = options;
    this.#queue = this.#queueOver(engine.lanes);
    this.db = kyselyOver<Tables>(engine.dialect, this.#reader());
    // The core tables are part of every database, whatever else `Tables` names.
    const core = this as unknown as Store<CoreTables>;
    this.log = new SqlEventLog(core);
    this.#probe = new WriteProbe({ store: core, refusals: this.#queue.refusals });
  }

  /** How many commits there were, and for how many writers. */
  get commits(): Readonly<{ batches: number; writers: number }> {
    return this.#queue.commits;
  }

  get isInTransaction(): boolean {
    return this.#ambient() !== undefined;
  }

  write<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    const transaction = this.#ambient();
    return transaction === undefined ? this.#queue.write(work) : transaction.nested(work);
  }

  async probe(): Promise<void> {
    // Where reads have connections of their own, those may fail by themselves.
    await Promise.all([this.#probe.run(), this.#engine.reads?.run("select 1", [])]);
  }

  async migrate(): Promise<void> {
    const { dialect, migrationLane } = this.#engine;
    const { clock, migrations: steps = migrations } = this.#options;
    const queue = migrationLane === undefined ? this.#queue : this.#queueOver([migrationLane()]);
    try {
      // The core tables are part of every database, whatever else `Tables` names.
      await queue.write(({ db }) =>
        applyMigrations(db as unknown as Kysely<CoreTables>, dialect, steps, iso(clock.now()))
      );
    } finally {
      if (queue !== this.#queue) await queue.close();
    }
  }

  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    await this.#queue.drain();
    await this.#engine.reads?.close();
    // Last, since SQLite brings its log into the file when the last connection closes, if that one may write.
    await this.#queue.close();
  }

  #queueOver(lanes: readonly Connection[]): WriteQueue<Tables> {
    return new WriteQueue<Tables>({
      dialect: this.dialect,
      clock: this.#options.clock,
      frames: this.#frames,
      lanes,
      rules: this.#engine.rules,
      told: (committed) => this.onCommit(committed),
    });
  }

  /** The transaction the caller is in, if it still runs. */
  #ambient(): SqlTransaction<Tables> | undefined {
    const frame = this.#frames.getStore();
    return frame?.isOpen === true ? frame.transaction : undefined;
  }

  #reader(): Pick<Session, "run"> {
    const { reads, lanes: [lane] } = this.#engine;
    const committed: Pick<Session, "run"> = reads ?? {
      run: (sql, parameters, mayKeep) =>
        this.#queue.between(() => lane?.run(sql, parameters, mayKeep) ?? Promise.reject(new Error("No lane"))),
    };
    return { run: (sql, parameters, mayKeep) => (this.#ambient() ?? committed).run(sql, parameters, mayKeep) };
  }
}
