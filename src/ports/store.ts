// The store: committed state, the durable event log and the job queue, behind one contract for SQLite and PostgreSQL.
//
// - `write(work)` runs `work` in a transaction. Rows, events and jobs of one `work` commit together or not at all; a
//   `work` that throws is rolled back alone, also when it shares a commit with others. Resolved = on disk.
// - Writers that arrive together may share one commit (group commit). `work` may run again from the start when the
//   engine reports a deadlock or serialization failure, so it touches nothing but the transaction and its own locals,
//   and waits for nothing but the transaction.
// - `write` inside a `write` joins the outer transaction as a savepoint; those of one transaction run one after the other. A
//   statement that fails aborts its `work`, even when the error is caught: to try one, put it in an inner `write`.
// - Events of a stream have `seq` 1, 2, 3 … without a gap, in commit order. After the commit, and only then, they are passed
//   to `onCommit`, in stream order for this process.
// - The transaction is visible: inside a `write`, everything is read through its `tx`, and what reads takes that `tx` (or its
//   `db`) as an argument, so that the code shows which state is read. `db` and `log` read committed state; using them inside a
//   `write` fails in tests. Only `enclose` runs code in a transaction without passing it on.
// - Absence is `undefined`. Driver errors for a unique key become `UniqueViolation`, others pass through unchanged.
import type { Kysely } from "kysely";
import type { EventDraft, Signal, StoredEvent, StreamPosition } from "@/core/event/event.ts";
import type { Fault } from "@/core/fault.ts";
import type { JobDraft } from "@/core/job.ts";
import type { AnyDatabase, Dialect, MigrationOwner } from "@/core/migration.ts";

/** The engines behind the contract, where their SQL differs. */
export type { AnyDatabase, Dialect };

/**
 * Seqs of a stream, from `first` on. `accessVersion` changes whenever the access to a room's stream may have changed; only on
 * PostgreSQL, when many are reserved.
 */
export type SeqRange = { epoch: string; first: number; accessVersion?: number | undefined };

/** One running transaction. */
export interface Transaction<Tables> {
  readonly db: Kysely<Tables>;
  /** Appends events, numbering them in order within their streams; resolves to them as stored. */
  emit(...drafts: EventDraft[]): Promise<StoredEvent[]>;
  /**
   * Reserves the next `count` seqs of a stream; the caller must `append` events for all of them in the same `work`.
   * Only for rows that store their seq; all others call `emit`. Reserving 0 locks the stream, and reads its position.
   */
  reserve(tenantId: string, stream: string, count: number): Promise<SeqRange>;
  /**
   * The same for many streams of a tenant, locked in the order of their names: `counts` by stream. A negative count returns the
   * last ones. With `begins: false`, streams that do not exist are missing in the result instead of created.
   */
  reserveAll(
    tenantId: string,
    counts: ReadonlyMap<string, number>,
    options?: { begins?: boolean },
  ): Promise<Map<string, SeqRange>>;
  /** Locks streams of a tenant until the commit, in the order of their names. */
  lock(tenantId: string, ...streams: string[]): Promise<void>;
  /** Writes events whose seqs were reserved. */
  append(events: readonly StoredEvent[]): Promise<void>;
  enqueue(...drafts: JobDraft[]): Promise<void>;
  /** Whether a stream is locked, which it stays until the commit. */
  holds(tenantId: string, stream: string): boolean;
  /**
   * Runs `check` at the end of the write, before its commit; if it throws, the write is rolled back. The last one set for a `key`
   * counts, and `undefined` removes it; they run in the order of their keys.
   */
  checkBeforeCommit(key: string, check: ((tx: Transaction<Tables>) => Promise<void>) | undefined): void;
  /** Sends a signal to every node after the commit, at most once. */
  signal(signal: Signal): void;
  /**
   * Charges bytes of rows by the key of `chargedTo`, where many principals share a transaction: rows inserted afterwards are not
   * counted for the current account.
   */
  charge(bytes: ReadonlyMap<string, number>): void;
  /** Inserts many rows with one statement where the engine is faster that way; all rows have the same keys. */
  insertMany<Table extends keyof Tables & string>(
    table: Table,
    rows: readonly Record<string, unknown>[],
  ): Promise<void>;
}

