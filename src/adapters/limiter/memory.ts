// Rate limits of a single node, and the fallback of the limiter that nodes share.
import { LruMap } from "@/core/lru_map.ts";
import type { Rate } from "@/core/operation.ts";
import type { ConsumeResult, Limiter } from "@/ports/limiter.ts";

/** `points` within each window of `duration` seconds, counted from its first call. */
type Window = { points: number; duration: number };

/** The counter of a key. */
type Counter = { count: number; endsAt: number };

/** Counters of one rate. Those whose last call was longest ago are forgotten first: strangers may have any number of addresses. */
const COUNTERS_MAX = 20_000;

/**
 * The window of a rate: `burst` calls within the time in which so many come back. Redis counts windows in whole seconds, so a
 * window is rounded up to them, and its points with it: the rate is exact, a short burst is a little larger.
 */
export function windowOf(rate: Rate): Window {
  // Rounded to a microsecond first: 7 tokens at 7/60 a second are a minute, whatever the division says.
  const duration = Math.max(1, Math.ceil(Number((rate.burst / rate.perSecond).toFixed(6))));
  const points = Math.max(1, Math.round(rate.perSecond * duration));
  return { points, duration };
}

/** One of what each rate needs, created when it is first asked for. */
export class ByRate<Item> {
  readonly #create: (window: Window) => Item;
  readonly #items = new Map<string, Item>();

  constructor(create: (window: Window) => Item) {
    this.#create = create;
  }

  get(rate: Rate): Item {
    const name = `${rate.perSecond}/${rate.burst}`;
    let item = this.#items.get(name);
    if (item === undefined) this.#items.set(name, item = this.#create(windowOf(rate)));
    return item;
  }
}

/** Counts within the process. */
export class MemoryLimiter implements Limiter {
  readonly #counters = new ByRate((window) => ({ window, byKey: new LruMap<string, Counter>(COUNTERS_MAX) }));

  consume(key: string, rate: Rate): Promise<ConsumeResult> {
    const { window: { points, duration }, byKey } = this.#counters.get(rate);
    const now = performance.now();
    let counter = byKey.get(key);
    if (counter === undefined || counter.endsAt <= now) counter = { count: 0, endsAt: now + duration * 1000 };
    counter.count++;
    byKey.set(key, counter);
    return Promise.resolve({
      isAllowed: counter.count <= points,
      limit: points,
      remaining: Math.max(0, points - counter.count),
      resetMs: Math.ceil(counter.endsAt - now),
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
