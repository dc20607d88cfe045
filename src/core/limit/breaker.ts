// Circuit breakers: what fails again and again is left alone for a while.
import type { Clock } from "../time/clock.ts";
import { LruMap } from "../lru_map.ts";

const FAILURES_MAX = 5;
const WINDOW_MS = 30_000;
const OPEN_MS = 30_000;
const KEYS_MAX = 10_000;

type State = { failedAt: number[]; openUntil: number };

/** Breakers of this node, by a key of what is called. */
export class Breakers {
  readonly #clock: Clock;
  readonly #states = new LruMap<string, State>(KEYS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Keys of those that are open. */
  get open(): string[] {
    return [...this.#states].flatMap(([key, { openUntil }]) => openUntil > 0 ? [key] : []);
  }

  isOpen(key: string): boolean {
    return (this.#states.get(key)?.openUntil ?? 0) > 0;
  }

  /** How long it is left alone; 0 if it may be called. When that is over, one call tries it. */
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

  fail(key: string): void {
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

/**
 * Breakers of what many owners share. Requests of one may fail because of what they ask for, which stops that one; all are stopped only
 * by failures of several in turn.
 */
export class SharedBreakers {
  readonly #breakers: Breakers;
  /** Who failed last, by key. */
  readonly #lastOwners = new LruMap<string, string>(KEYS_MAX);

  constructor(clock: Clock) {
    this.#breakers = new Breakers(clock);
  }

  /** How long the owner has to leave it alone; 0 if it may be called. */
  enter(key: string, owner: string): number {
    return this.#breakers.enter(ownKey(key, owner)) || this.#breakers.enter(key);
  }

  succeed(key: string, owner: string): void {
    this.#breakers.succeed(ownKey(key, owner));
    this.#breakers.succeed(key);
    this.#lastOwners.delete(key);
  }

  fail(key: string, owner: string): void {
    this.#breakers.fail(ownKey(key, owner));
    // The one call that tries it again always counts.
    if (this.#lastOwners.get(key) === owner && !this.#breakers.isOpen(key)) return;
    this.#lastOwners.set(key, owner);
    this.#breakers.fail(key);
  }
}

function ownKey(key: string, owner: string): string {
  return `${key}\n${owner}`;
}
