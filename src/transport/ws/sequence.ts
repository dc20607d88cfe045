// The place of this node in a durable stream: hands on each event once and in order, whatever the bus lost, doubled or swapped.
import type { StoredEvent } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import type { EventLog } from "@/ports/store.ts";
import { PAGE } from "./pages.ts";

/** Who gets the events. `lost` is called when they cannot be whole any more: start over from a fresh position. */
export interface SequenceOwner {
  readonly tenantId: string;
  readonly channel: string;
  deliver(events: readonly StoredEvent[]): void;
  lost(): void;
}

const HELD_MAX = 1000;
const ATTEMPTS_MAX = 6;
const RETRY_MAX_MS = 2000;
const NOT_STARTED = -1;

const log = logOf("ws");

/** Events above a hole are held until the hole is read back from the log. */
export class Sequence {
  readonly #log: EventLog;
  readonly #repairDelayMs: number;
  readonly #owner: SequenceOwner;
  #epoch = "";
  #head = NOT_STARTED;
  #held: Map<number, StoredEvent> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading: Promise<void> | undefined;
  #attempts = 0;
  #isClosed = false;

  constructor(eventLog: EventLog, repairDelayMs: number, owner: SequenceOwner) {
    this.#log = eventLog;
    this.#repairDelayMs = repairDelayMs;
    this.#owner = owner;
  }

  get epoch(): string {
    return this.#epoch;
  }

  /** Seq of the last event handed on. */
  get head(): number {
    return this.#head;
  }

  /** Takes the current position as the start; what arrived before is sorted in. Listen to the bus first. */
  async start(): Promise<void> {
    const position = await this.#log.position(this.#owner.tenantId, this.#owner.channel);
    this.#epoch = position.epoch;
    this.#head = position.head;
    const early = [...this.#held?.values() ?? []].filter((event) => event.epoch === this.#epoch);
    this.#held = undefined;
    if (!this.#isClosed) this.accept(early);
  }

  /** Takes events as the bus brings them. */
  accept(events: readonly StoredEvent[]): void {
    const next: StoredEvent[] = [];
    for (const event of events) {
      if (this.#head === NOT_STARTED) this.#hold(event);
      else if (event.epoch !== this.#epoch) return this.#lose("the stream was reset");
      else if (event.seq === this.#head + 1) this.#advance(event, next);
      else if (event.seq > this.#head) this.#hold(event);
    }
    if (next.length > 0) {
      this.#attempts = 0;
      this.#owner.deliver(next);
    }
    if (this.#head !== NOT_STARTED && this.#held !== undefined) this.#repairSoon();
  }

  /** Reads everything the log has beyond the head, which should be `target` at least. */
  catchUp(target = 0): Promise<void> {
    return this.#reading ??= this.#readBack(target).finally(() => {
      this.#reading = undefined;
      if (this.#held !== undefined) this.#repairSoon();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#held = undefined;
    clearTimeout(this.#timer);
  }

  #advance(event: StoredEvent, next: StoredEvent[]): void {
    for (let following: StoredEvent | undefined = event; following !== undefined;) {
      next.push(following);
      this.#head = following.seq;
      this.#held?.delete(following.seq);
      following = this.#held?.get(this.#head + 1);
    }
    if (this.#held?.size === 0) this.#held = undefined;
  }

  /** Beyond the bound events are dropped: the log has them. */
  #hold(event: StoredEvent): void {
    this.#held ??= new Map();
    if (this.#held.size < HELD_MAX) this.#held.set(event.seq, event);
  }

  #repairSoon(): void {
    if (this.#isClosed || this.#timer !== undefined || this.#reading !== undefined) return;
    const waitMs = Math.min(RETRY_MAX_MS, this.#repairDelayMs * 2 ** this.#attempts);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#held === undefined) return;
      this.#attempts++;
      void this.catchUp();
    }, waitMs);
  }

  async #readBack(target: number): Promise<void> {
    try {
      for (let isMore = true; isMore && !this.#isClosed;) {
        const events = await this.#log.read(this.#owner.tenantId, this.#owner.channel, this.#head, PAGE);
        if (this.#isClosed) return;
        const [first] = events;
        if (first !== undefined && first.seq > this.#head + 1) return this.#lose("events are gone from the log");
        this.accept(events);
        isMore = events.length === PAGE;
      }
    } catch (thrown) {
      log.warn("the log could not be read", { channel: this.#owner.channel, cause: String(thrown) });
      return;
    }
    if (this.#head < target || (this.#held !== undefined && this.#attempts > ATTEMPTS_MAX)) {
      this.#lose("the log does not have the events");
    }
  }

  #lose(why: string): void {
    if (this.#isClosed) return;
    log.warn("a stream has a hole", { channel: this.#owner.channel, why });
    this.close();
    this.#owner.lost();
  }
}
