// SQL of approvals and grants.
import { type Kysely, sql } from "kysely";
import { isInVisibleRoom, type Reader, type RoomTables, visibleRoomIds } from "@/modules/room/mod.ts";
import type { AgentTables, ApprovalRow, GrantRow } from "../tables.ts";

export class ApprovalStore {
  readonly #db: Kysely<AgentTables & RoomTables>;

  constructor(db: Kysely<AgentTables>) {
    // The rooms are in every database.
    this.#db = db as unknown as Kysely<AgentTables & RoomTables>;
  }

  async add(row: ApprovalRow): Promise<void> {
    await this.#db.insertInto("agent_approval").values(row).execute();
  }

  find(tenantId: string, id: string): Promise<ApprovalRow | undefined> {
    return this.#db.selectFrom("agent_approval").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  ofRun(tenantId: string, runId: string): Promise<ApprovalRow[]> {
    return this.#db.selectFrom("agent_approval").selectAll().where("tenant_id", "=", tenantId)
      .where("run_id", "=", runId).orderBy("id").execute();
  }

  list(
    tenantId: string,
    filter: {
      roomId: string;
      status?: ApprovalRow["status"] | undefined;
      runId?: string | undefined;
      hiddenUpTo: number;
    },
    before: string | undefined,
    limit: number,
  ): Promise<ApprovalRow[]> {
    let query = this.#db.selectFrom("agent_approval").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", filter.roomId).where("seq", ">", filter.hiddenUpTo);
    if (filter.status !== undefined) query = query.where("status", "=", sql.lit(filter.status));
    if (filter.runId !== undefined) query = query.where("run_id", "=", filter.runId);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  /** Those that wait for a decision, in rooms that the reader is a member of, after the beginning of the history that it can see. */
  listPending(
    tenantId: string,
    reader: Reader,
    runId: string | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<ApprovalRow[]> {
    const member = { ...reader, withPublic: false };
    const { principalId, ownerId } = reader;
    let query = this.#db.selectFrom("agent_approval").selectAll("agent_approval")
      .where("agent_approval.tenant_id", "=", tenantId)
      // A literal, so that the partial index of those that wait is used.
      .where("agent_approval.status", "=", sql.lit("pending"))
      .where("agent_approval.room_id", "in", visibleRoomIds(this.#db, tenantId, member))
      .where(isInVisibleRoom(this.#db, tenantId, "agent_approval.room_id", member))
      .where(({ not, exists, selectFrom }) =>
        not(exists(
          selectFrom("room").innerJoin("member", "member.room_id", "room.id").select("room.id")
            .whereRef("room.id", "=", "agent_approval.room_id").where("room.tenant_id", "=", tenantId)
            .where("room.history_visibility", "<>", "shared")
            .where("member.principal_id", "in", [principalId, ownerId])
            .whereRef("member.joined_seq", ">=", "agent_approval.seq"),
        ))
      );
    if (runId !== undefined) query = query.where("agent_approval.run_id", "=", runId);
    if (before !== undefined) query = query.where("agent_approval.id", "<", before);
    return query.orderBy("agent_approval.id", "desc").limit(limit).execute();
  }

  /** Decides a pending approval; false if it was decided before. */
  async decide(
    tenantId: string,
    id: string,
    set: Pick<ApprovalRow, "status" | "decided_by" | "decided_at" | "comment">,
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("agent_approval").set(set).where("tenant_id", "=", tenantId)
      .where("id", "=", id).where("status", "=", "pending").executeTakeFirst();
    return numUpdatedRows === 1n;
  }

  /** Pending approvals of a run no longer count; returns their ids. */
  async voidPending(tenantId: string, runId: string): Promise<string[]> {
    const rows = await this.#db.updateTable("agent_approval").set({ status: "void" }).where("tenant_id", "=", tenantId)
      .where("run_id", "=", runId).where("status", "=", "pending").returning("id").execute();
    return rows.map(({ id }) => id);
  }

  /**
   * Adds a grant, or replaces the one for the same agent, tool and rooms. Where somebody decides the same again for other readers,
   * it holds for all of them.
   */
  async putGrant(row: GrantRow): Promise<void> {
    const { effect, created_by, maker_role, created_at, expires_at } = row;
    const before = await this.#db.selectFrom("agent_grant").select("reader_ids_json")
      .where("tenant_id", "=", row.tenant_id).where("agent_id", "=", row.agent_id).where("tool", "=", row.tool)
      .where("room_id", "=", row.room_id).where("target_room_id", "=", row.target_room_id)
      .where("run_id", "=", row.run_id).where("effect", "=", effect).where("created_by", "=", created_by)
      .where("expires_at", ">", created_at).executeTakeFirst();
    const readers = [row, ...before === undefined ? [] : [before]].flatMap((one): string[] =>
      JSON.parse(one.reader_ids_json)
    );
    const reader_ids_json = JSON.stringify([...new Set(readers)].sort());
    await this.#db.insertInto("agent_grant").values({ ...row, reader_ids_json })
      .onConflict((conflict) =>
        conflict.columns(["tenant_id", "agent_id", "tool", "room_id", "target_room_id", "run_id"])
          .doUpdateSet({ reader_ids_json, effect, created_by, maker_role, created_at, expires_at })
      ).execute();
  }

  /** Grants that apply to a call. */
  grantsFor(
    tenantId: string,
    { agentId, tool, roomId, targetRoomId, runId }: {
      agentId: string;
      tool: string;
      roomId: string;
      targetRoomId: string;
      runId: string;
    },
    now: string,
  ): Promise<GrantRow[]> {
    return this.#db.selectFrom("agent_grant").selectAll().where("tenant_id", "=", tenantId)
      .where("agent_id", "=", agentId).where("tool", "=", tool).where("room_id", "=", roomId)
      .where("target_room_id", "=", targetRoomId).where("run_id", "in", ["", runId]).where("expires_at", ">", now)
      .execute();
  }

  findGrant(tenantId: string, id: string): Promise<GrantRow | undefined> {
    return this.#db.selectFrom("agent_grant").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  listGrants(
    tenantId: string,
    filter: { roomId: string; agentId?: string | undefined; now: string },
    after: string | undefined,
    limit: number,
  ): Promise<GrantRow[]> {
    let query = this.#db.selectFrom("agent_grant").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", filter.roomId).where("expires_at", ">", filter.now);
    if (filter.agentId !== undefined) query = query.where("agent_id", "=", filter.agentId);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  async removeGrants(tenantId: string, of: { id: string } | { agentId: string } | { roomId: string }): Promise<void> {
    const query = this.#db.deleteFrom("agent_grant").where("tenant_id", "=", tenantId);
    if ("id" in of) await query.where("id", "=", of.id).execute();
    else if ("agentId" in of) await query.where("agent_id", "=", of.agentId).execute();
    else {
      await query.where((row) => row.or([row("room_id", "=", of.roomId), row("target_room_id", "=", of.roomId)]))
        .execute();
    }
  }

  async removeExpiredGrants(now: string): Promise<void> {
    await this.#db.deleteFrom("agent_grant").where("expires_at", "<=", now).execute();
  }
}
