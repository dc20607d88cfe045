// The write queue: writers that wait while a batch runs join it, each in its own savepoint, and share its commit.
import { AsyncLocalStorage } from "node:async_hooks";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Committed, Transaction } from "@/ports/store.ts";
import { Batch, GiveWay, Streams, Wish } from "./batch.ts";
import { type Connection, Rerun, SessionLost } from "./session.ts";
import { SqlTransaction, type TransactionDeps } from "./transaction.ts";

/** Few enough that PostgreSQL keeps a batch's savepoints in its fast cache of 64. */
const BATCH_MAX_WRITERS = 50;
/** A batch this old takes no more writers: its first has waited long enough. */
const BATCH_MAX_MS = 8;
const WAITING_MAX = 20_000;
const RERUNS_MAX = 5;
const RERUN_PAUSE_MS = 40;
const BEGIN_PAUSE_MS = 100;
const BEGIN_MAX_MS = 5000;

type Writer<Tables> = {
  work(tx: Transaction<Tables>): Promise<unknown>;
  resolve(result: unknown): void;
  reject(cause: unknown): void;
  /** Runs the work in the async context of its caller. */
  context: <Result>(run: () => Result) => Result;
  reruns: number;
  /** Since it first gave way, until a run of it ends otherwise. */
  wish?: Wish | undefined;
};

type Done<Tables> = { writer: Writer<Tables>; result: unknown };

/** What differs between engines. */
export type LaneRules = {
  /** Sent before each savepoint but a batch's first. */
  beforeSavepoint: string;
  /** Lets input that has already arrived reach the queue before a batch begins. */
  gather(): Promise<void> | undefined;
};

export type QueueDeps<Tables> = TransactionDeps<Tables> & {
  lanes: readonly Connection[];
  rules: LaneRules;
  told: (committed: Committed) => void;
};

const log = logOf("store");

export class WriteQueue<Tables> {
  /** How many commits there were, and how many writers they were for. */
  readonly commits = { batches: 0, writers: 0 };
  /** Why a writer was refused last, if that was the database's doing; until somebody has seen that it takes writes again. */
  readonly refusals: { last: Fault | undefined } = { last: undefined };
  readonly #deps: QueueDeps<Tables>;
  readonly #waiting: Writer<Tables>[] = [];
  readonly #idle: Connection[];
  /** Lanes that could not begin since one last could. */
  readonly #failing = new Set<Connection>();
  readonly #streams = new Streams();
  readonly #outside = AsyncLocalStorage.snapshot();
  #running = 0;
  #unsettled = 0;
  #isClosed = false;
  readonly #onQuiet: (() => void)[] = [];
  #between: (() => void)[] = [];

  constructor(deps: QueueDeps<Tables>) {
    this.#deps = deps;
    this.#idle = [...deps.lanes];
  }

