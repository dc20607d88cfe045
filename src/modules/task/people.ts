// Who can be given a task: principals who can see its room.
import type { Actor } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { type IdentityService, idOf } from "@/modules/identity/mod.ts";
import { addressedIn, mayName, type RoomGate, type RoomRow, RoomStore, type Visitor } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { TaskTables } from "./tables.ts";

type Met = { visitors: Visitor[]; room: RoomRow | undefined };
type Deps = { store: Store<TaskTables>; gate: RoomGate; identity: IdentityService };

export class TaskPeople {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Of these principals, those who are enabled and see the room. */
  async seeing(tenantId: string, ids: readonly string[], roomId: string): Promise<Set<string>> {
    return new Set((await this.#meet(tenantId, ids, roomId)).visitors.map(({ id }) => id));
  }

  /** Of those, whom tasks are brought to: not agents that the room lets do nothing but read. */
  async addressed(tenantId: string, ids: readonly string[], roomId: string): Promise<string[]> {
    const { visitors, room } = await this.#meet(tenantId, ids, roomId);
    return room === undefined ? [] : addressedIn(room, visitors).map(({ id }) => id);
  }

  async #meet(tenantId: string, ids: readonly string[], roomId: string): Promise<Met> {
    const { store, gate, identity } = this.#deps;
    const enabled = await identity.enabled(tenantId, ids);
    const room = enabled.size === 0 ? undefined : await new RoomStore(store.db).find(tenantId, roomId);
    if (room === undefined || room.state === "deleted") return { visitors: [], room: undefined };
    return { visitors: [...(await gate.seeing(room, [...enabled.keys()])).values()], room };
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
    const { visitors } = await this.#meet(actor.tenantId, fresh, roomId);
    const fit = new Set(visitors.filter((visitor) => mayName(actor, visitor)).map(({ id }) => id));
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
