// Meetings, their participants with leases, consents to recordings, and transcripts.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table meeting (
      tenant_id text not null,
      id text primary key,
      room_id text not null,
      title text,
      kind text not null,
      state text not null,
      is_open integer not null,
      host_id text not null,
      scheduled_for text,
      max_participants integer not null,
      is_lobby integer not null,
      is_locked integer not null,
      agent_ids_json text not null,
      ring_ids_json text,
      ring_expires_at text,
      close_at text,
      recording_json text,
      started_at text,
      ended_at text,
      end_reason text,
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null
    )`.execute(db);
    await sql`create index meeting_room on meeting (tenant_id, room_id, id)`.execute(db);
    await sql`create unique index meeting_open on meeting (tenant_id, room_id) where is_open = 1`.execute(db);

    await sql`create table meeting_participant (
      tenant_id text not null,
      id text primary key,
      meeting_id text not null,
      room_id text not null,
      principal_id text not null,
      principal_kind text not null,
      display_name text not null,
      device_id text not null,
      role text not null,
      state text not null,
      is_muted integer not null,
      capabilities_json text not null,
      hand_raised_at text,
      lease_expires_at text not null,
      joined_at text,
      left_at text,
      left_reason text,
      created_at text not null
    )`.execute(db);
    await sql`create index meeting_participant_live on meeting_participant (tenant_id, meeting_id, state)`.execute(db);
    await sql`create index meeting_participant_principal on meeting_participant
      (tenant_id, principal_id, state)`.execute(db);

    await sql`create table meeting_consent (
      tenant_id text not null,
      meeting_id text not null,
      recording_id text not null,
      principal_id text not null,
      given_at text not null,
      constraint meeting_consent_pk primary key (tenant_id, meeting_id, recording_id, principal_id)
    )`.execute(db);

    await sql`create table meeting_segment (
      tenant_id text not null,
      id text primary key,
      meeting_id text not null,
      start_ms integer not null,
      end_ms integer not null,
      speaker_id text not null,
      text text not null,
      posted_by text not null,
      created_at text not null
    )`.execute(db);
    await sql`create index meeting_segment_order on meeting_segment (tenant_id, meeting_id, start_ms, id)`.execute(db);
  },
};

/** A person gets a copy of what they said. */
const speakers: Migration = {
  name: "0002_speakers",
  async up(db) {
    await sql`create index meeting_segment_speaker on meeting_segment (tenant_id, speaker_id, id)`.execute(db);
  },
};

/** Nearly all meetings have ended. */
const lists: Migration = {
  name: "0003_index_lists",
  async up(db) {
    await sql`create index meeting_tenant on meeting (tenant_id, id)`.execute(db);
    await sql`create index meeting_state on meeting (tenant_id, state, id)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, speakers, lists];
