// The job runner: claims due jobs under a lease, runs their handlers, and tries again or gives up visibly.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { JobKind } from "@/core/job.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { type Store, UniqueViolation } from "@/ports/store.ts";
import type { CoreTables, JobState } from "./core_tables.ts";
import {
  bringForward,
  type ClaimedJob,
  claimJobs,
  countJobs,
  finishJob,
  isJobDue,
  type JobCounts,
  releaseJob,
  renewLease,
} from "./job_queries.ts";

const ATTEMPTS_MAX = 10;
const BACKOFF_FIRST_MS = 1000;
const BACKOFF_MAX_MS = 15 * 60_000;
/** The part of the places that long jobs may take, of which they have one at least. */
const LONG_SHARE = 0.5;
/** A clock that goes back by less is only being corrected. */
const SET_BACK_MS = 1000;

export type JobRunnerDeps = {
  store: Pick<Store<CoreTables>, "db" | "write" | "dialect">;
  kinds: readonly JobKind[];
  clock: Clock;
};

export type JobRunnerOptions = {
  /** Jobs run at once; default 4. */
  concurrency?: number;
  /** How often due jobs are looked for besides `wake`; default 1000. */
  pollMs?: number;
  /** A job is anybody's again when its runner was silent for this long; default 60 000. */
  leaseMs?: number;
  /** No other process runs jobs of this database, so that leases found at the start are of one that is gone. */
  isAlone?: boolean;
};

const log = logOf("job");

export class JobRunner {
  readonly #deps: JobRunnerDeps;
  readonly #kinds: ReadonlyMap<string, JobKind>;
  readonly #options: Required<JobRunnerOptions>;
  /** Each claim has an owner of its own, so a job that lost its lease cannot touch the claim after it. */
  readonly #running = new Map<string, { job: ClaimedJob; end: Promise<void> }>();
  #claiming: Promise<void> | undefined;
  #wantsClaim = false;
  /** When jobs were last looked for. At the start it is not known whether the clock was set back since. */
  #lookedAt = Infinity;
  #poll: ReturnType<typeof setInterval> | undefined;
  #renewal: ReturnType<typeof setInterval> | undefined;

  constructor(deps: JobRunnerDeps, options: JobRunnerOptions = {}) {
    const { concurrency = 4, pollMs = 1000, leaseMs = 60_000, isAlone = false } = options;
    this.#deps = deps;
    this.#kinds = new Map(deps.kinds.map((kind) => [kind.kind, kind]));
    this.#options = { concurrency, pollMs, leaseMs, isAlone };
  }

