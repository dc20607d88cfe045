// Who may decide about a call of a run: only what they could do themselves, and a decision holds only as long as they could.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { authorize } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { type Operation, requiredRoomRole } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess, RoomGrant, RoomsRead } from "@/modules/room/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import type { RunAccess } from "../run/access.ts";
import { askersOf } from "../run/presenter.ts";
import type { GrantRow, RunRow } from "../tables.ts";

type Deps = {
  identity: Pick<IdentityService, "subject">;
  roomAccess: RoomAccess;
  access: RunAccess;
  operations: () => ReadonlyMap<string, Operation>;
};
type DecidedCall = { read: RoomsRead; tool: string; targetRoomId: string };
/** The role that a decision is based on; those who asked for the run need no more than that of a member. */
export type DeciderRole = GrantRow["maker_role"];

export class Deciders {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Throws unless the actor asked for the run, or moderates its room, and could make the call. No agent decides. */
  async require(
    actor: Actor,
    run: RunRow,
    { role }: RoomGrant,
    call: DecidedCall,
    db: AnyDatabase,
  ): Promise<DeciderRole> {
    if (actor.kind === "agent") throw new Fault("forbidden", "Agents do not decide approvals");
    const decidesAs = askersOf(run).includes(actor.principalId) ? "member" : "moderator";
    if (role === null || !isAtLeast(ROOM_ROLES, role, decidesAs)) {
      throw new Fault(
        "forbidden",
        "Only principals that asked for the run and moderators of the room decide its approvals",
      );
    }
    await this.#assertCouldCall(actor, call, db);
    return decidesAs;
  }

  /** Whether the maker of a grant could still decide this call. */
  async couldDecide(
    { tenant_id: tenantId, created_by, maker_role, room_id }: GrantRow,
    call: DecidedCall,
    db: AnyDatabase,
  ): Promise<boolean> {
    const { identity, roomAccess } = this.#deps;
    try {
      const maker = await identity.subject(tenantId, created_by, db);
      const role = (await roomAccess.find(maker, room_id, db))?.role ?? null;
      if (role === null || !isAtLeast(ROOM_ROLES, role, maker_role)) return false;
      // Scopes were those of the token with which it was decided.
      const actor = { ...maker, displayName: "", scopes: undefined, tokenId: undefined, expiresAt: undefined };
      await this.#assertCouldCall(actor, call, db);
      return true;
    } catch (thrown) {
      if (thrown instanceof Fault && !thrown.spec.retryable) return false;
      throw thrown;
    }
  }

  async #assertCouldCall(actor: Actor, { read, tool, targetRoomId }: DecidedCall, db: AnyDatabase): Promise<void> {
    const { access, roomAccess, operations } = this.#deps;
    await access.assertCanSee(actor, read, db);
    const operation = operations().get(tool);
    if (operation === undefined) return;
    authorize(operation, actor);
    const target = await roomAccess.find(actor, targetRoomId, db);
    const least = requiredRoomRole(target?.room.kind, operation.access, actor) ?? "member";
    if (target?.role === undefined || target.role === null || !isAtLeast(ROOM_ROLES, target.role, least)) {
      throw new Fault("forbidden", `Only principals that may call ${tool} in the room themselves decide this`);
    }
  }
}
