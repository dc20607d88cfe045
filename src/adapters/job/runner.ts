// The job runner: claims due jobs under a lease, runs their handlers, and retries or dead-letters them.
import { chargeTo, runAsSystem } from "@/core/caller.ts";
import { type Clock, delay, iso, MINUTE_MS, withTimeout } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { newId } from "@/core/id.ts";
import type { JobKind, JobState } from "@/core/job.ts";
import { leaseOwner, type Leases } from "@/core/lease.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import { type Store, UniqueViolation } from "@/ports/store.ts";
import type { CoreTables } from "../store/core_tables.ts";
import {
  type ClaimedJob,
  claimJobs,
  countJobs,
  expireLeases,
  finishJob,
  type JobCounts,
  listDueJobs,
  listLeaseOwners,
  releaseJob,
  renewLease,
  rescheduleFuture,
  unclaimJob,
  withdrawDeath,
} from "./queries.ts";
import {
  BACKOFF_FIRST_MS,
  BACKOFF_MAX_MS,
  backoffMs,
  DEATHS_MAX,
  isRevived,
  REVIVAL_MAX_MS,
  revivalMs,
} from "./retry.ts";
import { Drained, type Wakes } from "./drained.ts";
import { FairScheduler, type FindDueJobs } from "./fair_scheduler.ts";
import { INVALID_PAYLOAD, notifyDeadLetter, runHandler } from "./handler.ts";

const ATTEMPTS_MAX = 10;
/** The share of the slots for long jobs, at least one; one more is for a tenant that has none of them. */
const LONG_SHARE = 0.5;
/** Smaller steps back are corrections of the clock. */
const CLOCK_SET_BACK_MS = 1000;

type JobRunnerDeps = {
  store: Pick<Store<CoreTables>, "db" | "write" | "dialect">;
  kinds: readonly JobKind[];
  clock: Clock;
  /** CPU accounts that jobs are charged to; absent where CPU time is not counted. */
  cpu?: CpuBudget;
  /** This node, where others share its database. */
  nodeId?: string | undefined;
  metrics?: Pick<Metrics, "jobsInterrupted" | "jobsTakenOver">;
};

export type JobRunnerOptions = {
  /** Jobs run at once; default 4. */
  concurrency?: number;
  /** Interval of polls for due jobs, besides `wake`, and of attempts to write a result if shorter than a second; default 1000. */
  pollMs?: number;
  /** Any runner may claim a job again when its lease was not renewed for this long; default 60 000. */
  leaseMs?: number;
  /** How long `stop` waits for running jobs before it releases them; default 5000. */
  stopTimeoutMs?: number;
  /** No other process runs jobs of this database, so leases found at the start belong to an ended process. */
  isSingleNode?: boolean;
};

type RunningJob = { job: ClaimedJob; owner: string; end: Promise<void> };

/** Jobs that are claimed together, and their scheduler. */
type ClaimGroup = {
  name: "long" | "short" | "suspect";
  includes: (job: { kind: string }) => boolean;
  maxJobs: number;
  /** The same with jobs of tenants that have none running; absent: no more than others. */
  maxWithOthers?: number;
  scheduler?: FairScheduler;
};

const log = logOf("job");

export class JobRunner {
  readonly #deps: JobRunnerDeps;
  readonly #kinds: ReadonlyMap<string, JobKind>;
  readonly #options: Required<JobRunnerOptions>;
  /**
   * Of all claims since the start. It never claims what it still runs, so a job that lost its lease cannot touch a claim after it.
   */
  #owner = "";
  /** Jobs that it runs or whose result is not stored yet, by id. */
  readonly #running = new Map<string, RunningJob>();
  readonly #scheduler = new FairScheduler();
  readonly #longScheduler = new FairScheduler();
  readonly #warnClaimFailed = rateLimitedWarning(log, "claiming jobs failed");
  #claiming: Promise<void> | undefined;
  #wantsClaim = false;
  readonly #drained = new Drained();
  /** Time of the last poll. At the start it is not known whether the clock was set back since. */
  #polledAt = Infinity;
  #poll: ReturnType<typeof setInterval> | undefined;
  #renewal: ReturnType<typeof setInterval> | undefined;
  /** Aborts when results that could not be stored are not tried again. */
  #stopping = new AbortController();

  constructor(deps: JobRunnerDeps, options: JobRunnerOptions = {}) {
    const { concurrency = 4, pollMs = 1000, leaseMs = MINUTE_MS, stopTimeoutMs = 5000, isSingleNode = false } = options;
    this.#deps = deps;
    this.#kinds = new Map(deps.kinds.map((kind) => [kind.kind, kind]));
    this.#options = { concurrency, pollMs, leaseMs, stopTimeoutMs, isSingleNode };
  }

