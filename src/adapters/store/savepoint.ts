// One savepoint level of a transaction, and what it publishes if it and every level above it succeed.
import type { Signal, StoredEvent } from "@/core/event/event.ts";
import type { CommitResult } from "@/ports/store.ts";
import { ConnectionLost, SerializationRetry } from "./sql_session.ts";

export class SavepointScope<Owner> {
  readonly transaction: Owner;
  events: StoredEvent[] = [];
  signals: Signal[] = [];
  jobs = 0;
  /** Seqs reserved and not yet appended. */
  unwrittenSeqs = 0;
  isOpen = true;
  /** Whether code that knows nothing of the transaction reads it through the store. */
  encloses = false;
  /** The first statement that failed. PostgreSQL does nothing more after it, so neither does SQLite. */
  failure: { cause: unknown } | undefined;
  /** Streams locked by it, or by an outer scope before it. */
  readonly locked: Set<string>;
  /** Resolves when the inner scopes have ended. */
  innerEnded: Promise<void> | undefined;

  constructor(transaction: Owner, outer?: SavepointScope<Owner>) {
    this.transaction = transaction;
    this.locked = new Set(outer?.locked);
  }

  /** Whether nothing short of running the whole writer again can help. */
  get isAborted(): boolean {
    return this.failure?.cause instanceof SerializationRetry || this.failure?.cause instanceof ConnectionLost;
  }

  /** Throws when the scope has ended, or a statement in it has failed. */
  assertUsable(): void {
    if (!this.isOpen) throw new Error("Expected an open transaction, received one that has ended");
    if (this.failure !== undefined) throw this.failure.cause;
  }

  /** Runs a step whose failure aborts the scope. */
  guard(step: () => void): void {
    try {
      step();
    } catch (cause) {
      this.failure ??= { cause };
      throw cause;
    }
  }

  /** Runs inner scopes one after the other. */
  async runExclusive<Result>(run: () => Promise<Result>): Promise<Result> {
    const before = this.innerEnded;
    const { promise: turn, resolve: end } = Promise.withResolvers<void>();
    this.innerEnded = turn;
    try {
      await before;
      this.assertUsable();
      return await run();
    } finally {
      if (this.innerEnded === turn) this.innerEnded = undefined;
      end();
    }
  }

  /** To be called when the work has returned: waits for what it left running, and throws failures that it ignored. */
  async finish(): Promise<void> {
    while (this.innerEnded !== undefined) await this.innerEnded;
    this.assertUsable();
  }

  /** Adds what an inner scope that succeeded publishes. */
  merge(frame: SavepointScope<Owner>): void {
    const { events, signals, jobs } = frame.drain();
    this.events.push(...events);
    this.signals.push(...signals);
    this.jobs += jobs;
    this.unwrittenSeqs += frame.unwrittenSeqs;
    for (const stream of frame.locked) this.locked.add(stream);
  }

  /** Returns what it publishes, and clears it: AsyncLocalStorage retains the scope until the next full collection. */
  drain(): CommitResult {
    const { events, signals, jobs } = this;
    this.events = [];
    this.signals = [];
    return { events, signals, jobs };
  }
}
