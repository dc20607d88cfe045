// Events as JSON: a series, a single event, or one occurrence, as seen by the reader.
import { iso } from "@/core/time/clock.ts";
import { patchedOr } from "@/core/patch.ts";
import type { AccessLevel } from "./access.ts";
import { exDatesOf, type Occurrence, responseOf } from "./recurrence/occurrence.ts";
import type { Attendee, CalendarEntry, CalendarEvent } from "./schema.ts";
import type { AttendeeRow, EventAggregate, EventRow } from "./store.ts";
import { instantOf, whenOf } from "./time_zone.ts";

type PresentableEvent = Pick<EventAggregate, "row" | "attendees" | "rsvps">;
export type Reader = { principalId: string | null; level: AccessLevel };

export function presentEvent(event: PresentableEvent, reader: Reader, occurrence?: Occurrence): CalendarEvent {
  const { row } = event;
  const entry = presentEntry(event, reader, occurrence);
  if (entry.busyOnly) return { ...entry, description: null, attendees: [], reminders: [], exDates: [] };
  return {
    ...entry,
    description: patchedOr(occurrence?.patch.description, row.description),
    attendees: event.attendees.map((attendee) =>
      presentAttendee(attendee, responseOf(attendee, event.rsvps, occurrence))
    ),
    reminders: JSON.parse(row.reminders_json),
    exDates: exDatesOf(row),
  };
}

export function presentEntry(
  event: PresentableEvent,
  { principalId, level }: Reader,
  occurrence?: Occurrence,
): CalendarEntry {
  const { row } = event;
  const isFull = level === "full";
  const patch = occurrence?.patch ?? {};
  const zone = patchedOr(patch.timeZone, row.time_zone);
  const { startAt, endAt } = occurrence ?? firstOf(row);
  // Null is a room, which has no response; attendees by email have no principal id either.
  const mine = principalId === null
    ? undefined
    : event.attendees.find((attendee) => attendee.principal_id === principalId);
  return {
    id: row.id,
    uid: isFull ? row.uid : row.id,
    roomId: row.room_id,
    busyOnly: !isFull,
    title: isFull ? patch.title ?? row.title : null,
    location: isFull ? patchedOr(patch.location, row.location) : null,
    start: whenOf(startAt, zone),
    end: whenOf(endAt, zone),
    startAt: iso(startAt),
    endAt: iso(endAt),
    allDay: zone === null,
    rrule: isFull || occurrence === undefined ? row.rrule : null,
    occurrence: occurrence?.name ?? null,
    myStatus: mine === undefined ? null : responseOf(mine, event.rsvps, occurrence).status,
    visibility: row.visibility,
    transparent: row.is_transparent === 1,
    meetingId: isFull ? row.meeting_id : null,
    version: row.version,
    createdBy: isFull ? row.created_by : null,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function presentAttendee(row: AttendeeRow, response: ReturnType<typeof responseOf>): Attendee {
  return {
    principalId: row.principal_id,
    email: row.email,
    role: row.role,
    status: response.status,
    comment: response.comment,
    respondedAt: response.responded_at,
  };
}

function firstOf(row: EventRow): { startAt: number; endAt: number } {
  const startAt = instantOf(row.start_local, row.time_zone);
  return { startAt, endAt: startAt + row.duration_seconds * 1000 };
}
