// Queries of the job runner. A job is waiting, running under a lease, or dead; most dead ones are tried again.
import { type ExpressionBuilder, type Kysely, sql } from "kysely";
import type { JobRow, JobState } from "@/core/job.ts";
import { iso } from "@/core/time/clock.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { Dialect } from "@/ports/store.ts";
import type { CoreTables } from "../store/core_tables.ts";
import { DEATH_WAITS_MS, DEATHS_MAX } from "./retry.ts";

export type ClaimedJob = Pick<
  JobRow,
  "id" | "tenant_id" | "kind" | "payload" | "attempts" | "deaths" | "revivals" | "charged_to"
>;

/** What a runner looks for. */
type ClaimFilter = {
  kinds: readonly string[];
  /** Those among them whose dead jobs are tried again. */
  revivedKinds: readonly string[];
  nowMs: number;
  owner: string;
  /** Jobs that it runs itself: setting the clock forward expires their leases before they can be renewed. */
  runningIds: readonly string[];
  /** Those that were running without a runner, whose process they may have ended, and dead ones; or all others. */
  isSuspect: boolean;
  /** No job was due earlier, other than suspects. */
  earliest: string;
};

/** A job that may start, who is charged for it, and how often its process ended while it ran. */
export type DueJob = Pick<JobRow, "id" | "charged_to" | "deaths">;

/**
 * Jobs that may start: due ones, and as suspects those whose lease expired long enough ago, and dead ones. Also those that this
 * runner has claimed and does not run: that claim was committed, but the connection was lost before the runner knew.
 */
// The return type is inferred: it is a query under construction.
function dueJobs(db: Kysely<CoreTables>, filter: ClaimFilter) {
  const { kinds, revivedKinds, nowMs, owner, runningIds, isSuspect, earliest } = filter;
  const now = iso(nowMs);
  // Suspects are few, and those that are most likely the cause come last: dead ones, as states sort, and those with more deaths.
  const candidates = db.selectFrom("job").select("job.id").where("kind", "in", kinds)
    .$if(runningIds.length > 0, (query) => query.where("id", "not in", runningIds));
  return candidates.where((job) => {
    const isDue = job.and([job("state", "=", sql.lit("waiting")), job("run_at", "<=", now)]);
    if (!isSuspect) return job.and([isDue, job("run_at", ">=", earliest), job("deaths", "=", sql.lit(0))]);
    const isRevived = job.and([
      job("state", "=", sql.lit("dead")),
      job("run_at", "<=", now),
      job("kind", "in", revivedKinds),
      job.not(job.exists(newerJob(job))),
    ]);
    return job.or([
      job.and([isDue, job("deaths", ">", sql.lit(0))]),
      ...(revivedKinds.length === 0 ? [] : [isRevived]),
      job.and([
        job("state", "=", sql.lit("running")),
        job.or([
          job("lease_owner", "=", owner),
          job.and([job("lease_until", "<", now), job("deaths", ">=", DEATH_WAITS_MS.length)]),
          ...DEATH_WAITS_MS.map((ms, deaths) =>
            job.and([job("lease_until", "<", iso(nowMs - ms)), job("deaths", "=", deaths)])
          ),
        ]),
      ]),
    ]);
  }).$if(isSuspect, (query) => query.orderBy("state", "desc").orderBy("deaths")).orderBy("run_at").orderBy("id");
}

/** The job with its key that waits: a later draft, which is about the same work as it is now. */
function newerJob(job: ExpressionBuilder<CoreTables, "job">) {
  return job.selectFrom("job as newer").select(sql.lit(1).as("one"))
    .whereRef("newer.tenant_id", "=", "job.tenant_id").whereRef("newer.kind", "=", "job.kind")
    .whereRef("newer.key", "=", "job.key").where("newer.state", "=", sql.lit("waiting"));
}

/**
 * Jobs that may start, oldest first, but none that is charged to one of `except`, and, if tenants are named, only of other tenants
 * than those. Runs before `claimJobs`, since it needs no commit.
 */
export function listDueJobs(
  db: Kysely<CoreTables>,
  wanted: ClaimFilter,
  { except, exceptTenants, limit }: { except: readonly string[]; exceptTenants: readonly string[]; limit: number },
): Promise<DueJob[]> {
  return dueJobs(db, wanted).select(["charged_to", "deaths"])
    .$if(
      except.length > 0,
      (query) => query.where((job) => job.or([job("charged_to", "is", null), job("charged_to", "not in", except)])),
    )
    .$if(exceptTenants.length > 0, (query) => query.where("tenant_id", "not in", exceptTenants))
    .limit(limit).execute();
}

/**
 * Claims those of these jobs that may still start, under a lease. The runner of a running one has ended: that counts as a death,
 * unless it is this one, which never began it.
 */
