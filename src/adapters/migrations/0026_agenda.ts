// Calendars are asked what goes on from now on, so their indexes begin with when events end: what is over is passed by.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const agenda: Migration = {
  name: "0026_agenda",
  async up(db) {
    await db.schema.dropIndex("calendar_event_room").execute();
    await db.schema.dropIndex("calendar_event_creator").execute();
    // A series that goes on ends after everything else.
    await sql`create index calendar_event_room on calendar_event
      (tenant_id, room_id, coalesce(to_at, '9999-12-31T23:59:59.999Z'), from_at) where room_id is not null`.execute(db);
    await sql`create index calendar_event_creator on calendar_event
      (tenant_id, created_by, coalesce(to_at, '9999-12-31T23:59:59.999Z'), from_at)`.execute(db);
  },
};
