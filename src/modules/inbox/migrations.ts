// Deliveries to agents outside.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table inbox_delivery (
      tenant_id text not null,
      notification_id text primary key,
      principal_id text not null,
      delivery_id text not null,
      attempt integer not null,
      available_at text not null
    )`.execute(db);
    await sql`create index inbox_delivery_id on inbox_delivery (tenant_id, delivery_id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
