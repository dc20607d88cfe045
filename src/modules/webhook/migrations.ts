// The tables of webhooks and hooks. The log of events is the queue of webhooks, so a row stores a position, not an event.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics, type TableStatistics } from "@/ports/sql/sqlite_statistics.ts";

/** Planner statistics: a tenant has many positions, and a webhook or a room few of them. */
const SIZES: TableStatistics = {
  webhook_cursor: {
    sqlite_autoindex_webhook_cursor_1: "1000000 20000 9 1",
    webhook_cursor_stream: "1000000 20000 10",
  },
};

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table webhook (
      tenant_id text not null,
      id text not null,
      creator_id text not null,
      creator_role text not null,
      scopes text,
      charged_id text not null,
      url text not null,
      description text,
      events_json text not null,
      room_ids_json text,
      is_enabled integer not null,
      disabled_reason text,
      secret_encrypted text not null,
      previous_secret_encrypted text,
      previous_until text,
      failures integer not null,
      failing_since text,
      next_attempt_at text,
      last_error text,
      lease_owner text,
      lease_until text,
      delivery_count bigint not null,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      constraint webhook_pk primary key (tenant_id, id)
    )`.execute(db);
    await sql`create index webhook_lease on webhook (lease_until) where lease_until is not null`.execute(db);
    await sql`create index webhook_attempt on webhook (next_attempt_at) where next_attempt_at is not null`.execute(db);

    await sql`create table webhook_cursor (
      tenant_id text not null,
      webhook_id text not null,
      stream text not null,
      epoch text not null,
      seq bigint not null,
      puts integer not null default 0,
      moved_at text not null,
      paused_until text,
      constraint webhook_cursor_pk primary key (tenant_id, webhook_id, stream)
    )`.execute(db);
    await sql`create index webhook_cursor_stream on webhook_cursor (tenant_id, stream)`.execute(db);

    await sql`create table webhook_parked (
      tenant_id text not null,
      webhook_id text not null,
      id text not null,
      stream text not null,
      epoch text not null,
      seq bigint not null,
      type text not null,
      state text not null,
      http_status integer,
      error text,
      parked_at text not null,
      constraint webhook_parked_pk primary key (tenant_id, webhook_id, id),
      constraint webhook_parked_event unique (tenant_id, webhook_id, stream, epoch, seq)
    )`.execute(db);

    // A ring of the newest attempts: a slot is overwritten, nothing is deleted.
    await sql`create table webhook_delivery (
      tenant_id text not null,
      webhook_id text not null,
      slot integer not null,
      id text not null,
      event_id text not null,
      stream text not null,
      epoch text not null,
      seq bigint not null,
      type text not null,
      attempt integer not null,
      outcome text not null,
      http_status integer,
      error text,
      duration_ms integer not null,
      at text not null,
      next_attempt_at text,
      constraint webhook_delivery_pk primary key (tenant_id, webhook_id, slot)
    )`.execute(db);

    await sql`create table incoming_hook (
      tenant_id text not null,
      id text not null,
      room_id text not null,
      principal_id text not null,
      responsible_id text not null,
      display_name text not null,
      description text,
      hash text not null unique,
      signing_secret_encrypted text,
      may_mention_all integer not null,
      is_enabled integer not null,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      constraint incoming_hook_pk primary key (tenant_id, id)
    )`.execute(db);
    await sql`create table slash_command (
      tenant_id text not null,
      id text not null,
      room_id text not null,
      name text not null,
      description text not null,
      url text not null,
      display_name text not null,
      principal_id text not null,
      responsible_id text not null,
      secret_encrypted text not null,
      previous_secret_encrypted text,
      previous_until text,
      version integer not null,
      created_at text not null,
      updated_at text not null,
      constraint slash_command_pk primary key (tenant_id, id),
      constraint slash_command_name unique (tenant_id, room_id, name)
    )`.execute(db);
    await sql`create index incoming_hook_room on incoming_hook (tenant_id, room_id, id)`.execute(db);
  },
};

/** What hooks and commands of rooms ask of agents has no other scopes than the token that gave them their address. */
const hookScopes: Migration = {
  name: "0002_hook_scopes",
  async up(db) {
    await sql`alter table incoming_hook add column scopes text`.execute(db);
    await sql`alter table slash_command add column scopes text`.execute(db);
  },
};

/** Nobody reads the notifications of a plugin. */
const responsible: Migration = {
  name: "0003_responsible",
  async up(db) {
    await sql`alter table webhook add column responsible_id text`.execute(db);
  },
};

/** Without them, SQLite reads all positions of the tenant after each commit. */
const statistics: Migration = {
  name: "0004_statistics",
  async up(db, dialect) {
    if (dialect === "sqlite") await setTableStatistics(db, SIZES);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, hookScopes, responsible, statistics];
