// One writer's transaction: a stack of frames, one per savepoint, over the connection that its batch shares.
import type { AsyncLocalStorage } from "node:async_hooks";
import type { Kysely } from "kysely";
import { compareText } from "@/core/text/text.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { currentAccount, currentAgentHops } from "@/core/caller.ts";
import type { EventDraft, Signal, StoredEvent } from "@/core/event/event.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { JobDraft, JobRow } from "@/core/job.ts";
import type { PreparedOptions } from "@/ports/sql/prepared.ts";
import { type Dialect, type SeqRange, streamKey, type Transaction } from "@/ports/store.ts";
import type { WriteBatch } from "./write_batch.ts";
import type { CoreTables, EventRow } from "./core_tables.ts";
import { SavepointScope } from "./savepoint.ts";
import { createKysely, type Row, type Rows, type SqlConnection, type SqlSession } from "./sql_session.ts";
import { advanceStream, advanceStreams, type StreamHead, upsertKeyedJob, upsertStream } from "./transaction_queries.ts";

/** What the transactions of a store share. */
export type TransactionDeps<Tables> = {
  dialect: Dialect;
  clock: Clock;
  /** The frame that the running code is in. */
  scopes: AsyncLocalStorage<SavepointScope<SqlTransaction<Tables>> | undefined>;
  /** To be called with what was written on whose behalf. */
  onBytesWritten: (key: string, bytes: number) => void;
  /** Throws unless the write is permitted; runs concurrently with its work. */
  authorizeWrite: (tx: Transaction<Tables>) => Promise<void> | undefined;
};

/** What a row takes besides its values, in its table and the indexes of it. */
const ROW_BYTES = 100;

export class SqlTransaction<Tables> implements Transaction<Tables>, SqlSession {
  readonly #deps: TransactionDeps<Tables>;
  readonly #connection: SqlConnection;
  readonly #batch: WriteBatch;
  readonly #rootScope: SavepointScope<SqlTransaction<Tables>>;
  #db: Kysely<Tables> | undefined;
  #savepoints = 0;
  #bytes = 0;
  #byteShares: ReadonlyMap<string, number> | undefined;
  readonly #checks = new Map<string, (tx: Transaction<Tables>) => Promise<void>>();

  constructor(deps: TransactionDeps<Tables>, connection: SqlConnection, batch: WriteBatch) {
    this.#deps = deps;
    this.#connection = connection;
    this.#batch = batch;
    this.#rootScope = new SavepointScope(this);
  }

  /** How many bytes of rows were written, those aside that `charge` names others for. */
  get bytes(): number {
    return this.#bytes;
  }

  get db(): Kysely<Tables> {
    return this.#db ??= createKysely<Tables>(this.#deps.dialect, this);
  }

  async emit(...drafts: EventDraft[]): Promise<StoredEvent[]> {
    const at = iso(this.#deps.clock.now());
    const positions = await this.#positions(drafts);
    const events = drafts.map((draft): StoredEvent => {
      const { tenantId, stream, type, effect } = draft;
      const position = positions.get(streamKey(tenantId, stream));
      if (position === undefined) throw new TypeError(`No seq was reserved on ${stream}`);
      const event = { tenantId, stream, epoch: position.epoch, seq: position.first++, type, json: encode(draft, at) };
      return effect === undefined ? event : { ...event, effect };
    });
    await this.append(events);
    return events;
  }

  /** Where the events of each line go. Lines are locked in the same order by everybody. */
  async #positions(drafts: readonly EventDraft[]): Promise<ReadonlyMap<string, SeqRange>> {
    const positions = new Map<string, SeqRange>();
    const tenants = Map.groupBy(drafts, ({ tenantId }) => tenantId);
    for (const [tenantId, own] of [...tenants].sort(([a], [b]) => compareText(a, b))) {
      const counts = new Map<string, number>();
      for (const { stream } of own) counts.set(stream, (counts.get(stream) ?? 0) + 1);
      const [only = ""] = counts.keys();
      const reserved = counts.size === 1
        ? [[only, await this.reserve(tenantId, only, own.length)] as const]
        : await this.reserveAll(tenantId, counts);
      for (const [stream, position] of reserved) positions.set(streamKey(tenantId, stream), position);
    }
    return positions;
  }

