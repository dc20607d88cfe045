// Bounds how much work runs at once, so that what one owner asks for leaves room for others. What waits starts in a fair order.
import { tenantOfCharged } from "./actor.ts";
import { Fault, type FaultCode } from "./fault.ts";
import { OwnerTally } from "./owner_tally.ts";

/** How many slots there are: in all, and for each key of a level. */
type SlotLimits = { total?: number; perKey?: readonly number[] };
/** Disposing it ends the work. `hasWaited`: there was none when it was asked for. */
export type Slot = Disposable & { hasWaited: boolean };
type Waiting = { keys: readonly string[]; hasWaited: boolean; start: (slot: Slot) => void };

/** Who asks for a slot has a key for each level, the widest first, such as its tenant and itself. The last one is the owner. */
export class Slots {
  readonly #total: number;
  readonly #perKey: readonly number[];
  /** Slots that are taken, by key. */
  readonly #taken = new Map<string, number>();
  #count = 0;
  #waiting: Waiting[] = [];

  constructor({ total = Infinity, perKey = [] }: SlotLimits) {
    this.#total = total;
    this.#perKey = perKey;
  }

  /** Resolves to a slot; rejects with the signal's reason when that aborts first. */
  async acquire(keys: readonly string[], signal?: AbortSignal): Promise<Slot> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Slot>();
    const waiting: Waiting = { keys, hasWaited: false, start: resolve };
    this.#waiting.push(waiting);
    this.#startNext();
    waiting.hasWaited = true;
    const onAbort = (): void => {
      this.#remove(waiting);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** How much runs or waits: of a key, or of all. */
  load(key?: string): number {
    if (key === undefined) return this.#count + this.#waiting.length;
    return (this.#taken.get(key) ?? 0) + this.#waiting.filter(({ keys }) => keys.includes(key)).length;
  }

  #startNext(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const { keys, hasWaited, start } = next;
      this.#remove(next);
      this.#count++;
      for (const key of keys) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
      let isReleased = false;
      start({
        hasWaited,
        [Symbol.dispose]: () => {
          if (!isReleased) this.#release(keys);
          isReleased = true;
        },
      });
    }
  }

  /** Of those that may start, the first one whose keys have the fewest slots. */
  #next(): Waiting | undefined {
    if (this.#count >= this.#total) return undefined;
    let next: Waiting | undefined;
    let fewest: readonly number[] = [];
    for (const waiting of this.#waiting) {
      const taken = waiting.keys.map((key) => this.#taken.get(key) ?? 0);
      if (taken.some((count, level) => count >= (this.#perKey[level] ?? Infinity))) continue;
      if (next !== undefined && !isLess(taken, fewest)) continue;
      next = waiting;
      fewest = taken;
    }
    return next;
  }

  #release(keys: readonly string[]): void {
    this.#count--;
    for (const key of keys) {
      const left = (this.#taken.get(key) ?? 0) - 1;
      if (left > 0) this.#taken.set(key, left);
      else this.#taken.delete(key);
    }
    if (this.#waiting.length === 0) return;
    // Tenants and owners take turns: what has more keys in common with this one is behind.
    const common = new Map(this.#waiting.map((one) => [one, one.keys.filter((key, at) => key === keys[at]).length]));
    this.#waiting.sort((one, other) => (common.get(one) ?? 0) - (common.get(other) ?? 0));
    this.#startNext();
  }

  #remove(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting);
    if (at >= 0) this.#waiting.splice(at, 1);
  }
}

/** Whether the first number that differs is the smaller one. */
function isLess(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((value, level) => value !== other[level]);
  return at >= 0 && (one[at] ?? 0) < (other[at] ?? 0);
}

/** An owner may have this part of the places, so that none fills the queue alone. */
const OWNER_SHARE = 4;
const RETRY_MS = 2000;

/** Work that runs one piece at a time on a node, such as in a worker that takes a core. Tenants take turns, and owners in them. */
export class FairQueue {
  readonly #name: string;
  readonly #places: number;
  readonly #slots = new Slots({ total: 1 });

  /** `places` are those of a tenant, and count the running work too. */
  constructor(name: string, places: number) {
    this.#name = name;
    this.#places = places;
  }

  /**
   * What `work` resolves to, once it had its turn. `owner` is a key as returned by `chargedTo`. Throws `rate_limited` if the owner
   * has no place left, and `unavailable` if its tenant has none.
   */
  async run<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
    this.assertPlace(owner);
    using _slot = await this.#slots.acquire([tenantOfCharged(owner), owner]);
    return await work();
  }

  /** Throws what `run` would throw instead of waiting. */
  assertPlace(owner: string): void {
    const own = this.#slots.load(owner);
    if (own >= this.#places / OWNER_SHARE) {
      const detail = `This principal and its agents have too many requests in the ${this.#name} queue`;
      throw new Fault("rate_limited", detail, { retryAfterMs: RETRY_MS });
    }
    // A few who fill the places refuse none to those who have nothing in the queue, nor do those of one tenant to another.
    const places = own === 0 ? 2 * this.#places : this.#places;
    if (this.#slots.load(tenantOfCharged(owner)) >= places || this.#slots.load() >= 2 * places) {
      throw new Fault("unavailable", `The ${this.#name} queue is full`, { retryAfterMs: RETRY_MS });
    }
  }
}

const PLACE_RETRY_MS = 1000;
/** `perOwner`: of a principal and its agents. */
type PlaceLimits = { perOwner: number; perTenant: number; perNode: number };

/** Places for work that mostly waits, such as streams. A tenant has a part of those of a node, so that none takes all. */
export class Places {
  readonly #what: string;
  readonly #limits: PlaceLimits;
  readonly #code: FaultCode;
  readonly #taken = new OwnerTally();

  /** `what` they are for, in the plural; `code` is that of the fault if there is none left. */
  constructor(what: string, limits: PlaceLimits, code: FaultCode = "rate_limited") {
    this.#what = what;
    this.#limits = limits;
    this.#code = code;
  }

  /** Whose places are all taken, of those that this owner could have; `undefined`: there is one. */
  fullOf(owner: string): "owner" | "tenant" | "node" | undefined {
    const { perOwner, perTenant, perNode } = this.#limits;
    if (this.#taken.ofOwner(owner) >= perOwner) return "owner";
    if (this.#taken.ofTenant(owner) >= perTenant) return "tenant";
    return this.#taken.total >= perNode ? "node" : undefined;
  }

  /** A place until it is disposed. `owner` is a key as returned by `chargedTo`. */
  enter(owner: string): Disposable {
    const full = this.fullOf(owner);
    if (full !== undefined) {
      const who = full === "owner" ? `At most ${this.#limits.perOwner}` : "Too many";
      throw new Fault(this.#code, `${who} ${this.#what} at the same time`, { retryAfterMs: PLACE_RETRY_MS });
    }
    this.#taken.add(owner, 1);
    let isTaken = true;
    return {
      [Symbol.dispose]: () => {
        if (isTaken) this.#taken.add(owner, -1);
        isTaken = false;
      },
    };
  }
}
