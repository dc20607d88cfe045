// The tables of authorizations: codes for one use, and what applications were granted.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table oauth_code (
      tenant_id text not null,
      hash text primary key,
      principal_id text not null,
      role text not null,
      client_hash text not null,
      client_name text not null,
      client_host text,
      redirect_uri text not null,
      challenge text not null,
      scopes text not null,
      resource text not null,
      expires_at text not null,
      token_id text
    )`.execute(db);
    await sql`create index oauth_code_expiry on oauth_code (expires_at)`.execute(db);
    await sql`create index oauth_code_principal on oauth_code (tenant_id, principal_id)`.execute(db);
    await sql`create table oauth_grant (
      tenant_id text not null,
      token_id text primary key,
      principal_id text not null,
      role text not null,
      client_hash text not null,
      client_host text,
      resource text not null,
      key_hash text not null unique,
      secret_hash text not null,
      previous_hash text,
      rotated_at text,
      expires_at text not null
    )`.execute(db);
    await sql`create index oauth_grant_principal on oauth_grant (tenant_id, principal_id, token_id)`.execute(db);
    await sql`create index oauth_grant_expiry on oauth_grant (expires_at)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
