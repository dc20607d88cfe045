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

/**
 * What a principal attends in a time range is found by an index, as what it created is: old events are not read. The database adds
 * the times, so that none can be forgotten, also by an older node. Who moves an event writes its attendees again.
 */
const attendedTimes: Migration = {
  name: "0003_attended_times",
  async up(db, dialect) {
    const endsAt = sql`coalesce(to_at, '9999-12-31T23:59:59.999Z')`;
    await sql`alter table calendar_attendee add column from_at text not null default ''`.execute(db);
    await sql`alter table calendar_attendee add column ends_at text not null default ''`.execute(db);
    await sql`update calendar_attendee set from_at = event.from_at, ends_at = event.ends_at
      from (select id, from_at, ${endsAt} as ends_at from calendar_event) as event where event.id = event_id`.execute(
      db,
    );
    await sql`create index calendar_attendee_time on calendar_attendee
      (tenant_id, principal_id, ends_at, from_at) where principal_id is not null`.execute(db);
    if (dialect === "sqlite") {
      await sql`create trigger calendar_attendee_time_of_event after insert on calendar_attendee begin
        update calendar_attendee set from_at = event.from_at, ends_at = event.ends_at
          from (select from_at, ${endsAt} as ends_at from calendar_event where id = new.event_id) as event
          where event_id = new.event_id and position = new.position;
      end`.execute(db);
      return;
    }
    await sql`create function add_attended_time() returns trigger language plpgsql as $$
      begin
        select event.from_at, ${endsAt} into new.from_at, new.ends_at
          from calendar_event as event where id = new.event_id;
        return new;
      end $$`.execute(db);
    await sql`create trigger calendar_attendee_time_of_event before insert on calendar_attendee
      for each row execute function add_attended_time()`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline, waitingImports, attendedTimes];
