// Files, what they are attached to, and how many bytes tenants and members store.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** Planner statistics: a tenant has many files and attachments; a room, or an owner of attachments, has few of them. */
const SIZES: TableStatistics = {
  file: { sqlite_autoindex_file_1: "1000000 1", file_uploader: "1000000 20000 100 1", file_stale: "10000 200 1" },
  file_link: {
    sqlite_autoindex_file_link_1: "1000000 2 1",
    file_link_owner: "1000000 20000 2",
    file_link_room: "1000000 20000 20 1",
  },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table file (
      tenant_id text not null,
      id text primary key,
      uploader_id text not null,
      charged_id text not null,
      room_id text,
      name text not null,
      content_type text not null,
      size bigint not null,
      sha256 text not null,
      width integer,
      height integer,
      state text not null,
      created_at text not null
    )`.execute(db);
    await sql`create index file_uploader on file (tenant_id, uploader_id, id)`.execute(db);
    await sql`create index file_stale on file
      (tenant_id, created_at) where state in ('receiving', 'unlinked')`.execute(db);

    await sql`create table file_link (
      tenant_id text not null,
      file_id text not null,
      owner text not null,
      room_id text not null,
      seq bigint not null,
      constraint file_link_pk primary key (file_id, owner)
    )`.execute(db);
    await sql`create index file_link_owner on file_link (tenant_id, owner)`.execute(db);
    await sql`create index file_link_room on file_link (tenant_id, room_id, file_id)`.execute(db);

    await sql`create table file_usage (
      tenant_id text primary key,
      bytes bigint not null
    )`.execute(db);

    await sql`create table member_usage (
      tenant_id text not null,
      owner_id text not null,
      bytes bigint not null,
      constraint member_usage_pk primary key (tenant_id, owner_id)
    )`.execute(db);
  },
};

/** Without them, SQLite reads all files of the tenant for those of one room, and all attachments for those of one file. */
const statistics: Migration = {
  name: "0002_statistics",
  async up(db, dialect) {
    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, statistics];
