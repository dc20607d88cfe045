// One writer's transaction: a stack of frames, one per savepoint, over the connection that its batch shares.
import type { AsyncLocalStorage } from "node:async_hooks";
import type { Kysely } from "kysely";
import { type Clock, iso } from "@/core/clock.ts";
import type { EventDraft, StoredEvent } from "@/core/event.ts";
import { newId, newSecret } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import { type Dialect, type Reserved, type Signal, streamKey, type Transaction } from "@/ports/store.ts";
import type { Batch } from "./batch.ts";
import type { CoreTables, EventRow, JobRow } from "./core_tables.ts";
import { Frame } from "./frame.ts";
import { type Connection, kyselyOver, type Row, type Rows, type Session } from "./session.ts";
import { advanceStream, advanceStreams, beginStream, putKeyedJob, type StreamHead } from "./transaction_queries.ts";

/** What the transactions of a store share. */
export type TransactionDeps<Tables> = {
  dialect: Dialect;
  clock: Clock;
  /** The frame that the running code is in. */
  frames: AsyncLocalStorage<Frame<SqlTransaction<Tables>>>;
};

export class SqlTransaction<Tables> implements Transaction<Tables>, Session {
  readonly #deps: TransactionDeps<Tables>;
  readonly #connection: Connection;
  readonly #batch: Batch;
  readonly #root: Frame<SqlTransaction<Tables>>;
  #db: Kysely<Tables> | undefined;
  #savepoints = 0;

  constructor(deps: TransactionDeps<Tables>, connection: Connection, batch: Batch) {
    this.#deps = deps;
    this.#connection = connection;
    this.#batch = batch;
    this.#root = new Frame(this);
  }

  get db(): Kysely<Tables> {
    return this.#db ??= kyselyOver<Tables>(this.#deps.dialect, this);
  }

