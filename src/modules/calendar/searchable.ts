// Events as searchables, and their deletion when a room is purged or a person erased.
import type { RowSelection } from "@/core/page.ts";
import type { Actor } from "@/core/actor.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { CalendarAccess } from "./access.ts";
import { eventFileOwner } from "./files.ts";
import { presentEntry } from "./presenter.ts";
import { CalendarEntry } from "./schema.ts";
import { CalendarStore, type CalendarTables } from "./store.ts";
import { KIND, searchEntry } from "./writer.ts";

const PURGE_BATCH = 100;

type Deps = { store: Store<CalendarTables>; roomAccess: RoomAccess };

export class CalendarSearchable implements Searchable {
  readonly kind = KIND;
  readonly scope = "calendar.read";
  readonly item = CalendarEntry;
  readonly #store: Store<CalendarTables>;
  readonly #access: CalendarAccess;

  constructor(deps: Deps) {
    this.#store = deps.store;
    this.#access = new CalendarAccess(deps);
  }

  async load(
    actor: Actor,
    ids: readonly string[],
    db: AnyDatabase = this.#store.db,
  ): Promise<ReadonlyMap<string, LoadedResource>> {
    const events = await new CalendarStore(db).findAggregates(actor.tenantId, ids);
    const levelOf = await this.#access.levels(actor, events, db);
    const found = new Map<string, LoadedResource>();
    for (const event of events) {
      const { row } = event;
      if (levelOf(event) !== "full") continue;
      found.set(row.id, {
        fields: { title: row.title, description: row.description ?? "", location: row.location ?? "" },
        item: presentEntry(event, { principalId: actor.principalId, level: "full" }),
      });
    }
    return found;
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#store.db,
  ): Promise<readonly SearchEntry[]> {
    const calendar = new CalendarStore(db);
    return (await calendar.loadAggregates(tenantId, await calendar.rows(tenantId, which))).map(searchEntry);
  }
}

/** Deletes the calendar of a purged room, in batches so that other writers do not wait long. */
export async function purgeCalendar(
  store: Store<CalendarTables>,
  files: NamedFiles,
  tenantId: string,
  roomId: string,
): Promise<void> {
  let removed: number;
  do {
    removed = await store.write(async (tx) => {
      const calendar = new CalendarStore(tx.db);
      const ids = await calendar.idsOfRoom(tenantId, roomId, PURGE_BATCH);
      await removeAll(tx, files, tenantId, ids);
      if (ids.length === 0) await calendar.purge(tenantId, roomId);
      return ids.length;
    });
  } while (removed > 0);
}

/** Deletes those of the events that are in no room, and that nobody but the principal attends. */
export function purgeUnshared(
  { store, files, index }: { store: Store<CalendarTables>; files: NamedFiles; index: SearchIndex | undefined },
  tenantId: string,
  principalId: string,
  ids: readonly string[],
): Promise<number> {
  return store.write(async (tx) => {
    const events = await new CalendarStore(tx.db).lockAggregates(tenantId, ids);
    const unshared = events.filter(({ row, attendees }) =>
      row.room_id === null && attendees.every(({ principal_id: id }) => id === null || id === principalId)
    ).map(({ row }) => row.id);
    await index?.remove(tenantId, KIND, unshared);
    await removeAll(tx, files, tenantId, unshared);
    return unshared.length;
  });
}

async function removeAll(
  tx: Transaction<CalendarTables>,
  files: NamedFiles,
  tenantId: string,
  ids: readonly string[],
): Promise<void> {
  const calendar = new CalendarStore(tx.db);
  for (const id of ids) await calendar.remove(tenantId, id);
  await files.detach(tx, tenantId, ...ids.map(eventFileOwner));
}
