// The table of interactions: commands and actions, and who may respond.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table interaction (
      tenant_id text not null,
      id text primary key,
      room_id text not null,
      kind text not null,
      name text not null,
      message_id text,
      caller_id text not null,
      responder_id text not null,
      client_message_id text,
      fingerprint text,
      thread_root_id text,
      state text not null,
      response_json text,
      late_count integer not null,
      called_at text not null,
      created_at text not null,
      expires_at text not null
    )`.execute(db);
    await sql`create unique index interaction_client_id on interaction
      (tenant_id, room_id, caller_id, client_message_id) where client_message_id is not null`.execute(db);
    await sql`create index interaction_expiry on interaction (expires_at)`.execute(db);
    await sql`create index interaction_room on interaction (tenant_id, room_id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
