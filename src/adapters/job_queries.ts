// What the job runner asks of the job table. A job is waiting, running under a lease, or dead.
import { type Kysely, sql } from "kysely";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import type { CoreTables, JobRow, JobState } from "./core_tables.ts";

export type ClaimedJob = Pick<JobRow, "id" | "tenant_id" | "kind" | "payload" | "attempts">;

/** What a runner looks for. */
export type Wanted = {
  kinds: readonly string[];
  now: string;
  /** Jobs that it runs itself: a clock set forward ends their leases before they can be renewed. */
  runningIds: readonly string[];
};

/** Jobs that may start: due ones, and those whose lease nobody renewed. */
// The return type is inferred: it is a query under construction.
function dueJobs(db: Kysely<CoreTables>, { kinds, now, runningIds }: Wanted) {
  const candidates = db.selectFrom("job").select("id").where("kind", "in", kinds)
    .$if(runningIds.length > 0, (query) => query.where("id", "not in", runningIds));
  return candidates.where((job) =>
    job.or([
      job.and([job("state", "=", sql.lit("waiting")), job("run_at", "<=", now)]),
      job.and([job("state", "=", sql.lit("running")), job("lease_until", "<", now)]),
    ])
  ).orderBy("run_at").orderBy("id");
}

/** Whether there is anything to claim; asked first, because asking costs no commit. */
export async function isJobDue(db: Kysely<CoreTables>, wanted: Wanted): Promise<boolean> {
  return await dueJobs(db, wanted).limit(1).executeTakeFirst() !== undefined;
}

/** Takes up to `limit` jobs under a lease. */
export function claimJobs(
  db: Kysely<CoreTables>,
  dialect: Dialect,
  wanted: Wanted,
  { until, owner, limit }: { until: string; owner: string; limit: number },
): Promise<ClaimedJob[]> {
  const due = dueJobs(db, wanted).limit(limit)
    .$if(dialect === "postgres", (query) => query.forUpdate().skipLocked());
  // Materialized, so that the limit holds: joined in, PostgreSQL may run it again and lock more rows.
  return db.with((cte) => cte("due").materialized(), () => due).updateTable("job")
    .set((job) => ({ state: "running", lease_until: until, lease_owner: owner, attempts: job("attempts", "+", 1) }))
    .where("id", "in", (job) => job.selectFrom("due").select("due.id"))
    .returning(["id", "tenant_id", "kind", "payload", "attempts"])
    .execute();
}

/**
 * Brings forward what would be late because the clock was set back: jobs for at once that were made at a time still to come,
 * retries that are further away than any is, leases that are longer than any is. What has a time of its own keeps it.
 */
export async function bringForward(
  db: Kysely<CoreTables>,
  { now, retryBy, leaseBy }: { now: string; retryBy: string; leaseBy: string },
): Promise<void> {
  await db.updateTable("job").set({ run_at: now }).where("state", "=", "waiting").where("run_at", ">", now)
    .where((job) =>
      job.or([
        job.and([job("created_at", ">", now), job("run_at", "<=", job.ref("created_at"))]),
        job.and([job("attempts", ">", 0), job("run_at", ">", retryBy)]),
      ])
    ).execute();
  await db.updateTable("job").set({ lease_until: leaseBy })
    .where("state", "=", "running").where("lease_until", ">", leaseBy).execute();
}

export const renewLease = prepared((
  db: Kysely<CoreTables>,
  param: Param<{ id: string; owner: string; until: string }>,
) =>
  db.updateTable("job").set({ lease_until: param("until") })
    .where("id", "=", param("id")).where("lease_owner", "=", param("owner"))
);

export const finishJob = prepared((db: Kysely<CoreTables>, param: Param<{ id: string; owner: string }>) =>
  db.deleteFrom("job").where("id", "=", param("id")).where("lease_owner", "=", param("owner"))
);

export type JobCounts = Record<JobState | "scheduled", number>;

type Release = { id: string; owner: string; state: JobState; runAt: string; lastError: string };

/** Gives a job back, to wait for its next attempt or to lie dead. */
export const releaseJob = prepared((db: Kysely<CoreTables>, param: Param<Release>) =>
  db.updateTable("job")
    .set({
      state: param("state"),
      run_at: param("runAt"),
      last_error: param("lastError"),
      lease_until: null,
      lease_owner: null,
    })
    .where("id", "=", param("id")).where("lease_owner", "=", param("owner"))
);

/** Jobs by state; those whose time has not come are `scheduled`, as nobody waits for them. */
export async function countJobs(db: Kysely<CoreTables>, at: string): Promise<JobCounts> {
  const counts: JobCounts = { waiting: 0, scheduled: 0, running: 0, dead: 0 };
  const label = sql<keyof JobCounts>`case when state = 'waiting' and run_at > ${at} then 'scheduled' else state end`;
  const rows = await db.selectFrom("job").select((job) => [label.as("label"), job.fn.countAll<number>().as("count")])
    .groupBy(sql.ref("label")).execute();
  for (const { label, count } of rows) counts[label] = Number(count);
  return counts;
}
