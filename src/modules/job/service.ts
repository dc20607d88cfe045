// Jobs of a tenant: what waits, what runs, and what failed permanently.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type Store, whenTaken } from "@/ports/store.ts";
import type { Job, JobList } from "./schema.ts";
import { JobStore, type JobTables, type ListedJob } from "./store.ts";

type Deps = { store: Store<JobTables>; clock: Clock; cursors: Cursors };

const ERROR_MAX = 500;

export class JobService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(actor: Actor, { limit, cursor, ...filter }: JobList): Promise<Page<Job>> {
    const { store, cursors } = this.#deps;
    const bind = ["job.list", actor.tenantId, filter];
    const after = cursors.decodeId(cursor, bind) ?? "";
    const rows = await new JobStore(store.db).list(actor.tenantId, filter, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  /** Schedules a dead job again. */
  retry(actor: Actor, id: string): Promise<Job> {
    return this.#deps.store.write(async (tx) => {
      const jobs = new JobStore(tx.db);
      const row = await jobs.revive(actor.tenantId, id, iso(this.#deps.clock.now()));
      if (row === undefined) throw await whyNot(jobs, actor, id);
      return present(row);
    }).catch(
      whenTaken((cause) => new Fault("conflict", "The same work is scheduled already; discard this job", { cause })),
    );
  }

  /** Deletes a dead job. */
  async discard(actor: Actor, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const jobs = new JobStore(tx.db);
      if (!await jobs.removeDead(actor.tenantId, id)) throw await whyNot(jobs, actor, id);
    });
  }
}

async function whyNot(jobs: JobStore, actor: Actor, id: string): Promise<Fault> {
  const row = await jobs.find(actor.tenantId, id);
  return row === undefined
    ? notFound("job")
    : new Fault("conflict", `The job is ${row.state}; only dead jobs can be changed`);
}

function present({ id, kind, state, run_at, attempts, last_error, charged_to, created_at }: ListedJob): Job {
  return {
    id,
    kind,
    state,
    runAt: run_at,
    attemptCount: attempts,
    lastError: last_error?.slice(0, ERROR_MAX) ?? null,
    // The key of an account is the tenant and the principal.
    chargedPrincipalId: charged_to === null ? null : charged_to.slice(charged_to.indexOf("/") + 1),
    createdAt: created_at,
  };
}