export function claimJobs(
  db: Kysely<CoreTables>,
  dialect: Dialect,
  wanted: ClaimFilter,
  { until, ids }: { until: string; ids: readonly string[] },
): Promise<ClaimedJob[]> {
  const { owner } = wanted;
  const due = dueJobs(db, wanted).where("id", "in", ids)
    .$if(dialect === "postgres", (query) => query.forUpdate().skipLocked());
  // Materialized, so that rows are chosen once: joined in, PostgreSQL may run it again.
  return db.with((cte) => cte("due").materialized(), () => due).updateTable("job")
    .set({
      state: "running",
      lease_until: until,
      lease_owner: owner,
      attempts: sql<number>`case when state = 'dead' then 1
        else attempts + case when state = 'running' and lease_owner = ${owner} then 0 else 1 end end`,
      // A dead job stays suspect if its process had ended: one more end, and it is dead again.
      deaths: sql<number>`case when state = 'dead' and deaths >= ${DEATHS_MAX} then ${DEATHS_MAX - 1}
        else deaths + case when state = 'running' and lease_owner <> ${owner} then 1 else 0 end end`,
      revivals: sql<number>`revivals + case when state = 'dead' then 1 else 0 end`,
    })
    .where("id", "in", (job) => job.selectFrom("due").select("due.id"))
    .returning(["id", "tenant_id", "kind", "payload", "attempts", "deaths", "revivals", "charged_to"])
    .execute();
}

/**
 * Reschedules what would be late because the clock was set back: immediate jobs that were created at a time still to come,
 * retries, revivals and leases that are longer than the maximum. Scheduled times of jobs do not change.
 */
export async function rescheduleFuture(
  db: Kysely<CoreTables>,
  { now, retryBy, reviveBy, leaseBy }: { now: string; retryBy: string; reviveBy: string; leaseBy: string },
): Promise<void> {
  await db.updateTable("job").set({ run_at: now }).where("state", "=", "waiting").where("run_at", ">", now)
    .where((job) =>
      job.or([
        job.and([job("created_at", ">", now), job("run_at", "<=", job.ref("created_at"))]),
        job.and([job("attempts", ">", 0), job("run_at", ">", retryBy)]),
      ])
    ).execute();
  await db.updateTable("job").set({ run_at: reviveBy }).where("state", "=", "dead").where("run_at", ">", reviveBy)
    .execute();
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

/** The owners of current leases. */
export async function listLeaseOwners(db: Kysely<CoreTables>): Promise<string[]> {
  const rows = await db.selectFrom("job").select("lease_owner").distinct().where("state", "=", "running").execute();
  return rows.flatMap(({ lease_owner }) => lease_owner ?? []);
}

/** Expires the leases of these owners, so that any runner may claim their jobs; resolves to how many jobs had one. */
export async function expireLeases(db: Kysely<CoreTables>, owners: readonly string[], at: string): Promise<number> {
  const { numUpdatedRows } = await db.updateTable("job").set({ lease_until: at }).where("state", "=", "running")
    .where("lease_owner", "in", owners).where("lease_until", ">", at).executeTakeFirstOrThrow();
  return Number(numUpdatedRows);
}

/** Takes back the death that was counted when this attempt was taken over: its runner lives. */
export const withdrawDeath = prepared((db: Kysely<CoreTables>, param: Param<{ id: string; attempts: number }>) =>
  db.updateTable("job").set((job) => ({ deaths: job("deaths", "-", 1) }))
    .where("id", "=", param("id")).where("attempts", ">", param("attempts")).where("deaths", ">", sql.lit(0))
);

export const finishJob = prepared((db: Kysely<CoreTables>, param: Param<{ id: string; owner: string }>) =>
  db.deleteFrom("job").where("id", "=", param("id")).where("lease_owner", "=", param("owner"))
);

/** Releases an unfinished job of a runner that stops gracefully, as if it had never been claimed. */
export const unclaimJob = prepared((db: Kysely<CoreTables>, param: Param<{ id: string; owner: string; now: string }>) =>
  db.updateTable("job").set((job) => ({
    state: "waiting",
    run_at: param("now"),
    attempts: job("attempts", "-", 1),
    lease_until: null,
    lease_owner: null,
  })).where("id", "=", param("id")).where("lease_owner", "=", param("owner"))
);

export type JobCounts = Record<JobState | "scheduled", number>;

type Release = { id: string; owner: string; state: JobState; runAt: string; lastError: string };

/** Releases a job, to wait for its next attempt or as dead. */
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

/** Counts jobs by state; waiting jobs that are not due yet are `scheduled`. */
export async function countJobs(db: Kysely<CoreTables>, at: string): Promise<JobCounts> {
  const counts: JobCounts = { waiting: 0, scheduled: 0, running: 0, dead: 0 };
  const label = sql<keyof JobCounts>`case when state = 'waiting' and run_at > ${at} then 'scheduled' else state end`;
  const rows = await db.selectFrom("job").select((job) => [label.as("label"), job.fn.countAll<number>().as("count")])
    .groupBy(sql.ref("label")).execute();
  for (const { label, count } of rows) counts[label] = Number(count);
  return counts;
}
