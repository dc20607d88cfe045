// Events as they are in archives.
import { exDatesOf, patchOf } from "../recurrence/occurrence.ts";
import type { EventAggregate } from "../store.ts";
import type { ArchivedEvent } from "./records.ts";
import { compareText } from "@/core/text/text.ts";

type OfEvent<Part> = Omit<Part, "eventId">;
type ExportedEvent = {
  event: ArchivedEvent["event"];
  overrides: OfEvent<ArchivedEvent["overrides"][number]>[];
  responses: OfEvent<ArchivedEvent["responses"][number]>[];
};

/** An event with its exceptions and responses. */
export function toArchived({ row, overrides, attendees, rsvps }: EventAggregate): ExportedEvent {
  const { start_local: local, time_zone: timeZone } = row;
  return {
    event: {
      id: row.id,
      uid: row.uid,
      roomId: row.room_id,
      title: row.title,
      description: row.description,
      location: row.location,
      start: timeZone === null ? { date: local } : { dateTime: local, timeZone },
      durationSeconds: row.duration_seconds,
      rrule: row.rrule,
      exDates: exDatesOf(row),
      attendees: attendees.map((attendee) => ({
        principalId: attendee.principal_id,
        email: attendee.email,
        role: attendee.role,
        status: attendee.status,
        comment: attendee.comment,
        respondedAt: attendee.responded_at,
      })),
      reminders: JSON.parse(row.reminders_json),
      visibility: row.visibility,
      transparent: row.is_transparent === 1,
      meetingId: row.meeting_id,
      version: row.version,
      createdBy: row.created_by,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    },
    overrides: overrides.map((override) => ({ occurrence: override.occurrence, patch: patchOf(override) })),
    responses: rsvps.map((rsvp) => ({
      principalId: rsvp.principal_id,
      occurrence: rsvp.occurrence,
      status: rsvp.status,
      comment: rsvp.comment,
      respondedAt: rsvp.responded_at,
    })).sort((a, b) => compareText(`${a.occurrence} ${a.principalId}`, `${b.occurrence} ${b.principalId}`)),
  };
}
