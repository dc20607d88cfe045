// Who will read what is written with a context: it may contain only what all of them may read.
import { type Actor, isGuest } from "@/core/actor.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { hiddenUpTo, type RoomAccess, type RoomGrant, RoomStore, type RoomTables } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";

type Deps = { store: Store<RoomTables>; roomAccess: RoomAccess; identity: IdentityService };

/** Others who will read what the actor is given. They bound what it may be given. */
export class ReaderAudience {
  /** Their ids, the actor's included if it is one of them. */
  readonly ids: ReadonlySet<string>;
  readonly hasGuest: boolean;
  /** Whether others may read it as well, as in a public room. */
  readonly isPublic: boolean;
  readonly #roomAccess: RoomAccess;
  /** Those that do not bound the rooms of the actor already. */
  readonly #givenIds: readonly string[];
  /** By room; `undefined` where not all of them see it. */
  readonly #floors = new Map<string, number | undefined>();

  private constructor(
    roomAccess: RoomAccess,
    { ids, hasGuest, isPublic, givenIds }:
      & Pick<ReaderAudience, "ids" | "hasGuest" | "isPublic">
      & { givenIds: readonly string[] },
  ) {
    this.#roomAccess = roomAccess;
    this.ids = ids;
    this.hasGuest = hasGuest;
    this.isPublic = isPublic;
    this.#givenIds = givenIds;
  }

  /**
   * The given principals and, for an agent in a room, all of its members, whose rooms are the bounds of the actor; `undefined` if
   * nobody but the actor reads it. Unknown principals may read nothing.
   */
  static async of(
    { store, roomAccess, identity }: Deps,
    actor: Actor,
    home: RoomGrant | undefined,
    givenIds: readonly string[],
  ): Promise<ReaderAudience | undefined> {
    const known = await identity.findEnabledFor(actor, givenIds);
    const roles = new Map([...known.values()].map(({ id, role }) => [id, role]));
    if (home !== undefined && actor.kind === "agent") {
      const memberIds = await new RoomStore(store.db).memberIds(actor.tenantId, home.room.id);
      for (const { id, role } of (await roomAccess.filterViewers(home.room, memberIds)).values()) roles.set(id, role);
    }
    const ids = new Set([...givenIds, ...roles.keys()]);
    const isPublic = actor.kind === "agent" && home?.room.visibility === "public";
    if (!isPublic && [...ids].every((id) => id === actor.principalId)) return undefined;
    const hasGuest = [...ids].some((id) => isGuest({ role: roles.get(id) ?? "guest" }));
    return new ReaderAudience(roomAccess, { ids, hasGuest, isPublic, givenIds: [...new Set(givenIds)] });
  }

  /** The last position hidden from one of them, for each of these rooms that all of them see. */
  async floors(rooms: readonly RoomGrant[]): Promise<ReadonlyMap<string, number>> {
    for (const { room } of rooms) {
      if (!this.#floors.has(room.id)) this.#floors.set(room.id, await this.#floorOf(room));
    }
    return new Map(
      rooms.flatMap(({ room: { id } }) => {
        const floor = this.#floors.get(id);
        return floor === undefined ? [] : [[id, floor]];
      }),
    );
  }

  async #floorOf(room: RoomGrant["room"]): Promise<number | undefined> {
    const viewers = await this.#roomAccess.filterViewers(room, this.#givenIds);
    if (viewers.size < this.#givenIds.length) return undefined;
    const floors = [...viewers.values()].map((viewer) => hiddenUpTo({ room: { ...room, ...viewer } }));
    return Math.max(hiddenUpTo({ room }), ...floors);
  }
}
