// The store: committed state, the durable event log and the job queue, behind one contract for SQLite and PostgreSQL.
//
// - `write(work)` runs `work` in a transaction. Rows, events and jobs of one `work` commit together or not at all; a
//   `work` that throws is undone alone, also when it shared a commit with others. Resolved = on disk.
// - Writers that arrive together may share one commit (group commit). `work` may run again from the start when the
//   engine reports a deadlock or serialization failure, so it touches nothing but the transaction and its own locals,
//   and waits for nothing but the transaction.
// - `write` inside a `write` joins the outer transaction as a savepoint; those of one transaction take turns. A
//   statement that fails dooms its `work`, even when the error is caught: to try one, put it in an inner `write`.
// - Events of a stream have `seq` 1, 2, 3 … without a hole in commit order. After the commit, and only then, they go
//   to `onCommit`, in stream order from this process.
// - `db` and `log` read committed state; inside a `write` (same async context) they read that transaction.
// - Absence is `undefined`. Driver errors for a unique key become `UniqueViolation`, the rest pass as they are.
import type { Kysely } from "kysely";
import type { EventDraft, StoredEvent, StreamPosition } from "@/core/event.ts";
import type { JobDraft } from "@/core/job.ts";

/** The engines behind the contract, where their SQL differs. */
export type Dialect = "sqlite" | "postgres";

/** A message for every node that is not kept: whose rights moved, or which document did. */
export type Signal = { kind: string; tenantId: string; id: string };

/**
 * Seqs of a stream, from `first` on. As long as `rights` is the same, so is what decides who may come in, where the stream is a
 * room's; only PostgreSQL, when many are reserved.
 */
export type Reserved = { epoch: string; first: number; rights?: number | undefined };

/** One running transaction. */
export interface Transaction<Tables> {
  readonly db: Kysely<Tables>;
  /** Appends events, numbering them in order within their streams; resolves to them as stored. */
  emit(...drafts: EventDraft[]): Promise<StoredEvent[]>;
  /**
   * Reserves the next `count` seqs of a stream; the caller must `append` events for all of them in the same `work`.
   * Only for rows that carry their own seq; everybody else calls `emit`.
   * Reserving none holds the stream until the commit: writers that do this first take turns.
   */
  reserve(tenantId: string, stream: string, count: number): Promise<Reserved>;
  /**
   * The same for many streams of a tenant, in the one order that all keep: how many seqs of which. A negative count gives back
   * the last ones. Unless it `begins` those that are not there, they are missing in the answer; default true.
   */
  reserveAll(
    tenantId: string,
    counts: ReadonlyMap<string, number>,
    options?: { begins?: boolean },
  ): Promise<Map<string, Reserved>>;
  /** Writes events whose seqs were reserved. */
  append(events: readonly StoredEvent[]): Promise<void>;
  enqueue(...drafts: JobDraft[]): Promise<void>;
  /** Sends a signal to every node after the commit, at most once. */
  signal(signal: Signal): void;
  /** Inserts many rows with one statement where the engine is faster that way; all rows have the same keys. */
  insertMany<Table extends keyof Tables & string>(
    table: Table,
    rows: readonly Record<string, unknown>[],
  ): Promise<void>;
}

/** What a commit leaves to be told. */
export type Committed = { events: readonly StoredEvent[]; signals: readonly Signal[]; jobs: number };

export interface Store<Tables> {
  readonly dialect: Dialect;
  readonly db: Kysely<Tables>;
  /** Whether the caller runs inside a `write`. */
  readonly isInTransaction: boolean;
  write<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result>;
  readonly log: EventLog;
  /** Writes something of no account, and reads; rejects when the database does not take that, or was full and has no more space yet. */
  probe(): Promise<void>;
  /** Called after each commit that has something to tell; set once, by the composition root. */
  onCommit: (committed: Committed) => void;
  /**
   * Called when this node finds another server in the database's place, which may lack what the last one had; set once, by the
   * composition root.
   */
  onTakeover: () => void;
  /** Brings the schema up to date; throws when the database is newer than this program. */
  migrate(): Promise<void>;
  /** Waits for running writes, then lets go of the database. */
  close(): Promise<void>;
}

/** The durable log of a stream. */
export interface EventLog {
  /** Where the stream stands; a stream nobody wrote to yet is created, so that its epoch is known. */
  position(tenantId: string, stream: string): Promise<StreamPosition>;
  /** Current heads of many streams at once, keyed by `streamKey`; streams nobody wrote to are missing. */
  heads(streams: readonly { tenantId: string; stream: string }[]): Promise<Map<string, StreamPosition>>;
  /** Events with seq > `after`, ascending, at most `limit`; whole from `after + 1` on, or fewer rows than the head says when trimmed. */
  read(tenantId: string, stream: string, after: number, limit: number): Promise<StoredEvent[]>;
  /** Events with seq < `before`, descending, at most `limit`. */
  readBack(tenantId: string, stream: string, before: number, limit: number): Promise<StoredEvent[]>;
  /** Drops events older than `olderThanMs` (epoch ms) or beyond the newest `keep` of a stream; returns how many went. */
  trim(olderThanMs: number, keep: number): Promise<number>;
  /** Drops events of one stream that are older than `olderThanMs` (infinite: any), none after the seq `upTo`; returns how many went. */
  trimStream(tenantId: string, stream: string, olderThanMs: number, upTo: number): Promise<number>;
}

/** A row would have broken a unique key. */
export class UniqueViolation extends Error {
  override readonly name = "UniqueViolation";
}

/** The key of a stream across tenants, as used for bus topics and maps. */
export function streamKey(tenantId: string, stream: string): string {
  return `${tenantId}/${stream}`;
}
