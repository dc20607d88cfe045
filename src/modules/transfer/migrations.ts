// Imports and exports, and lines of an archive that are sorted before they are imported.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table transfer_import (
      tenant_id text not null,
      id text primary key,
      kind text not null,
      namespace text not null,
      principal_map_json text not null,
      state text not null,
      blob_key text,
      size bigint,
      progress_json text not null,
      report_json text not null,
      failure_json text,
      requested_by text not null,
      requester_role text not null,
      charged_id text not null,
      charged_bytes bigint not null,
      version integer not null,
      created_at text not null,
      started_at text,
      finished_at text
    )`.execute(db);
    await sql`create index transfer_import_tenant on transfer_import (tenant_id, id)`.execute(db);

    await sql`create table transfer_line (
      tenant_id text not null,
      import_id text not null,
      room_key text not null,
      at text not null,
      line bigint not null,
      json text not null,
      constraint transfer_line_pk primary key (import_id, room_key, at, line)
    )`.execute(db);

    await sql`create table transfer_import_history (
      tenant_id text not null,
      container text not null,
      name text not null,
      constraint transfer_import_history_pk primary key (tenant_id, container, name)
    )`.execute(db);

    await sql`create table transfer_export (
      tenant_id text not null,
      id text primary key,
      kind text not null,
      room_id text,
      hidden_up_to bigint not null,
      with_files integer not null,
      with_revisions integer not null,
      state text not null,
      blob_key text,
      size bigint,
      counts_json text not null,
      failure_json text,
      requested_by text not null,
      charged_id text not null,
      charged_bytes bigint not null,
      version integer not null,
      created_at text not null,
      finished_at text,
      expires_at text
    )`.execute(db);
    await sql`create index transfer_export_tenant on transfer_export (tenant_id, id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
