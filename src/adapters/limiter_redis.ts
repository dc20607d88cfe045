// Rate limits that all nodes count together; each node counts alone while Redis is away.
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { Rate } from "@/core/operation.ts";
import type { Limiter, Take } from "@/ports/limiter.ts";
import { MemoryLimiter, takeOf, type Window, windowOf } from "./limiter_memory.ts";
import { RedisConnection } from "./redis.ts";

/** A Redis that answers later than this is worse than counting alone. */
const COMMAND_TIMEOUT_MS = 100;
/** After a failure nobody waits for Redis this long, so that one that hangs is not paid for by every call. */
const ALONE_MS = 1000;

type Rule = { window: Window; limiter: RateLimiterRedis };

/** Counts in Redis. Used-up keys are remembered here, so refusing them again costs no round trip. */
export class RedisLimiter implements Limiter {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #rules = new Map<string, Rule>();
  readonly #alone = new MemoryLimiter();
  #aloneUntil = 0;

  /** Settles when the first attempt to connect has succeeded or failed. */
  get connected(): Promise<void> {
    return this.#redis.tried;
  }

  constructor(url: string, options: { prefix?: string } = {}) {
    this.#prefix = `${options.prefix ?? "svc:"}rate:`;
    this.#redis = new RedisConnection(url, {
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      onReady: () => this.#aloneUntil = 0,
    });
  }

  async take(key: string, rate: Rate): Promise<Take> {
    if (!this.#redis.isReady || performance.now() < this.#aloneUntil) return await this.#alone.take(key, rate);
    const { window, limiter } = this.#ruleOf(rate);
    try {
      return takeOf(window, await limiter.consume(key), true);
    } catch (thrown) {
      if (thrown instanceof RateLimiterRes) return takeOf(window, thrown, false);
      this.#aloneUntil = performance.now() + ALONE_MS;
      return await this.#alone.take(key, rate);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#redis.close(), this.#alone.close()]);
  }

  #ruleOf(rate: Rate): Rule {
    const name = `${rate.perSecond}/${rate.burst}`;
    let rule = this.#rules.get(name);
    if (rule === undefined) {
      const window = windowOf(rate, this.#prefix);
      const limiter = new RateLimiterRedis({
        ...window,
        storeClient: this.#redis.client,
        inMemoryBlockOnConsumed: window.points,
      });
      rule = { window, limiter };
      this.#rules.set(name, rule);
    }
    return rule;
  }
}
