// Jobs: work that is enqueued in the transaction of a change and runs later, at least once.
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
  /** A key of `chargedTo`; absent: the key that the code which enqueues it is charged to. */
  chargedTo?: string;
};

export type JobState = "waiting" | "running" | "dead";

/** A job as it is stored: the runner runs it, the module `job` shows it to admins. */
export type JobRow = {
  id: string;
  tenant_id: string;
  kind: string;
  payload: string;
  key: string | null;
  state: JobState;
  run_at: string;
  attempts: number;
  /** How often its process ended while the job ran, or lost the lease and has not come back since. */
  deaths: number;
  /** How often it was tried again after it was dead. */
  revivals: number;
  lease_until: string | null;
  lease_owner: string | null;
  last_error: string | null;
  /** Key of `chargedTo`; null for the gateway's own work. */
  charged_to: string | null;
  created_at: string;
};

/** Why a job is dead-lettered: its process ended several times while it ran, or its attempts ran out. */
export type DeadLetterReason = "interrupted" | "failed";

/** What a module does for one kind of job. Runs at least once: `run` must be safe to repeat. */
export type JobKind<Payload extends z.ZodType = z.ZodType> = {
  kind: string;
  payload: Payload;
  /** Attempts before the job is dead-lettered; default 10. */
  maxAttempts?: number;
  /**
   * May take minutes: such jobs use at most half of a runner's slots, so that others need not wait for them, and one more for a tenant
   * that has none running.
   */
  isLongRunning?: true;
  /** `attempt` counts those that failed and this one, without those whose process ended. */
  run(job: { tenantId: string; payload: z.output<Payload>; attempt: number }): Promise<void>;
  /**
   * Called when the job is dead-lettered, to notify its creator; again while it throws `unavailable`, so it must be safe to repeat.
   * A kind without this has nobody to notify, and its dead job may end a chain, such as reminders: the runner tries it again.
   */
  onDeadLetter?(job: { tenantId: string; payload: z.output<Payload>; reason: DeadLetterReason }): Promise<void>;
};

/** Declares a kind of job, with the payload's type inferred. */
export function defineJob<Payload extends z.ZodType>(kind: JobKind<Payload>): JobKind {
  return kind as unknown as JobKind;
}
