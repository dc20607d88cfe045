// Assignees of tasks: principals who can see the room.
import type { Actor } from "@/core/actor.ts";
import { assertAllFound } from "@/core/fault.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import {
  canMention,
  notifiableIn,
  type RoomAccess,
  type RoomRow,
  RoomStore,
  type RoomViewer,
} from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";

type RoomViewers = { viewers: RoomViewer[]; room: RoomRow | undefined };
type Deps = { roomAccess: RoomAccess; identity: IdentityService };

export class TaskAssignees {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The enabled ones of these principals who see the room. */
  async filterViewers(
    tx: AnyTransaction,
    tenantId: string,
    ids: readonly string[],
    roomId: string,
  ): Promise<Set<string>> {
    return new Set((await this.#visibleIn(tx, tenantId, ids, roomId)).viewers.map(({ id }) => id));
  }

  /** Those of them who are notified of tasks: no agents that may only read in the room. */
  async notifiable(tx: AnyTransaction, tenantId: string, ids: readonly string[], roomId: string): Promise<string[]> {
    const { viewers, room } = await this.#visibleIn(tx, tenantId, ids, roomId);
    return room === undefined ? [] : notifiableIn(room, viewers).map(({ id }) => id);
  }

  async #visibleIn(
    { db }: AnyTransaction,
    tenantId: string,
    ids: readonly string[],
    roomId: string,
  ): Promise<RoomViewers> {
    const { roomAccess, identity } = this.#deps;
    const enabled = await identity.findEnabled(tenantId, ids, db);
    // The same is read for those who do not exist: how long it takes says nothing about who does.
    const room = ids.length === 0 ? undefined : await new RoomStore(db).find(tenantId, roomId);
    if (room === undefined || room.state === "deleted") return { viewers: [], room: undefined };
    const viewers = await roomAccess.filterViewers(room, ids, db);
    return { viewers: [...viewers.values()].filter(({ id }) => enabled.has(id)), room };
  }

  /** Resolves references to distinct ids; throws for principals who cannot be assigned in the room and are not in `known`. */
  async resolveAssignees(
    tx: AnyTransaction,
    actor: Actor,
    roomId: string,
    refs: readonly string[],
    known: readonly string[],
  ): Promise<string[]> {
    const all = refs.map((ref) => resolvePrincipalId(actor, ref));
    const ids = [...new Set(all)];
    const added = ids.filter((id) => !known.includes(id));
    const { viewers } = await this.#visibleIn(tx, actor.tenantId, added, roomId);
    const assignable = new Set(viewers.filter((viewer) => canMention(actor, viewer)).map(({ id }) => id));
    assertAllFound(
      all,
      new Set([...known, ...assignable]),
      "/assigneeIds",
      (id) => `no principal ${id} that can see the room`,
    );
    return ids;
  }
}
