// Principals, API tokens with their refresh tokens, and revoked JWT ids.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** Planner statistics: a tenant has many principals, so they are looked up by id, handle, owner or picture. */
const SIZES: TableStatistics = {
  principal: {
    sqlite_autoindex_principal_1: "1000000 20000 1",
    sqlite_autoindex_principal_2: "1000000 20000 1",
    principal_owner: "100000 2000 2",
    principal_avatar: "500000 10000 1",
  },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table principal (
      tenant_id text not null,
      id text not null,
      kind text not null,
      handle text,
      display_name text not null,
      role text not null,
      role_set_at text,
      owner_id text,
      external_id text,
      avatar_file_id text,
      timezone text,
      locale text,
      status_text text,
      status_emoji text,
      status_until text,
      prefs_json text not null,
      scope_limit text,
      is_disabled integer not null,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      constraint principal_pk primary key (tenant_id, id),
      constraint principal_handle unique (tenant_id, handle)
    )`.execute(db);
    await sql`create index principal_owner on principal (tenant_id, owner_id) where owner_id is not null`.execute(db);
    await sql`create index principal_avatar on principal
      (tenant_id, avatar_file_id) where avatar_file_id is not null`.execute(db);

    await sql`create table api_token (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      name text not null,
      hash text not null unique,
      scopes text not null,
      created_by text not null,
      created_at text not null,
      expires_at text not null,
      last_used_at text
    )`.execute(db);
    await sql`create index api_token_principal on api_token (tenant_id, principal_id, id)`.execute(db);

    await sql`create table token_family (
      tenant_id text not null,
      token_id text primary key,
      role text not null,
      access_seconds integer not null,
      access_expires_at text not null,
      hash text not null,
      previous_hash text,
      rotated_at text
    )`.execute(db);

    await sql`create table revoked_jti (
      tenant_id text not null,
      jti text not null,
      expires_at text not null,
      constraint revoked_jti_pk primary key (tenant_id, jti)
    )`.execute(db);
  },
};

/** Without them, SQLite reads all principals of the tenant for the members of one room. */
const statistics: Migration = {
  name: "0002_statistics",
  async up(db, dialect) {
    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** Whose tokens of before are refused: digests of the ids of people who were erased. */
const erased: Migration = {
  name: "0003_erased",
  async up(db) {
    await sql`create table erased_principal (
      tenant_id text not null,
      hash text not null,
      at text not null,
      constraint erased_principal_pk primary key (tenant_id, hash)
    )`.execute(db);
  },
};

/** What has expired is looked for each hour. */
const indexExpiry: Migration = {
  name: "0004_index_expiry",
  async up(db) {
    await sql`create index api_token_expiry on api_token (expires_at)`.execute(db);
    await sql`create index revoked_jti_expiry on revoked_jti (expires_at)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, statistics, erased, indexExpiry];
