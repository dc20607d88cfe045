// A batch: the writers that share one commit, and the streams it locks until the events of that commit are published.
//
// A stream's row is locked from its first event to the commit. Three rules keep several write connections in order:
// - A batch that has locked a stream never waits for another batch of this process: it yields, commits what it has, and runs the
//   writer again. So the connections cannot deadlock.
// - Several streams that one statement locks are acquired here before it runs, all or none: while the statement waits for one of
//   them, it already has row locks that this process would not know of.
// - A batch that locked a stream after another batch publishes its events after that one.
//
// So that no writer yields forever, one that yielded repeatedly gets a priority: until a run of it succeeds, no batch acquires one
// of its streams, except for an older priority. It waits for batches, which all end, and for older priorities, so never in a
// cycle; and meanwhile it has no locks for which another process could wait.
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import type { Signal, StoredEvent } from "@/core/event/event.ts";
import type { TenantCpu } from "@/core/limit/tenant_cpu.ts";
import { type CommitResult, streamKey } from "@/ports/store.ts";
import type { SavepointScope } from "./savepoint.ts";
import { SerializationRetry } from "./sql_session.ts";

/** The writer needs streams that other batches have locked, or that older priorities claim; it runs again after them. */
export class YieldToOther extends SerializationRetry {
  readonly streams: readonly string[];
  readonly until: Promise<unknown>;

  constructor(streams: readonly string[], until: Promise<unknown>) {
    super("Batch yielded to another one");
    this.streams = streams;
    this.until = until;
  }
}

/** The streams that a writer yielded for, in all of its runs. */
export class LockPriority {
  readonly streams = new Set<string>();
  readonly released = Promise.withResolvers<void>();
}

/** The locks and priorities of all batches of a process. */
export class StreamLocks {
  /** Which batches hold a stream: one has locked it, or is about to, and others may have claimed it. */
  readonly holders = new Map<string, Set<WriteBatch>>();
  /** The oldest first. */
  readonly priorities = new Set<LockPriority>();
}

export class WriteBatch {
  /** The owners of its writers, and their tenants. */
  readonly parties = new Set<CpuAccount | TenantCpu>();
  /** That of the writer that runs now. */
  priority: LockPriority | undefined;
  #events: StoredEvent[] = [];
  #signals: Signal[] = [];
  #jobs = 0;
  readonly #locks: StreamLocks;
  readonly #lockedStreams = new Set<string>();
  readonly #predecessors = new Set<Promise<void>>();
  readonly #released = Promise.withResolvers<void>();
  #isCommitting = false;

  constructor(streams: StreamLocks) {
    this.#locks = streams;
  }

  /** To be called before one statement locks streams: this batch has them from here on, or yields. */
  acquire(streams: readonly string[]): void {
    const wanted = streams.filter((stream) => !this.#lockedStreams.has(stream));
    // A writer that waits for one stream and has locked none blocks no other.
    const mayWait = streams.length === 1 && this.#lockedStreams.size === 0;
    const until = this.#olderPriorities(wanted);
    for (const stream of mayWait ? [] : wanted) {
      for (const other of this.#locks.holders.get(stream) ?? []) until.push(other.#released.promise);
    }
    if (until.length > 0) throw new YieldToOther(wanted, Promise.all(until));
    for (const stream of wanted) this.#addHolder(stream);
  }

  /** Called once a stream is locked. The batch that had it before has at least sent its commit. */
  markLocked(stream: string): void {
    for (const other of this.#addHolder(stream)) {
      if (other.#isCommitting && other !== this) this.#predecessors.add(other.#released.promise);
    }
  }

  /** To be called before the commit is sent, or all is undone: others may lock its streams from here on. */
  beginCommit(): void {
    this.#isCommitting = true;
  }

  /** Adds the events, signals and jobs of a writer that succeeded. */
  merge(frame: SavepointScope<unknown>): void {
    const { events, signals, jobs } = frame.drain();
    this.#events.push(...events);
    this.#signals.push(...signals);
    this.#jobs += jobs;
  }

  /** What to publish after the commit, each stream in order. */
  commitResult(): CommitResult {
    return { events: sortByStream(this.#events), signals: this.#signals, jobs: this.#jobs };
  }

  /** Resolves when every batch that had one of the streams before this one has settled. */
  async waitForPredecessors(): Promise<void> {
    if (this.#predecessors.size > 0) await Promise.all(this.#predecessors);
  }

  /** Releases the streams, published or rolled back; and the events, since savepoint scopes reference their batch. */
  releaseAll(): void {
    for (const stream of this.#lockedStreams) {
      const holders = this.#locks.holders.get(stream);
      holders?.delete(this);
      if (holders?.size === 0) this.#locks.holders.delete(stream);
    }
    this.#events = [];
    this.#signals = [];
    this.#released.resolve();
  }

  #olderPriorities(streams: readonly string[]): Promise<void>[] {
    const older: Promise<void>[] = [];
    for (const priority of this.#locks.priorities) {
      if (priority === this.priority) break;
      if (streams.some((stream) => priority.streams.has(stream))) older.push(priority.released.promise);
    }
    return older;
  }

  /** All that hold a stream, this one among them from here on. */
  #addHolder(stream: string): Set<WriteBatch> {
    let holders = this.#locks.holders.get(stream);
    if (holders === undefined) this.#locks.holders.set(stream, holders = new Set());
    this.#lockedStreams.add(stream);
    return holders.add(this);
  }
}

/** The events with each stream in order. They nearly always are: only work that reserves early and appends late changes it. */
function sortByStream(events: StoredEvent[]): readonly StoredEvent[] {
  const last = new Map<string, number>();
  const isOrdered = events.every(({ tenantId, stream, seq }) => {
    const key = streamKey(tenantId, stream);
    const before = last.get(key) ?? 0;
    last.set(key, seq);
    return before < seq;
  });
  return isOrdered ? events : events.sort((a, b) => a.seq - b.seq);
}
