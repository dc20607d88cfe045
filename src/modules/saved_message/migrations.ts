// Messages that principals saved.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table saved_message (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      message_id text not null,
      room_id text not null,
      state text not null,
      remind_at text,
      saved_at text not null,
      constraint saved_message_once unique (principal_id, message_id, tenant_id)
    )`.execute(db);
    await sql`create index saved_message_principal on saved_message (tenant_id, principal_id, id)`.execute(db);
    await sql`create index saved_message_message on saved_message (message_id)`.execute(db);
    await sql`create index saved_message_room on saved_message (room_id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
