// Decides whether a call of a tool may run: by what was decided about it, by grants, and by who will read its effect.
import { type Clock, DAY_MS, iso } from "@/core/clock.ts";
import { newId } from "@/core/id.ts";
import { Audience, type RoomsRead } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { eventBase } from "../run/lifecycle.ts";
import type { ApprovalRow, RunRow } from "../tables.ts";
import { presentApproval } from "./presenter.ts";
import { ApprovalStore } from "./store.ts";

const APPROVAL_MS = DAY_MS;

/** Rolls a call back that needs an approval first. */
export class NeedsApproval extends Error {
  readonly targetRoomId: string;
  readonly reason: string;

  constructor(targetRoomId: string, reason: string) {
    super(reason);
    this.targetRoomId = targetRoomId;
    this.reason = reason;
  }
}

/** Rolls a call back that somebody denied. */
export class CallDenied extends Error {}

export type GatedCall = { run: RunRow; callId: string; tool: string; asksFirst: boolean };

export class ApprovalGate {
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Throws unless the call may change these rooms, given all that the run has read. Denied wins over approved, an
   * approval of this very call over asking again.
   */
  async assertAllowed(
    tx: AnyTransaction,
    { run, callId, tool, asksFirst }: GatedCall,
    targetRoomIds: readonly string[],
    read: RoomsRead,
  ): Promise<void> {
    const { tenant_id: tenantId, id: runId, agent_id: agentId, room_id: roomId } = run;
    const approvals = new ApprovalStore(tx.db);
    const decided = (await approvals.ofRun(tenantId, runId)).filter((approval) => approval.call_id === callId);
    if (decided.some(({ status }) => status === "denied")) throw new CallDenied();
    const targets = targetRoomIds.length === 0 ? [roomId] : targetRoomIds;
    for (const targetRoomId of targets) {
      const grants = await approvals.grantsFor(tenantId, { agentId, tool, roomId, targetRoomId, runId }, this.#now());
      if (grants.some(({ effect }) => effect === "deny")) throw new CallDenied();
      const isApproved = decided.some(({ status, target_room_id }) =>
        status === "approved" && target_room_id === targetRoomId
      );
      if (isApproved || grants.length > 0) continue;
      if (asksFirst) throw new NeedsApproval(targetRoomId, "The agent asks before each call of this tool");
      if (!await Audience.canRead(tx.db, { tenantId, roomId: targetRoomId, read })) {
        throw new NeedsApproval(
          targetRoomId,
          "Some members of the room that it changes cannot see everything that the agent has read",
        );
      }
    }
  }

  /** Asks for an approval; part of the transaction in which the run begins to wait. */
  async request(
    tx: AnyTransaction,
    { run, callId, tool }: GatedCall,
    input: string,
    need: NeedsApproval,
  ): Promise<void> {
    const now = this.#clock.now();
    const row: ApprovalRow = {
      tenant_id: run.tenant_id,
      id: newId("apr"),
      run_id: run.id,
      call_id: callId,
      agent_id: run.agent_id,
      room_id: run.room_id,
      target_room_id: need.targetRoomId,
      seq: run.seq,
      tool,
      input,
      reason: need.reason,
      status: "pending",
      decided_by: null,
      decided_at: null,
      comment: null,
      created_at: iso(now),
      expires_at: iso(now + APPROVAL_MS),
    };
    await new ApprovalStore(tx.db).add(row);
    const { input: _input, ...head } = presentApproval(row);
    await tx.emit({ ...eventBase(run), type: "approval.requested", data: { approval: head } });
  }

  #now(): string {
    return iso(this.#clock.now());
  }
}
