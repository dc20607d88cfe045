// How long a webhook waits for its endpoint.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "@/core/time/clock.ts";

const WAITS_MS = [5000, 30_000, 2 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS];
const JITTER = 0.2;
/** A webhook whose endpoint fails for so long is disabled. */
export const FAILING_MAX_MS = 5 * DAY_MS;
/** Tries of an event that the endpoint refuses, and the waits in between. */
export const EVENT_TRIES = 3;
export const EVENT_WAITS_MS = [250, 1000] as const;

/** The wait after so many failures in a row; with jitter, so that endpoints of one host are not called together. */
export function waitAfter(failures: number, retryAfterMs: number | undefined): number {
  const longest = WAITS_MS.at(-1) ?? 0;
  const wait = (WAITS_MS[failures - 1] ?? longest) * (1 - JITTER + 2 * JITTER * Math.random());
  return Math.round(Math.min(longest, Math.max(wait, retryAfterMs ?? 0)));
}

/** `Retry-After` in ms: seconds or a date. */
export function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  const seconds = Number(header);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - now;
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}
