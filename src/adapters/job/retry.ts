// When jobs that failed, or whose process ended, are tried again.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "@/core/time/clock.ts";
import type { JobKind } from "@/core/job.ts";

/** About as long is the pause after the first failure. */
export const BACKOFF_FIRST_MS = 1000;
/** The longest pause between two attempts. */
export const BACKOFF_MAX_MS = 15 * MINUTE_MS;
/** The longest pause before a dead job is tried again. */
export const REVIVAL_MAX_MS = DAY_MS;

/**
 * How long a job waits after the first, second, … time that its process ended while it ran. It may be the cause, so there are few
 * more attempts; or it merely ran, as during a deploy of all nodes or an hour of crashes, which must not use up all of them.
 */
export const DEATH_WAITS_MS = [0, MINUTE_MS, 15 * MINUTE_MS, HOUR_MS] as const;
/** After so many it is dead. */
export const DEATHS_MAX = DEATH_WAITS_MS.length + 1;

/** Whether dead jobs of a kind are tried again: nobody was notified of their end. */
export function isRevived({ onDeadLetter }: JobKind): boolean {
  return onDeadLetter === undefined;
}

/** Exponential, with jitter, so that jobs that failed together are not retried together. */
export function backoffMs(attempts: number, firstMs = BACKOFF_FIRST_MS, maxMs = BACKOFF_MAX_MS): number {
  return Math.min(firstMs * 2 ** (attempts - 1), maxMs) * (1 - Math.random() / 2);
}

/** How long a dead job waits until it is tried again, if its kind is. */
export function revivalMs(kind: JobKind, { revivals }: { revivals: number }): number {
  return isRevived(kind) ? backoffMs(revivals + 1, BACKOFF_MAX_MS, REVIVAL_MAX_MS) : 0;
}
