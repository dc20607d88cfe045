// Token buckets within one process: they limit what must not wait for a shared limiter, such as frames, commands and bytes written.
import type { Rate } from "../operation.ts";

/** Starts with `burst` tokens, its maximum, and gains `perSecond` of them each second. Times are in ms. */
export class TokenBucket {
  readonly #rate: Rate;
  #tokens: number;
  #filledAt: number;

  constructor(rate: Rate, now: number) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#filledAt = now;
  }

  /** Takes so many tokens; none, and false, where there are fewer. */
  consume(now: number, count = 1): boolean {
    return this.reserve(now, count, 0) !== undefined;
  }

  /** Takes so many tokens ahead of time: ms until they are there. None, and `undefined`, where that is more than `maxWaitMs`. */
  reserve(now: number, count: number, maxWaitMs: number): number | undefined {
    this.#fill(now);
    const left = this.#tokens - count;
    const waitMs = Math.max(0, -left * 1000 / this.#rate.perSecond);
    if (waitMs > maxWaitMs) return undefined;
    this.#tokens = left;
    return waitMs;
  }

  /** Time in ms until there is a whole token; 0 while there is any part of one. */
  waitMs(now: number): number {
    this.#fill(now);
    return this.#tokens > 0 ? 0 : Math.ceil((1 - this.#tokens) * 1000 / this.#rate.perSecond);
  }

  #fill(now: number): void {
    const { perSecond, burst } = this.#rate;
    this.#tokens = Math.min(burst, this.#tokens + Math.max(0, now - this.#filledAt) * perSecond / 1000);
    this.#filledAt = now;
  }
}
