// Decides whether a call of a tool may run: by what was decided about it, by grants, and by who will read its effect.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { newId } from "@/core/id.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { Audience, type RoomsRead } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { RunAccess } from "../run/access.ts";
import { eventBase } from "../run/lifecycle.ts";
import { withRoomsRead } from "../run/presenter.ts";
import type { ApprovalRow, GrantRow, RunRow } from "../tables.ts";
import type { Deciders } from "./deciders.ts";
import { presentApproval } from "./presenter.ts";
import { ApprovalStore } from "./store.ts";

const APPROVAL_MS = DAY_MS;

/** Rolls a call back that needs an approval first. */
export class NeedsApproval extends Error {
  readonly target: Target;
  readonly reason: string;

  constructor(target: Target, reason: string) {
    super(reason);
    this.target = target;
    this.reason = reason;
  }
}

/** Rolls a call back that somebody denied. */
export class CallDenied extends Error {}

/** A room that a call changes; and who else will read that, and cannot see all that the run has read. */
type Target = { roomId: string; readerIds: readonly string[] };
/** What a call changes: rooms, and what principals read besides their readers. */
export type CallEffect = { roomIds: Iterable<string>; readerIds: Iterable<string> };
export type GatedCall = { run: RunRow; callId: string; tool: string; asksFirst: boolean };

type Deps = { clock: Clock; identity: Pick<IdentityService, "findEnabled">; access: RunAccess; deciders: Deciders };

export class ApprovalGate {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Throws unless the call may have this effect, given all that the run has read. Denied wins over approved, an approval of this
   * very call over asking again.
   */
  async assertAllowed(
    tx: AnyTransaction,
    { run, callId, tool, asksFirst }: GatedCall,
    effect: CallEffect,
    read: RoomsRead,
  ): Promise<void> {
    const { tenant_id: tenantId, id: runId, agent_id: agentId, room_id: roomId } = run;
    const approvals = new ApprovalStore(tx.db);
    const decided = (await approvals.ofRun(tenantId, runId)).filter((approval) => approval.call_id === callId);
    if (decided.some(({ status }) => status === "denied")) throw new CallDenied();
    for (const target of await this.#targetsOf(tx, run, effect, read)) {
      const { roomId: targetRoomId } = target;
      const grants = await approvals.grantsFor(tenantId, { agentId, tool, roomId, targetRoomId, runId }, this.#now());
      if (grants.some(({ effect }) => effect === "deny")) throw new CallDenied();
      const isApproved = decided.some((approval) =>
        approval.status === "approved" && approval.target_room_id === targetRoomId && covers(approval, target)
      );
      const call = { read: withRoomsRead(run, read), tool, targetRoomId };
      if (isApproved || await this.#isGranted(tx, grants.filter((grant) => covers(grant, target)), call)) continue;
      if (asksFirst) throw new NeedsApproval(target, "The agent asks before each call of this tool");
      if (target.readerIds.length > 0) {
        throw new NeedsApproval(
          target,
          "Some of those who will read it, such as attendees, cannot see everything that the agent has read",
        );
      }
      if (!await Audience.canRead(tx.db, { tenantId, roomId: targetRoomId, read })) {
        throw new NeedsApproval(
          target,
          "Some members of the room that it changes cannot see everything that the agent has read",
        );
      }
    }
  }

  async #isGranted(
    { db }: AnyTransaction,
    grants: readonly GrantRow[],
    call: Parameters<Deciders["couldDecide"]>[1],
  ): Promise<boolean> {
    for (const grant of grants) if (await this.#deps.deciders.couldDecide(grant, call, db)) return true;
    return false;
  }

  /** One approval is for the readers: that of the first room, or of the room of the run where it changes none. */
  async #targetsOf(
    { db }: AnyTransaction,
    { tenant_id: tenantId, agent_id: agentId, room_id }: RunRow,
    { roomIds, readerIds }: CallEffect,
    read: RoomsRead,
  ): Promise<Target[]> {
    const { identity, access } = this.#deps;
    const others = [...readerIds].filter((id) => id !== agentId);
    const hidden: string[] = [];
    for (const { id, kind, role, owner_id } of (await identity.findEnabled(tenantId, others, db)).values()) {
      const reader = { tenantId, principalId: id, kind, role, ownerId: owner_id };
      if (!await access.canSee(reader, read, db)) hidden.push(id);
    }
    const [first = room_id, ...rest] = roomIds;
    return [{ roomId: first, readerIds: hidden.sort() }, ...rest.map((roomId) => ({ roomId, readerIds: [] }))];
  }

  /** Asks for an approval; part of the transaction in which the run begins to wait. */
  async request(
    tx: AnyTransaction,
    { run, callId, tool }: GatedCall,
    input: string,
    need: NeedsApproval,
  ): Promise<void> {
    const now = this.#deps.clock.now();
    const row: ApprovalRow = {
      tenant_id: run.tenant_id,
      id: newId("apr"),
      run_id: run.id,
      call_id: callId,
      agent_id: run.agent_id,
      room_id: run.room_id,
      target_room_id: need.target.roomId,
      reader_ids_json: JSON.stringify(need.target.readerIds),
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
    return iso(this.#deps.clock.now());
  }
}

/** Whether a decision is about all these readers. */
function covers({ reader_ids_json }: Pick<ApprovalRow | GrantRow, "reader_ids_json">, { readerIds }: Target): boolean {
  const known: string[] = JSON.parse(reader_ids_json);
  return readerIds.every((id) => known.includes(id));
}
