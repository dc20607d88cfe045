// The table of notifications.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table notification (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      kind text not null,
      actor_id text,
      actor_kind text,
      room_id text,
      message_id text,
      seq bigint,
      resource_type text,
      resource_id text,
      title text,
      data_json text not null,
      source text,
      read_at text,
      version integer not null,
      created_at text not null,
      constraint notification_source unique (tenant_id, principal_id, source)
    )`.execute(db);
    await sql`create index notification_principal on notification (tenant_id, principal_id, id)`.execute(db);
    await sql`create index notification_unread on notification
      (tenant_id, principal_id) where read_at is null`.execute(db);
    await sql`create index notification_room on notification
      (tenant_id, room_id) where room_id is not null`.execute(db);
    await sql`create index notification_message on notification
      (tenant_id, message_id) where message_id is not null`.execute(db);
  },
};

const agentHops: Migration = {
  name: "0002_agent_hops",
  async up(db) {
    await sql`alter table notification add column agent_hops integer not null default 0`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, agentHops];
