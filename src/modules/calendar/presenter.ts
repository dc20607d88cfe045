// Events as JSON: a series, a single event, or one occurrence, as far as the reader may know it.
import { iso } from "@/core/clock.ts";
import type { Level } from "./access.ts";
import { exDatesOf, type Occurrence } from "./occurrence.ts";
import type { Attendee, CalendarEntry, CalendarEvent } from "./schema.ts";
import type { AttendeeRow, EventRow, RsvpRow, WholeEvent } from "./store.ts";
import { instantOf, whenOf } from "./zone.ts";

type Seen = Pick<WholeEvent, "row" | "attendees" | "rsvps">;
/** Who reads, and how much of it. */
export type Reader = { principalId: string | null; level: Level };

export function presentEvent(event: Seen, reader: Reader, occurrence?: Occurrence): CalendarEvent {
  const { row } = event;
  const entry = presentEntry(event, reader, occurrence);
  if (entry.busyOnly) return { ...entry, description: null, attendees: [], reminders: [], exDates: [] };
  return {
    ...entry,
    description: pick(occurrence?.patch.description, row.description),
    attendees: event.attendees.map((attendee) =>
      presentAttendee(attendee, answerOf(attendee, event.rsvps, occurrence))
    ),
    reminders: JSON.parse(row.reminders_json),
    exDates: exDatesOf(row),
  };
}

export function presentEntry(event: Seen, { principalId, level }: Reader, occurrence?: Occurrence): CalendarEntry {
  const { row } = event;
  const isFull = level === "full";
  const patch = occurrence?.patch ?? {};
  const zone = pick(patch.timeZone, row.time_zone);
  const { startAt, endAt } = occurrence ?? firstOf(row);
  // A room has no answer of its own, though attendees by email have no principal either.
  const mine = principalId === null
    ? undefined
    : event.attendees.find((attendee) => attendee.principal_id === principalId);
  return {
    id: row.id,
    uid: isFull ? row.uid : row.id,
    roomId: row.room_id,
    busyOnly: !isFull,
    title: isFull ? patch.title ?? row.title : null,
    location: isFull ? pick(patch.location, row.location) : null,
    start: whenOf(startAt, zone),
    end: whenOf(endAt, zone),
    startAt: iso(startAt),
    endAt: iso(endAt),
    allDay: zone === null,
    rrule: isFull || occurrence === undefined ? row.rrule : null,
    occurrence: occurrence?.name ?? null,
    myStatus: mine === undefined ? null : answerOf(mine, event.rsvps, occurrence).status,
    visibility: row.visibility,
    transparent: row.is_transparent === 1,
    meetingId: isFull ? row.meeting_id : null,
    version: row.version,
    createdBy: isFull ? row.created_by : null,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/** An attendee's answer to an occurrence: the one for it, else the one for the series. */
export function answerOf(
  attendee: AttendeeRow,
  rsvps: readonly RsvpRow[],
  occurrence: Pick<Occurrence, "name"> | undefined,
): Pick<AttendeeRow, "status" | "comment" | "responded_at"> {
  const name = occurrence?.name ?? null;
  if (name === null) return attendee;
  return rsvps.find((rsvp) =>
    rsvp.event_id === attendee.event_id && rsvp.principal_id === attendee.principal_id && rsvp.occurrence === name
  ) ?? attendee;
}

function presentAttendee(row: AttendeeRow, answer: ReturnType<typeof answerOf>): Attendee {
  return {
    principalId: row.principal_id,
    email: row.email,
    role: row.role,
    status: answer.status,
    comment: answer.comment,
    respondedAt: answer.responded_at,
  };
}

function firstOf(row: EventRow): { startAt: number; endAt: number } {
  const startAt = instantOf(row.start_local, row.time_zone);
  return { startAt, endAt: startAt + row.duration_seconds * 1000 };
}

function pick<Value>(patched: Value | undefined, otherwise: Value): Value {
  return patched === undefined ? otherwise : patched;
}
