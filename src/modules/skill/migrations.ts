// The tables of skills, their versions with files, and what they are attached to.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table skill (
      tenant_id text not null,
      name text not null,
      digest text not null,
      is_enabled integer not null,
      created_by text not null,
      created_at text not null,
      constraint skill_pk primary key (tenant_id, name)
    )`.execute(db);
    await sql`create table skill_version (
      tenant_id text not null,
      skill_name text not null,
      digest text not null,
      state text not null,
      frontmatter_json text not null,
      size integer not null,
      created_by text not null,
      created_at text not null,
      approved_by text,
      constraint skill_version_pk primary key (tenant_id, skill_name, digest)
    )`.execute(db);
    await sql`create table skill_file (
      tenant_id text not null,
      skill_name text not null,
      digest text not null,
      path text not null,
      size integer not null,
      encoding text not null,
      content text not null,
      constraint skill_file_pk primary key (tenant_id, skill_name, digest, path)
    )`.execute(db);
    await sql`create table skill_attachment (
      tenant_id text not null,
      kind text not null,
      subject_id text not null,
      skill_name text not null,
      digest text not null,
      attached_by text not null,
      attached_at text not null,
      constraint skill_attachment_pk primary key (tenant_id, kind, subject_id, skill_name)
    )`.execute(db);
    await sql`create index skill_attachment_skill on skill_attachment (tenant_id, skill_name)`.execute(db);
  },
};

/** Skills of agents count for their owners. */
const charged: Migration = {
  name: "0002_charged",
  async up(db) {
    await sql`alter table skill add column charged_id text`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, charged];
