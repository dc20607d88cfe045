// The tables of facts.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** Planner statistics: a tenant has a small part of all facts, and a scope a small part of a tenant's, so their indexes are used. */
const SIZES: TableStatistics = {
  memory: {
    sqlite_autoindex_memory_1: "1000000 1",
    memory_scope: "1000000 20000 5000 100 50 1",
    memory_text: "1000000 20000 5000 100 1",
    memory_owner: "1000000 20000 200",
  },
  memory_source: {
    sqlite_autoindex_memory_source_1: "1000000 20000 2 1",
    memory_source_message: "1000000 20000 2",
    memory_source_room: "1000000 20000 100 1",
  },
  memory_subject: {
    sqlite_autoindex_memory_subject_1: "1000000 20000 100 1",
    memory_subject_memory: "1000000 2",
  },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db, dialect) {
    await sql`create table memory (
      tenant_id text not null,
      id text primary key,
      scope_type text not null,
      scope_id text not null,
      kind text not null,
      text text,
      text_key text,
      confidence real not null,
      valid_from text,
      valid_to text,
      expires_at text,
      pinned integer not null,
      status text not null,
      position integer not null,
      supersedes text,
      superseded_by text,
      version integer not null,
      created_by text not null,
      owner_id text not null,
      created_at text not null,
      updated_at text not null
    )`.execute(db);
    await sql`create index memory_scope on memory (tenant_id, scope_type, scope_id, status, id)`.execute(db);
    await sql`create index memory_text on memory (tenant_id, scope_type, scope_id, text_key)`.execute(db);
    await sql`create index memory_owner on memory (tenant_id, owner_id)`.execute(db);
    await sql`create index memory_expiry on memory (expires_at) where expires_at is not null`.execute(db);
    await sql`create index memory_tombstone on memory (updated_at) where status = 'forgotten'`.execute(db);

    await sql`create table memory_source (
      tenant_id text not null,
      memory_id text not null,
      message_id text not null,
      room_id text not null,
      seq integer not null,
      constraint memory_source_pk primary key (tenant_id, memory_id, message_id)
    )`.execute(db);
    await sql`create index memory_source_message on memory_source (tenant_id, message_id)`.execute(db);
    await sql`create index memory_source_room on memory_source (tenant_id, room_id, memory_id)`.execute(db);

    await sql`create table memory_subject (
      tenant_id text not null,
      principal_id text not null,
      memory_id text not null,
      constraint memory_subject_pk primary key (tenant_id, principal_id, memory_id)
    )`.execute(db);
    await sql`create index memory_subject_memory on memory_subject (memory_id)`.execute(db);

    await sql`create table memory_version (
      tenant_id text not null,
      memory_id text not null,
      version integer not null,
      text text not null,
      status text not null,
      changed_by text not null,
      at text not null,
      constraint memory_version_pk primary key (tenant_id, memory_id, version)
    )`.execute(db);
    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** A list of all that the reader may read is in the order of ids. */
const indexIds: Migration = {
  name: "0002_index_ids",
  async up(db, dialect) {
    await sql`create index memory_tenant on memory (tenant_id, id)`.execute(db);
    if (dialect === "sqlite") await setTableStatistics(db, { memory: { memory_tenant: "1000000 20000 1" } });
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, indexIds];
