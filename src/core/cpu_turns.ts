// Which calls have the next tick of the event loop. A message takes several ticks, and a tick ends when all that began in it has
// paused. So once calls have used some time of a tick, others wait for the next ones, in which those go first whose callers have
// used least of their share: however many others call at once, one that uses little waits for one call of theirs in each tick.
import process from "node:process";
import { setImmediate } from "node:timers";

/** Time of a tick after which no further call begins in it. */
const TICK_MS = 4;

/** Callers among whom the next one is looked for: those that were there first. */
const CONSIDERED_MAX = 500;

/** Its turn is the sooner, the more is left of its share. That grows while it waits, so no caller waits for ever. */
type Caller = { readonly balanceMs: number };

export class CpuTurns {
  /** Used in this tick. */
  #usedMs = 0;
  /** What begins calls, by caller; who was served is then the last. */
  readonly #waiting = new Map<Caller, (() => void)[]>();
  #isScheduled = false;

  /** Counts time that a call used. */
  add(ms: number): void {
    this.#usedMs += ms;
    this.#schedule();
  }

  /** Resolves when the caller may go on; `undefined` if it may at once. */
  take(caller: Caller): Promise<void> | undefined {
    if (this.#waiting.size === 0 && this.#usedMs < TICK_MS) return undefined;
    return new Promise((begin) => {
      const calls = this.#waiting.get(caller);
      if (calls === undefined) this.#waiting.set(caller, [begin]);
      else calls.push(begin);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#beginTick);
  }

  readonly #beginTick = (): void => {
    this.#isScheduled = false;
    this.#usedMs = 0;
    this.#beginNext();
  };

  readonly #beginNext = (): void => {
    if (this.#waiting.size === 0) return;
    if (this.#usedMs >= TICK_MS) return this.#schedule();
    this.#takeNext()?.();
    // Once no promise has anything left to do, what this call took until it paused is known.
    queueMicrotask(() => process.nextTick(this.#beginNext));
  };

  /** Removes the next call. */
  #takeNext(): (() => void) | undefined {
    let next: Caller | undefined;
    let most = -Infinity;
    for (const caller of this.#waiting.keys().take(CONSIDERED_MAX)) {
      const { balanceMs } = caller;
      if (balanceMs > most) [next, most] = [caller, balanceMs];
    }
    if (next === undefined) return undefined;
    const calls = this.#waiting.get(next) ?? [];
    const call = calls.shift();
    this.#waiting.delete(next);
    if (calls.length > 0) this.#waiting.set(next, calls);
    return call;
  }
}