  start(): void {
    if (this.#poll !== undefined || this.#kinds.size === 0) return;
    this.#stopping = new AbortController();
    this.#owner = leaseOwner(this.#deps.nodeId, newId("lease"));
    this.#poll = setInterval(() => this.wake(), this.#options.pollMs);
    this.#renewal = setInterval(() => this.#renewRunning(), this.#options.leaseMs / 3);
    this.wake();
  }

  /** Polls for due jobs now; `isCommit` after a commit that enqueued some. */
  wake(cause: { isCommit?: boolean } = {}): void {
    this.#drained.wake(cause);
    this.#continue();
  }

  #continue(): void {
    if (this.#poll === undefined) return;
    this.#wantsClaim = true;
    this.#claiming ??= this.#claim().finally(() => {
      this.#claiming = undefined;
      if (this.#wantsClaim && this.#running.size < this.#options.concurrency) this.#continue();
    });
  }

  /** The leases of all nodes. */
  get leases(): Leases {
    const { store, clock, metrics } = this.#deps;
    return {
      owners: () => listLeaseOwners(store.db),
      expire: async (owners) => {
        const jobs = await store.write(({ db }) => expireLeases(db, owners, iso(clock.now() - 1)));
        metrics?.jobsTakenOver.inc(jobs);
        this.wake();
        return jobs;
      },
    };
  }

