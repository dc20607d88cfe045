// A queue that processes items in batches, so that items which arrive together share a commit. Items of one key are processed
// in order. Keys are distributed over shards, whose batches run concurrently under load.
import { chargeTo, currentAccount } from "@/core/caller.ts";
import { Fault, isFault } from "@/core/fault.ts";
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { fnv1a } from "@/core/text/hash.ts";

/**
 * SQLite has one writer. On PostgreSQL batches of different rooms run concurrently, also those of other nodes; more shards
 * would overlap more but make smaller batches: two measured best.
 */
export const QUEUE_OPTIONS = {
  sqlite: { shards: 1, gatherRatio: 0, weightMax: 200 },
  postgres: { shards: 2, gatherRatio: 0.6, weightMax: 50 },
} as const;

const BATCH_MAX = 1000;
/** From this batch size on the queue is under load: the next batch waits a little for more items, as a commit costs the same. */
const LOADED_MIN = 8;
const GATHER_MAX_MS = 5;
const GATHER_REST_MAX_MS = 20;
/** As many items justify a commit beside one that is in progress. */
const OVERLAP_MIN = 64;
/** A batch this old is blocked, such as by a frozen node: items of other keys no longer wait for it. */
const BLOCKED_AFTER_MS = 250;

/** Processes a batch to a result or a fault for each item. If it throws, nothing of the batch was committed. */
type ProcessBatch<Item, Result> = (items: readonly Item[]) => Promise<(Result | Fault)[]>;

type QueuedItem<Item, Result> = {
  item: Item;
  account: CpuAccount | undefined;
  resolve: (result: Result) => void;
  reject: (reason: unknown) => void;
};

type BatchQueueOptions<Item> = {
  /** Items of one key are processed in order. */
  keyOf: (item: Item) => string;
  /** What an item costs besides its place in the batch, if that is more than others; default 0. */
  weightOf?: (item: Item) => number;
  /** Heavy items wait for the next batch instead of making one heavier, so that others do not wait for all of them; default Infinity. */
  weightMax?: number;
  /** Maximum number of concurrent batches; default 1. */
  shards?: number;
  /**
   * Pause of a shard after a batch under load, as a share of the batch's duration; default 0. Clients send their next message
   * in the meantime: where processors are shared, this costs no throughput and saves half of the commits.
   */
  gatherRatio?: number;
};

export class BatchQueue<Item, Result> {
  readonly #process: ProcessBatch<Item, Result>;
  readonly #keyOf: (item: Item) => string;
  readonly #weightOf: (item: Item) => number;
  readonly #weightMax: number;
  readonly #gatherRatio: number;
  readonly #shards: QueuedItem<Item, Result>[][];
  /** Shards with a batch in progress, or in the pause after it. */
  readonly #busy = new Set<number>();
  /** Items that wait for blocked batches, by key. */
  readonly #blockedKeys = new Map<string, QueuedItem<Item, Result>[]>();
  #isGathering = false;
  #batches = 0;

  constructor(process: ProcessBatch<Item, Result>, options: BatchQueueOptions<Item>) {
    const { keyOf, weightOf = () => 0, weightMax = Infinity, shards = 1, gatherRatio = 0 } = options;
    this.#process = process;
    this.#keyOf = keyOf;
    this.#weightOf = weightOf;
    this.#weightMax = weightMax;
    this.#gatherRatio = gatherRatio;
    this.#shards = Array.from({ length: shards }, () => []);
  }

