// What the identity provider says of the people whom it provisions.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table scim_user (
      tenant_id text not null,
      id text not null,
      user_name text not null,
      user_name_key text not null,
      external_id text not null,
      email_key text not null,
      profile_json text not null,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      constraint scim_user_pk primary key (tenant_id, id),
      constraint scim_user_name unique (tenant_id, user_name_key)
    )`.execute(db);
    await sql`create index scim_user_external on scim_user (tenant_id, external_id, id)`.execute(db);
    await sql`create index scim_user_email on scim_user (tenant_id, email_key, id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
