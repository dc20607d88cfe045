// SQL of jobs, of one tenant. Their table belongs to the job runner.
import type { Kysely } from "kysely";
import type { JobRow, JobState } from "@/core/job.ts";

export type JobTables = { job: JobRow };
export type ListedJob = Pick<
  JobRow,
  "id" | "kind" | "state" | "run_at" | "attempts" | "last_error" | "charged_to" | "created_at"
>;

const LISTED = ["id", "kind", "state", "run_at", "attempts", "last_error", "charged_to", "created_at"] as const;

export class JobStore {
  readonly #db: Kysely<JobTables>;

  constructor(db: Kysely<JobTables>) {
    this.#db = db;
  }

  list(
    tenantId: string,
    { state, kind }: { state?: JobState | undefined; kind?: string | undefined },
    after: string,
    limit: number,
  ): Promise<ListedJob[]> {
    let query = this.#db.selectFrom("job").select(LISTED).where("tenant_id", "=", tenantId).where("id", ">", after);
    if (state !== undefined) query = query.where("state", "=", state);
    if (kind !== undefined) query = query.where("kind", "=", kind);
    return query.orderBy("id").limit(limit).execute();
  }

  find(tenantId: string, id: string): Promise<ListedJob | undefined> {
    return this.#db.selectFrom("job").select(LISTED).where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** Schedules a dead job again, as if it had never run; `undefined` if it is not dead. */
  revive(tenantId: string, id: string, at: string): Promise<ListedJob | undefined> {
    return this.#db.updateTable("job")
      .set({ state: "waiting", run_at: at, attempts: 0, deaths: 0, revivals: 0, lease_until: null, lease_owner: null })
      .where("tenant_id", "=", tenantId).where("id", "=", id).where("state", "=", "dead").returning(LISTED)
      .executeTakeFirst();
  }

  /** Deletes a dead job; returns whether it was one. */
  async removeDead(tenantId: string, id: string): Promise<boolean> {
    const rows = await this.#db.deleteFrom("job").where("tenant_id", "=", tenantId).where("id", "=", id)
      .where("state", "=", "dead").returning("id").execute();
    return rows.length > 0;
  }
}
