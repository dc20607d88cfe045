// Rate limits that all nodes share; each node counts alone while Redis is unavailable.
import { RateLimiterRedis } from "rate-limiter-flexible";
import type { Rate } from "@/core/operation.ts";
import type { ConsumeResult, Limiter } from "@/ports/limiter.ts";
import { RedisConnection } from "../redis.ts";
import { MemoryLimiter, WindowLimiters } from "./memory.ts";

/** Counting alone is better than waiting longer for Redis. */
const COMMAND_TIMEOUT_MS = 100;
/** After a failure Redis is not asked for this long, so that a hanging Redis does not delay every call. */
const FALLBACK_MS = 1000;

export type RedisLimiterOptions = { prefix?: string; commandTimeoutMs?: number };

/** Counts in Redis. Remembers keys that are used up, so that refusing them again costs no round trip. */
export class RedisLimiter implements Limiter {
  readonly #redis: RedisConnection;
  readonly #limiters: WindowLimiters<RateLimiterRedis>;
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
    this.#limiters = new WindowLimiters(
      (window) =>
        new RateLimiterRedis({
          ...window,
          storeClient: this.#redis.client,
          inMemoryBlockOnConsumed: window.points,
        }),
      `${options.prefix ?? "svc:"}rate:`,
    );
  }

  async consume(key: string, rate: Rate): Promise<ConsumeResult> {
    if (!this.#redis.isReady || performance.now() < this.#fallbackUntil) return await this.#fallback.consume(key, rate);
    try {
      return await this.#limiters.consume(key, rate);
    } catch {
      // The connection logs its failures.
      this.#fallbackUntil = performance.now() + FALLBACK_MS;
      return await this.#fallback.consume(key, rate);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#redis.close(), this.#fallback.close()]);
  }
}
