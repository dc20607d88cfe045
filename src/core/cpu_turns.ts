// Which calls have the next tick of the event loop. A message takes several ticks, and a tick ends when all that began in it has
// paused. So once calls have used some time of a tick, others wait for the next ones, in which those go first whose callers have
// used least of their share: however many others call at once, one that uses little waits for one call of theirs in each tick.
import process from "node:process";
import { setImmediate } from "node:timers";

/** Time of a tick after which no further call begins in it. */
const TICK_MS = 4;

/** Its turn is the sooner, the more is left of its share. That grows while it waits, so no caller waits for ever. */
type Caller = { readonly balanceMs: number };

type Waiting = { caller: Caller; begin: () => void };

export class CpuTurns {
  /** Used in this tick. */
  #usedMs = 0;
  #waiting: Waiting[] = [];
  #isScheduled = false;

  /** Counts time that a call used. */
  add(ms: number): void {
    this.#usedMs += ms;
    this.#schedule();
  }

  /** Resolves when the caller may go on; `undefined` if it may at once. */
  take(caller: Caller): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#usedMs < TICK_MS) return undefined;
    return new Promise((begin) => {
      this.#waiting.push({ caller, begin });
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
    if (this.#waiting.length === 0) return;
    const order = new Map(this.#waiting.map((one) => [one, one.caller.balanceMs]));
    // Among equals, the one that waits longest: sorting is stable.
    this.#waiting.sort((one, other) => (order.get(other) ?? 0) - (order.get(one) ?? 0));
    this.#beginNext();
  };

  readonly #beginNext = (): void => {
    if (this.#waiting.length === 0) return;
    if (this.#usedMs >= TICK_MS) return this.#schedule();
    this.#waiting.shift()?.begin();
    // Once no promise has anything left to do, what this call took until it paused is known.
    queueMicrotask(() => process.nextTick(this.#beginNext));
  };
}
