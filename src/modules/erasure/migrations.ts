// The table of erasures.
import { sql } from "kysely";
import type { PrincipalErasure } from "@/core/erasure.ts";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table erasure (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      pseudonym_id text,
      mode text not null,
      is_dry_run integer not null,
      was_enabled integer not null,
      state text not null,
      counts_json text not null,
      requested_by text not null,
      due_at text not null,
      created_at text not null,
      finished_at text
    )`.execute(db);
    await sql`create index erasure_tenant on erasure (tenant_id, id)`.execute(db);
    await sql`create unique index erasure_open on erasure (tenant_id, principal_id)
      where is_dry_run = 0 and state in ('waiting', 'running')`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];

export const erases: PrincipalErasure = {
  erasure: {
    key: ["id"],
    renames: ["requested_by"],
    keeps: {
      principal_id: "the person until the work is done; replaced when it is done",
      pseudonym_id: "the pseudonym",
    },
  },
};
