// One run of a webhook: delivers what its streams have, several streams at once, each of them in order.
import { type Clock, delay, iso, MINUTE_MS } from "@/core/time/clock.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import type { StoredEvent } from "@/core/event/event.ts";
import { type EventView, isHidden } from "@/core/event/event_view.ts";
import { newId } from "@/core/id.ts";
import type { Store } from "@/ports/store.ts";
import { matchesAny } from "../event_patterns.ts";
import { PARKED_MAX } from "../schema.ts";
import type { ParkedRow, WebhookTables } from "../tables.ts";
import type { EventRef, WebhookLease } from "./lease.ts";
import { eventPayload, gapPayload, type Payload, roomIdOf } from "./payload.ts";
import type { WebhookReader } from "./reader.ts";
import { EVENT_TRIES, EVENT_WAITS_MS } from "./retry.ts";
import { DeliveryStore, type LaggingStream } from "./store.ts";

export const STREAMS_AT_ONCE = 8;
const STREAMS_PER_ROUND = 64;
const REPLAYS_PER_ROUND = 50;
const BATCH = 50;
/** Batches of a stream before others have their turn. */
const BATCHES_MAX = 4;
/** A position is stored after so many deliveries, or so long: that much is repeated after a crash. */
const UNCOMMITTED_MAX = 20;
const UNCOMMITTED_MAX_MS = 1000;
/** Events that were read so long ago are read again: what they say may have been deleted since. */
const READ_MAX_MS = 1000;
/** How long a stream is left alone that the creator of the webhook may not read. */
export const PAUSE_MS = MINUTE_MS;

type Position = { epoch: string; seq: number };
type Result = { kind: "delivered" } | { kind: "parked"; httpStatus: number | null } | { kind: "over" };
type Deps = {
  store: Pick<Store<WebhookTables>, "db" | "log">;
  clock: Clock;
  reader: WebhookReader;
  account: CpuAccount;
};

export class DeliveryRun {
  readonly #deps: Deps;
  readonly #lease: WebhookLease;
  readonly #patterns: readonly string[];

  constructor(deps: Deps, lease: WebhookLease) {
    this.#deps = deps;
    this.#lease = lease;
    this.#patterns = JSON.parse(lease.row.events_json);
  }

