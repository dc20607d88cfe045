// The tables of providers, budgets and usage.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table ai_provider (
      tenant_id text not null,
      id text not null,
      kind text not null,
      base_url text not null,
      key_encrypted text,
      models_json text not null,
      priority integer not null,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      primary key (tenant_id, id)
    )`.execute(db);
    await sql`create table ai_budget (
      tenant_id text not null,
      scope text not null,
      subject_id text not null,
      period text not null,
      token_limit bigint,
      cost_limit bigint,
      created_by text not null,
      updated_at text not null,
      primary key (tenant_id, scope, subject_id, period)
    )`.execute(db);
    await sql`create table ai_budget_window (
      tenant_id text not null,
      budget text not null,
      starts_at text not null,
      token_limit bigint,
      cost_limit bigint,
      tokens_used bigint not null,
      tokens_reserved bigint not null,
      cost_used bigint not null,
      cost_reserved bigint not null,
      exhausted_at text,
      primary key (tenant_id, budget, starts_at)
    )`.execute(db);
    await sql`create table ai_reservation (
      tenant_id text not null,
      id text not null,
      run_id text,
      tokens bigint not null,
      cost bigint not null,
      windows_json text not null,
      expires_at text not null,
      primary key (tenant_id, id)
    )`.execute(db);
    await sql`create index ai_reservation_run on ai_reservation (tenant_id, run_id)`.execute(db);
    await sql`create index ai_reservation_expiry on ai_reservation (expires_at)`.execute(db);
    await sql`create table ai_usage (
      tenant_id text not null,
      day text not null,
      principal_id text not null,
      agent_id text not null,
      room_id text not null,
      provider text not null,
      model text not null,
      calls bigint not null,
      input_tokens bigint not null,
      cached_tokens bigint not null,
      output_tokens bigint not null,
      estimated_tokens bigint not null,
      cost bigint not null,
      primary key (tenant_id, day, principal_id, agent_id, room_id, provider, model)
    )`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
