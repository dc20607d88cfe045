// A batch: the writers that share one commit, and the streams it holds until that commit is told.
//
// A stream's row is locked from its first event to the commit. Three rules keep several lanes in order:
// - A batch that holds a stream never waits for another batch of this process: it gives way, commits what it has and
//   runs the writer again. So lanes cannot lock each other up.
// - Several streams that one statement locks are claimed before it runs, all or none: while it waits for one of them it
//   has others already, of which nobody would know.
// - A batch that locked a stream after another tells its events after that one has told its own.
//
// So that nobody gives way for ever, a writer that did so again has a wish: until a run of it gets through, no batch takes one
// of its streams anew but for an older wish. It waits for batches, which all end, and for older wishes, so never in a ring;
// and it holds nothing meanwhile for which another process could wait.
import type { StoredEvent } from "@/core/event.ts";
import { type Committed, type Signal, streamKey } from "@/ports/store.ts";
import type { Frame } from "./frame.ts";
import { Rerun } from "./session.ts";

/** The writer met streams that others have, or have wished for before it; it runs again after them. */
export class GiveWay extends Rerun {
  readonly streams: readonly string[];
  readonly until: Promise<unknown>;

  constructor(streams: readonly string[], until: Promise<unknown>) {
    super("Gave way to another batch");
    this.streams = streams;
    this.until = until;
  }
}

/** What a writer gave way for, in all of its runs together. */
export class Wish {
  readonly streams = new Set<string>();
  readonly over = Promise.withResolvers<void>();
}

/** What the batches of a process know of each other. */
export class Streams {
  /** Which batches hold a stream: one has locked it, or is about to, and others may have claimed it. */
  readonly holders = new Map<string, Set<Batch>>();
  /** The oldest first. */
  readonly wishes = new Set<Wish>();
}

export class Batch {
  /** That of the writer whose turn it is. */
  wish: Wish | undefined;
  #events: StoredEvent[] = [];
  #signals: Signal[] = [];
  #jobs = 0;
  readonly #streams: Streams;
  readonly #held = new Set<string>();
  readonly #before = new Set<Promise<void>>();
  readonly #settled = Promise.withResolvers<void>();
  #isEnding = false;

  constructor(streams: Streams) {
    this.#streams = streams;
  }

  /** To be called before one statement locks streams: they are this batch's from here on, or it gives way. */
  claim(streams: readonly string[]): void {
    const wanted = streams.filter((stream) => !this.#held.has(stream));
    // Who waits for one stream and has none is in nobody's way.
    const mayWait = streams.length === 1 && this.#held.size === 0;
    const until = this.#olderWishes(wanted);
    for (const stream of mayWait ? [] : wanted) {
      for (const other of this.#streams.holders.get(stream) ?? []) until.push(other.#settled.promise);
    }
    if (until.length > 0) throw new GiveWay(wanted, Promise.all(until));
    for (const stream of wanted) this.#holdersOf(stream);
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
      const holders = this.#streams.holders.get(stream);
      holders?.delete(this);
      if (holders?.size === 0) this.#streams.holders.delete(stream);
    }
    this.#events = [];
    this.#signals = [];
    this.#settled.resolve();
  }

  #olderWishes(streams: readonly string[]): Promise<void>[] {
    const older: Promise<void>[] = [];
    for (const wish of this.#streams.wishes) {
      if (wish === this.wish) break;
      if (streams.some((stream) => wish.streams.has(stream))) older.push(wish.over.promise);
    }
    return older;
  }

  /** All that hold a stream, this one among them from here on. */
  #holdersOf(stream: string): Set<Batch> {
    let holders = this.#streams.holders.get(stream);
    if (holders === undefined) this.#streams.holders.set(stream, holders = new Set());
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
