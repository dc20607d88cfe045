// Documents; their CRDT as a snapshot and updates; revisions, comments and, for private ones, readers.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** Planner statistics: a tenant has a small part of all documents, and a parent a small part of a room's, so their indexes are used. */
const SIZES: TableStatistics = {
  document: {
    sqlite_autoindex_document_1: "1000000 1",
    document_room: "1000000 20000 200 1 1",
    document_updated: "1000000 20000 1 1",
    document_created: "1000000 20000 1 1",
    document_title: "1000000 20000 2 1",
    document_parent: "300000 6000 1",
    document_deleted: "50000 1000 1",
  },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db, dialect) {
    await sql`create table document (
      tenant_id text not null,
      id text primary key,
      room_id text,
      parent_id text,
      title text not null,
      kind text not null,
      fragment text,
      state text not null,
      is_locked integer not null,
      generation text not null,
      revision integer not null,
      text_bytes integer not null,
      pending_bytes integer not null,
      state_bytes integer not null,
      pending_since text,
      edited_by text not null,
      edited_at text not null,
      metadata_json text not null,
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null,
      deleted_at text,
      deletion_root_id text
    )`.execute(db);
    await sql`create index document_room on document (tenant_id, room_id, updated_at, id)`.execute(db);
    await sql`create index document_updated on document (tenant_id, updated_at, id)`.execute(db);
    await sql`create index document_parent on document (tenant_id, parent_id) where parent_id is not null`.execute(db);
    await sql`create index document_deleted on document
      (tenant_id, deletion_root_id) where deletion_root_id is not null`.execute(db);
    await sql`create index document_created on document (tenant_id, created_at, id)`.execute(db);
    await sql`create index document_title on document (tenant_id, title, id)`.execute(db);

    await sql`create table document_state (
      tenant_id text not null,
      document_id text primary key,
      snapshot text not null,
      snapshot_revision integer not null,
      text text not null,
      text_revision integer not null
    )`.execute(db);

    await sql`create table document_update (
      tenant_id text not null,
      document_id text not null,
      revision integer not null,
      data text not null,
      principal_id text not null,
      constraint document_update_pk primary key (document_id, revision)
    )`.execute(db);

    await sql`create table document_revision (
      tenant_id text not null,
      document_id text not null,
      revision integer not null,
      kind text not null,
      text text not null,
      nodes_json text,
      bytes integer not null,
      principal_ids_json text not null,
      started_at text not null,
      at text not null,
      constraint document_revision_pk primary key (document_id, revision)
    )`.execute(db);

    await sql`create table document_access (
      tenant_id text not null,
      document_id text not null,
      principal_id text not null,
      role text not null,
      constraint document_access_pk primary key (document_id, principal_id)
    )`.execute(db);
    await sql`create index document_access_principal on document_access
      (tenant_id, principal_id, document_id)`.execute(db);

    await sql`create table document_comment (
      tenant_id text not null,
      id text primary key,
      document_id text not null,
      parent_id text,
      author_id text not null,
      text text not null,
      quote text,
      anchor_start text,
      anchor_end text,
      resolved_by text,
      resolved_at text,
      version integer not null,
      created_at text not null,
      updated_at text not null
    )`.execute(db);
    await sql`create index document_comment_document on document_comment (document_id, created_at, id)`.execute(db);

    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** A person gets a copy of their comments. */
const authors: Migration = {
  name: "0002_authors",
  async up(db) {
    await sql`create index document_comment_author on document_comment (tenant_id, author_id, id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, authors];
