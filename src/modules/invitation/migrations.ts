// Invitations to a tenant.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table invitation (
      tenant_id text not null,
      id text primary key,
      hash text not null unique,
      name text not null,
      role text not null,
      principal_id text,
      uses_left integer not null,
      created_by text,
      created_at text not null,
      expires_at text not null
    )`.execute(db);
    await sql`create index invitation_tenant on invitation (tenant_id, id)`.execute(db);
  },
};

const sessionTime: Migration = {
  name: "0002_session_time",
  async up(db) {
    await sql`alter table invitation add column session_ms integer`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, sessionTime];
