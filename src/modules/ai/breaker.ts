// A breaker for each provider: one that fails again and again is left alone for a while.
import type { Clock } from "@/core/clock.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { ModelErrorCode } from "@/ports/model.ts";

const FAILURES_MAX = 5;
const WINDOW_MS = 30_000;
const OPEN_MS = 30_000;
const PROVIDERS_MAX = 10_000;

/** Failures that say something about the provider; others are about the request or the key. */
const COUNTED: ReadonlySet<ModelErrorCode> = new Set([
  "rate_limited",
  "overloaded",
  "unreachable",
  "timed_out",
  "stream_broken",
]);

type State = { failedAt: number[]; openUntil: number };

/** Breakers of this node, by the key of a provider. */
export class Breakers {
  readonly #clock: Clock;
  readonly #states = new LruMap<string, State>(PROVIDERS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How long the provider is left alone; 0 if it may be called. When that is over, one call tries it. */
  enter(key: string): number {
    const state = this.#states.get(key);
    if (state === undefined || state.openUntil === 0) return 0;
    const now = this.#clock.now();
    if (now < state.openUntil) return state.openUntil - now;
    // Others wait for the result of this call.
    state.openUntil = now + OPEN_MS;
    return 0;
  }

  succeed(key: string): void {
    this.#states.delete(key);
  }

  fail(key: string, code: ModelErrorCode): void {
    if (!COUNTED.has(code)) return;
    const now = this.#clock.now();
    const { failedAt, openUntil } = this.#states.get(key) ?? { failedAt: [], openUntil: 0 };
    const recent = [...failedAt.filter((at) => at > now - WINDOW_MS), now].slice(-FAILURES_MAX);
    this.#states.set(key, {
      failedAt: recent,
      // Also when the one call that tried it failed.
      openUntil: openUntil > 0 || recent.length === FAILURES_MAX ? now + OPEN_MS : 0,
    });
  }
}