  write<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) return Promise.reject(new Fault("unavailable", "The store is closed"));
    if (this.#waiting.length >= WAITING_MAX) {
      return Promise.reject(new Fault("unavailable", "Too many writes are waiting", { retryAfterMs: 1000 }));
    }
    return new Promise<Result>((resolve, reject) => {
      this.#unsettled++;
      const context = AsyncLocalStorage.snapshot();
      // The queue keeps writers of every result type; each gets back what its own work returned.
      this.#waiting.push({ work, resolve: resolve as (result: unknown) => void, reject, context, reruns: 0 });
      this.#wake();
    });
  }

  /** Runs `read` while no batch is open; for an engine whose one connection serves reads as well. */
  between<Result>(read: () => Promise<Result>): Promise<Result> {
    if (this.#running === 0) return read();
    return new Promise((resolve, reject) => this.#between.push(() => read().then(resolve, reject)));
  }

  /** Takes no more writers and resolves when those it has are done. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    if (this.#unsettled > 0) await new Promise<void>((resolve) => this.#onQuiet.push(resolve));
    // The last writer hears before its lane has come to rest.
    while (this.#idle.length < this.#deps.lanes.length) await pause(0);
  }

  /** Drains, then closes the lanes. */
  async close(): Promise<void> {
    await this.drain();
    for (const lane of this.#deps.lanes) await lane.close();
  }

  #wake(): void {
    const lane = this.#waiting.length > 0 ? this.#idle.pop() : undefined;
    if (lane !== undefined) this.#outside(() => this.#drain(lane));
  }

  async #drain(lane: Connection): Promise<void> {
    while (this.#waiting.length > 0) {
      const gathered = this.#deps.rules.gather();
      if (gathered !== undefined) await gathered;
      this.#running++;
      const batch = new Batch(this.#streams);
      await this.#runBatch(lane, batch);
      batch.settle();
      this.#running--;
      const reads = this.#between;
      this.#between = [];
      for (const read of reads) read();
    }
    this.#idle.push(lane);
  }

  async #runBatch(lane: Connection, batch: Batch): Promise<void> {
    // Before it takes a writer, so that no writer waits for a lane that cannot while another can.
    if (!(await this.#begin(lane))) return;
    const done: Done<Tables>[] = [];
    const closesAt = performance.now() + BATCH_MAX_MS;
    let writer = this.#waiting.shift();
    try {
      while (writer !== undefined) {
        const mayGoOn = await this.#runWriter(lane, batch, writer, done);
        const isFull = done.length >= BATCH_MAX_WRITERS || performance.now() >= closesAt;
        writer = mayGoOn && !isFull ? this.#waiting.shift() : undefined;
      }
      batch.end();
      if (done.length > 0) await this.#commit(lane, batch, done);
      else await lane.rollback();
    } catch (cause) {
      // The transaction is gone, and nothing of it was committed.
      await lane.rollback();
      for (const one of done) this.#again(one.writer, cause);
      if (writer !== undefined) this.#again(writer, cause);
    }
  }

  /**
   * Tries for as long as anybody waits: another process may hold the database's one write lock, and a server that has
   * just gone may be back in a moment. Other lanes try as well; once all have failed, and this one twice, everyone
   * waiting is told.
   */
  async #begin(lane: Connection): Promise<boolean> {
    const patience = performance.now() + BEGIN_MAX_MS;
    for (let attempt = 1; this.#waiting.length > 0; attempt++) {
      try {
        await lane.begin();
        this.#failing.clear();
        return true;
      } catch (cause) {
        await lane.rollback();
        if (cause instanceof Rerun && performance.now() < patience) {
          await pause(Math.random() * RERUN_PAUSE_MS);
          continue;
        }
        this.#failing.add(lane);
        if (attempt > 1 && this.#failing.size === this.#deps.lanes.length) {
          this.#failing.clear();
          const fault = new Fault("unavailable", "The database cannot be reached now", { cause });
          for (const writer of this.#waiting.splice(0)) this.#refuse(writer, fault);
          return false;
        }
        for (let others = this.#idle.length; others > 0; others--) this.#wake();
        await pause(BEGIN_PAUSE_MS);
      }
    }
    return false;
  }

  /** Runs one writer; false when the batch should end with it. Throws when the batch is lost. */
  async #runWriter(lane: Connection, batch: Batch, writer: Writer<Tables>, done: Done<Tables>[]): Promise<boolean> {
    // The first needs no savepoint: should it fail, the whole transaction is undone.
    const isFirst = done.length === 0;
    if (!isFirst) lane.control(`${this.#deps.rules.beforeSavepoint}savepoint writer`);
    try {
      batch.wish = writer.wish;
      const transaction = new SqlTransaction(this.#deps, lane, batch);
      const { result, frame } = await writer.context(() => transaction.execute(writer.work));
      if (!isFirst) lane.control("release savepoint writer");
      this.#endWish(writer);
      done.push({ writer, result });
      batch.absorb(frame);
      return true;
    } catch (cause) {
      if (cause instanceof SessionLost) throw cause;
      if (!isFirst) lane.control("rollback to savepoint writer");
      if (cause instanceof Rerun) this.#again(writer, cause);
      else this.#refuse(writer, cause);
      return !isFirst && !(cause instanceof Rerun);
    }
  }

  async #commit(lane: Connection, batch: Batch, done: readonly Done<Tables>[]): Promise<void> {
    try {
      await lane.commit();
    } catch (cause) {
      if (cause instanceof Rerun) throw cause;
      await lane.rollback();
      const isKnown = cause instanceof Fault;
      const fault = isKnown ? cause : new Fault("unavailable", "It is not known whether this was saved", { cause });
      for (const { writer } of done) this.#refuse(writer, fault);
      return;
    }
    this.commits.batches++;
    this.commits.writers += done.length;
    await batch.inOrder();
    this.#tell(batch.committed());
    for (const { writer, result } of done) this.#answer(writer, result);
  }

  #tell(committed: Committed): void {
    if (committed.events.length === 0 && committed.signals.length === 0 && committed.jobs === 0) return;
    try {
      this.#deps.told(committed);
    } catch (cause) {
      log.error("a listener failed after a commit", { cause: String(cause) });
    }
  }

  /** Puts a writer back in front when another run may help, and it has not had its share of them. */
  #again(writer: Writer<Tables>, cause: unknown): void {
    if (cause instanceof GiveWay) {
      // Once is nothing: the next run mostly gets through without others having to leave it the streams.
      if (writer.wish !== undefined) this.#streams.wishes.add(writer.wish);
      writer.wish ??= new Wish();
      for (const stream of cause.streams) writer.wish.streams.add(stream);
      cause.until.then(() => this.#requeue(writer));
      return;
    }
    this.#endWish(writer);
    if (!(cause instanceof Rerun || cause instanceof SessionLost)) {
      this.#refuse(writer, cause);
    } else if (writer.reruns++ < RERUNS_MAX) {
      pause(Math.random() * RERUN_PAUSE_MS * writer.reruns).then(() => this.#requeue(writer));
    } else {
      const fault = new Fault("unavailable", "The database is too busy for this now", { cause });
      this.#refuse(writer, fault);
    }
  }

  #requeue(writer: Writer<Tables>): void {
    this.#waiting.unshift(writer);
    this.#wake();
  }

  #answer(writer: Writer<Tables>, result: unknown): void {
    writer.resolve(result);
    this.#settled();
  }

  #endWish(writer: Writer<Tables>): void {
    if (writer.wish === undefined) return;
    this.#streams.wishes.delete(writer.wish);
    writer.wish.over.resolve();
    writer.wish = undefined;
  }

  #refuse(writer: Writer<Tables>, cause: unknown): void {
    this.#endWish(writer);
    if (cause instanceof Fault && cause.code === "unavailable") this.refusals.last = cause;
    writer.reject(cause);
    this.#settled();
  }

  #settled(): void {
    if (--this.#unsettled > 0) return;
    for (const quiet of this.#onQuiet.splice(0)) quiet();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
