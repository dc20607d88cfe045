// Jobs in the API. Payloads are not shown: they may contain what the caller must not read.
import { z } from "@zod/zod";
import { pageInput } from "@/core/page.ts";

const JobState = z.enum(["waiting", "running", "dead"]).meta({ id: "JobState" });

export const Job = z.object({
  id: z.string(),
  kind: z.string().describe("What the job does"),
  state: JobState.describe("waiting: it runs at `runAt`; running; dead: it failed too often"),
  runAt: z.iso.datetime().describe(
    "When it runs, or last ran. A dead job is tried again then, if that is still to come",
  ),
  attemptCount: z.int().describe("How often it was started"),
  lastError: z.string().nullable().describe("Why the last attempt failed; null if none did"),
  chargedPrincipalId: z.string().nullable().describe(
    "Principal whose limits its work counts against; null: the gateway's own",
  ),
  createdAt: z.iso.datetime(),
}).meta({ id: "Job" });
export type Job = z.output<typeof Job>;

export const JobList = z.strictObject({
  ...pageInput,
  state: JobState.optional().describe("Only jobs in this state"),
  kind: z.string().min(1).max(100).optional().describe("Only jobs of this kind"),
});
export type JobList = z.output<typeof JobList>;

export const JobRef = z.strictObject({ id: z.string().min(1).max(64) });
