// Files, what they are attached to, and how many bytes tenants and members store.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

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

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
