// Rate limits that all nodes share; each node counts alone while Redis is unavailable.
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { Rate } from "@/core/operation.ts";
import type { ConsumeResult, Limiter } from "@/ports/limiter.ts";
import { RedisConnection } from "../redis.ts";
import { ByRate, MemoryLimiter } from "./memory.ts";

/** Counting alone is better than waiting longer for Redis. */
const COMMAND_TIMEOUT_MS = 100;
/** After a failure Redis is not asked for this long, so that a hanging Redis does not delay every call. */
const FALLBACK_MS = 1000;

export type RedisLimiterOptions = { prefix?: string; commandTimeoutMs?: number };

/** Counts in Redis. Remembers keys that are used up, so that refusing them again costs no round trip. */
export class RedisLimiter implements Limiter {
  readonly #redis: RedisConnection;
  readonly #limiters: ByRate<RateLimiterRedis>;
  readonly #fallback = new MemoryLimiter();
  #fallbackUntil = 0;

  /** Settles when the first attempt to connect has succeeded or failed. */
  get connected(): Promise<void> {
    return this.#redis.firstAttempt;
  }

  constructor(url: string, options: RedisLimiterOptions = {}) {
    this.#redis = new RedisConnection(url, {
      commandTimeoutMs: options.commandTimeoutMs ?? COMMAND_TIMEOUT_MS,
      onReady: () => this.#fallbackUntil = 0,
    });
    const { prefix = "svc:" } = options;
    this.#limiters = new ByRate(({ points, duration }) =>
      new RateLimiterRedis({
        points,
        duration,
        keyPrefix: `${prefix}rate:${points}/${duration}`,
        storeClient: this.#redis.client,
        inMemoryBlockOnConsumed: points,
      })
    );
  }

  async consume(key: string, rate: Rate): Promise<ConsumeResult> {
    if (!this.#redis.isReady || performance.now() < this.#fallbackUntil) return await this.#fallback.consume(key, rate);
    try {
      return await this.#consumeShared(key, rate);
    } catch {
      // The connection logs its failures.
      this.#fallbackUntil = performance.now() + FALLBACK_MS;
      return await this.#fallback.consume(key, rate);
    }
  }

  close(): Promise<void> {
    return this.#redis.close();
  }

  /** Rejects when Redis fails. */
  async #consumeShared(key: string, rate: Rate): Promise<ConsumeResult> {
    const limiter = this.#limiters.get(rate);
    const result = await limiter.consume(key).then(
      (state) => ({ state, isAllowed: true }),
      (thrown) => {
        // The library rejects with a state when the points are used up.
        if (thrown instanceof RateLimiterRes) return { state: thrown, isAllowed: false };
        throw thrown;
      },
    );
    return {
      isAllowed: result.isAllowed,
      limit: limiter.points,
      remaining: Math.max(0, result.state.remainingPoints),
      resetMs: Math.max(0, result.state.msBeforeNext),
    };
  }
}
