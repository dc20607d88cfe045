// The write queue: writers that wait while a batch runs join it, each in its own savepoint, and share its commit. Owners take turns,
// and the writers of one are in half of the batches at most, those of a tenant in all but one: whatever it writes at once, others
// wait for one batch.
import { AsyncLocalStorage } from "node:async_hooks";
import { beginCharge, currentAccount, ownAccount } from "@/core/caller.ts";
import { delay } from "@/core/time/clock.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { Fault, isFault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import { TenantCpu } from "@/core/limit/tenant_cpu.ts";
import type { CommitResult, Transaction } from "@/ports/store.ts";
import { LockPriority, StreamLocks, WriteBatch, YieldToOther } from "./write_batch.ts";
import { ConnectionLost, SerializationRetry, type SqlConnection } from "./sql_session.ts";
import { SqlTransaction, type TransactionDeps } from "./transaction.ts";
import { WaitingWriters } from "./waiting_writers.ts";

/** Few enough that PostgreSQL keeps a batch's savepoints in its fast cache of 64. */
const BATCH_MAX_WRITERS = 50;
/** A batch this old takes no more writers: its first writer has waited long enough. */
const BATCH_MAX_MS = 8;
/** Longest pause after a batch of a tenant while others call. */
const REST_MAX_MS = 8;
const WAITING_MAX = 20_000;
const RETRIES_MAX = 5;
const RETRY_PAUSE_MS = 40;
/** A commit that writes less takes the time of the disk, for which no writer is to blame. */
const COMMIT_BYTES = 16 * 1024;
const BEGIN_PAUSE_MS = 100;
const BEGIN_MAX_MS = 5000;

type PendingWrite<Tables> = {
  work(tx: Transaction<Tables>): Promise<unknown>;
  resolve(result: unknown): void;
  reject(cause: unknown): void;
  /** Runs the work in the async context of its caller. */
  context: <Result>(run: () => Result) => Result;
  /** Absent if others wait for it, too. */
  owner: CpuAccount | undefined;
  retries: number;
  /** Since it first gave way, until a run of it ends otherwise. */
  priority?: LockPriority | undefined;
};

/** A writer whose work is in the batch, and how many bytes of rows it wrote. */
type CompletedWrite<Tables> = { write: PendingWrite<Tables>; result: unknown; bytes: number };

/** What differs between engines. */
export type WriterRules = {
  /** All writers share one connection on this thread, so that the time of each is taken from all others, and is charged. */
  isExclusive: boolean;
  /** Sent before each savepoint but a batch's first. */
  beforeSavepoint: string;
  /**
   * Lets input that has already arrived reach the queue before a batch begins. `restMs`: until the last batch is as long ago as it
   * took, if it was of one tenant among several.
   */
  gather(restMs: number): Promise<void> | undefined;
};

type QueueDeps<Tables> = TransactionDeps<Tables> & {
  writers: readonly SqlConnection[];
  rules: WriterRules;
  onCommitted: (committed: CommitResult) => void | Promise<void>;
};

const log = logOf("store");

export class WriteQueue<Tables> {
  /** How many commits there were, and how many writers they were for. */
  readonly commits = { batches: 0, writers: 0 };
  /** The last write error that the database caused, until a write succeeds again. */
  readonly writeHealth: { last: Fault | undefined } = { last: undefined };
  readonly #deps: QueueDeps<Tables>;
  readonly #waiting = new WaitingWriters<PendingWrite<Tables>>();
  readonly #idle: SqlConnection[];
  /** In how many batches owners have writers, and tenants. */
  readonly #writing = new Map<CpuAccount | TenantCpu, number>();
  /** Connections that could not begin since one last could. */
  readonly #failing = new Set<SqlConnection>();
  readonly #locks = new StreamLocks();
  readonly #rootContext = AsyncLocalStorage.snapshot();
  #restsUntil = -Infinity;
  #running = 0;
  #pending = 0;
  #isClosed = false;
  readonly #onIdle: (() => void)[] = [];
  #waitingReads: (() => void)[] = [];

