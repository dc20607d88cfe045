// The audience of an agent: who will read what it says bounds what it may read.
import { lowerOf, ROOM_ROLES, type RoomBounds, type RoomRole } from "@/core/actor.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { AudienceStore, type CandidateRoom } from "./audience_store.ts";

type Bound = { role: RoomRole; joinedSeq: number };

/** Rooms of which something was read, each with the position up to and including which nothing was. */
export type RoomsRead = ReadonlyMap<string, number>;

/**
 * The rooms that all readers of a room can see: its members, and of a public one everybody who may browse it. An agent
 * that speaks there may read these only, each with the lowest role of those who asked it. It notes which were read.
 */
export class Audience implements RoomBounds {
  /** Rooms whose access was checked: all that a call changes are among them. */
  readonly checked = new Set<string>();
  /** Principals who can read what a call changes, besides the readers of these rooms. */
  readonly readerIds = new Set<string>();
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
    const floorIn = floorsOf(store, tenantId, roomId, rooms);
    for (const room of rooms) {
      const { id } = room;
      const own = askerIds.map((askerId) => roles.get(`${id} ${askerId}`));
      // In the room itself only a member asks; elsewhere, who browses a public room may read it.
      if (id === roomId && own.includes(undefined)) continue;
      const role = own.reduce<RoomRole>((lowest, one) => lowerOf(ROOM_ROLES, lowest, one ?? "observer"), "owner");
      bounds.set(id, { role, joinedSeq: await floorIn(room) });
    }
    return new Audience(bounds);
  }

  /** Whether every reader of a room can see all that was read, in that room as well: somebody may have joined it since. */
  static async canRead(
    db: AnyDatabase,
    { tenantId, roomId, read }: { tenantId: string; roomId: string; read: RoomsRead },
  ): Promise<boolean> {
    if (read.size === 0) return true;
    const store = new AudienceStore(db);
    const rooms = await store.filterSeenByAll(tenantId, roomId, [...new Set([roomId, ...read.keys()])]);
    const floorIn = floorsOf(store, tenantId, roomId, rooms);
    for (const [id, floor] of read) {
      const room = rooms.find((one) => one.id === id);
      if (room === undefined || await floorIn(room) > floor) return false;
    }
    return true;
  }

  boundIn(roomId: string): Bound | undefined {
    const bound = this.#bounds.get(roomId);
    if (bound !== undefined) this.checked.add(roomId);
    return bound;
  }

  rooms(): ReadonlyMap<string, number> {
    this.#isListed = true;
    return this.#starts();
  }

  addReaders(principalIds: Iterable<string>): void {
    for (const id of principalIds) this.readerIds.add(id);
  }

  /** Rooms of which something may have been read: a list across rooms may return something of each. */
  get read(): RoomsRead {
    return this.#starts((id) => this.#isListed || this.checked.has(id));
  }

  #starts(isWanted: (id: string) => boolean = () => true): ReadonlyMap<string, number> {
    const bounds = [...this.#bounds].filter(([id]) => isWanted(id));
    return new Map(bounds.map(([id, { joinedSeq }]) => [id, joinedSeq]));
  }
}

/** Returns the position up to which a room of `rooms` is hidden from some reader of the room `readersOf`. */
function floorsOf(
  store: AudienceStore,
  tenantId: string,
  readersOf: string,
  rooms: readonly CandidateRoom[],
): (room: CandidateRoom) => Promise<number> {
  const isPublic = rooms.some(({ id, visibility }) => id === readersOf && visibility === "public");
  return async ({ id, history_visibility }) => {
    if (history_visibility === "shared") return 0;
    // Who browses a public room has joined no other one.
    return isPublic && id !== readersOf ? Number.MAX_SAFE_INTEGER : await store.latestJoin(tenantId, readersOf, id);
  };
}
