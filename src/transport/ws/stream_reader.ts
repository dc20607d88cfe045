// Reads a durable stream: delivers each event once and in order, although the bus may lose, repeat or reorder events.
import type { StoredEvent } from "@/core/event/event.ts";
import { logOf } from "@/core/log.ts";
import type { EventLog } from "@/ports/store.ts";
import { PAGE_SIZE } from "./recovery_cache.ts";

/** The receiver of the events. `onGap` is called when events are lost: it must restart from a new position. */
export interface StreamReaderOwner {
  readonly tenantId: string;
  readonly channel: string;
  deliver(events: readonly StoredEvent[]): void;
  onGap(): void;
}

const BUFFERED_MAX = 1000;
const ATTEMPTS_MAX = 6;
const RETRY_MAX_MS = 2000;
const NOT_STARTED = -1;

const log = logOf("ws");

/** Events after a gap are buffered until the gap is read from the log. */
export class StreamReader {
  readonly #log: EventLog;
  readonly #repairDelayMs: number;
  readonly #owner: StreamReaderOwner;
  #epoch = "";
  #head = NOT_STARTED;
  #buffered: Map<number, StoredEvent> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading: Promise<void> | undefined;
  #attempts = 0;
  #isClosed = false;

  constructor(eventLog: EventLog, repairDelayMs: number, owner: StreamReaderOwner) {
    this.#log = eventLog;
    this.#repairDelayMs = repairDelayMs;
    this.#owner = owner;
  }

  get epoch(): string {
    return this.#epoch;
  }

  /** Seq of the last event delivered. */
  get head(): number {
    return this.#head;
  }

  /** Starts at the current position; events received before it are merged. Subscribe to the bus first. */
  async start(): Promise<void> {
    const position = await this.#log.position(this.#owner.tenantId, this.#owner.channel);
    this.#epoch = position.epoch;
    this.#head = position.head;
    const early = [...this.#buffered?.values() ?? []].filter((event) => event.epoch === this.#epoch);
    this.#buffered = undefined;
    if (!this.#isClosed) this.accept(early);
  }

  /** Accepts events from the bus. */
  accept(events: readonly StoredEvent[]): void {
    const ready: StoredEvent[] = [];
    for (const event of events) {
      if (this.#head === NOT_STARTED) this.#buffer(event);
      else if (event.epoch !== this.#epoch) return this.#failGap("the stream was reset");
      else if (event.seq === this.#head + 1) this.#advance(event, ready);
      else if (event.seq > this.#head) this.#buffer(event);
    }
    if (ready.length > 0) {
      this.#attempts = 0;
      this.#owner.deliver(ready);
    }
    if (this.#head !== NOT_STARTED && this.#buffered !== undefined) this.#scheduleRepair();
  }

  /** Reads all events of the log after the head; they must reach `target`. */
  catchUp(target = 0): Promise<void> {
    return this.#reading ??= this.#readLog(target).finally(() => {
      this.#reading = undefined;
      if (this.#buffered !== undefined) this.#scheduleRepair();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#buffered = undefined;
    clearTimeout(this.#timer);
  }

  #advance(event: StoredEvent, ready: StoredEvent[]): void {
    for (let next: StoredEvent | undefined = event; next !== undefined;) {
      ready.push(next);
      this.#head = next.seq;
      this.#buffered?.delete(next.seq);
      next = this.#buffered?.get(this.#head + 1);
    }
    if (this.#buffered?.size === 0) this.#buffered = undefined;
  }

  /** Events beyond the bound are dropped, since the log has them. */
  #buffer(event: StoredEvent): void {
    this.#buffered ??= new Map();
    if (this.#buffered.size < BUFFERED_MAX) this.#buffered.set(event.seq, event);
  }

  #scheduleRepair(): void {
    if (this.#isClosed || this.#timer !== undefined || this.#reading !== undefined) return;
    const waitMs = Math.min(RETRY_MAX_MS, this.#repairDelayMs * 2 ** this.#attempts);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#buffered === undefined) return;
      this.#attempts++;
      void this.catchUp();
    }, waitMs);
  }

  async #readLog(target: number): Promise<void> {
    try {
      for (let hasMore = true; hasMore && !this.#isClosed;) {
        const events = await this.#log.read(this.#owner.tenantId, this.#owner.channel, this.#head, PAGE_SIZE);
        if (this.#isClosed) return;
        const [first] = events;
        if (first !== undefined && first.seq > this.#head + 1) return this.#failGap("events are no longer in the log");
        this.accept(events);
        hasMore = events.length === PAGE_SIZE;
      }
    } catch (thrown) {
      log.warn("reading the log failed", { channel: this.#owner.channel, cause: String(thrown) });
      return;
    }
    if (this.#head < target || (this.#buffered !== undefined && this.#attempts > ATTEMPTS_MAX)) {
      this.#failGap("the log does not have the events");
    }
  }

  #failGap(reason: string): void {
    if (this.#isClosed) return;
    log.warn("stream gap detected", { channel: this.#owner.channel, why: reason });
    this.close();
    this.#owner.onGap();
  }
}
