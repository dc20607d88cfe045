// Waiting: for what is to happen, and for nothing at all.
import { replace } from "./replace.ts";

/** How long to wait for what must happen: longer than the busiest machine takes for anything. */
export const WAIT_MS = 60_000;

/** Also while a test stops the time of the gateway, see `stopTime`. */
const monotonicMs = performance.now.bind(performance);

/** Resolves once `isTrue` is; throws after `timeoutMs`, naming `what` was waited for, else the condition itself. */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  what = `${isTrue}`,
  timeoutMs = WAIT_MS,
): Promise<void> {
  const end = monotonicMs() + timeoutMs;
  for (let tries = 0; !await isTrue(); tries++) {
    if (monotonicMs() > end) throw new Error(`did not happen in ${timeoutMs} ms: ${what}`);
    // Most of it is a few turns away; what is not is asked for seldom enough to come.
    await pause(tries < 20 ? 0 : 5);
  }
}

/** Asks again until `check` throws no more; throws what it threw last after `timeoutMs`. */
export async function eventually<Result>(check: () => Result | Promise<Result>, timeoutMs = WAIT_MS): Promise<Result> {
  const end = monotonicMs() + timeoutMs;
  for (let tries = 0;; tries++) {
    try {
      return await check();
    } catch (error) {
      if (monotonicMs() > end) throw error;
    }
    // What is asked is often a gateway process, which has to get on with it meanwhile.
    await pause(Math.min(tries, 25));
  }
}

/** What all resolve to. If some fail, throws the first one's error when all have ended, so that none continues in later tests. */
export async function allEnded<Work extends readonly unknown[] | []>(
  work: Work,
): Promise<{ -readonly [At in keyof Work]: Awaited<Work[At]> }> {
  await Promise.allSettled(work);
  return await Promise.all(work);
}

/** Does `step` again and again for so long: what must not happen has its time. */
export async function repeatFor(ms: number, step: () => unknown): Promise<void> {
  for (const end = monotonicMs() + ms; monotonicMs() < end; await pause(5)) await step();
}

/** Keeps the thread busy for so long. */
export function blockThread(ms: number): void {
  for (const end = monotonicMs() + ms; monotonicMs() < end;);
}

/** Until it is disposed of, no time passes by `performance.now`: nothing is late, however slow the machine is. */
export function stopTime(): Disposable {
  const stoppedAt = performance.now();
  return replace(performance, "now", () => stoppedAt);
}

/**
 * Until it is disposed of, to look at `performance.now` takes so long: what asks whether its slice is over has to pause. No other time
 * passes, so that it ends within its bounds however slow the machine is.
 */
export function slowTime(stepMs: number): Disposable {
  let now = performance.now();
  return replace(performance, "now", () => now += stepMs);
}

/** Counts the ticks of the thread, in which it serves others, until it is disposed of. */
export function countTicks(): Disposable & { readonly count: number } {
  let count = 0;
  const tick = (): void => {
    count++;
    next = setImmediate(tick);
  };
  let next = setImmediate(tick);
  return {
    get count() {
      return count;
    },
    [Symbol.dispose]: () => clearImmediate(next),
  };
}

/** Time for something that must not happen to happen, or between the steps of a race. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
