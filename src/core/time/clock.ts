// Time as a dependency, so that tests can stop or set the clock; and timeouts and pauses.

import { onNextTick } from "@/runtime/input_tick.ts";

export type Clock = {
  /** Milliseconds since the Unix epoch. */
  now(): number;
};

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const HOUR_SECONDS = 3600;
export const DAY_SECONDS = 24 * HOUR_SECONDS;

/** The host's clock. */
export const systemClock: Clock = { now: () => Date.now() };

/** The clocks of a host. */
export type TimeSource = {
  /** Wall clock: may be wrong, and may be set forward and back at any time. */
  readonly clock: Clock;
  /** Milliseconds since an arbitrary moment; never set. */
  monotonicMs(): number;
};

/** The clocks of this host. */
export const systemTime: TimeSource = { clock: systemClock, monotonicMs: () => performance.now() };

/** Resolves in the next tick of the event loop. */
export function nextTick(): Promise<void> {
  return new Promise(onNextTick);
}

let sharedTick: Promise<void> | undefined;

/**
 * The next tick, shared by all callers of this tick: they continue together, the same step of each after the other. So the code
 * and data of a step stay in the processor's caches; for short work, loading them costs more than the work itself.
 */
export function nextSharedTick(): Promise<void> {
  return sharedTick ??= nextTick().then(() => {
    sharedTick = undefined;
  });
}

/** What `work` resolves to; `undefined` after the timeout. */
export async function withTimeout<Result>(work: Promise<Result>, ms: number): Promise<Result | undefined> {
  const timeout = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => timeout.resolve(undefined), ms);
  try {
    return await Promise.race([work, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after `ms`, or as soon as the signal aborts. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}

/** The last time that is stored; where a time is absent, it sorts such rows behind all others. */
export const MAX_DATE = "9999-12-31T23:59:59.999Z";
const [FIRST, LAST] = [Date.parse("0000-01-01T00:00:00.000Z"), Date.parse(MAX_DATE)];

/**
 * RFC 3339 UTC with milliseconds, the only form in which time leaves the gateway. Times beyond four-digit years are clamped: a
 * longer year would sort before all others.
 */
export function iso(ms: number): string {
  return new Date(Math.min(Math.max(ms, FIRST), LAST)).toISOString();
}
