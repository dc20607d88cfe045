// A queue whose items are worked off in batches, in order, one batch after the other: what arrives together shares a commit.
import { Fault } from "@/core/fault.ts";

const BATCH_MAX = 1000;
/** A batch of this many is under load: it waits while more keeps coming, since a commit costs the same for all of it. */
const LOADED_MIN = 32;
const GATHER_MAX_MS = 5;
const PATIENCE_MAX_MS = 10;

/** Works off a batch: a result or a fault for each item. When it throws, nothing of the batch has happened. */
type Work<Item, Result> = (items: readonly Item[]) => Promise<(Result | Fault)[]>;

type Waiting<Item, Result> = {
  item: Item;
  resolve: (result: Result) => void;
  reject: (reason: unknown) => void;
};

export class BatchQueue<Item, Result> {
  readonly #work: Work<Item, Result>;
  readonly #patience: number;
  #waiting: Waiting<Item, Result>[] = [];
  #isScheduled = false;

  /**
   * `patience` is the share of the time a batch took that the next one waits under load. Those who just got their answers come
   * back in the meantime, and where others use the processors this costs nothing but saves half of the commits.
   */
  constructor(work: Work<Item, Result>, patience = 0) {
    this.#work = work;
    this.#patience = patience;
  }

  /** Resolves to what became of the item; rejects with its fault. */
  push(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      this.#gather(performance.now(), 0);
    });
  }

  /**
   * Starts at the end of this turn of the event loop, so that everything read from sockets by then goes into one batch. Under
   * load a turn reads one frame of each socket, and turns follow while they bring more.
   */
  #gather(startedAt: number, before: number): void {
    setImmediate(() => {
      const count = this.#waiting.length;
      const isGrowing = count > before && count >= LOADED_MIN && count < BATCH_MAX;
      if (isGrowing && performance.now() - startedAt < GATHER_MAX_MS) this.#gather(startedAt, count);
      else void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    const startedAt = performance.now();
    const batch = this.#waiting.slice(0, BATCH_MAX);
    this.#waiting = this.#waiting.slice(BATCH_MAX);
    const items = batch.map(({ item }) => item);
    const results = await this.#work(items).catch((error) => this.#oneByOne(items, error));
    batch.forEach(({ resolve, reject }, index) => {
      const result = results[index];
      if (result instanceof Fault || result === undefined) reject(result);
      else resolve(result);
    });
    this.#isScheduled = this.#waiting.length > 0;
    if (!this.#isScheduled) return;
    const now = performance.now();
    const waitMs = batch.length < LOADED_MIN ? 0 : Math.min((now - startedAt) * this.#patience, PATIENCE_MAX_MS);
    if (waitMs < 1) this.#gather(now, 0);
    else setTimeout(() => this.#gather(performance.now(), 0), waitMs);
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
