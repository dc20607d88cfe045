// The table of tenants.
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

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
