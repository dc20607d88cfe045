// Groups of people and their members.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table user_group (
      tenant_id text not null,
      id text primary key,
      handle text,
      name text not null,
      name_key text not null,
      description text,
      external_id text,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      constraint user_group_handle unique (tenant_id, handle),
      constraint user_group_name unique (tenant_id, name_key)
    )`.execute(db);

    await sql`create table user_group_member (
      tenant_id text not null,
      group_id text not null,
      principal_id text not null,
      added_at text not null,
      constraint user_group_member_pk primary key (group_id, principal_id)
    )`.execute(db);
    await sql`create index user_group_member_principal on user_group_member (tenant_id, principal_id, group_id)`
      .execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
