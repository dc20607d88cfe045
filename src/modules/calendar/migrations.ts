// Calendar events with edits of single occurrences and attendees; secret feeds; imports.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    // `calendar` is `room:<id>` or `principal:<id>`, or of one member where the room does not see the event. One uid per calendar,
    // so that an import can be repeated.
    await sql`create table calendar_event (
      tenant_id text not null,
      id text primary key,
      calendar text not null,
      uid text not null,
      room_id text,
      title text not null,
      description text,
      location text,
      visibility text not null,
      is_transparent integer not null,
      start_local text not null,
      time_zone text,
      duration_seconds integer not null,
      rrule text,
      last_local text,
      ex_dates_json text not null,
      from_at text not null,
      to_at text,
      reminders_json text not null,
      reminded_at text not null,
      meeting_id text,
      version integer not null,
      created_by text not null,
      created_at text not null,
      updated_at text not null,
      constraint calendar_event_uid unique (tenant_id, calendar, uid)
    )`.execute(db);
    // Most questions are about what is not over yet. A series without an end is over after everything else.
    await sql`create index calendar_event_room on calendar_event
      (tenant_id, room_id, coalesce(to_at, '9999-12-31T23:59:59.999Z'), from_at) where room_id is not null`.execute(db);
    await sql`create index calendar_event_creator on calendar_event
      (tenant_id, created_by, coalesce(to_at, '9999-12-31T23:59:59.999Z'), from_at)`.execute(db);
    await sql`create index calendar_event_by_uid on calendar_event (uid)`.execute(db);

    await sql`create table calendar_override (
      tenant_id text not null,
      event_id text not null,
      occurrence text not null,
      patch_json text not null,
      constraint calendar_override_pk primary key (event_id, occurrence)
    )`.execute(db);

    await sql`create table calendar_attendee (
      tenant_id text not null,
      event_id text not null,
      position integer not null,
      principal_id text,
      email text,
      role text not null,
      status text not null,
      comment text,
      responded_at text,
      constraint calendar_attendee_pk primary key (event_id, position)
    )`.execute(db);
    await sql`create index calendar_attendee_principal on calendar_attendee
      (tenant_id, principal_id, event_id) where principal_id is not null`.execute(db);

    // Responses to one occurrence of a series, where they differ from that to the series.
    await sql`create table calendar_rsvp (
      tenant_id text not null,
      event_id text not null,
      principal_id text not null,
      occurrence text not null,
      status text not null,
      comment text,
      responded_at text not null,
      constraint calendar_rsvp_pk primary key (event_id, principal_id, occurrence)
    )`.execute(db);

    await sql`create table calendar_feed (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      room_id text,
      name text not null,
      hash text not null unique,
      token_id text,
      role text,
      created_at text not null
    )`.execute(db);
    await sql`create index calendar_feed_principal on calendar_feed (tenant_id, principal_id, id)`.execute(db);

    await sql`create table calendar_import (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      room_id text,
      state text not null,
      text text,
      report_json text,
      created_at text not null,
      finished_at text
    )`.execute(db);
  },
};

/** For the number of imports that wait. */
const waitingImports: Migration = {
  name: "0002_waiting_imports",
  async up(db) {
    await sql`create index calendar_import_waiting on calendar_import (tenant_id, principal_id)
      where state = 'waiting'`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, waitingImports];
