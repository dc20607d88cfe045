// SQL of events on their way out of a gateway and into one.
import type { Kysely } from "kysely";
import type { CalendarTables } from "../store.ts";

type Db = Kysely<CalendarTables>;

export class CalendarCarryStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Ids of a room's events, or (null) of personal ones; with `isShown` of those that all of the room may see. */
  async ids(
    tenantId: string,
    roomId: string | null,
    isShown: boolean,
    after: string,
    limit: number,
  ): Promise<string[]> {
    let query = this.#db.selectFrom("calendar_event").select("id").where("tenant_id", "=", tenantId)
      .where("id", ">", after).orderBy("id").limit(limit);
    query = roomId === null ? query.where("room_id", "is", null) : query.where("room_id", "=", roomId);
    if (isShown) query = query.where("visibility", "=", "room");
    return (await query.execute()).map((row) => row.id);
  }
}
