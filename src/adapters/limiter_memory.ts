// Rate limits of a single node, and what the limiter of many nodes falls back on.
import { RateLimiterMemory, type RateLimiterRes } from "rate-limiter-flexible";
import type { Rate } from "@/core/operation.ts";
import type { Limiter, Take } from "@/ports/limiter.ts";

/** A rule in the library's terms: `points` within each window of `duration` seconds, counted from its first take. */
export type Window = { points: number; duration: number; keyPrefix: string };

/**
 * The window of a rate: `burst` takes in the time they need to come back. Redis counts windows in whole seconds, so a
 * window is rounded up to them, and its points with it: the rate is kept exactly, a short burst is a little larger.
 */
export function windowOf(rate: Rate, prefix = ""): Window {
  // Rounded to a microsecond first: 7 tokens at 7/60 a second are a minute, whatever the division says.
  const duration = Math.max(1, Math.ceil(Number((rate.burst / rate.perSecond).toFixed(6))));
  const points = Math.max(1, Math.round(rate.perSecond * duration));
  return { points, duration, keyPrefix: `${prefix}${points}/${duration}` };
}

/** The library's answer in ours; it rejects with the same result when the points are used up. */
export function takeOf(window: Window, result: RateLimiterRes, isAllowed: boolean): Take {
  return {
    isAllowed,
    limit: window.points,
    remaining: Math.max(0, result.remainingPoints),
    resetMs: Math.max(0, result.msBeforeNext),
  };
}

/** Counts within the process. */
export class MemoryLimiter implements Limiter {
  readonly #limiters = new Map<string, { window: Window; limiter: RateLimiterMemory }>();

  take(key: string, rate: Rate): Promise<Take> {
    const { window, limiter } = this.#limiterOf(rate);
    return limiter.consume(key).then(
      (result) => takeOf(window, result, true),
      (result: RateLimiterRes) => takeOf(window, result, false),
    );
  }

  /** The library keeps a timer for each counter; deleting the counter ends it. */
  close(): Promise<void> {
    for (const { limiter } of this.#limiters.values()) {
      for (const { key } of limiter.dump().storage) limiter.delete(key);
    }
    this.#limiters.clear();
    return Promise.resolve();
  }

  #limiterOf(rate: Rate): { window: Window; limiter: RateLimiterMemory } {
    const name = `${rate.perSecond}/${rate.burst}`;
    let known = this.#limiters.get(name);
    if (known === undefined) {
      const window = windowOf(rate);
      known = { window, limiter: new RateLimiterMemory(window) };
      this.#limiters.set(name, known);
    }
    return known;
  }
}
