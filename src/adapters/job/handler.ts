// One attempt at a job: its payload is checked, its handler runs, and what failed is named.
import { Fault, isFault } from "@/core/fault.ts";
import type { DeadLetterReason, JobKind } from "@/core/job.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { ClaimedJob } from "./queries.ts";

export const INVALID_PAYLOAD = "payload does not fit the job's schema";

const log = logOf("job");

/** Notifies the job's creator that it will not run again. Throws `unavailable`; any other failure is only logged. */
export async function notifyDeadLetter(kind: JobKind, job: ClaimedJob, reason: DeadLetterReason): Promise<void> {
  const parsed = kind.payload.safeParse(JSON.parse(job.payload));
  try {
    if (parsed.success) await kind.onDeadLetter?.({ tenantId: job.tenant_id, payload: parsed.data, reason });
  } catch (cause) {
    if (isFault(cause, "unavailable")) throw cause;
    log.warn("reporting a permanently failed job failed", { kind: job.kind, job: job.id, ...failureOf(cause) });
  }
}

/** Runs the handler; resolves to the code or type of a failure, never to a text that may quote the payload. */
export async function runHandler(kind: JobKind, job: ClaimedJob): Promise<string | undefined> {
  const parsed = kind.payload.safeParse(JSON.parse(job.payload));
  if (!parsed.success) return INVALID_PAYLOAD;
  try {
    // A death is no failed attempt. A job that is tried again after all of them has more deaths than attempts.
    const attempt = Math.max(1, job.attempts - job.deaths);
    await kind.run({ tenantId: job.tenant_id, payload: parsed.data, attempt });
    return undefined;
  } catch (cause) {
    if (cause instanceof Fault) return cause.code;
    return cause instanceof Error ? cause.name : "unknown";
  }
}
