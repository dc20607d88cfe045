// What administers a tenant.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table audit_entry (
      tenant_id text not null,
      id text primary key,
      at text not null,
      actor_id text not null,
      owner_id text,
      token_id text,
      operation text not null,
      via text not null,
      request_id text,
      resource_id text,
      changes_json text not null
    )`.execute(db);
    await sql`create index audit_entry_tenant on audit_entry (tenant_id, id)`.execute(db);
    await sql`create index audit_entry_actor on audit_entry (tenant_id, actor_id, id)`.execute(db);
    await sql`create index audit_entry_resource on audit_entry (tenant_id, resource_id, id)`.execute(db);
    await sql`create index audit_entry_at on audit_entry (at)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
