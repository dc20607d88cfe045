// The job module: lets administrators see background work of their tenant, and decide about what failed permanently.
import { exampleId } from "@/core/id.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { z } from "@zod/zod";
import { pageSchema } from "@/core/page.ts";
import type { Platform } from "@/ports/platform.ts";
import { Job, JobList, JobRef } from "./schema.ts";
import { JobService } from "./service.ts";

const PATH = "/v1/collaboration/jobs";
const EXAMPLE = { id: exampleId("job") };

export function jobModule({ store, clock, cursors }: Platform): Module {
  const jobs = new JobService({ store, clock, cursors });
  return {
    name: "job",
    tags: { jobs: "Background work of the tenant, for administrators: what waits, what runs, and what has failed." },
    operations: [
      defineOperation({
        name: "job.list",
        summary: "List background jobs of the tenant, without their payloads",
        description:
          "A job that has run is deleted; one that failed too often is `dead` until it is retried or discarded. Unless its " +
          "creator was notified, it is also tried again by itself, once each time: after 15 minutes at first, after a day in " +
          "the end.",
        access: { scope: "tenant.manage", tenant: "admin" },
        http: { method: "GET", path: PATH, status: 200 },
        input: JobList,
        output: pageSchema(Job),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => jobs.list(actor, input),
      }),
      defineOperation({
        name: "job.retry",
        summary: "Schedule a dead job again",
        access: { scope: "tenant.manage", tenant: "admin" },
        http: { method: "POST", path: `${PATH}/:id/retry`, status: 200 },
        input: JobRef,
        output: Job,
        faults: ["not_found", "conflict"],
        example: EXAMPLE,
        run: ({ actor }, { id }) => jobs.retry(actor, id),
      }),
      defineOperation({
        name: "job.discard",
        summary: "Delete a dead job",
        access: { scope: "tenant.manage", tenant: "admin" },
        http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
        input: JobRef,
        output: z.void(),
        faults: ["not_found", "conflict"],
        example: EXAMPLE,
        run: ({ actor }, { id }) => jobs.discard(actor, id),
      }),
    ],
  };
}