  /** Resolves when no job is due and none runs. */
  async whenIdle(): Promise<void> {
    this.wake();
    while (this.#claiming !== undefined || this.#running.size > 0) {
      await this.#claiming;
      await Promise.all([...this.#running.values()].map((job) => job.end));
    }
  }

  /**
   * Starts no more jobs and resolves when the running ones have ended. Those that take too long are released, so that the next
   * process claims them at once and this stop does not count as a death. So are those whose result cannot be stored: an
   * unavailable store must not hold up the stop.
   */
  async stop(timeoutMs = this.#options.stopTimeoutMs): Promise<void> {
    clearInterval(this.#poll);
    this.#poll = undefined;
    await this.#claiming;
    const ends = Promise.all([...this.#running.values()].map((job) => job.end));
    if (await withTimeout(ends, timeoutMs) === undefined) {
      this.#stopping.abort();
      await this.#releaseUnfinished();
    }
    clearInterval(this.#renewal);
  }

  /** How many jobs there are in each state. */
  counts(): Promise<JobCounts> {
    return countJobs(this.#deps.store.db, iso(this.#deps.clock.now()));
  }

  async #claim(): Promise<void> {
    while (this.#wantsClaim && this.#poll !== undefined && this.#running.size < this.#options.concurrency) {
      this.#wantsClaim = false;
      try {
        if (await this.#claimSome()) this.#wantsClaim = true;
      } catch (cause) {
        this.#drained.wake();
        this.#warnClaimFailed(failureOf(cause));
      }
    }
  }

  async #claimSome(): Promise<boolean> {
    const { store, clock } = this.#deps;
    const nowMs = clock.now();
    const time = { nowMs, until: iso(nowMs + this.#options.leaseMs), wakes: this.#drained.wakes };
    if (nowMs < this.#polledAt - CLOCK_SET_BACK_MS) {
      const [retryBy, reviveBy] = [iso(nowMs + BACKOFF_MAX_MS), iso(nowMs + REVIVAL_MAX_MS)];
      const leaseBy = this.#options.isSingleNode && this.#polledAt === Infinity ? iso(nowMs - 1) : time.until;
      await store.write(({ db }) => rescheduleFuture(db, { now: iso(nowMs), retryBy, reviveBy, leaseBy }));
      this.#drained.forget();
      if (this.#polledAt !== Infinity) log.warn("the clock was set back", { byMs: this.#polledAt - nowMs });
    }
    this.#polledAt = nowMs;
    const { concurrency } = this.#options;
    const longMax = Math.max(1, Math.floor(concurrency * LONG_SHARE));
    const longMaxWithOthers = Math.max(longMax, Math.min(longMax + 1, concurrency - 1));
    const isLong = ({ kind }: { kind: string }): boolean => this.#kinds.get(kind)?.isLongRunning ?? false;
    const longRunning = this.#countRunning(isLong);
    const groups: ClaimGroup[] = [
      {
        name: "long",
        includes: isLong,
        maxJobs: longMax - longRunning,
        maxWithOthers: longMaxWithOthers - longRunning,
        scheduler: this.#longScheduler,
      },
      { name: "short", includes: (kind) => !isLong(kind), maxJobs: Infinity, scheduler: this.#scheduler },
      // One at a time: if two ran when the process ends again, it would be unknown which of them was the cause.
      { name: "suspect", includes: () => true, maxJobs: 1 - this.#countRunning(isSuspect) },
    ];
    let isAny = false;
    for (const group of groups) isAny = await this.#claimOf(group, time) || isAny;
    return isAny;
  }

  /** Claims and starts jobs of a group; whether there were any. */
  async #claimOf(
    { name, includes, maxJobs, maxWithOthers = maxJobs, scheduler }: ClaimGroup,
    { nowMs, until, wakes }: { nowMs: number; until: string; wakes: Wakes },
  ): Promise<boolean> {
    const { store } = this.#deps;
    const included = [...this.#kinds.values()].filter(includes);
    const kinds = included.map(({ kind }) => kind);
    const revivedKinds = included.filter(isRevived).map(({ kind }) => kind);
    const free = this.#options.concurrency - this.#running.size;
    const [slots, slotsWithOthers] = [Math.min(maxJobs, free), Math.min(maxWithOthers, free)];
    // Without a slot for all, only jobs of other tenants are looked for.
    const sought = slots > 0 ? name : `${name} of others`;
    const isSuspect = name === "suspect";
    const wake = isSuspect ? wakes.suspect : wakes.any;
    if (kinds.length === 0 || slotsWithOthers <= 0 || this.#drained.has(sought, wake)) return false;
    const earliest = isSuspect || slots <= 0 ? "" : this.#drained.earliest(sought, nowMs);
    const running = [...this.#running.values()].map(({ job }) => job);
    const [owner, runningIds] = [this.#owner, running.map(({ id }) => id)];
    const wanted = { nowMs, kinds, revivedKinds, owner, runningIds, isSuspect, earliest };
    const owners = new Set(running.filter(includes).flatMap((job) => job.charged_to ?? []));
    const find: FindDueJobs = async (except, limit, exceptTenants = []) => {
      const asked = { except, exceptTenants, limit };
      const due = await this.#drained.find([sought, asked], wake, () => listDueJobs(store.db, wanted, asked));
      if (due.length === 0 && (slots <= 0 || except.length + exceptTenants.length === 0)) {
        this.#drained.add(sought, { wake, nowMs, earliest });
      }
      return due;
    };
    const listed = scheduler === undefined ? await find([], slots) : [];
    const ids = await scheduler?.choose(find, { slots, slotsWithOthers }, owners) ?? listed.map(({ id }) => id);
    if (ids.length === 0) return false;
    const jobs = await store.write(({ db }) => claimJobs(db, store.dialect, wanted, { until, ids }));
    const deathsBefore = new Map(listed.map(({ id, deaths }) => [id, deaths]));
    for (const job of jobs) {
      if (job.deaths > (deathsBefore.get(job.id) ?? 0)) this.#deps.metrics?.jobsInterrupted.inc({ kind: job.kind });
      let isDone = false;
      const end = runAsSystem(async () => void (isDone = await this.#run(job, owner))).finally(() => {
        this.#running.delete(job.id);
        if (!isDone) this.#drained.wake();
        this.#continue();
      });
      this.#running.set(job.id, { job, owner, end });
    }
    return jobs.length > 0;
  }

  #countRunning(isCounted: (job: ClaimedJob) => boolean): number {
    return [...this.#running.values()].filter(({ job }) => isCounted(job)).length;
  }

  /** Resolves to whether it is done. */
  async #run(job: ClaimedJob, owner: string): Promise<boolean> {
    const kind = this.#kinds.get(job.kind);
    if (kind === undefined) return false;
    const { store, clock } = this.#deps;
    const { id } = job;
    const attemptsMax = kind.maxAttempts ?? ATTEMPTS_MAX;
    const fields = { kind: job.kind, job: id, tenant: job.tenant_id, attempt: job.attempts };
    const startedAt = performance.now();
    // Deaths are no failed attempts. They are withdrawn by those who live, so a job which always outlasts its lease ends as well.
    const isInterrupted = job.deaths >= DEATHS_MAX || job.attempts > attemptsMax + DEATHS_MAX;
    const failure = isInterrupted ? INTERRUPTED : await this.#attempt(kind, job);
    const ms = Math.round(performance.now() - startedAt);
    if (failure === undefined) {
      log.debug("job done", { ...fields, ms });
      return await this.#storeResult(job, () => store.write(({ db }) => finishJob.run(db, { id, owner })));
    }
    const isDead = job.attempts - job.deaths >= attemptsMax || job.revivals > 0 || failure === INVALID_PAYLOAD ||
      isInterrupted;
    const state = isDead ? "dead" : "waiting";
    const runAtMs = clock.now() + (isDead ? revivalMs(kind, job) : backoffMs(job.attempts));
    log[isDead ? "error" : "warn"](
      isDead ? "job failed permanently" : "job failed; will retry",
      { ...fields, ms, error: failure },
    );
    let isNotified = !isDead;
    await this.#storeResult(job, async () => {
      if (!isNotified) {
        if (await this.#renew([{ id, owner }]) === 0) return 0;
        await notifyDeadLetter(kind, job, isInterrupted ? "interrupted" : "failed");
      }
      isNotified = true;
      // However late it is written: runners have looked for those that were due before.
      return await this.#release({ id, owner, state, runAt: iso(Math.max(runAtMs, clock.now())), lastError: failure });
    });
    return false;
  }

  /**
   * Writes a result until the store takes it. Meanwhile the job keeps its slot and its lease: without them it would be claimed
   * again as one whose process died. Repeating a write whose commit was in doubt is safe, since a result is only written where
   * this runner has the lease: it has none after the first, nor where another runner has taken the job over. That one counted a
   * death of this process, which lives. Resolves to whether it was written.
   */
  async #storeResult({ id, kind, attempts }: ClaimedJob, write: () => Promise<number>): Promise<boolean> {
    const { signal } = this.#stopping;
    do {
      try {
        if (await write() > 0) return true;
        await this.#deps.store.write(({ db }) => withdrawDeath.run(db, { id, attempts }));
        return false;
      } catch (cause) {
        log.warn("writing the job result failed", { kind, job: id, ...failureOf(cause) });
      }
      await delay(Math.min(this.#options.pollMs, BACKOFF_FIRST_MS), signal);
    } while (!signal.aborted);
    return false;
  }

  /** Runs the handler, charged to the principal that caused the job. */
  async #attempt(kind: JobKind, job: ClaimedJob): Promise<string | undefined> {
    const account = job.charged_to === null ? undefined : this.#deps.cpu?.accountOfKey(job.charged_to);
    if (account === undefined) return await runHandler(kind, job);
    await account.waitForJobSlice();
    return await chargeTo(account, () => runHandler(kind, job));
  }

  async #release(
    job: { id: string; owner: string; state: JobState; runAt: string; lastError: string },
  ): Promise<number> {
    const { store } = this.#deps;
    try {
      return await store.write(({ db }) => releaseJob.run(db, job));
    } catch (cause) {
      if (!(cause instanceof UniqueViolation)) throw cause;
      // A newer draft with the same key is waiting already and replaces this one.
      return await store.write(({ db }) => finishJob.run(db, job));
    }
  }

  async #releaseUnfinished(): Promise<void> {
    const unfinished = [...this.#running];
    const now = iso(this.#deps.clock.now());
    log.info("unfinished jobs released for another process", { jobs: unfinished.length });
    // All at once: while the store is unavailable, each takes until it fails.
    await Promise.all(unfinished.map(async ([id, { owner }]) => {
      try {
        await this.#deps.store.write(({ db }) => unclaimJob.run(db, { id, owner, now }));
      } catch (cause) {
        // A newer draft with the same key is waiting already, or the store is unavailable: the lease runs out.
        log.warn("releasing a job failed", { job: id, ...failureOf(cause) });
      }
    }));
  }

  async #renewRunning(): Promise<void> {
    if (this.#running.size === 0) return;
    try {
      await this.#renew([...this.#running].map(([id, { owner }]) => ({ id, owner })));
    } catch (cause) {
      log.warn("renewing job leases failed", failureOf(cause));
    }
  }

  /** Resolves to how many of these leases it still has. */
  async #renew(leases: readonly { id: string; owner: string }[]): Promise<number> {
    const until = iso(this.#deps.clock.now() + this.#options.leaseMs);
    return await this.#deps.store.write(async ({ db }) => {
      let renewed = 0;
      for (const lease of leases) renewed += await renewLease.run(db, { ...lease, until });
      return renewed;
    });
  }
}

const INTERRUPTED = `interrupted: the process ended ${DEATHS_MAX} times during this job`;

function isSuspect({ deaths, revivals }: ClaimedJob): boolean {
  return deaths > 0 || revivals > 0;
}
