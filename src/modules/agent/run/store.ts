// SQL of runs and their steps.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import type { Used } from "@/modules/ai/mod.ts";
import type { MessageTables } from "@/modules/message/mod.ts";
import { orderedAfter, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { AgentTables, RunRow, SentRow, StepRow } from "../tables.ts";
import type { RunStatus } from "./schema.ts";

const WAITING = ["waiting_approval", "waiting_input"] as const satisfies RunStatus[];
export const UNFINISHED = ["queued", "running", ...WAITING] as const satisfies RunStatus[];

/**
 * The condition of the index of unfinished runs, which are few among all. SQLite uses such an index only where a query has the
 * condition as it is in the index.
 */
export function isUnfinished(table = "agent_run"): RawBuilder<SqlBool> {
  return sql<SqlBool>`${sql.ref(`${table}.status`)} in (${sql.join(UNFINISHED.map((status) => sql.lit(status)))})`;
}

/** A run that has ended. */
export type FinishedRun = Pick<RunRow, "id" | "tenant_id" | "room_id"> & { finished_at: string };
/** What a run must have to be changed. */
type RunFence = { status?: readonly RunStatus[]; leaseOwner?: string; queueKey?: string };

export class RunStore {
  readonly #db: Kysely<AgentTables & Pick<MessageTables, "message">>;

  constructor(db: Kysely<AgentTables>) {
    // The messages are in every database.
    this.#db = db as unknown as Kysely<AgentTables & Pick<MessageTables, "message">>;
  }

  find(tenantId: string, id: string): Promise<RunRow | undefined> {
    return this.#db.selectFrom("agent_run").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  findMany(tenantId: string, ids: readonly string[]): Promise<RunRow[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("agent_run").selectAll().where("tenant_id", "=", tenantId).where("id", "in", ids)
      .execute();
  }

  list(
    tenantId: string,
    filter: {
      roomId: string;
      agentId?: string | undefined;
      status?: readonly RunStatus[] | undefined;
      hiddenUpTo: number;
    },
    before: string | undefined,
    limit: number,
  ): Promise<RunRow[]> {
    let query = this.#db.selectFrom("agent_run").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", filter.roomId).where("seq", ">", filter.hiddenUpTo);
    if (filter.agentId !== undefined) query = query.where("agent_id", "=", filter.agentId);
    if (filter.status !== undefined && filter.status.length > 0) query = query.where("status", "in", filter.status);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** Adds a run; false if another one with its queue key takes triggers. */
  async add(row: RunRow): Promise<boolean> {
    const { numInsertedOrUpdatedRows } = await this.#db.insertInto("agent_run").values(row)
      .onConflict((conflict) => conflict.columns(["tenant_id", "queue_key"]).doNothing()).executeTakeFirst();
    return numInsertedOrUpdatedRows === 1n;
  }

  /** The run with a queue key, which has not started. */
  findQueued(tenantId: string, queueKey: string): Promise<RunRow | undefined> {
    return this.#db.selectFrom("agent_run").selectAll().where("tenant_id", "=", tenantId)
      .where("queue_key", "=", queueKey).executeTakeFirst();
  }

  /** Changes a run that has a status; false if it has another one. */
  async update(tenantId: string, id: string, set: Partial<RunRow>, ifIn: RunFence = {}): Promise<boolean> {
    return (await this.#update(tenantId, id, set, ifIn).executeTakeFirst()).numUpdatedRows === 1n;
  }

  /** The same; resolves to the run as it is then, `undefined` if it has another status. */
  change(tenantId: string, id: string, set: Partial<RunRow>, ifIn: RunFence): Promise<RunRow | undefined> {
    return this.#update(tenantId, id, set, ifIn).returningAll().executeTakeFirst();
  }

  /** The return type is inferred: it is a query under construction. */
  #update(tenantId: string, id: string, set: Partial<RunRow>, ifIn: RunFence) {
    let query = this.#db.updateTable("agent_run").set(set).where("tenant_id", "=", tenantId).where("id", "=", id);
    if (ifIn.status !== undefined) query = query.where("status", "in", ifIn.status);
    if (ifIn.leaseOwner !== undefined) query = query.where("lease_owner", "=", ifIn.leaseOwner);
    if (ifIn.queueKey !== undefined) query = query.where("queue_key", "=", ifIn.queueKey);
    return query;
  }

  /** Adds what a response used, whatever became of the run. */
  async addUsage(tenantId: string, id: string, used: Used): Promise<void> {
    await this.#db.updateTable("agent_run").set((run) => ({
      model: used.model,
      input_tokens: run("input_tokens", "+", used.inputTokens),
      cached_tokens: run("cached_tokens", "+", used.cachedTokens),
      output_tokens: run("output_tokens", "+", used.outputTokens),
      cost: run("cost", "+", used.costMicros),
    })).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  countQueued(tenantId: string, agentId: string): Promise<number> {
    return this.#count(tenantId, agentId, ["queued"]);
  }

  async #count(tenantId: string, agentId: string, status: readonly RunStatus[]): Promise<number> {
    const { count } = await this.#db.selectFrom("agent_run").select(({ fn }) => fn.countAll<number>().as("count"))
      .where(isUnfinished()).where("status", "in", status).where(tenantIsUnindexed(tenantId))
      .where("agent_id", "=", agentId).executeTakeFirstOrThrow();
    return Number(count);
  }

  /** Unfinished runs of an agent, or in a room. */
  unfinished(tenantId: string, of: { agentId: string } | { roomId: string }): Promise<RunRow[]> {
    const query = this.#db.selectFrom("agent_run").selectAll().where(isUnfinished()).where(tenantIsUnindexed(tenantId));
    return ("agentId" in of ? query.where("agent_id", "=", of.agentId) : query.where("room_id", "=", of.roomId))
      .execute();
  }

  /** Runs that wait for people, in a tenant or in a room of it. */
  waiting(tenantId: string, roomId: string | undefined): Promise<Pick<RunRow, "id">[]> {
    const query = this.#db.selectFrom("agent_run").select("id").where(isUnfinished()).where("status", "in", WAITING)
      .where(tenantIsUnindexed(tenantId));
    return (roomId === undefined ? query : query.where("room_id", "=", roomId)).execute();
  }

  /** A page of those of all tenants. */
  waitingAfter(id: string, limit: number): Promise<Pick<RunRow, "tenant_id" | "id">[]> {
    return this.#db.selectFrom("agent_run").select(["tenant_id", "id"]).where(isUnfinished())
      .where("status", "in", WAITING).where("id", ">", id).orderBy("id").limit(limit).execute();
  }

  async countByStatus(): Promise<{ status: RunStatus; count: number }[]> {
    const rows = await this.#db.selectFrom("agent_run").select("status")
      .select(({ fn }) => fn.countAll<number>().as("count")).where(isUnfinished()).groupBy("status").execute();
    return rows.map(({ status, count }) => ({ status, count: Number(count) }));
  }

  steps(tenantId: string, runId: string): Promise<StepRow[]> {
    return this.#steps(tenantId, runId).execute();
  }

  /** Some steps, from a number on. */
  stepsFrom(tenantId: string, runId: string, n: number, limit: number): Promise<StepRow[]> {
    return this.#steps(tenantId, runId).where("n", ">=", n).limit(limit).execute();
  }

  /** The return type is inferred: it is a query under construction. */
  #steps(tenantId: string, runId: string) {
    return this.#db.selectFrom("agent_step").selectAll().where("tenant_id", "=", tenantId)
      .where("run_id", "=", runId).orderBy("n");
  }

  /** Characters of all texts of the steps. */
  async countStepChars(tenantId: string, runId: string): Promise<number> {
    const lengthOf = (column: string) => sql<number>`coalesce(length(${sql.ref(column)}), 0)`;
    const { chars } = await this.#db.selectFrom("agent_step")
      .select(
        sql<number>`coalesce(sum(${lengthOf("text")} + ${lengthOf("input")} + ${lengthOf("result")}), 0)`.as("chars"),
      )
      .where("tenant_id", "=", tenantId).where("run_id", "=", runId).executeTakeFirstOrThrow();
    return Number(chars);
  }

  /** Adds a step, or replaces the one with its number. */
  async putStep(row: StepRow): Promise<void> {
    const { tenant_id: _tenant, run_id: _run, n: _n, started_at: _started, ...set } = row;
    await this.#db.insertInto("agent_step").values(row)
      .onConflict((conflict) => conflict.columns(["run_id", "n"]).doUpdateSet(set)).execute();
  }

  /** Notes which run sent a message, or edited it last. */
  async putSent(row: SentRow): Promise<void> {
    const { tenant_id: _tenant, message_id: _message, ...set } = row;
    await this.#db.insertInto("agent_sent").values(row)
      .onConflict((conflict) => conflict.columns(["tenant_id", "message_id"]).doUpdateSet(set)).execute();
  }

  /** A scheduled message was sent. */
  async renameSent(tenantId: string, scheduledId: string, messageId: string): Promise<void> {
    await this.#db.updateTable("agent_sent").set({ message_id: messageId }).where("tenant_id", "=", tenantId)
      .where("message_id", "=", scheduledId).execute();
  }

  findSent(tenantId: string, messageId: string): Promise<SentRow | undefined> {
    return this.#db.selectFrom("agent_sent").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId).executeTakeFirst();
  }

  /** Runs of an agent in a room that wait for a reply, newest first. */
  findAsking(tenantId: string, agentId: string, roomId: string): Promise<RunRow[]> {
    return this.#db.selectFrom("agent_run").selectAll().where(isUnfinished()).where(tenantIsUnindexed(tenantId))
      .where("agent_id", "=", agentId).where("room_id", "=", roomId)
      .where("status", "=", "waiting_input").orderBy("id", "desc").execute();
  }

  /** Notes that a message triggers an agent; false if it did before. */
  async addTrigger(row: AgentTables["agent_trigger"]): Promise<boolean> {
    const { numInsertedOrUpdatedRows } = await this.#db.insertInto("agent_trigger").values(row)
      .onConflict((conflict) => conflict.columns(["tenant_id", "message_id", "agent_id"]).doNothing())
      .executeTakeFirst();
    return numInsertedOrUpdatedRows === 1n;
  }

  /**
   * The message that a run responds to: the one that triggered it last, or if that was deleted, the newest other one of its thread
   * that triggered its agent since.
   */
  async findQuestion(run: RunRow): Promise<string | undefined> {
    const { tenant_id, agent_id, room_id, thread_id, trigger_message_id, seq } = run;
    const questions = this.#db.selectFrom("message")
      .innerJoin(
        "agent_trigger as trigger",
        (join) =>
          join.onRef("trigger.tenant_id", "=", "message.tenant_id").onRef("trigger.message_id", "=", "message.id"),
      )
      .select("message.id").where("message.tenant_id", "=", tenant_id).where("message.deleted_at", "is", null)
      .where("trigger.agent_id", "=", agent_id);
    const last = await questions.where("message.id", "=", trigger_message_id).executeTakeFirst();
    if (last !== undefined) return last.id;
    const inThread = thread_id === ""
      ? questions.where("message.thread_id", "is", null)
      : questions.where("message.thread_id", "=", thread_id);
    const other = await inThread.where("message.room_id", "=", room_id).where("message.seq", ">=", Number(seq))
      .orderBy("message.seq", "desc").limit(1).executeTakeFirst();
    return other?.id;
  }

  /** Some of the runs of all tenants that ended before, after one of them, and whose texts are stored. */
  async withTextsBefore(at: string, after: FinishedRun | undefined, limit: number): Promise<FinishedRun[]> {
    const texts = this.#db.selectFrom("agent_run").select(["id", "tenant_id", "room_id", "finished_at"])
      .where("is_trimmed", "=", 0).where("finished_at", "is not", null).where("finished_at", "<", at);
    return await orderedAfter(texts, ["finished_at", "id"], after && [after.finished_at, after.id])
      .$narrowType<FinishedRun>().limit(limit).execute();
  }

  /** Removes the texts of runs. */
  async removeTexts(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const nothing = { text: null, calls_json: null, input: null, result: null };
    await this.#db.updateTable("agent_step").set(nothing).where("run_id", "in", ids).execute();
    await this.#db.updateTable("agent_approval").set({ input: "", comment: null }).where("run_id", "in", ids).execute();
    await this.#db.updateTable("agent_run").set({ text: "", input: null, error_reply: null, is_trimmed: 1 })
      .where("id", "in", ids).execute();
  }

  /** Tenants with runs that ended before, and whose texts were removed. */
  async tenantsFinishedBefore(at: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("agent_run").select("tenant_id").distinct().where("is_trimmed", "=", 1)
      .where("finished_at", "is not", null).where("finished_at", "<", at).execute();
    return rows.map((row) => row.tenant_id);
  }

  /** Some of those of a tenant, without those that send a message after a time, or are in one of these rooms. */
  finishedBefore(
    tenantId: string,
    at: string,
    { sendingAfter, exceptRooms }: { sendingAfter: string; exceptRooms: readonly string[] },
    limit: number,
  ): Promise<Pick<RunRow, "id" | "room_id">[]> {
    let query = this.#db.selectFrom("agent_run").select(["id", "room_id"]).where("tenant_id", "=", tenantId)
      .where(sql.ref("is_trimmed"), "=", sql.lit(1)).where("finished_at", "<", at)
      .where(
        "id",
        "not in",
        (run) => run.selectFrom("agent_sent").select("run_id").where("created_at", ">", sendingAfter),
      );
    if (exceptRooms.length > 0) query = query.where("room_id", "not in", exceptRooms);
    return query.orderBy("finished_at").limit(limit).execute();
  }

  /** Deletes a batch of the runs of a room. */
  async removeOfRoom(tenantId: string, roomId: string, limit: number): Promise<number> {
    const rows = await this.#db.selectFrom("agent_run").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    await this.remove(rows.map(({ id }) => id));
    return rows.length;
  }

  /** Forgets which messages runs sent, and which triggered them. */
  async forgetMessagesBefore(at: string): Promise<void> {
    await this.#db.deleteFrom("agent_sent").where("created_at", "<", at).execute();
    await this.#db.deleteFrom("agent_trigger").where("created_at", "<", at).execute();
  }

  /** Deletes runs with their steps. */
  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#db.deleteFrom("agent_step").where("run_id", "in", ids).execute();
    await this.#db.deleteFrom("agent_approval").where("run_id", "in", ids).execute();
    await this.#db.deleteFrom("agent_run").where("id", "in", ids).execute();
  }
}
