// Rate limits of a single node, and the fallback of the limiter that nodes share.
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import type { Rate } from "@/core/operation.ts";
import type { ConsumeResult, Limiter } from "@/ports/limiter.ts";

/** A rule in the library's terms: `points` within each window of `duration` seconds, counted from its first call. */
type Window = { points: number; duration: number; keyPrefix: string };

/**
 * The window of a rate: `burst` calls within the time in which so many come back. Redis counts windows in whole seconds, so a
 * window is rounded up to them, and its points with it: the rate is exact, a short burst is a little larger.
 */
export function windowOf(rate: Rate, prefix = ""): Window {
  // Rounded to a microsecond first: 7 tokens at 7/60 a second are a minute, whatever the division says.
  const duration = Math.max(1, Math.ceil(Number((rate.burst / rate.perSecond).toFixed(6))));
  const points = Math.max(1, Math.round(rate.perSecond * duration));
  return { points, duration, keyPrefix: `${prefix}${points}/${duration}` };
}

/** The library's limiters, one for each rate, all of one backend. */
export class WindowLimiters<Backend extends { consume(key: string): Promise<RateLimiterRes> }> {
  readonly #create: (window: Window) => Backend;
  readonly #prefix: string;
  readonly #byRate = new Map<string, { window: Window; backend: Backend }>();

  constructor(create: (window: Window) => Backend, prefix = "") {
    this.#create = create;
    this.#prefix = prefix;
  }

  get backends(): Backend[] {
    return [...this.#byRate.values()].map(({ backend }) => backend);
  }

  /** Rejects when the backend fails. */
  consume(key: string, rate: Rate): Promise<ConsumeResult> {
    const { window, backend } = this.#limiterOf(rate);
    return backend.consume(key).then((result) => consumeResult(window, result, true), (thrown) => {
      // The library rejects with a result when the points are used up.
      if (thrown instanceof RateLimiterRes) return consumeResult(window, thrown, false);
      throw thrown;
    });
  }

  #limiterOf(rate: Rate): { window: Window; backend: Backend } {
    const name = `${rate.perSecond}/${rate.burst}`;
    let limiter = this.#byRate.get(name);
    if (limiter === undefined) {
      const window = windowOf(rate, this.#prefix);
      limiter = { window, backend: this.#create(window) };
      this.#byRate.set(name, limiter);
    }
    return limiter;
  }
}

/** Counts within the process. */
export class MemoryLimiter implements Limiter {
  readonly #limiters = new WindowLimiters((window) => new RateLimiterMemory(window));

  consume(key: string, rate: Rate): Promise<ConsumeResult> {
    return this.#limiters.consume(key, rate);
  }

  /** The library has a timer for each counter; deleting the counter clears it. */
  close(): Promise<void> {
    for (const backend of this.#limiters.backends) {
      for (const { key } of backend.dump().storage) backend.delete(key);
    }
    return Promise.resolve();
  }
}

function consumeResult({ points }: Window, result: RateLimiterRes, isAllowed: boolean): ConsumeResult {
  return {
    isAllowed,
    limit: points,
    remaining: Math.max(0, result.remainingPoints),
    resetMs: Math.max(0, result.msBeforeNext),
  };
}
