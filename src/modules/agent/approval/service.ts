// Approvals and grants as people see and decide them.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { Fault, invalidField, isFault, notVisible } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { hiddenUpTo, readerOf, type RoomAccess, type RoomGrant } from "@/modules/room/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { RunAccess } from "../run/access.ts";
import { decidedEvent, type RunLifecycle } from "../run/lifecycle.ts";
import { roomsReadBy } from "../run/presenter.ts";
import { RunStore } from "../run/store.ts";
import type { AgentTables, ApprovalRow, RunRow } from "../tables.ts";
import type { DeciderRole, Deciders } from "./deciders.ts";
import { presentApproval, presentGrant } from "./presenter.ts";
import type { Approval, ApprovalDecide, ApprovalList, Grant, GrantList } from "./schema.ts";
import { ApprovalStore } from "./store.ts";

const GRANT_MS = 30 * DAY_MS;

type Deps = {
  store: Store<AgentTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  access: RunAccess;
  lifecycle: RunLifecycle;
  deciders: Deciders;
};

export class ApprovalService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Approvals of runs in a room, or those that wait in all rooms of the caller; newest first. */
  async list(context: Context, { limit, cursor, ...filter }: ApprovalList): Promise<Page<Approval>> {
    const { store, cursors, access } = this.#deps;
    const { tenantId, principalId } = context.actor;
    const bind = ["approval.list", tenantId, principalId, filter];
    const rows = await this.#find(context, filter, cursors.decodeId(cursor, bind), limit + 1);
    const runs = await new RunStore(store.db).findMany(tenantId, [...new Set(rows.map(({ run_id }) => run_id))]);
    const readable = await access.readable(context.actor, runs);
    return cursors.page(rows, limit, bind, (row) => [row.id], (row) => presentApproval(row, readable.has(row.run_id)));
  }

  async #find(
    context: Context,
    { roomId, status, runId }: Omit<ApprovalList, "limit" | "cursor">,
    before: string | undefined,
    limit: number,
  ): Promise<ApprovalRow[]> {
    const { store, roomAccess } = this.#deps;
    const { actor } = context;
    const approvals = new ApprovalStore(store.db);
    if (roomId !== undefined) {
      const grant = await roomAccess.require(context, roomId);
      const filter = { roomId, status, runId, hiddenUpTo: hiddenUpTo(grant) };
      return await approvals.list(actor.tenantId, filter, before, limit);
    }
    if (status !== undefined && status !== "pending") {
      throw invalidField("/status", "expected `pending`, unless `roomId` is given");
    }
    return await approvals.listPending(actor.tenantId, readerOf(actor), runId, before, limit);
  }

  /** Decides a call. Its run continues once no other call of it waits. */
  async decide(context: Context, { id, decision, remember, comment }: ApprovalDecide): Promise<Approval> {
    const { store, clock, lifecycle, deciders } = this.#deps;
    const { actor } = context;
    return await store.write(async (tx) => {
      const approvals = new ApprovalStore(tx.db);
      const found = await approvals.find(actor.tenantId, id);
      if (found === undefined) throw notVisible("approval");
      const { run, grant } = await this.#requireRun(tx, context, found);
      const call = { read: roomsReadBy(run), tool: found.tool, targetRoomId: found.target_room_id };
      const makerRole = await deciders.require(actor, run, grant, call, tx.db);
      const status = decision === "approve" ? "approved" as const : "denied" as const;
      const set = { status, decided_by: actor.principalId, decided_at: iso(clock.now()), comment: comment ?? null };
      if (!await approvals.decide(actor.tenantId, id, set)) {
        throw new Fault("already_decided", "The approval was decided before, or its run has ended");
      }
      if (remember !== "once") await approvals.putGrant(this.#grantOf(actor, makerRole, found, decision, remember));
      await tx.emit(decidedEvent(run, id, { status, decidedBy: actor.principalId }, actor));
      await lifecycle.resume(tx, run);
      return presentApproval({ ...found, ...set });
    });
  }

  /** What was decided for more than one call, in a room. */
  async listGrants(context: Context, { roomId, agentId, limit, cursor }: GrantList): Promise<Page<Grant>> {
    const { store, clock, cursors, roomAccess } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await roomAccess.require(context, roomId);
    const bind = ["grant.list", tenantId, principalId, roomId, agentId ?? null];
    const after = cursors.decodeId(cursor, bind);
    const filter = { roomId, agentId, now: iso(clock.now()) };
    const rows = await new ApprovalStore(store.db).listGrants(tenantId, filter, after, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], presentGrant);
  }

  /** By who decided, or a moderator of the room. */
  async revokeGrant(context: Context, id: string): Promise<void> {
    const { store, roomAccess } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await store.write(async (tx) => {
      const approvals = new ApprovalStore(tx.db);
      const found = await approvals.findGrant(tenantId, id);
      const visible = found && await roomAccess.find(context.actor, found.room_id, tx.db);
      if (found === undefined || visible === undefined) throw notVisible("grant");
      const { role } = await roomAccess.requireForUpdate(tx, context, found.room_id);
      if (found.created_by !== principalId && !isAtLeast(ROOM_ROLES, role ?? "observer", "moderator")) {
        throw new Fault("forbidden", "Revoking a decision of others requires a moderator of the room");
      }
      await approvals.removeGrants(tenantId, { id });
    });
  }

  async #requireRun(
    tx: AnyTransaction,
    context: Context,
    { run_id }: ApprovalRow,
  ): Promise<{ run: RunRow; grant: RoomGrant }> {
    try {
      return await this.#deps.access.requireForUpdate(tx, context, run_id);
    } catch (thrown) {
      if (isFault(thrown, "not_found")) throw notVisible("approval");
      throw thrown;
    }
  }

  #grantOf(
    { principalId }: Actor,
    makerRole: DeciderRole,
    { tenant_id, agent_id, tool, room_id, target_room_id, reader_ids_json, run_id }: ApprovalRow,
    decision: "approve" | "deny",
    remember: "run" | "room",
  ) {
    const now = this.#deps.clock.now();
    return {
      tenant_id,
      id: newId("grant"),
      agent_id,
      tool,
      room_id,
      target_room_id,
      reader_ids_json,
      run_id: remember === "run" ? run_id : "",
      effect: decision === "approve" ? "allow" as const : "deny" as const,
      created_by: principalId,
      maker_role: makerRole,
      created_at: iso(now),
      expires_at: iso(now + GRANT_MS),
    };
  }
}
