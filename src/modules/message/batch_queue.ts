// A queue whose items are worked off in batches: what arrives together shares a commit. Items of one key keep their order, one
// batch after the other. Keys are spread over shards, whose batches run side by side when there is much to do.
import { Fault } from "@/core/fault.ts";
import { fnv1a } from "@/core/hash.ts";

const BATCH_MAX = 1000;
/** A batch of this many is under load: what comes next waits a little for more, since a commit costs the same for all of it. */
const LOADED_MIN = 8;
const GATHER_MAX_MS = 5;
const PATIENCE_MAX_MS = 20;
/** So many are worth a commit of their own beside one that is under way. */
const OVERLAP_MIN = 64;
/** A batch this old has met somebody who holds it up, such as a node that froze: other keys wait for it no longer. */
const HELD_UP_MS = 250;

/** Works off a batch: a result or a fault for each item. When it throws, nothing of the batch has happened. */
type Work<Item, Result> = (items: readonly Item[]) => Promise<(Result | Fault)[]>;

type Waiting<Item, Result> = {
  item: Item;
  resolve: (result: Result) => void;
  reject: (reason: unknown) => void;
};

export type BatchQueueOptions<Item> = {
  /** Items of one key keep their order. */
  keyOf: (item: Item) => string;
  /** How many batches are under way side by side under load; default 1. */
  shards?: number;
  /**
   * The share of the time a batch took that the next one of its shards waits under load; default 0. Those who just got their
   * answers come back in the meantime, and where others use the processors this costs nothing but saves half of the commits.
   */
  patience?: number;
};

export class BatchQueue<Item, Result> {
  readonly #work: Work<Item, Result>;
  readonly #keyOf: (item: Item) => string;
  readonly #patience: number;
  readonly #shards: Waiting<Item, Result>[][];
  /** Shards whose batch is under way, or that rest after it. */
  readonly #busy = new Set<number>();
  /** By the keys of batches that are held up, what waits for these. */
  readonly #heldUp = new Map<string, Waiting<Item, Result>[]>();
  #isGathering = false;

  constructor(work: Work<Item, Result>, { keyOf, shards = 1, patience = 0 }: BatchQueueOptions<Item>) {
    this.#work = work;
    this.#keyOf = keyOf;
    this.#patience = patience;
    this.#shards = Array.from({ length: shards }, () => []);
  }

  /** Resolves to what became of the item; rejects with its fault. */
  push(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#add({ item, resolve, reject });
      this.#wake();
    });
  }

  #add(one: Waiting<Item, Result>): void {
    const key = this.#keyOf(one.item);
    const { length } = this.#shards;
    const list = this.#heldUp.get(key) ?? this.#shards[length === 1 ? 0 : (fnv1a(key) >>> 0) % length];
    if (list === undefined) throw new RangeError(`Expected at least one shard, received ${length}`);
    list.push(one);
  }

  #wake(): void {
    if (this.#isGathering || this.#busy.size === this.#shards.length || this.#ready().length === 0) return;
    this.#isGathering = true;
    this.#gather(performance.now(), 0);
  }

  /** Shards from which a batch may start now: anything when none is under way, else what is worth its commit. */
  #ready(): number[] {
    const least = this.#busy.size === 0 ? 1 : OVERLAP_MIN;
    return [...this.#shards.keys()].filter((at) => !this.#busy.has(at) && this.#countOf([at]) >= least);
  }

  #countOf(shards: readonly number[]): number {
    return shards.reduce((count, at) => count + (this.#shards[at]?.length ?? 0), 0);
  }

  /**
   * Starts at the end of this turn of the event loop, so that everything read from sockets by then goes into one batch. Under
   * load a turn reads one frame of each socket, and turns follow while they bring more.
   */
  #gather(startedAt: number, before: number): void {
    setImmediate(() => {
      const ready = this.#ready();
      const count = this.#countOf(ready);
      const isGrowing = count > before && count >= LOADED_MIN && count < BATCH_MAX;
      if (isGrowing && performance.now() - startedAt < GATHER_MAX_MS) return this.#gather(startedAt, count);
      this.#isGathering = false;
      if (count < ready.length * OVERLAP_MIN) void this.#drain(ready);
      else for (const at of ready) void this.#drain([at]);
    });
  }

  async #drain(shards: readonly number[]): Promise<void> {
    for (const at of shards) this.#busy.add(at);
    const startedAt = performance.now();
    const batch = shards.flatMap((at) => this.#shards[at]?.splice(0, BATCH_MAX) ?? []);
    const items = batch.map(({ item }) => item);
    const release = (): void => {
      for (const at of shards) this.#busy.delete(at);
      this.#wake();
    };
    const heldUp = new Set<string>();
    const timer = setTimeout(() => {
      for (const item of items) heldUp.add(this.#keyOf(item));
      for (const key of heldUp) this.#heldUp.set(key, []);
      // What waits for these keys goes aside, the others stay.
      for (const one of shards.flatMap((at) => this.#shards[at]?.splice(0) ?? [])) this.#add(one);
      release();
    }, HELD_UP_MS);
    const results = await this.#work(items).catch((error) => this.#oneByOne(items, error));
    clearTimeout(timer);
    batch.forEach(({ resolve, reject }, index) => {
      const result = results[index];
      if (result instanceof Fault || result === undefined) reject(result);
      else resolve(result);
    });
    if (heldUp.size > 0) {
      const behind = [...heldUp].flatMap((key) => this.#heldUp.get(key) ?? []);
      for (const key of heldUp) this.#heldUp.delete(key);
      for (const one of behind) this.#add(one);
      return this.#wake();
    }
    const tookMs = performance.now() - startedAt;
    const restMs = batch.length < LOADED_MIN ? 0 : Math.min(tookMs * this.#patience, PATIENCE_MAX_MS);
    if (restMs < 1) release();
    else setTimeout(release, restMs);
  }

  /** A batch that failed as a whole is tried item by item, so that one cannot take the others with it. */
  async #oneByOne(items: readonly Item[], error: unknown): Promise<(Result | Fault)[]> {
    if (error instanceof Fault && error.code === "unavailable" || items.length === 1) {
      return items.map(() => Fault.from(error));
    }
    const results: (Result | Fault)[] = [];
    for (const item of items) {
      results.push(await this.#work([item]).then(([result]) => result ?? Fault.from(error), Fault.from));
    }
    return results;
  }
}
