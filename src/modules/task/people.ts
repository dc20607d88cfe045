// Who can be given a task: principals who can see its room.
import type { Actor } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { type IdentityService, idOf } from "@/modules/identity/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";

export class TaskPeople {
  readonly #deps: { gate: RoomGate; identity: IdentityService };

  constructor(deps: { gate: RoomGate; identity: IdentityService }) {
    this.#deps = deps;
  }

  /** Of these principals, those who are enabled and see the room. */
  async seeing(tenantId: string, ids: readonly string[], roomId: string): Promise<Set<string>> {
    const rows = [...(await this.#deps.identity.enabled(tenantId, ids)).values()];
    const entries = await Promise.all(
      rows.map(({ id: principalId, kind, role, owner_id: ownerId }) =>
        this.#deps.gate.look({ tenantId, principalId, kind, role, ownerId }, roomId)
      ),
    );
    return new Set(rows.filter((_, index) => entries[index] !== undefined).map((row) => row.id));
  }

  /** The ids behind references, each once; throws for those who cannot be given tasks of the room, unless `known` already. */
  async assignees(
    actor: Actor,
    roomId: string,
    refs: readonly string[],
    known: readonly string[] = [],
  ): Promise<string[]> {
    const ids = [...new Set(refs.map((ref) => idOf(actor, ref)))];
    const fresh = ids.filter((id) => !known.includes(id));
    const fit = await this.seeing(actor.tenantId, fresh, roomId);
    const unfit = fresh.filter((id) => !fit.has(id));
    if (unfit.length > 0) {
      throw new Fault("validation_failed", `/assigneeIds: ${unfit[0]} cannot see the room`, {
        errors: unfit.map((id) => ({
          pointer: "/assigneeIds",
          code: "not_in_room",
          detail: `No principal ${id} who can see the room`,
        })),
      });
    }
    return ids;
  }
}
