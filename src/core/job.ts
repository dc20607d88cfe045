// Jobs: work promised in the same transaction as the change that asks for it, and done later, at least once.
import type { z } from "@zod/zod";

/** A job about to be written. */
export type JobDraft = {
  tenantId: string;
  kind: string;
  payload: unknown;
  /** Not before this time, ms since the epoch; absent = now. */
  runAt?: number;
  /** At most one waiting job of a kind has this key; a second draft moves its `runAt` and payload. */
  key?: string;
};

/** What a module does for one kind of job. Runs at least once: `run` must be safe to repeat. */
export type JobKind<Payload extends z.ZodType = z.ZodType> = {
  kind: string;
  payload: Payload;
  /** Attempts before the job is dead-lettered; default 10. */
  maxAttempts?: number;
  /** May take minutes: such jobs get half of a runner's places at most, so that others need not wait for them. */
  isLong?: true;
  run(job: { tenantId: string; payload: z.output<Payload>; attempt: number }): Promise<void>;
};

/** Declares a kind of job; keeps the payload's type. */
export function defineJob<Payload extends z.ZodType>(kind: JobKind<Payload>): JobKind {
  return kind as unknown as JobKind;
}