  async emit(...drafts: EventDraft[]): Promise<StoredEvent[]> {
    const at = iso(this.#deps.clock.now());
    const positions = await this.#positions(drafts);
    const events = drafts.map((draft): StoredEvent => {
      const { tenantId, stream, type, effect } = draft;
      const position = positions.get(streamKey(tenantId, stream));
      if (position === undefined) throw new TypeError(`No position was reserved on ${stream}`);
      const event = { tenantId, stream, epoch: position.epoch, seq: position.first++, type, json: encode(draft, at) };
      return effect === undefined ? event : { ...event, effect };
    });
    await this.append(events);
    return events;
  }

  /** Where the events of each line go. Lines are locked in the same order by everybody. */
  async #positions(drafts: readonly EventDraft[]): Promise<ReadonlyMap<string, Reserved>> {
    const positions = new Map<string, Reserved>();
    const tenants = Map.groupBy(drafts, ({ tenantId }) => tenantId);
    for (const [tenantId, own] of [...tenants].sort(([a], [b]) => a < b ? -1 : 1)) {
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

  async reserve(tenantId: string, stream: string, count: number): Promise<Reserved> {
    const place = { tenantId, name: stream, count };
    const key = streamKey(tenantId, stream);
    this.#frame().attempt(() => this.#batch.claim([key]));
    const row = await advanceStream.first(this.#core, place) ?? await this.#begin(place);
    this.#batch.hold(key);
    return this.#reserved(row, count);
  }

  async reserveAll(
    tenantId: string,
    counts: ReadonlyMap<string, number>,
    { begins = true } = {},
  ): Promise<Map<string, Reserved>> {
    const names = [...counts.keys()].sort();
    const keys = names.map((name) => streamKey(tenantId, name));
    this.#frame().attempt(() => this.#batch.claim(keys));
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
    const reserved = new Map<string, Reserved>();
    for (const { name, count } of wanted) {
      const row = rows.get(name) ?? (begins ? await this.#begin({ tenantId, name, count }) : undefined);
      if (row !== undefined) reserved.set(name, this.#reserved(row, count));
    }
    for (const key of keys) this.#batch.hold(key);
    return reserved;
  }

  async append(events: readonly StoredEvent[]): Promise<void> {
    const frame = this.#frame();
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
    frame.owed -= events.length;
    frame.events.push(...events);
  }

  async enqueue(...drafts: JobDraft[]): Promise<void> {
    const frame = this.#frame();
    const now = this.#deps.clock.now();
    const rows = drafts.map((draft) => jobRow(draft, now));
    await this.#insert("job", rows.filter((row) => row.key === null));
    for (const row of rows) {
      if (row.key !== null) await putKeyedJob.run(this.#core, row);
    }
    frame.jobs += drafts.length;
  }

  signal(signal: Signal): void {
    this.#frame().signals.push(signal);
  }

  insertMany<Table extends keyof Tables & string>(table: Table, rows: readonly Row[]): Promise<void> {
    return this.#insert(table, rows);
  }

  run(sql: string, parameters: readonly unknown[], mayKeep?: boolean): Promise<Rows> {
    return this.#statement(() => this.#connection.run(sql, parameters, mayKeep));
  }

  /** Runs the writer's `work` and hands over what it wants told. */
  async execute<Result>(
    work: (tx: Transaction<Tables>) => Promise<Result>,
  ): Promise<{ result: Result; frame: Frame<SqlTransaction<Tables>> }> {
    const frame = this.#root;
    try {
      const result = await this.#deps.frames.run(frame, () => work(this));
      await frame.finish();
      if (frame.owed !== 0) throw new Error(`Expected events for all reserved seqs, ${frame.owed} are missing`);
      return { result, frame };
    } catch (thrown) {
      // What the engine asks for goes before what the work made of it.
      throw frame.isDoomed ? frame.failure?.cause : thrown;
    } finally {
      frame.isOpen = false;
    }
  }

  /** Runs `work` in a savepoint of the frame the caller is in; those of one frame take turns. */
  nested<Result>(work: (tx: Transaction<Tables>) => Promise<Result>): Promise<Result> {
    const outer = this.#frame();
    return outer.takeTurn(async () => {
      const frame = new Frame<SqlTransaction<Tables>>(this);
      const name = `n${++this.#savepoints}`;
      this.#control(outer, `savepoint ${name}`);
      try {
        const result = await this.#deps.frames.run(frame, () => work(this));
        await frame.finish();
        this.#control(outer, `release savepoint ${name}`);
        outer.absorb(frame);
        return result;
      } catch (thrown) {
        if (frame.isDoomed) outer.failure ??= frame.failure;
        else this.#control(outer, `rollback to savepoint ${name}`);
        throw thrown;
      } finally {
        frame.isOpen = false;
      }
    });
  }

  // The core tables are part of every database, whatever else `Tables` names.
  get #core(): Kysely<CoreTables> {
    return this.db as unknown as Kysely<CoreTables>;
  }

  async #begin(place: { tenantId: string; name: string; count: number }): Promise<StreamHead> {
    const row = await beginStream.first(this.#core, { ...place, epoch: newSecret(9) });
    if (row === undefined) throw new Error("Expected the stream's row back, received none");
    return row;
  }

  #reserved({ epoch, head, rights }: StreamHead, count: number): Reserved {
    this.#frame().owed += count;
    return { epoch, first: head - count + 1, rights };
  }

  #insert(table: string, rows: readonly Row[]): Promise<void> {
    return this.#statement(() => this.#connection.insertMany(table, rows));
  }

  async #statement<Result>(send: () => Promise<Result>): Promise<Result> {
    const frame = this.#frame();
    // A statement from outside a savepoint that is open must not end up inside it.
    while (frame.inner !== undefined) await frame.inner;
    frame.assertUsable();
    try {
      return await send();
    } catch (cause) {
      frame.failure ??= { cause };
      throw cause;
    }
  }

  #control(frame: Frame<SqlTransaction<Tables>>, sql: string): void {
    frame.attempt(() => this.#connection.control(sql));
  }

  #frame(): Frame<SqlTransaction<Tables>> {
    const ambient = this.#deps.frames.getStore();
    const frame = ambient?.transaction === this ? ambient : this.#root;
    frame.assertUsable();
    return frame;
  }
}

/** The publication, in the one encoding that every listener gets. */
function encode({ type, actor, data }: EventDraft, at: string): string {
  const who = actor === undefined ? null : { id: actor.principalId, kind: actor.kind };
  return JSON.stringify({ id: newId("evt"), type, at, actor: who, data });
}

function jobRow({ tenantId, kind, payload, runAt, key }: JobDraft, now: number): JobRow {
  return {
    id: newId("job"),
    tenant_id: tenantId,
    kind,
    payload: JSON.stringify(payload),
    key: key ?? null,
    state: "waiting",
    run_at: iso(runAt ?? now),
    attempts: 0,
    lease_until: null,
    lease_owner: null,
    last_error: null,
    created_at: iso(now),
  };
}
