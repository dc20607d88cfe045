// Legal holds.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table legal_hold (
      tenant_id text not null,
      id text primary key,
      room_id text,
      principal_id text,
      reason text not null,
      created_by text not null,
      created_at text not null,
      released_by text,
      released_at text
    )`.execute(db);
    await sql`create index legal_hold_tenant on legal_hold (tenant_id, id)`.execute(db);
    await sql`create index legal_hold_active on legal_hold (tenant_id) where released_at is null`.execute(db);
  },
};

/** What was replaced of resources that keep no earlier states themselves. */
const states: Migration = {
  name: "0002_states",
  async up(db) {
    await sql`create table held_state (
      tenant_id text not null,
      id text primary key,
      type text not null,
      resource_id text not null,
      version integer not null,
      room_id text,
      principal_id text,
      state_json text not null,
      replaced_by text,
      replaced_at text not null
    )`.execute(db);
    await sql`create index held_state_resource on held_state (tenant_id, resource_id, id)`.execute(db);
    await sql`create index held_state_subject on held_state (tenant_id, room_id, principal_id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, states];
