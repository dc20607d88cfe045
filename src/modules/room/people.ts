// Names of authors and of members of direct rooms, read by one query, including those that left or were disabled.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { presentStatus, type PrincipalVisibility } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { RoomTables } from "./store.ts";
import type { Person } from "./view_schema.ts";
import { PeopleStore, type PersonRow } from "./people_store.ts";

type Deps = { store: Store<RoomTables>; clock: Clock; visibility: PrincipalVisibility };
/** The author and the room of a message. */
type Authored = { senderId: string; roomId: string };

export class RoomPeople {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The authors of messages that the caller reads, without duplicates. Readers of a message may know the author's name. */
  async sendersOf(actor: Actor, messages: readonly Authored[]): Promise<Person[]> {
    if (messages.length === 0) return [];
    const ids = distinct(messages.map(({ senderId }) => senderId));
    const roomIds = distinct(messages.map(({ roomId }) => roomId));
    const rows = await new PeopleStore(this.#deps.store.db).findWithMembership(actor.tenantId, ids, roomIds);
    const visible = new Set((await this.#deps.visibility.filterVisible(actor, rows)).map(({ id }) => id));
    return rows.map((row) => {
      const person = this.#present(row, row.is_member === 1);
      return visible.has(row.id) ? person : { ...person, handle: null, avatarFileId: null, status: null };
    });
  }

  /** The other members of direct rooms, by room. */
  async otherMembers(
    { tenantId, principalId }: Actor,
    roomIds: readonly string[],
  ): Promise<ReadonlyMap<string, Person[]>> {
    if (roomIds.length === 0) return new Map();
    const rows = await new PeopleStore(this.#deps.store.db).otherMembers(tenantId, principalId, roomIds);
    const byRoom = Map.groupBy(rows, (row) => row.room_id);
    return new Map([...byRoom].map(([roomId, own]) => [roomId, own.map((row) => this.#present(row, true))]));
  }

  #present(row: PersonRow, isMember: boolean): Person {
    return {
      id: row.id,
      kind: row.kind,
      handle: row.handle,
      displayName: row.display_name,
      avatarFileId: row.avatar_file_id,
      status: presentStatus(row, this.#deps.clock.now()),
      state: row.is_disabled === 1 ? "disabled" : isMember ? "active" : "left",
    };
  }
}

/** Sorted, so that equal queries are equal as text. */
function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}
