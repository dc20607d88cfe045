// The tables of plugins, and of the rooms that enable their filters.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table plugin (
      tenant_id text not null,
      id text not null,
      manifest_json text not null,
      state text not null,
      granted_scopes text not null,
      config_encrypted text,
      secret_encrypted text,
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null,
      constraint plugin_pk primary key (tenant_id, id)
    )`.execute(db);
    await sql`create table plugin_filter (
      tenant_id text not null,
      room_id text not null,
      plugin_id text not null,
      enabled_by text not null,
      created_at text not null,
      constraint plugin_filter_pk primary key (tenant_id, room_id, plugin_id)
    )`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