/** A transaction passed between modules, which do not know each other's tables. */
// deno-lint-ignore no-explicit-any
export type AnyTransaction = Transaction<any>;

/** What a commit leaves to publish. */
export type CommitResult = { events: readonly StoredEvent[]; signals: readonly Signal[]; jobs: number };

export interface Store<Tables> {
  readonly dialect: Dialect;
  readonly db: Kysely<Tables>;
  /** Whether the caller runs inside a `write` or `enclose`: waiting for another writer there would be a deadlock. */
  readonly isInTransaction: boolean;
  write<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /**
   * The same for work that does not take a transaction: its writes join this one, and outside of them `db` and `log` read this
   * transaction. For an operation whose response is stored together with its effects.
   */
  enclose<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  /** Runs work that is no part of the transaction that the current async context has. */
  runOutside<Result>(work: () => Result): Result;
  readonly log: EventLog;
  /** Writes a probe and reads; rejects when that fails, or when the database was full and has no more space yet. */
  checkHealth(): Promise<void>;
  /** Where the engine has a log of what was written, in which deleted texts stay until it is reused: empties it. */
  emptyLog(): Promise<void>;
  /**
   * Called after each commit that has something to publish; set once, by the composition root. The writers of the commit resolve
   * once it has, while later commits go on.
   */
  onCommit: (committed: CommitResult) => void | Promise<void>;
  /** Called after a transaction with the bytes written for a principal, by the key of `chargedTo`; set once, as above. */
  onBytesWritten: (key: string, bytes: number) => void;
  /**
   * Called at the beginning of each write, in its transaction and concurrently with its work: if it throws, the write is rolled
   * back. Set once, by the composition root.
   */
  authorizeWrite: (tx: Transaction<Tables>) => Promise<void> | undefined;
  /**
   * Called when this node detects that another database server took over, which may lack what the last one had; set once, by
   * the composition root.
   */
  onFailover: () => void;
  /**
   * Migrates the tables of the core and of `modules`, in that order and in one transaction; without `modules` only those of the
   * core. Throws when the database has migrations that this program does not know: a newer version has changed it.
   */
  migrate(modules?: readonly MigrationOwner[]): Promise<void>;
  /** Waits for running writes, then closes the database. */
  close(): Promise<void>;
}

/** The durable log of a stream. */
export interface EventLog {
  /** The position of the stream; a stream without events is created, so that its epoch is known. */
  position(tenantId: string, stream: string): Promise<StreamPosition>;
  /** Current heads of many streams at once, keyed by `streamKey`; streams without events are missing. */
  heads(streams: readonly { tenantId: string; stream: string }[]): Promise<Map<string, StreamPosition>>;
  /** Events with seq > `after`, ascending, at most `limit`; contiguous from `after + 1` on unless trimmed. */
  read(tenantId: string, stream: string, after: number, limit: number): Promise<StoredEvent[]>;
  /** Events with seq < `before`, descending, at most `limit`. */
  readBackward(tenantId: string, stream: string, before: number, limit: number): Promise<StoredEvent[]>;
  /** Drops events older than `olderThanMs` (epoch ms) or beyond the newest `keep` of a stream; returns how many. */
  trim(olderThanMs: number, keep: number): Promise<number>;
  /** Drops events of one stream that are older than `olderThanMs` (infinite: any), none after the seq `upTo`; returns how many. */
  trimStream(tenantId: string, stream: string, olderThanMs: number, upTo: number): Promise<number>;
}

/** A row would have violated a unique key. */
export class UniqueViolation extends Error {
  override readonly name = "UniqueViolation";
}

/** For the `catch` of a write: what the caller sees where another row has the unique key. */
export function whenTaken(faultOf: (violation: UniqueViolation) => Fault): (thrown: unknown) => never {
  return (thrown) => {
    throw thrown instanceof UniqueViolation ? faultOf(thrown) : thrown;
  };
}

/** The key of a stream across tenants, as used for bus topics and maps. */
export function streamKey(tenantId: string, stream: string): string {
  return `${tenantId}/${stream}`;
}