  constructor(deps: QueueDeps<Tables>) {
    this.#deps = deps;
    this.#idle = [...deps.writers];
  }

  write<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) return Promise.reject(new Fault("unavailable", "The store is closed"));
    if (this.#waiting.size >= WAITING_MAX) {
      return Promise.reject(new Fault("unavailable", "The write queue is full", { retryAfterMs: 1000 }));
    }
    return new Promise<Result>((resolve, reject) => {
      this.#pending++;
      const context = AsyncLocalStorage.snapshot();
      this.#waiting.add({
        work,
        // The queue keeps writers of every result type; each gets back what its own work returned.
        resolve: resolve as (result: unknown) => void,
        reject,
        context,
        owner: ownAccount(),
        retries: 0,
      });
      this.#wake();
    });
  }

  /** Runs `read` while no batch is open, in the async context of its caller; for an engine whose one connection serves reads as well. */
  readBetweenBatches<Result>(read: () => Promise<Result>): Promise<Result> {
    if (this.#running === 0) return read();
    const context = AsyncLocalStorage.snapshot();
    return new Promise((resolve, reject) => this.#waitingReads.push(() => context(read).then(resolve, reject)));
  }

  /** Takes no more writers and resolves when those it has are done. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    if (this.#pending > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
    // The last writer gets its result before its connection is idle.
    while (this.#idle.length < this.#deps.writers.length) await delay(0);
  }

  /** Drains, then closes the connections. */
  async close(): Promise<void> {
    await this.drain();
    for (const connection of this.#deps.writers) await connection.close();
  }

  #wake(): void {
    const connection = this.#hasNext() ? this.#idle.pop() : undefined;
    if (connection !== undefined) this.#rootContext(() => this.#runBatches(connection));
  }

  /** Whether a writer of an owner may begin a batch: one connection is left to other tenants, whatever locks those of one wait for. */
  readonly #mayBegin = ({ owner }: Pick<PendingWrite<Tables>, "owner">): boolean => this.#mayJoin(owner);

  #hasNext(): boolean {
    return this.#waiting.has(this.#mayBegin);
  }

  #mayJoin(owner: CpuAccount | undefined, batch?: WriteBatch): boolean {
    const { length } = this.#deps.writers;
    const isBelow = (party: CpuAccount | TenantCpu | undefined, most: number): boolean =>
      party === undefined || batch?.parties.has(party) === true || (this.#writing.get(party) ?? 0) < most;
    return isBelow(owner, Math.ceil(length / 2)) && isBelow(owner?.tenant, Math.max(1, length - 1));
  }

  #takeNext(batch: WriteBatch): PendingWrite<Tables> | undefined {
    const writer = this.#waiting.take(({ owner }) => this.#mayJoin(owner, batch));
    for (const party of [writer?.owner, writer?.owner?.tenant]) {
      if (party === undefined || batch.parties.has(party)) continue;
      batch.parties.add(party);
      this.#writing.set(party, (this.#writing.get(party) ?? 0) + 1);
    }
    return writer;
  }

  #endTurns({ parties }: WriteBatch): void {
    for (const party of parties) {
      const left = (this.#writing.get(party) ?? 0) - 1;
      if (left > 0) this.#writing.set(party, left);
      else this.#writing.delete(party);
    }
  }

  async #runBatches(connection: SqlConnection): Promise<void> {
    while (this.#hasNext()) {
      const gathered = this.#deps.rules.gather(this.#restsUntil - performance.now());
      if (gathered !== undefined) await gathered;
      const startedAt = performance.now();
      this.#running++;
      const batch = new WriteBatch(this.#locks);
      await this.#runBatch(connection, batch);
      this.#endTurns(batch);
      batch.releaseAll();
      this.#running--;
      const reads = this.#waitingReads;
      this.#waitingReads = [];
      for (const read of reads) read();
      const now = performance.now();
      const isContended = batch.parties.values().some((party) => party instanceof TenantCpu && party.isContended(now));
      this.#restsUntil = isContended ? now + Math.min(now - startedAt, REST_MAX_MS) : now;
    }
    this.#idle.push(connection);
  }

  async #runBatch(connection: SqlConnection, batch: WriteBatch): Promise<void> {
    // Before it takes a writer, so that no writer waits for a connection that cannot while another can.
    if (!(await this.#begin(connection))) return;
    const done: CompletedWrite<Tables>[] = [];
    const closesAt = performance.now() + BATCH_MAX_MS;
    let writer = this.#takeNext(batch);
    try {
      while (writer !== undefined) {
        const mayGoOn = await this.#runWrite(connection, batch, writer, done);
        const isFull = done.length >= BATCH_MAX_WRITERS || performance.now() >= closesAt;
        writer = mayGoOn && !isFull ? this.#takeNext(batch) : undefined;
      }
      batch.beginCommit();
      if (done.length > 0) await this.#commit(connection, batch, done);
      else await connection.rollback();
    } catch (cause) {
      // The transaction was rolled back; nothing of it was committed.
      await connection.rollback();
      for (const one of done) this.#retry(one.write, cause);
      if (writer !== undefined) this.#retry(writer, cause);
    }
  }

  /**
   * Retries while writers wait: another process may have the database's one write lock, and a server that just disconnected may
   * soon be back. Other connections try as well; once all have failed, and this one twice, all waiting writers get the error.
   */
  async #begin(connection: SqlConnection): Promise<boolean> {
    const retryUntil = performance.now() + BEGIN_MAX_MS;
    for (let attempt = 1; this.#hasNext(); attempt++) {
      try {
        await connection.begin();
        this.#failing.clear();
        return true;
      } catch (cause) {
        await connection.rollback();
        if (cause instanceof SerializationRetry && performance.now() < retryUntil) {
          await delay(Math.random() * RETRY_PAUSE_MS);
          continue;
        }
        this.#failing.add(connection);
        if (attempt > 1 && this.#failing.size === this.#deps.writers.length) {
          this.#failing.clear();
          const fault = new Fault("unavailable", "The database is unavailable", { cause });
          for (const writer of this.#waiting.takeAll()) this.#reject(writer, fault);
          return false;
        }
        for (let others = this.#idle.length; others > 0; others--) this.#wake();
        await delay(BEGIN_PAUSE_MS);
      }
    }
    return false;
  }

  /** Runs one writer; false when the batch should end with it. Throws when the batch is lost. */
  async #runWrite(
    connection: SqlConnection,
    batch: WriteBatch,
    write: PendingWrite<Tables>,
    done: CompletedWrite<Tables>[],
  ): Promise<boolean> {
    // The first needs no savepoint: should it fail, the whole transaction is undone.
    const isFirst = done.length === 0;
    if (!isFirst) connection.control(`${this.#deps.rules.beforeSavepoint}savepoint writer`);
    const endCharge = this.#deps.rules.isExclusive ? write.context(beginCharge) : undefined;
    try {
      batch.priority = write.priority;
      const transaction = new SqlTransaction(this.#deps, connection, batch);
      const { result, frame } = await write.context(() => transaction.execute(write.work));
      if (!isFirst) connection.control("release savepoint writer");
      this.#dropPriority(write);
      done.push({ write, result, bytes: transaction.bytes });
      batch.merge(frame);
      return true;
    } catch (cause) {
      if (cause instanceof ConnectionLost) throw cause;
      if (!isFirst) connection.control("rollback to savepoint writer");
      if (cause instanceof SerializationRetry) this.#retry(write, cause);
      else this.#reject(write, cause);
      return !isFirst && !(cause instanceof SerializationRetry);
    } finally {
      endCharge?.();
    }
  }

  async #commit(connection: SqlConnection, batch: WriteBatch, done: readonly CompletedWrite<Tables>[]): Promise<void> {
    try {
      const startedAt = performance.now();
      await connection.commit();
      if (this.#deps.rules.isExclusive) chargeCommit(done, performance.now() - startedAt);
    } catch (cause) {
      if (cause instanceof SerializationRetry) throw cause;
      await connection.rollback();
      const isKnown = cause instanceof Fault;
      const fault = isKnown
        ? cause
        : new Fault("unavailable", "The connection was lost during commit; the change may or may not have been saved", {
          cause,
        });
      for (const { write } of done) this.#reject(write, fault);
      return;
    }
    this.commits.batches++;
    this.commits.writers += done.length;
    await batch.waitForPredecessors();
    const published = this.#notifyCommitted(batch.commitResult());
    const resolveAll = (): void => done.forEach(({ write, result }) => this.#resolve(write, result));
    // Not awaited, so that the locks end and the next batch begins.
    if (published) void published.then(resolveAll);
    else resolveAll();
  }

  #notifyCommitted(committed: CommitResult): void | Promise<void> {
    if (committed.events.length === 0 && committed.signals.length === 0 && committed.jobs === 0) return undefined;
    try {
      return this.#deps.onCommitted(committed);
    } catch (cause) {
      log.error("commit listener failed", { cause: String(cause) });
    }
  }

  /** Puts a writer back in front when another run may help, and it has not had its share of them. */
  #retry(writer: PendingWrite<Tables>, cause: unknown): void {
    if (cause instanceof YieldToOther) {
      // Once is nothing: the next run mostly gets through without others having to leave it the streams.
      if (writer.priority !== undefined) this.#locks.priorities.add(writer.priority);
      writer.priority ??= new LockPriority();
      for (const stream of cause.streams) writer.priority.streams.add(stream);
      cause.until.then(() => this.#requeue(writer));
      return;
    }
    this.#dropPriority(writer);
    if (!(cause instanceof SerializationRetry || cause instanceof ConnectionLost)) {
      this.#reject(writer, cause);
    } else if (writer.retries++ < RETRIES_MAX) {
      delay(Math.random() * RETRY_PAUSE_MS * writer.retries).then(() => this.#requeue(writer));
    } else {
      const fault = new Fault("unavailable", "The database is overloaded", { cause });
      this.#reject(writer, fault);
    }
  }

  #requeue(writer: PendingWrite<Tables>): void {
    this.#waiting.addFirst(writer);
    this.#wake();
  }

  #resolve(writer: PendingWrite<Tables>, result: unknown): void {
    writer.resolve(result);
    this.#onSettled();
  }

  #dropPriority(writer: PendingWrite<Tables>): void {
    if (writer.priority === undefined) return;
    this.#locks.priorities.delete(writer.priority);
    writer.priority.released.resolve();
    writer.priority = undefined;
  }

  #reject(writer: PendingWrite<Tables>, cause: unknown): void {
    this.#dropPriority(writer);
    if (isFault(cause, "unavailable")) this.writeHealth.last = cause;
    writer.reject(cause);
    this.#onSettled();
  }

  #onSettled(): void {
    if (--this.#pending > 0) return;
    for (const quiet of this.#onIdle.splice(0)) quiet();
  }
}

/** Charges writers with a commit, by what they wrote: SQLite sorts, indexes and writes all of it then. */
function chargeCommit<Tables>(done: readonly CompletedWrite<Tables>[], ms: number): void {
  const all = Math.max(COMMIT_BYTES, done.reduce((sum, { bytes }) => sum + bytes, 0));
  for (const { write, bytes } of done) {
    if (bytes > 0) write.context(currentAccount)?.consume(ms * bytes / all);
  }
}
