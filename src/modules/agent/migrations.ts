// The tables of agents.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table agent (
      tenant_id text not null,
      id text not null,
      model text,
      instructions text not null,
      tools_json text not null,
      ask_first_json text not null,
      memory_scopes_json text not null,
      triggers_json text not null,
      schedule_json text,
      max_steps integer not null,
      max_output_tokens integer not null,
      tokens_per_day bigint,
      is_paused integer not null,
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null,
      primary key (tenant_id, id)
    )`.execute(db);
    await sql`create table agent_run (
      tenant_id text not null,
      id text primary key,
      agent_id text not null,
      room_id text not null,
      thread_id text not null,
      seq bigint not null,
      trigger_kind text not null,
      trigger_message_id text,
      asker_ids_json text not null,
      chain_depth integer not null,
      input text,
      status text not null,
      is_external integer not null,
      queue_key text,
      context_seq bigint,
      lease_owner text,
      lease_until text,
      attempt integer not null,
      step integer not null,
      text text not null,
      active_ms bigint not null,
      read_rooms_json text not null,
      model text,
      input_tokens bigint not null,
      cached_tokens bigint not null,
      output_tokens bigint not null,
      cost bigint not null,
      question text,
      output_message_id text,
      error_code text,
      error_detail text,
      heartbeat_at text not null,
      created_at text not null,
      queued_at text not null,
      started_at text,
      finished_at text,
      is_trimmed integer not null,
      constraint agent_run_queue unique (tenant_id, queue_key)
    )`.execute(db);
    // Only runs that have not finished: there are few.
    await sql`create index agent_run_unfinished on agent_run (status, queued_at)
      where status in ('queued', 'running', 'waiting_approval', 'waiting_input')`.execute(db);
    await sql`create index agent_run_room on agent_run (tenant_id, room_id, id)`.execute(db);
    await sql`create index agent_run_agent on agent_run (tenant_id, agent_id, id)`.execute(db);
    await sql`create index agent_run_finished on agent_run (is_trimmed, finished_at) where finished_at is not null`
      .execute(db);
    await sql`create table agent_step (
      tenant_id text not null,
      run_id text not null,
      n integer not null,
      kind text not null,
      status text not null,
      text text,
      reason text,
      calls_json text,
      tool text,
      call_id text,
      input text,
      result text,
      started_at text not null,
      ended_at text,
      primary key (run_id, n)
    )`.execute(db);
    await sql`create table agent_sent (
      tenant_id text not null,
      message_id text not null,
      run_id text not null,
      chain_depth integer not null,
      created_at text not null,
      primary key (tenant_id, message_id)
    )`.execute(db);
    await sql`create index agent_sent_age on agent_sent (created_at)`.execute(db);
    await sql`create table agent_trigger (
      tenant_id text not null,
      message_id text not null,
      agent_id text not null,
      created_at text not null,
      primary key (tenant_id, message_id, agent_id)
    )`.execute(db);
    await sql`create index agent_trigger_age on agent_trigger (created_at)`.execute(db);
    await sql`create table agent_approval (
      tenant_id text not null,
      id text primary key,
      run_id text not null,
      call_id text not null,
      agent_id text not null,
      room_id text not null,
      target_room_id text not null,
      seq bigint not null,
      tool text not null,
      input text not null,
      reason text not null,
      status text not null,
      decided_by text,
      decided_at text,
      comment text,
      created_at text not null,
      expires_at text not null
    )`.execute(db);
    await sql`create index agent_approval_run on agent_approval (tenant_id, run_id, call_id)`.execute(db);
    await sql`create index agent_approval_room on agent_approval (tenant_id, room_id, id)`.execute(db);
    await sql`create table agent_grant (
      tenant_id text not null,
      id text primary key,
      agent_id text not null,
      tool text not null,
      room_id text not null,
      target_room_id text not null,
      run_id text not null,
      effect text not null,
      created_by text not null,
      created_at text not null,
      expires_at text not null,
      constraint agent_grant_once unique (tenant_id, agent_id, tool, room_id, target_room_id, run_id)
    )`.execute(db);
    await sql`create index agent_grant_room on agent_grant (tenant_id, room_id, id)`.execute(db);
  },
};

/** A run has no other scopes than the tokens with which it was asked for. */
const scopes: Migration = {
  name: "0002_scopes",
  async up(db) {
    await sql`alter table agent_run add column scopes text`.execute(db);
  },
};

/** What a call writes may be read by others than the readers of rooms, such as the attendees of an event. */
const readers: Migration = {
  name: "0003_readers",
  async up(db) {
    await sql`alter table agent_approval add column reader_ids_json text not null default '[]'`.execute(db);
    await sql`alter table agent_grant add column reader_ids_json text not null default '[]'`.execute(db);
  },
};

/** Grants hold while their maker has the role that the decision was based on. */
const makers: Migration = {
  name: "0004_makers",
  async up(db) {
    await sql`alter table agent_grant add column maker_role text not null default 'member'`.execute(db);
  },
};

/** Each tenant has its own retention. */
const age: Migration = {
  name: "0005_age",
  async up(db) {
    await sql`create index agent_run_age on agent_run (tenant_id, finished_at) where is_trimmed = 1`.execute(db);
  },
};

/** Few of all approvals wait for a decision. */
const pending: Migration = {
  name: "0006_pending",
  async up(db) {
    await sql`create index agent_approval_pending on agent_approval (tenant_id, room_id, id) where status = 'pending'`
      .execute(db);
  },
};

/** What a model provider says about a request that it refused. */
const reply: Migration = {
  name: "0007_reply",
  async up(db) {
    await sql`alter table agent_run add column error_reply text`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, scopes, readers, makers, age, pending, reply];
