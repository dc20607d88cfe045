// A batch: the writers that share one commit, and the streams it holds until that commit is told.
//
// A stream's row is locked from its first event to the commit. Three rules keep several lanes in order:
// - A batch that holds a stream never waits for another batch of this process: it gives way, commits what it has and
//   runs the writer again. So lanes cannot lock each other up.
// - Several streams that one statement locks are claimed before it runs, all or none: while it waits for one of them it
//   has others already, of which nobody would know.
// - A batch that took over a stream tells its events after the batch it took it from has told its own.
import type { StoredEvent } from "@/core/event.ts";
import { type Committed, type Signal, streamKey } from "@/ports/store.ts";
import type { Frame } from "./frame.ts";
import { Rerun } from "./session.ts";

/** The writer met a stream held by another batch; it runs again once that batch is done. */
export class GiveWay extends Rerun {
  readonly until: Promise<void>;

  constructor(until: Promise<void>) {
    super("Gave way to another batch");
    this.until = until;
  }
}

/** Which batch of this process holds a stream. */
export type Holders = Map<string, Batch>;

export class Batch {
  #events: StoredEvent[] = [];
  #signals: Signal[] = [];
  #jobs = 0;
  readonly #holders: Holders;
  readonly #held = new Set<string>();
  readonly #before: Promise<void>[] = [];
  readonly #settled = Promise.withResolvers<void>();

  constructor(holders: Holders) {
    this.#holders = holders;
  }

  /** To be called before a stream is locked. */
  approach(stream: string): void {
    if (this.#held.has(stream) || this.#held.size === 0) return;
    const holder = this.#holders.get(stream);
    if (holder !== undefined) throw new GiveWay(holder.#settled.promise);
  }

  /** To be called before one statement locks several streams: they are this batch's from here on, or it gives way. */
  claim(streams: readonly string[]): void {
    for (const stream of streams) {
      const holder = this.#holders.get(stream);
      if (holder !== undefined && holder !== this) throw new GiveWay(holder.#settled.promise);
    }
    for (const stream of streams) this.hold(stream);
  }

  /** To be called once a stream is locked. */
  hold(stream: string): void {
    if (this.#held.has(stream)) return;
    const holder = this.#holders.get(stream);
    if (holder !== undefined) this.#before.push(holder.#settled.promise);
    this.#held.add(stream);
    this.#holders.set(stream, this);
  }

  /** Takes over what a writer that succeeded wants told. */
  absorb(frame: Frame<unknown>): void {
    const { events, signals, jobs } = frame.take();
    this.#events.push(...events);
    this.#signals.push(...signals);
    this.#jobs += jobs;
  }

  /** What there is to tell after the commit, each stream in order. */
  committed(): Committed {
    return { events: inStreamOrder(this.#events), signals: this.#signals, jobs: this.#jobs };
  }

  /** Resolves when every batch whose streams went to this one has settled. */
  async inOrder(): Promise<void> {
    if (this.#before.length > 0) await Promise.all(this.#before);
  }

  /** Lets go of the streams, told or undone; and of the events, since frames know their batch. */
  settle(): void {
    for (const stream of this.#held) {
      if (this.#holders.get(stream) === this) this.#holders.delete(stream);
    }
    this.#events = [];
    this.#signals = [];
    this.#settled.resolve();
  }
}

/** Nearly always as it came; a work that reserves early and appends late is put right. */
function inStreamOrder(events: StoredEvent[]): readonly StoredEvent[] {
  const last = new Map<string, number>();
  const isOrdered = events.every(({ tenantId, stream, seq }) => {
    const key = streamKey(tenantId, stream);
    const before = last.get(key) ?? 0;
    last.set(key, seq);
    return before < seq;
  });
  return isOrdered ? events : events.sort((a, b) => a.seq - b.seq);
}