  start(): void {
    if (this.#poll !== undefined || this.#kinds.size === 0) return;
    this.#poll = setInterval(() => this.wake(), this.#options.pollMs);
    this.#renewal = setInterval(() => this.#renew(), this.#options.leaseMs / 3);
    this.wake();
  }

  /** Looks for due jobs now; called after a commit that enqueued some. */
  wake(): void {
    if (this.#poll === undefined) return;
    this.#wantsClaim = true;
    this.#claiming ??= this.#claim().finally(() => {
      this.#claiming = undefined;
      if (this.#wantsClaim && this.#running.size < this.#options.concurrency) this.wake();
    });
  }

  /** Resolves when no job is due and none runs. */
  async settled(): Promise<void> {
    this.wake();
    while (this.#claiming !== undefined || this.#running.size > 0) {
      await this.#claiming;
      await Promise.all([...this.#running.values()].map((job) => job.end));
    }
  }

  /** Starts no more jobs and resolves when those running have ended. */
  async stop(): Promise<void> {
    clearInterval(this.#poll);
    this.#poll = undefined;
    await this.#claiming;
    await Promise.all([...this.#running.values()].map((job) => job.end));
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
        log.warning("jobs could not be claimed", failureOf(cause));
      }
    }
  }

  async #claimSome(): Promise<boolean> {
    const { store, clock } = this.#deps;
    const nowMs = clock.now();
    const now = iso(nowMs);
    const until = iso(nowMs + this.#options.leaseMs);
    if (nowMs < this.#lookedAt - SET_BACK_MS) {
      const retryBy = iso(nowMs + BACKOFF_MAX_MS);
      const leaseBy = this.#options.isAlone && this.#lookedAt === Infinity ? iso(nowMs - 1) : until;
      await store.write(({ db }) => bringForward(db, { now, retryBy, leaseBy }));
    }
    this.#lookedAt = nowMs;
    const longMax = Math.max(1, Math.floor(this.#options.concurrency * LONG_SHARE));
    const long = await this.#claimOf(true, longMax - this.#runningLong(), { now, until });
    return await this.#claimOf(false, Infinity, { now, until }) || long;
  }

  /** Claims and starts jobs of the long kinds, or of the others; whether there were any. */
  async #claimOf(isLong: boolean, most: number, { now, until }: { now: string; until: string }): Promise<boolean> {
    const { store } = this.#deps;
    const kinds = [...this.#kinds.values()].filter((kind) => (kind.isLong ?? false) === isLong).map(({ kind }) => kind);
    const limit = Math.min(most, this.#options.concurrency - this.#running.size);
    if (kinds.length === 0 || limit <= 0) return false;
    const wanted = { kinds, now, runningIds: [...this.#running.values()].map(({ job }) => job.id) };
    if (!await isJobDue(store.db, wanted)) return false;
    const owner = newId("lease");
    const jobs = await store.write(({ db }) => claimJobs(db, store.dialect, wanted, { until, owner, limit }));
    for (const job of jobs) {
      const slot = `${owner} ${job.id}`;
      const end = this.#run(job, owner).finally(() => {
        this.#running.delete(slot);
        this.wake();
      });
      this.#running.set(slot, { job, end });
    }
    return jobs.length > 0;
  }

  #runningLong(): number {
    return [...this.#running.values()].filter(({ job }) => this.#kinds.get(job.kind)?.isLong).length;
  }

  /** Never throws: what cannot be written now is found again when the lease runs out. */
  async #run(job: ClaimedJob, owner: string): Promise<void> {
    const kind = this.#kinds.get(job.kind);
    if (kind === undefined) return;
    const { store, clock } = this.#deps;
    const attemptsMax = kind.maxAttempts ?? ATTEMPTS_MAX;
    const fields = { kind: job.kind, job: job.id, tenant: job.tenant_id, attempt: job.attempts };
    const startedAt = performance.now();
    try {
      const failure = job.attempts > attemptsMax ? "lease lost too often" : await attempt(kind, job);
      const ms = Math.round(performance.now() - startedAt);
      if (failure === undefined) {
        await store.write(({ db }) => finishJob.run(db, { id: job.id, owner }));
        return log.debug("done", { ...fields, ms });
      }
      const isDead = job.attempts >= attemptsMax || failure === MISFIT;
      const state = isDead ? "dead" : "waiting";
      const runAt = iso(clock.now() + backoffMs(job.attempts));
      log[isDead ? "error" : "warning"](isDead ? "given up" : "failed", { ...fields, ms, error: failure });
      await this.#release({ id: job.id, owner, state, runAt, lastError: failure });
    } catch (cause) {
      log.warning("the outcome could not be written", { ...fields, ...failureOf(cause) });
    }
  }

  async #release(job: { id: string; owner: string; state: JobState; runAt: string; lastError: string }): Promise<void> {
    const { store } = this.#deps;
    try {
      await store.write(({ db }) => releaseJob.run(db, job));
    } catch (cause) {
      if (!(cause instanceof UniqueViolation)) throw cause;
      // A newer draft with the same key waits already: it stands for this one.
      await store.write(({ db }) => finishJob.run(db, job));
    }
  }

  async #renew(): Promise<void> {
    const until = iso(this.#deps.clock.now() + this.#options.leaseMs);
    const claims = [...this.#running].map(([slot, { job }]) => ({
      id: job.id,
      owner: slot.slice(0, slot.indexOf(" ")),
      until,
    }));
    if (claims.length === 0) return;
    try {
      await this.#deps.store.write(async ({ db }) => {
        for (const claim of claims) await renewLease.run(db, claim);
      });
    } catch (cause) {
      log.warning("leases could not be renewed", failureOf(cause));
    }
  }
}

const MISFIT = "payload does not fit the job's schema";

/** Runs the handler; what went wrong comes back as a code or a type, never with text that may quote the payload. */
async function attempt(kind: JobKind, job: ClaimedJob): Promise<string | undefined> {
  const parsed = kind.payload.safeParse(JSON.parse(job.payload));
  if (!parsed.success) return MISFIT;
  try {
    await kind.run({ tenantId: job.tenant_id, payload: parsed.data, attempt: job.attempts });
    return undefined;
  } catch (cause) {
    if (cause instanceof Fault) return cause.code;
    return cause instanceof Error ? cause.name : "unknown";
  }
}

/** Doubles from one second, less up to half of it, so that jobs that failed together do not return together. */
function backoffMs(attempts: number): number {
  return Math.min(BACKOFF_FIRST_MS * 2 ** (attempts - 1), BACKOFF_MAX_MS) * (1 - Math.random() / 2);
}
