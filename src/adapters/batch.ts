// A batch: the writers that share one commit, and the streams it holds until that commit is told.
//
// A stream's row is locked from its first event to the commit. Three rules keep several lanes in order:
// - A batch that holds a stream never waits for another batch of this process: it gives way, commits what it has and
//   runs the writer again. So lanes cannot lock each other up.
// - Several streams that one statement locks are claimed before it runs, all or none: while it waits for one of them it
//   has others already, of which nobody would know.
// - A batch that locked a stream after another tells its events after that one has told its own.
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

/** Which batches of this process hold a stream: one has locked it, and others may have claimed it. */
export type Holders = Map<string, Set<Batch>>;

export class Batch {
  #events: StoredEvent[] = [];
  #signals: Signal[] = [];
  #jobs = 0;
  readonly #holders: Holders;
  readonly #held = new Set<string>();
  readonly #before = new Set<Promise<void>>();
  readonly #settled = Promise.withResolvers<void>();
  #isEnding = false;

  constructor(holders: Holders) {
    this.#holders = holders;
  }

  /** To be called before a stream is locked. */
  approach(stream: string): void {
    if (this.#held.size > 0) this.#giveWay(stream);
  }

  /** To be called before one statement locks several streams: they are this batch's from here on, or it gives way. */
  claim(streams: readonly string[]): void {
    for (const stream of streams) this.#giveWay(stream);
    for (const stream of streams) this.#holdersOf(stream);
  }

  /** To be called once a stream is locked. Whoever had it before has at least sent its commit. */
  hold(stream: string): void {
    for (const other of this.#holdersOf(stream)) {
      if (other.#isEnding && other !== this) this.#before.add(other.#settled.promise);
    }
  }

  /** To be called before the commit is sent, or all is undone: others may lock its streams from here on. */
  end(): void {
    this.#isEnding = true;
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

  /** Resolves when every batch that had one of the streams before this one has settled. */
  async inOrder(): Promise<void> {
    if (this.#before.size > 0) await Promise.all(this.#before);
  }

  /** Lets go of the streams, told or undone; and of the events, since frames know their batch. */
  settle(): void {
    for (const stream of this.#held) {
      const holders = this.#holders.get(stream);
      holders?.delete(this);
      if (holders?.size === 0) this.#holders.delete(stream);
    }
    this.#events = [];
    this.#signals = [];
    this.#settled.resolve();
  }

  #giveWay(stream: string): void {
    if (this.#held.has(stream)) return;
    const [holder] = this.#holders.get(stream) ?? [];
    if (holder !== undefined) throw new GiveWay(holder.#settled.promise);
  }

  /** All that hold a stream, this one among them from here on. */
  #holdersOf(stream: string): Set<Batch> {
    let holders = this.#holders.get(stream);
    if (holders === undefined) this.#holders.set(stream, holders = new Set());
    this.#held.add(stream);
    return holders.add(this);
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
