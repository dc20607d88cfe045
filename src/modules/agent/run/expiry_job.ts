// The job that ends a run in which nothing happens. Each wait moves its time.
import { DAY_MS, MINUTE_MS } from "@/core/time/clock.ts";
import type { JobDraft } from "@/core/job.ts";
import type { RunRow } from "../tables.ts";

export const EXPIRE_JOB = "agent.expire";
const WAIT_MS = DAY_MS;
export const SILENT_MS = 2 * MINUTE_MS;

/** The job that ends the run, unless something happens in it before. */
export function expiryJob(run: Pick<RunRow, "tenant_id" | "id" | "is_external">, from: number): JobDraft {
  const runAt = from + (run.is_external === 1 ? SILENT_MS : WAIT_MS);
  return { tenantId: run.tenant_id, kind: EXPIRE_JOB, key: run.id, payload: { runId: run.id }, runAt };
}
