// The tables of tenants.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table tenant (
      id text primary key,
      name text not null,
      settings_json text not null,
      allowed_origins_json text,
      version integer not null,
      created_at text not null,
      updated_at text not null
    )`.execute(db);
  },
};

const retention: Migration = {
  name: "0002_retention",
  async up(db) {
    await sql`create table tenant_retention (
      tenant_id text primary key,
      messages_days integer,
      files_days integer,
      runs_days integer,
      audit_days integer,
      updated_at text not null
    )`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, retention];