  /** Resolves to the result of the item; rejects with its fault. */
  push(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#add({ item, account: currentAccount(), resolve, reject });
      this.#wake();
    });
  }

  #add(queued: QueuedItem<Item, Result>): void {
    const key = this.#keyOf(queued.item);
    const { length } = this.#shards;
    const list = this.#blockedKeys.get(key) ?? this.#shards[length === 1 ? 0 : (fnv1a(key) >>> 0) % length];
    if (list === undefined) throw new RangeError(`Expected at least one shard, received ${length}`);
    list.push(queued);
  }

  #wake(): void {
    if (this.#isGathering || this.#busy.size === this.#shards.length || this.#readyShards().length === 0) return;
    this.#isGathering = true;
    this.#gather(performance.now(), 0);
  }

  /** Shards whose batch may start now: all with items if no batch is in progress, else those with `OVERLAP_MIN` items. */
  #readyShards(): number[] {
    const least = this.#busy.size === 0 ? 1 : OVERLAP_MIN;
    return [...this.#shards.keys()].filter((at) => !this.#busy.has(at) && this.#countOf([at]) >= least);
  }

  #countOf(shards: readonly number[]): number {
    return shards.reduce((count, at) => count + (this.#shards[at]?.length ?? 0), 0);
  }

  /**
   * Starts batches at the end of this tick of the event loop, so that everything read from sockets by then shares a batch.
   * Under load a tick reads one frame of each socket, so further ticks are awaited as long as they add more.
   */
  #gather(startedAt: number, before: number): void {
    setImmediate(() => {
      const ready = this.#readyShards();
      const count = this.#countOf(ready);
      const isGrowing = count > before && count >= LOADED_MIN && count < BATCH_MAX;
      if (isGrowing && performance.now() - startedAt < GATHER_MAX_MS) return this.#gather(startedAt, count);
      this.#isGathering = false;
      if (count < ready.length * OVERLAP_MIN) void this.#runBatch(ready);
      else for (const at of ready) void this.#runBatch([at]);
    });
  }

  async #runBatch(shards: readonly number[]): Promise<void> {
    for (const at of shards) this.#busy.add(at);
    const startedAt = performance.now();
    const batch = shards.flatMap((at) => this.#take(at));
    const items = batch.map(({ item }) => item);
    const release = (): void => {
      for (const at of shards) this.#busy.delete(at);
      this.#wake();
    };
    const blocked = new Set<string>();
    const timer = setTimeout(() => {
      for (const item of items) blocked.add(this.#keyOf(item));
      for (const key of blocked) this.#blockedKeys.set(key, []);
      // Moves the waiting items of these keys to `#blockedKeys`; the others stay.
      for (const queued of shards.flatMap((at) => this.#shards[at]?.splice(0) ?? [])) this.#add(queued);
      release();
    }, BLOCKED_AFTER_MS);
    // All items cost about the same, so each of those who sent them pays for some batches.
    const payer = batch[this.#batches++ % batch.length]?.account;
    const results = await chargeTo(
      payer,
      () => this.#process(items).catch((error) => this.#processOneByOne(items, error)),
    );
    clearTimeout(timer);
    batch.forEach(({ resolve, reject }, index) => {
      const result = results[index];
      if (result instanceof Fault || result === undefined) reject(result);
      else resolve(result);
    });
    if (blocked.size > 0) {
      const waiting = [...blocked].flatMap((key) => this.#blockedKeys.get(key) ?? []);
      for (const key of blocked) this.#blockedKeys.delete(key);
      for (const queued of waiting) this.#add(queued);
      return this.#wake();
    }
    const tookMs = performance.now() - startedAt;
    const restMs = batch.length < LOADED_MIN ? 0 : Math.min(tookMs * this.#gatherRatio, GATHER_REST_MAX_MS);
    if (restMs < 1) release();
    else setTimeout(release, restMs);
  }

  /** Removes the items of a shard that are next: not those that would be too heavy together, nor what comes after them in their keys. */
  #take(shard: number): QueuedItem<Item, Result>[] {
    const items = this.#shards[shard]?.splice(0) ?? [];
    const left: QueuedItem<Item, Result>[] = [];
    const leftKeys = new Set<string>();
    let weight = 0;
    const taken = items.filter((queued, at) => {
      const [key, own] = [this.#keyOf(queued.item), this.#weightOf(queued.item)];
      const isTooHeavy = own > 0 && weight > 0 && weight + own > this.#weightMax;
      if (at - left.length < BATCH_MAX && !isTooHeavy && !leftKeys.has(key)) {
        weight += own;
        return true;
      }
      leftKeys.add(key);
      left.push(queued);
      return false;
    });
    this.#shards[shard]?.push(...left);
    return taken;
  }

  /** Retries a failed batch item by item, so that one item cannot fail the others. */
  async #processOneByOne(items: readonly Item[], error: unknown): Promise<(Result | Fault)[]> {
    if (isFault(error, "unavailable") || items.length === 1) return items.map(() => Fault.from(error));
    const results: (Result | Fault)[] = [];
    for (const item of items) {
      results.push(await this.#process([item]).then(([result]) => result ?? Fault.from(error), Fault.from));
    }
    return results;
  }
}
