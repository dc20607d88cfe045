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

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