  /** Resolves when all is delivered, or the lease is over. */
  async execute(): Promise<void> {
    const { clock, store } = this.#deps;
    const deliveries = new DeliveryStore(store.db);
    while (!this.#lease.isOver) {
      const now = iso(clock.now());
      const replays = await deliveries.waiting(this.#lease.row, REPLAYS_PER_ROUND);
      const streams = await deliveries.lagging(this.#lease.row, now, STREAMS_PER_ROUND);
      const tasks = [
        ...replays.map((parked) => () => this.#replay(parked)),
        ...streams.map((stream) => () => this.#deliverStream(stream)),
      ];
      if (tasks.length === 0) return;
      // An endpoint that failed last is tried with one stream before it gets all of them.
      await runSome(this.#lease.row.failures > 0 ? tasks.slice(0, 1) : tasks, () => this.#lease.isOver);
    }
  }

  async #deliverStream(stream: LaggingStream): Promise<void> {
    let cursor = stream;
    const isGap = stream.current_epoch !== stream.epoch || stream.seq < stream.floor;
    if (isGap) {
      const after = await this.#announceGap(stream);
      if (after === undefined) return;
      cursor = { ...stream, ...after };
    }
    for (let batches = 0; batches < BATCHES_MAX && !this.#lease.isOver; batches++) {
      await this.#deps.account.waitForJobSlice();
      const readAt = this.#deps.clock.now();
      const events = await this.#deps.store.log.read(stream.tenant_id, stream.stream, cursor.seq, BATCH);
      const first = events[0];
      // Trimmed or reset meanwhile: the next round announces it.
      if (first === undefined || first.seq !== cursor.seq + 1 || first.epoch !== cursor.epoch) return;
      const after = await this.#deliverBatch(cursor, events, readAt);
      if (after === undefined) return;
      cursor = { ...cursor, ...after };
    }
  }

  /** Delivers events in order and stores how far it came; `undefined` if the stream ends here for now. */
  async #deliverBatch(
    cursor: LaggingStream,
    events: readonly StoredEvent[],
    readAt: number,
  ): Promise<Position | undefined> {
    const { clock } = this.#deps;
    let [stored, reached]: [Position, Position] = [cursor, cursor];
    let [uncommitted, since] = [0, performance.now()];
    const store = async (move = this.#move): Promise<boolean> => {
      if (stored.seq === reached.seq) return true;
      const from = { ...cursor, ...positionOf(stored) };
      [stored, uncommitted, since] = [reached, 0, performance.now()];
      return await move(from, reached);
    };
    for (const event of events) {
      const sent = matchesAny(this.#patterns, event.type)
        ? await this.#deliverEvent(event)
        : { kind: "skipped" as const };
      if (sent.kind === "over") {
        await store();
        return undefined;
      }
      if (sent.kind === "not_visible") {
        await store();
        await this.#pause({ ...cursor, ...positionOf(reached) });
        return undefined;
      }
      reached = event;
      if (sent.kind !== "skipped") uncommitted++;
      const isParked = sent.kind === "parked";
      const isDue = isParked || uncommitted >= UNCOMMITTED_MAX || performance.now() - since > UNCOMMITTED_MAX_MS;
      const isStored = !isDue ||
        await store(isParked ? (from, to) => this.#park(event, sent.httpStatus, from, to) : undefined);
      if (!isStored) return undefined;
      if (this.#lease.isOver || Math.abs(clock.now() - readAt) > READ_MAX_MS) break;
    }
    return await store() && !this.#lease.isOver ? positionOf(reached) : undefined;
  }

  /** Delivers an event unless it is hidden from the creator of the webhook, whose rights are read for each one. */
  async #deliverEvent(event: StoredEvent): Promise<Result | { kind: "skipped" } | { kind: "not_visible" }> {
    const view = await this.#deps.reader.viewOf(this.#lease.row, roomIdOf(event.stream));
    if (view === undefined) return { kind: "not_visible" };
    if (isHiddenFrom(event, view)) return { kind: "skipped" };
    return await this.#deliver(this.#payloadOf(event), event, () => this.#reload(event));
  }

  /** An event as it is now, or why it cannot be delivered. */
  async #read(
    { tenantId, stream, epoch, seq }: Position & Pick<StoredEvent, "tenantId" | "stream">,
  ): Promise<StoredEvent | "trimmed" | "not_visible"> {
    const [event] = await this.#deps.store.log.read(tenantId, stream, seq - 1, 1);
    if (event === undefined || event.seq !== seq || event.epoch !== epoch) return "trimmed";
    const view = await this.#deps.reader.viewOf(this.#lease.row, roomIdOf(stream));
    return view === undefined || isHiddenFrom(event, view) ? "not_visible" : event;
  }

  /** The same as it is delivered; `undefined` if it cannot be: the next round says why. */
  async #reload(event: StoredEvent): Promise<Payload | undefined> {
    const now = await this.#read(event);
    return typeof now === "string" ? undefined : this.#payloadOf(now);
  }

  #payloadOf(event: StoredEvent): Payload {
    return this.#deps.account.measure(() => eventPayload(this.#lease.row.id, event));
  }

  /** Tries an event until it is delivered or refused too often. */
  async #deliver(payload: Payload, event: EventRef, reload: () => Promise<Payload | undefined>): Promise<Result> {
    for (let tries = 1;; tries++) {
      const attempt = await this.#lease.attempt(payload, event, tries, reload);
      if (attempt === undefined) return { kind: "over" };
      if (attempt.outcome === "delivered") return { kind: "delivered" };
      if (tries === EVENT_TRIES) {
        this.#lease.markParked(payload.id);
        return { kind: "parked", httpStatus: attempt.httpStatus };
      }
      await delay(EVENT_WAITS_MS[tries - 1] ?? 0, this.#lease.signal);
      if (this.#lease.isOver) return { kind: "over" };
    }
  }

  /** Says that events are missing, and continues behind them; `undefined` if the stream ends here for now. */
  async #announceGap(stream: LaggingStream): Promise<Position | undefined> {
    const { tenant_id: tenantId, stream: name, current_epoch: epoch, floor, seq: after } = stream;
    const now = iso(this.#deps.clock.now());
    const view = await this.#deps.reader.viewOf(this.#lease.row, roomIdOf(name));
    if (view === undefined) {
      await this.#pause(stream);
      return undefined;
    }
    const payload = gapPayload(this.#lease.row.id, { tenantId, stream: name, epoch, after, floor, now });
    // A gap that the endpoint refuses is not parked: there is nothing to replay.
    const gap = { stream: name, epoch, seq: floor, type: payload.type };
    const sent = await this.#deliver(payload, gap, () => Promise.resolve(payload));
    if (sent.kind === "over") return undefined;
    const reached = { epoch, seq: floor };
    return await this.#move(stream, reached) ? reached : undefined;
  }

  /** Delivers a parked event again. */
  async #replay(parked: ParkedRow): Promise<void> {
    const event = await this.#read({ ...parked, tenantId: parked.tenant_id });
    if (typeof event === "string") {
      return await this.#storeParked({ ...parked, state: "parked", http_status: null, error: event });
    }
    const attempt = await this.#lease.attempt(this.#payloadOf(event), event, 1, () => this.#reload(event));
    if (attempt === undefined) return;
    if (attempt.outcome === "delivered") {
      await this.#lease.commit((deliveries) => deliveries.unpark(parked));
    } else await this.#storeParked({ ...parked, state: "parked", http_status: attempt.httpStatus, error: null });
  }

  async #storeParked(row: ParkedRow): Promise<void> {
    const parked = { ...row, parked_at: iso(this.#deps.clock.now()) };
    await this.#lease.commit((deliveries) => deliveries.park(parked));
  }

  /** Parks an event and moves beyond it, together. */
  async #park(event: StoredEvent, httpStatus: number | null, from: LaggingStream, to: Position): Promise<boolean> {
    const { row } = this.#lease;
    const now = iso(this.#deps.clock.now());
    const parked: ParkedRow = {
      tenant_id: row.tenant_id,
      webhook_id: row.id,
      id: newId("parked"),
      stream: event.stream,
      epoch: event.epoch,
      seq: event.seq,
      type: event.type,
      state: "parked",
      http_status: httpStatus,
      error: null,
      parked_at: now,
    };
    let count = 0;
    const isMoved = await this.#lease.commit(async (deliveries) => {
      await deliveries.park(parked);
      count = await deliveries.countParked(row);
      return await deliveries.moveCursor(from, { ...positionOf(to), moved_at: now, paused_until: null });
    });
    // An endpoint that refuses everything would park the whole log.
    if (count >= PARKED_MAX) {
      this.#lease.end({ kind: "unavailable", error: "too_many_parked", retryAfterMs: undefined });
    }
    return isMoved;
  }

  readonly #move = (from: LaggingStream, to: Position): Promise<boolean> =>
    this.#moveTo(from, { ...positionOf(to), paused_until: null });

  async #pause(at: LaggingStream): Promise<void> {
    await this.#moveTo(at, { ...positionOf(at), paused_until: iso(this.#deps.clock.now() + PAUSE_MS) });
  }

  async #moveTo(from: LaggingStream, to: Position & { paused_until: string | null }): Promise<boolean> {
    const set = { ...to, moved_at: iso(this.#deps.clock.now()) };
    return await this.#lease.commit((deliveries) => deliveries.moveCursor(from, set));
  }
}

/** What its creator could not read either: events before it joined, and about positions before that. */
function isHiddenFrom(event: StoredEvent, view: EventView): boolean {
  return event.seq <= view.hiddenUpTo || isHidden(event, view);
}

function positionOf({ epoch, seq }: Position): Position {
  return { epoch, seq };
}

/** Runs tasks, some at once, until all are done or it is over; throws the first failure once none runs. */
async function runSome(tasks: readonly (() => Promise<void>)[], isOver: () => boolean): Promise<void> {
  const queue = tasks[Symbol.iterator]();
  let failure: { thrown: unknown } | undefined;
  const work = async (): Promise<void> => {
    for (const task of queue) {
      if (failure !== undefined || isOver()) return;
      try {
        await task();
      } catch (thrown) {
        failure ??= { thrown };
      }
    }
  };
  await Promise.all(Array.from({ length: STREAMS_AT_ONCE }, work));
  if (failure !== undefined) throw failure.thrown;
}
