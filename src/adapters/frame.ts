// A frame: one savepoint level of a transaction, and what it wants told if it and every level above it succeed.
import type { StoredEvent } from "@/core/event.ts";
import type { Committed, Signal } from "@/ports/store.ts";
import { Rerun, SessionLost } from "./session.ts";

export class Frame<Owner> {
  readonly transaction: Owner;
  events: StoredEvent[] = [];
  signals: Signal[] = [];
  jobs = 0;
  /** Seqs reserved and not yet appended. */
  owed = 0;
  isOpen = true;
  /** The first statement that failed. PostgreSQL does nothing more after it, so neither does SQLite. */
  failure: { cause: unknown } | undefined;
  /** Ends when the frames inside have ended. */
  inner: Promise<void> | undefined;

  constructor(transaction: Owner) {
    this.transaction = transaction;
  }

  /** Whether nothing short of running the whole writer again can help. */
  get isDoomed(): boolean {
    return this.failure?.cause instanceof Rerun || this.failure?.cause instanceof SessionLost;
  }

  /** Throws when the frame has ended, or a statement in it has failed. */
  assertUsable(): void {
    if (!this.isOpen) throw new Error("Expected a running transaction, received one that is over");
    if (this.failure !== undefined) throw this.failure.cause;
  }

  /** Runs a step whose failure dooms the frame. */
  attempt(step: () => void): void {
    try {
      step();
    } catch (cause) {
      this.failure ??= { cause };
      throw cause;
    }
  }

  /** Runs the frames inside one after the other. */
  async takeTurn<Result>(run: () => Promise<Result>): Promise<Result> {
    const before = this.inner;
    const { promise: turn, resolve: end } = Promise.withResolvers<void>();
    this.inner = turn;
    try {
      await before;
      this.assertUsable();
      return await run();
    } finally {
      if (this.inner === turn) this.inner = undefined;
      end();
    }
  }

  /** To be called when the work has returned: waits for what it left running, and throws what it kept to itself. */
  async finish(): Promise<void> {
    while (this.inner !== undefined) await this.inner;
    this.assertUsable();
  }

  /** Takes over what an inner frame that succeeded wants told. */
  absorb(frame: Frame<Owner>): void {
    const { events, signals, jobs } = frame.take();
    this.events.push(...events);
    this.signals.push(...signals);
    this.jobs += jobs;
    this.owed += frame.owed;
  }

  /** Hands over what it wants told, and keeps nothing: the runtime's AsyncLocalStorage holds it until the next full collection. */
  take(): Committed {
    const { events, signals, jobs } = this;
    this.events = [];
    this.signals = [];
    return { events, signals, jobs };
  }
}
