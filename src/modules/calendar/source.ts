// What search asks of the calendar, and what goes when a room is purged.
import type { Actor } from "@/core/actor.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Found, Searchable, SearchEntry } from "@/modules/search/mod.ts";
import type { Store } from "@/ports/store.ts";
import { CalendarAccess } from "./access.ts";
import { presentEntry } from "./presenter.ts";
import { CalendarEntry } from "./schema.ts";
import { CalendarStore, type CalendarTables } from "./store.ts";
import { KIND, searchEntry } from "./writer.ts";

const PURGE_BATCH = 100;

type Deps = { store: Store<CalendarTables>; gate: RoomGate };

/** Events as something to search for. */
export class CalendarSource implements Searchable {
  readonly kind = KIND;
  readonly scope = "calendar.read";
  readonly item = CalendarEntry;
  readonly #store: Store<CalendarTables>;
  readonly #access: CalendarAccess;

  constructor(deps: Deps) {
    this.#store = deps.store;
    this.#access = new CalendarAccess(deps);
  }

  async load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, Found>> {
    const store = new CalendarStore(this.#store.db);
    const events = await store.wholesOf(actor.tenantId, ids);
    const levelOf = await this.#access.levels(actor, events);
    const found = new Map<string, Found>();
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

  async entries(tenantId: string, after: string, limit: number): Promise<readonly SearchEntry[]> {
    const calendar = new CalendarStore(this.#store.db);
    return (await calendar.wholes(tenantId, await calendar.after(tenantId, after, limit))).map(searchEntry);
  }
}

/** Removes the calendar of a purged room, batch by batch so that nobody waits long. */
export async function purgeCalendar(store: Store<CalendarTables>, tenantId: string, roomId: string): Promise<void> {
  let removed: number;
  do {
    removed = await store.write(async ({ db }) => {
      const calendar = new CalendarStore(db);
      const ids = await calendar.idsOfRoom(tenantId, roomId, PURGE_BATCH);
      for (const id of ids) await calendar.remove(tenantId, id);
      if (ids.length === 0) await calendar.purge(tenantId, roomId);
      return ids.length;
    });
  } while (removed > 0);
}