  async reserve(tenantId: string, stream: string, count: number): Promise<SeqRange> {
    const place = { tenantId, name: stream, count };
    const key = streamKey(tenantId, stream);
    this.#scope().guard(() => this.#batch.acquire([key]));
    const row = await advanceStream.first(this.#core, place) ?? await this.#createStream(place);
    this.#markLocked(key);
    return this.#toSeqRange(row, count);
  }

  async reserveAll(
    tenantId: string,
    counts: ReadonlyMap<string, number>,
    { begins = true } = {},
  ): Promise<Map<string, SeqRange>> {
    const names = [...counts.keys()].sort();
    const keys = names.map((name) => streamKey(tenantId, name));
    this.#scope().guard(() => this.#batch.acquire(keys));
    const wanted = names.map((name) => ({ name, count: counts.get(name) ?? 0 }));
    const rows = new Map<string, StreamHead>();
    if (this.#deps.dialect === "postgres") {
      const found = await advanceStreams.all(this.#core, { tenantId, wanted: JSON.stringify(wanted) });
      for (const row of found) rows.set(row.name, row);
    } else {
      for (const { name, count } of wanted) {
        const row = await advanceStream.first(this.#core, { tenantId, name, count });
        if (row !== undefined) rows.set(name, row);
      }
    }
    const reserved = new Map<string, SeqRange>();
    for (const { name, count } of wanted) {
      const row = rows.get(name) ?? (begins ? await this.#createStream({ tenantId, name, count }) : undefined);
      if (row !== undefined) reserved.set(name, this.#toSeqRange(row, count));
    }
    for (const key of keys) this.#markLocked(key);
    return reserved;
  }

  async lock(tenantId: string, ...streams: string[]): Promise<void> {
    const [only, ...others] = streams;
    if (only !== undefined && others.length === 0) await this.reserve(tenantId, only, 0);
    else await this.reserveAll(tenantId, new Map(streams.map((stream) => [stream, 0])));
  }

  #markLocked(key: string): void {
    this.#batch.markLocked(key);
    this.#scope().locked.add(key);
  }

  holds(tenantId: string, stream: string): boolean {
    return this.#scope().locked.has(streamKey(tenantId, stream));
  }

  checkBeforeCommit(key: string, check: ((tx: Transaction<Tables>) => Promise<void>) | undefined): void {
    if (check === undefined) this.#checks.delete(key);
    else this.#checks.set(key, check);
  }

  async append(events: readonly StoredEvent[]): Promise<void> {
    const frame = this.#scope();
    const at = iso(this.#deps.clock.now());
    const rows = events.map(({ tenantId, stream, seq, type, json, effect }): EventRow => ({
      tenant_id: tenantId,
      stream,
      seq,
      type,
      at,
      json,
      effect: effect === undefined ? null : JSON.stringify(effect),
    }));
    await this.#insert("event", rows);
    frame.unwrittenSeqs -= events.length;
    frame.events.push(...events);
  }

  async enqueue(...drafts: JobDraft[]): Promise<void> {
    const frame = this.#scope();
    const now = this.#deps.clock.now();
    const rows = drafts.map((draft) => jobRow(draft, now));
    await this.#insert("job", rows.filter((row) => row.key === null));
    for (const row of rows) {
      if (row.key !== null) await upsertKeyedJob.run(this.#core, row);
    }
    frame.jobs += drafts.length;
  }

  signal(signal: Signal): void {
    this.#scope().signals.push(signal);
  }

  charge(bytes: ReadonlyMap<string, number>): void {
    this.#byteShares = bytes;
  }

  insertMany<Table extends keyof Tables & string>(table: Table, rows: readonly Row[]): Promise<void> {
    return this.#insert(table, rows);
  }

  run(sql: string, parameters: readonly unknown[], prepared?: PreparedOptions): Promise<Rows> {
    if (sql.startsWith("insert") || sql.startsWith("update")) this.#bytes += ROW_BYTES + sizeOf(parameters);
    return this.#statement(() => this.#connection.run(sql, parameters, prepared));
  }

  /** Runs the writer's `work`; resolves to its result, and to the savepoint scope with events, signals and jobs to publish. */
  async execute<Result>(
    work: (tx: Transaction<Tables>) => Promise<Result>,
  ): Promise<{ result: Result; frame: SavepointScope<SqlTransaction<Tables>> }> {
    const frame = this.#rootScope;
    try {
      const result = await this.#deps.scopes.run(frame, () => this.#runAuthorized(work));
      await frame.finish();
      if (this.#checks.size > 0) await this.#deps.scopes.run(frame, () => this.#runChecks());
      if (frame.unwrittenSeqs !== 0) {
        throw new Error(`Expected events for all reserved seqs, ${frame.unwrittenSeqs} are missing`);
      }
      this.#reportBytes();
      return { result, frame };
    } catch (thrown) {
      // A retry that the engine asks for takes precedence over the error that the work made of it.
      throw frame.isAborted ? frame.failure?.cause : thrown;
    } finally {
      frame.isOpen = false;
    }
  }

  /** Runs `work` in a savepoint of the frame the caller is in; those of one frame take turns. */
  runNested<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    const outer = this.#scope();
    return outer.runExclusive(async () => {
      const frame = new SavepointScope<SqlTransaction<Tables>>(this, outer);
      const name = `n${++this.#savepoints}`;
      this.#control(outer, `savepoint ${name}`);
      try {
        const result = await this.#deps.scopes.run(frame, () => work(this));
        await frame.finish();
        this.#control(outer, `release savepoint ${name}`);
        outer.merge(frame);
        return result;
      } catch (thrown) {
        if (frame.isAborted) outer.failure ??= frame.failure;
        else this.#control(outer, `rollback to savepoint ${name}`);
        throw thrown;
      } finally {
        frame.isOpen = false;
      }
    });
  }

  /** Runs the work and the guard concurrently; both have ended before the writer gets a failure. */
  async #runAuthorized<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    const guarded = this.#deps.authorizeWrite(this);
    if (guarded === undefined) return await work(this);
    const [allowed, done] = await Promise.allSettled([guarded, work(this)]);
    if (allowed.status === "rejected") throw allowed.reason;
    if (done.status === "rejected") throw done.reason;
    return done.value;
  }

  async #runChecks(): Promise<void> {
    for (const [, check] of [...this.#checks].sort(([a], [b]) => compareText(a, b))) await check(this);
    await this.#rootScope.finish();
  }

  #reportBytes(): void {
    const { onBytesWritten } = this.#deps;
    for (const [key, bytes] of this.#byteShares ?? []) onBytesWritten(key, bytes);
    // A batch without inserts is charged to no account.
    const account = this.#bytes === 0 ? undefined : currentAccount();
    if (account !== undefined) onBytesWritten(account.key, this.#bytes);
  }

  // The core tables are part of every database, whatever else `Tables` names.
  get #core(): Kysely<CoreTables> {
    return this.db as unknown as Kysely<CoreTables>;
  }

  async #createStream(place: { tenantId: string; name: string; count: number }): Promise<StreamHead> {
    const row = await upsertStream.first(this.#core, { ...place, epoch: newSecret(9) });
    if (row === undefined) throw new Error("Expected the stream's row, received none");
    return row;
  }

  #toSeqRange({ epoch, head, access_version }: StreamHead, count: number): SeqRange {
    this.#scope().unwrittenSeqs += count;
    return { epoch, first: head - count + 1, accessVersion: access_version };
  }

  #insert(table: string, rows: readonly Row[]): Promise<void> {
    if (this.#byteShares === undefined) {
      for (const row of rows) this.#bytes += ROW_BYTES + sizeOf(Object.values(row));
    }
    return this.#statement(() => this.#connection.insertMany(table, rows));
  }

  async #statement<Result>(send: () => Promise<Result>): Promise<Result> {
    const frame = this.#scope();
    // A statement from outside a savepoint that is open must not end up inside it.
    while (frame.innerEnded !== undefined) await frame.innerEnded;
    frame.assertUsable();
    try {
      return await send();
    } catch (cause) {
      // What was sent behind a statement that failed is refused for no other reason.
      frame.failure ??= { cause };
      throw frame.failure.cause;
    }
  }

  #control(frame: SavepointScope<SqlTransaction<Tables>>, sql: string): void {
    frame.guard(() => this.#connection.control(sql));
  }

  #scope(): SavepointScope<SqlTransaction<Tables>> {
    const ambient = this.#deps.scopes.getStore();
    const frame = ambient?.transaction === this ? ambient : this.#rootScope;
    frame.assertUsable();
    return frame;
  }
}

/** Characters and bytes of values; numbers hardly count. */
function sizeOf(values: readonly unknown[]): number {
  let size = 0;
  for (const value of values) {
    if (typeof value === "string" || value instanceof Uint8Array) size += value.length;
  }
  return size;
}

/** The publication, in the one encoding that every listener gets. */
function encode({ type, actor, data }: EventDraft, at: string): string {
  const who = actor === undefined ? null : { id: actor.principalId, kind: actor.kind };
  const agentHops = currentAgentHops();
  return JSON.stringify({ id: newId("evt"), type, at, actor: who, ...agentHops === 0 ? {} : { agentHops }, data });
}

function jobRow({ tenantId, kind, payload, runAt, key, chargedTo }: JobDraft, now: number): JobRow {
  return {
    id: newId("job"),
    tenant_id: tenantId,
    kind,
    payload: JSON.stringify(payload),
    key: key ?? null,
    state: "waiting",
    // Runners have looked for those that were due before.
    run_at: iso(Math.max(now, runAt ?? now)),
    attempts: 0,
    deaths: 0,
    revivals: 0,
    lease_until: null,
    lease_owner: null,
    last_error: null,
    charged_to: chargedTo ?? currentAccount()?.key ?? null,
    created_at: iso(now),
  };
}
