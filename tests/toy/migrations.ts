// The table of bookmarks.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table bookmark (
      tenant_id text not null,
      id text primary key,
      room_id text not null,
      title text not null,
      url text not null,
      created_by text not null,
      created_at text not null
    )`.execute(db);
    await sql`create index bookmark_room on bookmark (tenant_id, room_id, id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
