// Rooms by when they were last active, from an index on the minute only: with the time itself in an index, every message moved
// its room's row, and with that an entry of each index of rooms. On PostgreSQL that was a fifth of what a send cost.
import { sql } from "kysely";
import type { Migration } from "./migration.ts";

export const roomMinute: Migration = {
  name: "0019_room_minute",
  async up(db, dialect) {
    await db.schema.dropIndex("room_active").execute();
    const kind = sql.raw(dialect === "postgres" ? "stored" : "virtual");
    await sql`alter table room add column active_minute text generated always as (substr(active_at, 1, 16)) ${kind}`
      .execute(db);
    await db.schema.createIndex("room_active").on("room").columns(["tenant_id", "active_minute"]).execute();
    // Room on a page lets PostgreSQL update a row without touching any index.
    if (dialect === "postgres") await sql`alter table room set (fillfactor = 50)`.execute(db);
  },
};
