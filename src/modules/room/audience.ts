// The audience of an agent: who will read what it says bounds what it may read.
import { lowerOf, ROOM_ROLES, type RoomBounds, type RoomRole } from "@/core/actor.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { AudienceStore } from "./audience_store.ts";

type Bound = { role: RoomRole; joinedSeq: number };

/**
 * The rooms that all readers of a room can see: its members, and of a public one everybody who may browse it. An agent that speaks there may read these only, each with the lowest role of those
 * who asked it. It notes which of them were read.
 */
export class Audience implements RoomBounds {
  /** Rooms whose access was checked: all that a call changes are among them. */
  readonly checked = new Set<string>();
  #isListed = false;
  readonly #bounds: ReadonlyMap<string, Bound>;

  private constructor(bounds: ReadonlyMap<string, Bound>) {
    this.#bounds = bounds;
  }

  /** As it is in the state that `db` sees. */
  static async of(
    db: AnyDatabase,
    { tenantId, roomId, agentId, askerIds }: {
      tenantId: string;
      roomId: string;
      agentId: string;
      askerIds: readonly string[];
    },
  ): Promise<Audience> {
    const store = new AudienceStore(db);
    const rooms = await store.seenByAll(tenantId, roomId, agentId);
    const roles = new Map<string, RoomRole>();
    for (const row of await store.roles(tenantId, rooms.map(({ id }) => id), askerIds)) {
      roles.set(`${row.room_id} ${row.principal_id}`, row.role);
    }
    const bounds = new Map<string, Bound>();
    const isPublic = rooms.some(({ id, visibility }) => id === roomId && visibility === "public");
    for (const { id, history_visibility } of rooms) {
      const own = askerIds.map((askerId) => roles.get(`${id} ${askerId}`));
      // In the room itself only a member asks; elsewhere, who browses a public room may read it.
      if (id === roomId && own.includes(undefined)) continue;
      const role = own.reduce<RoomRole>((lowest, one) => lowerOf(ROOM_ROLES, lowest, one ?? "observer"), "owner");
      const isShared = history_visibility === "shared";
      // Who browses the room has joined no other one.
      const isHidden = isPublic && id !== roomId;
      const joinedSeq = isShared
        ? 0
        : isHidden
        ? Number.MAX_SAFE_INTEGER
        : await store.latestJoin(tenantId, roomId, id);
      bounds.set(id, { role, joinedSeq });
    }
    return new Audience(bounds);
  }

  /** Whether every reader of a room can see all of these rooms. */
  static async canRead(
    db: AnyDatabase,
    { tenantId, roomId, roomIds }: { tenantId: string; roomId: string; roomIds: readonly string[] },
  ): Promise<boolean> {
    const others = [...new Set(roomIds)].filter((id) => id !== roomId);
    return (await new AudienceStore(db).filterSeenByAll(tenantId, roomId, others)).length === others.length;
  }

  boundIn(roomId: string): Bound | undefined {
    const bound = this.#bounds.get(roomId);
    if (bound !== undefined) this.checked.add(roomId);
    return bound;
  }

  roomIds(): readonly string[] {
    this.#isListed = true;
    return [...this.#bounds.keys()];
  }

  /** Rooms of which something may have been read: a list across rooms may return something of each. */
  get read(): string[] {
    return this.#isListed ? [...this.#bounds.keys()] : [...this.checked];
  }
}
