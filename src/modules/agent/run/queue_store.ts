// SQL of the runs that nodes execute, of all tenants: which may start or continue, and their leases.
import { type Kysely, type RawBuilder, sql } from "kysely";
import { iso } from "@/core/time/clock.ts";
import { equalsUnindexed } from "@/ports/sql/filters.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import { isUnfinished } from "./store.ts";

/** A run that a node may execute. */
export type ClaimableRun = Pick<
  RunRow,
  "tenant_id" | "id" | "agent_id" | "room_id" | "thread_id" | "status" | "asker_ids_json" | "queued_at"
>;
/** Tenants, agents and those who asked, by `askersKey`, that can have no further run now. */
export type BusyRunners = { tenantIds: readonly string[]; agentIds: readonly string[]; askers: readonly string[] };

/** How long a run waits after that many attempts that ended with their node: it may be the cause, or the node starts in vain. */
const WAITS_MS: ReadonlyMap<number, number> = new Map([[3, 10_000], [4, 30_000], [5, 120_000]]);

export class RunQueueStore {
  readonly #db: Kysely<AgentTables>;

  constructor(db: Kysely<AgentTables>) {
    this.#db = db;
  }

  /** Runs that nodes execute now, and whose lease has not run out. */
  running(now: string): Promise<ClaimableRun[]> {
    return this.#db.selectFrom("agent_run")
      .select(["tenant_id", "id", "agent_id", "room_id", "thread_id", "status", "asker_ids_json", "queued_at"])
      .where(isUnfinished()).where("status", "=", "running").where("is_external", "=", 0)
      .where("lease_until", ">=", now).execute();
  }

  /**
   * Runs that may start or continue, without those of owners that are at a limit: of each tenant the first, then of each the second, and
   * so on; within a tenant the same for those who asked. So a long queue hides nobody.
   */
  async claimable(nowMs: number, busy: BusyRunners, limit: number): Promise<ClaimableRun[]> {
    const now = iso(nowMs);
    let query = this.#db.selectFrom("agent_run as run")
      .select([
        "run.tenant_id",
        "run.id",
        "run.agent_id",
        "run.room_id",
        "run.thread_id",
        "run.status",
        "run.asker_ids_json",
        "run.queued_at",
      ])
      .select(
        sql<number>`row_number() over (partition by run.tenant_id, run.asker_ids_json order by run.queued_at, run.id)`
          .as("asker_turn"),
      )
      .where("run.is_external", "=", 0).where(isUnfinished("run")).where("run.status", "in", ["queued", "running"])
      .where((row) =>
        row.or([
          row("run.status", "=", "queued"),
          row.and([row("run.status", "=", "running"), row("run.lease_until", "<", dueBy(nowMs))]),
        ])
      )
      // One at a time in a thread; one that waits for an approval does not count.
      .where(({ not, exists, selectFrom }) =>
        not(exists(
          selectFrom("agent_run as other").select("other.id").where(isUnfinished("other"))
            .where("other.status", "=", "running").where("other.lease_until", ">=", now)
            .where("other.is_external", "=", 0)
            .where(equalsUnindexed("other.tenant_id", sql.ref("run.tenant_id")))
            .whereRef("other.agent_id", "=", "run.agent_id")
            .whereRef("other.room_id", "=", "run.room_id").whereRef("other.thread_id", "=", "run.thread_id"),
        ))
      );
    if (busy.tenantIds.length > 0) query = query.where("run.tenant_id", "not in", busy.tenantIds);
    if (busy.agentIds.length > 0) {
      query = query.where(sql<string>`run.tenant_id || '/' || run.agent_id`, "not in", busy.agentIds);
    }
    if (busy.askers.length > 0) {
      query = query.where(sql<string>`run.tenant_id || '/' || run.asker_ids_json`, "not in", busy.askers);
    }
    return await this.#db.selectFrom(query.as("run")).selectAll()
      .select(
        sql<number>`row_number() over (partition by tenant_id order by asker_turn, queued_at, id)`.as("tenant_turn"),
      )
      .orderBy("tenant_turn").orderBy("queued_at").orderBy("id").limit(limit).execute();
  }

  /** Claims a run for a node; `undefined` if another one was faster. */
  claim(
    { tenant_id, id, status }: ClaimableRun,
    { owner, until, now }: { owner: string; until: string; now: string },
  ): Promise<RunRow | undefined> {
    return this.#db.updateTable("agent_run").set((run) => ({
      status: "running",
      queue_key: null,
      lease_owner: owner,
      lease_until: until,
      heartbeat_at: now,
      attempt: run("attempt", "+", 1),
    })).where("tenant_id", "=", tenant_id).where("id", "=", id).where("status", "=", status)
      .where((run) => run.or([run("status", "=", "queued"), run("lease_until", "<", now)]))
      .returningAll().executeTakeFirst();
  }

  /** Renews the leases of a node's runs; resolves to the ids of those that it still has. */
  async renew(leases: readonly { id: string; owner: string }[], until: string): Promise<string[]> {
    const renewed: string[] = [];
    for (const { id, owner } of leases) {
      const { numUpdatedRows } = await this.#db.updateTable("agent_run").set({ lease_until: until })
        .where("id", "=", id).where("lease_owner", "=", owner).executeTakeFirst();
      if (numUpdatedRows === 1n) renewed.push(id);
    }
    return renewed;
  }

  /** Who executes runs. */
  async leaseOwners(): Promise<string[]> {
    const rows = await this.#db.selectFrom("agent_run").select("lease_owner").distinct()
      .where(isUnfinished()).where("status", "=", "running").where("is_external", "=", 0).execute();
    return rows.flatMap(({ lease_owner }) => lease_owner ?? []);
  }

  /** Ends leases: those of some owners, or all of them where no other node executes runs of this database. */
  async expireLeases(at: string, owners?: readonly string[]): Promise<number> {
    let query = this.#db.updateTable("agent_run").set({ lease_until: at }).where(isUnfinished())
      .where("status", "=", "running").where("is_external", "=", 0).where("lease_until", ">=", at);
    if (owners !== undefined) query = query.where("lease_owner", "in", owners);
    return Number((await query.executeTakeFirst()).numUpdatedRows);
  }
}

/** A lease that ended before has waited long enough. */
function dueBy(nowMs: number): RawBuilder<string> {
  const waits = [...WAITS_MS].map(([attempt, ms]) => sql`when ${sql.lit(attempt)} then ${iso(nowMs - ms)}`);
  return sql`case run.attempt ${sql.join(waits, sql` `)} else ${iso(nowMs)} end`;
}

export function askersKey({ tenant_id, asker_ids_json }: ClaimableRun): string {
  return `${tenant_id}/${asker_ids_json}`;
}
