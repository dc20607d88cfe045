// Events of calendars as seen from outside, and what happens to them.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { pageInput } from "@/core/page.ts";
import { isLongerThan } from "@/core/text.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const SCOPES = ["this", "following", "all"] as const;
export const EVENT_VISIBILITIES = ["room", "private", "busy_only"] as const;
export const ANSWERS = ["accepted", "tentative", "declined"] as const;
export const STATUSES = ["needs_action", ...ANSWERS] as const;
export const ATTENDEE_ROLES = ["chair", "required", "optional"] as const;

export const TITLE_MAX = 255;
export const DESCRIPTION_MAX = 16_000;
export const LOCATION_MAX = 500;
export const ATTENDEES_MAX = 200;
export const REMINDERS_MAX = 5;
/** Occurrences of one series that may be edited by themselves, and as many that may be left out. */
export const EXCEPTIONS_MAX = 500;
export const RANGE_DAYS_MAX = 366;
export const OCCURRENCES_MAX = 5000;
const FREEBUSY_MAX = 50;
/** How many occurrences of a series `ifFree` looks at: those of a year, once a day. */
export const IF_FREE_MAX = 366;
export const IMPORT_MAX_BYTES = 1024 * 1024;
const DURATION_MINUTES_MAX = 60 * 24 * 366;
const REMINDER_MINUTES_MAX = 60 * 24 * 28;

/** What may stand in a file line of its own. The document has it too, and \p{Cc} means nothing to many who read patterns there. */
// deno-lint-ignore no-control-regex -- control characters are what it keeps out
const ONE_LINE = /^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$/;

export const EventId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");
const Time = z.iso.datetime();
const Local = z.string().regex(
  /^(19|20|21)\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/,
  "a wall time such as 2026-03-29T09:00:00, without offset, from 1900 to 2199",
).refine((text) => isReal(`${text}Z`), "no such date or time");
const Day = z.string().regex(/^(19|20|21)\d\d-\d\d-\d\d$/, "a date such as 2026-03-29, from 1900 to 2199")
  .refine((text) => isReal(`${text}T00:00:00Z`), "no such date");

function isReal(text: string): boolean {
  const at = new Date(text);
  return !Number.isNaN(at.getTime()) && text.startsWith(at.toISOString().slice(0, 16));
}

/** When something starts or ends: a wall time in a zone, or a date. */
export const When = z.union([
  z.strictObject({ dateTime: Local, timeZone: z.string().min(1).max(64).describe("IANA name such as Europe/Vienna") }),
  z.strictObject({ date: Day }),
]).meta({ id: "CalendarTime" });
export type When = z.output<typeof When>;

/** The same as it comes to be: what begins in the last year there is may end after it. */
const Shown = z.union([z.object({ dateTime: z.string(), timeZone: z.string() }), z.object({ date: z.string() })])
  .meta({ id: "CalendarTimeShown" });

/** Names an occurrence of a series by the start that the rule gave it. */
export const OccurrenceRef = z.string().max(40).describe(
  "Start of the occurrence as its rule made it, as in `occurrence` of an answer; also taken as an instant in UTC",
);

const Title = z.string().trim().min(1).max(TITLE_MAX);
const Description = z.string().max(DESCRIPTION_MAX);
const Location = z.string().max(LOCATION_MAX);
const Rrule = z.string().min(1).max(1024).describe(
  "RFC 5545 rule such as FREQ=WEEKLY;BYDAY=MO, no DTSTART or EXDATE in it",
);
const ExDates = z.array(z.union([Local, Day])).max(EXCEPTIONS_MAX).describe("Starts of the series that are left out");
const Duration = z.int().min(0).max(DURATION_MINUTES_MAX).describe("Instead of `end`");
const Reminder = z.strictObject({ minutesBefore: z.int().min(0).max(REMINDER_MINUTES_MAX) });
const Reminders = z.array(Reminder).max(REMINDERS_MAX);
const Visibility = z.enum(EVENT_VISIBILITIES).describe(
  "room: members of the room see it; busy_only: they see that time is taken; private: only its creator and attendees see it",
);
const AttendeeRole = z.enum(ATTENDEE_ROLES);
const AttendeeInput = z.union([
  z.strictObject({ principalId: PrincipalRef, role: AttendeeRole.default("required") }),
  z.strictObject({ email: z.email().max(254), role: AttendeeRole.default("required") }),
]);
export type AttendeeInput = z.output<typeof AttendeeInput>;
const Attendees = z.array(AttendeeInput).max(ATTENDEES_MAX);

const IfFree = z.boolean().default(false).describe(
  "Refuse with busy_conflict when its creator or an attendee is busy then; of a series the occurrences of the first year are " +
    `looked at, at most ${IF_FREE_MAX}; not for guests of the tenant; needs the scope calendar.read`,
);

export const Attendee = z.object({
  principalId: PrincipalId.nullable(),
  email: z.string().nullable(),
  role: AttendeeRole,
  status: z.enum(STATUSES),
  comment: z.string().nullable(),
  respondedAt: Time.nullable(),
}).meta({ id: "CalendarAttendee" });
export type Attendee = z.output<typeof Attendee>;

export const CalendarEvent = z.object({
  id: EventId,
  uid: z.string().describe("Names the event in iCalendar files"),
  roomId: RoomId.nullable(),
  busyOnly: z.boolean().describe("The caller may only know that this time is taken; what it is, is left out"),
  title: z.string().nullable(),
  description: z.string().nullable(),
  location: z.string().nullable(),
  start: Shown,
  end: Shown.describe("Exclusive; a date is the day after the last"),
  startAt: Time.describe("`start` as an instant; a date counts from midnight UTC"),
  endAt: Time,
  allDay: z.boolean(),
  rrule: z.string().nullable(),
  exDates: z.array(z.string()),
  occurrence: z.string().nullable().describe(
    "Which occurrence of the series this is; null for a series or a single event",
  ),
  attendees: z.array(Attendee),
  myStatus: z.enum(STATUSES).nullable().describe("The caller's answer; null when not invited"),
  reminders: z.array(Reminder),
  visibility: z.enum(EVENT_VISIBILITIES),
  transparent: z.boolean().describe("Does not make anybody busy"),
  meetingId: z.string().nullable(),
  version: z.int(),
  createdBy: PrincipalId.nullable(),
  createdAt: Time,
  updatedAt: Time,
}).meta({ id: "CalendarEvent" });
export type CalendarEvent = z.output<typeof CalendarEvent>;

/** An event as lists show it: what a calendar view draws. */
export const CalendarEntry = CalendarEvent.omit({ description: true, attendees: true, reminders: true, exDates: true })
  .meta({ id: "CalendarEntry" });
export type CalendarEntry = z.output<typeof CalendarEntry>;

export const EventCreate = z.strictObject({
  roomId: RoomId.optional().describe("Absent: an event of the caller's own calendar"),
  uid: z.string().max(255).regex(ONE_LINE, "one line of text").optional(),
  title: Title,
  description: Description.nullable().default(null),
  location: Location.nullable().default(null),
  start: When,
  end: When.optional(),
  durationMinutes: Duration.optional(),
  rrule: Rrule.nullable().default(null),
  exDates: ExDates.default([]),
  attendees: Attendees.default([]),
  reminders: Reminders.default([]),
  visibility: Visibility.default("room"),
  transparent: z.boolean().default(false),
  meeting: z.strictObject({ create: z.literal(true) }).optional().describe("Also schedules a meeting in the room"),
  ifFree: IfFree,
});
export type EventCreate = z.output<typeof EventCreate>;

export const EventUpdate = z.strictObject({
  id: EventId,
  scope: z.enum(SCOPES).default("all"),
  occurrence: OccurrenceRef.optional().describe(
    "Needed for this and following; with all, `start` is the new start of this occurrence and the others move along",
  ),
  title: Title.optional(),
  description: Description.nullable().optional(),
  location: Location.nullable().optional(),
  start: When.optional(),
  end: When.optional(),
  durationMinutes: Duration.optional(),
  rrule: Rrule.nullable().optional(),
  exDates: ExDates.optional(),
  attendees: Attendees.optional().describe("Those who stay keep their answers"),
  reminders: Reminders.optional(),
  visibility: Visibility.optional(),
  transparent: z.boolean().optional(),
  ifFree: IfFree,
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type EventUpdate = z.output<typeof EventUpdate>;

export const EventDelete = z.strictObject({
  id: EventId,
  scope: z.enum(SCOPES).default("all"),
  occurrence: OccurrenceRef.optional(),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type EventDelete = z.output<typeof EventDelete>;

export const EventRead = z.strictObject({ id: EventId, occurrence: OccurrenceRef.optional() });
export type EventRead = z.output<typeof EventRead>;

const Bound = z.iso.datetime({ offset: true }).refine((text) => /^(19|20|21)\d\d-/.test(text), "from 1900 to 2199");

export const EventList = z.strictObject({
  from: Bound,
  to: Bound.describe(`Exclusive, at most ${RANGE_DAYS_MAX} days after from`),
  roomId: RoomId.optional(),
  attendeeId: PrincipalRef.optional().describe("Principal id, or `me`"),
  expand: z.boolean().default(true).describe("false: each series once, with its rule"),
  limit: z.int().min(1).max(OCCURRENCES_MAX).default(1000),
  cursor: pageInput.cursor,
});
export type EventList = z.output<typeof EventList>;

export const EventPage = z.object({
  items: z.array(CalendarEntry).describe("By start"),
  nextCursor: z.string().nullable(),
  hasMore: z.boolean(),
  truncated: z.boolean().describe("A series or the range holds more than one answer may; ask for a shorter range"),
}).meta({ id: "CalendarEntries" });
export type EventPage = z.output<typeof EventPage>;

export const Rsvp = z.strictObject({
  id: EventId,
  status: z.enum(ANSWERS),
  comment: z.string().max(500).nullable().default(null),
  occurrence: OccurrenceRef.optional().describe("Answers for this occurrence only"),
});
export type Rsvp = z.output<typeof Rsvp>;

export const FreeBusyAsk = z.strictObject({
  principalIds: z.array(PrincipalRef).min(1).max(FREEBUSY_MAX).describe("Principal ids, `me` among them"),
  from: Bound,
  to: Bound.describe(`Exclusive, at most ${RANGE_DAYS_MAX} days after from`),
  timeZone: z.string().min(1).max(64).default("UTC").describe("Where days begin, for all-day events"),
});
export type FreeBusyAsk = z.output<typeof FreeBusyAsk>;

export const FreeBusy = z.object({
  busy: z.array(z.object({ principalId: PrincipalId, start: Time, end: Time })).describe(
    "Merged, by principal and start",
  ),
  truncated: z.boolean(),
}).meta({ id: "FreeBusy" });
export type FreeBusy = z.output<typeof FreeBusy>;

export const Feed = z.object({
  id: z.string(),
  name: z.string(),
  roomId: RoomId.nullable(),
  createdAt: Time,
}).meta({ id: "CalendarFeed" });
export type Feed = z.output<typeof Feed>;

export const NewFeed = Feed.extend({
  path: z.string().describe("Path of the feed; whoever knows it reads it. Shown this once, kept only as a hash"),
}).meta({ id: "NewCalendarFeed" });
export type NewFeed = z.output<typeof NewFeed>;

export const FeedCreate = z.strictObject({
  name: z.string().trim().max(100).regex(ONE_LINE, "one line of text").default("Calendar"),
  roomId: RoomId.optional().describe("Absent: everything the caller sees in lists"),
});
export type FeedCreate = z.output<typeof FeedCreate>;

export const ImportStart = z.strictObject({
  roomId: RoomId.optional().describe("Absent: into the caller's own calendar"),
  text: z.string().min(1).refine(
    (text) => !isLongerThan(text, IMPORT_MAX_BYTES),
    `at most ${IMPORT_MAX_BYTES} bytes`,
  ).describe("An iCalendar file (RFC 5545)"),
});
export type ImportStart = z.output<typeof ImportStart>;

export const ImportReport = z.object({
  created: z.int(),
  updated: z.int(),
  unchanged: z.int(),
  problems: z.array(z.object({ uid: z.string().nullable(), detail: z.string() })).describe(
    "What was left out, and why",
  ),
}).meta({ id: "CalendarImportReport" });
export type ImportReport = z.output<typeof ImportReport>;

export const Import = z.object({
  id: z.string(),
  roomId: RoomId.nullable(),
  state: z.enum(["waiting", "done"]),
  report: ImportReport.nullable(),
  createdAt: Time,
  finishedAt: Time.nullable(),
}).meta({ id: "CalendarImport" });
export type Import = z.output<typeof Import>;

const changed = z.object({ event: CalendarEvent, scope: z.enum(SCOPES), occurrence: z.string().nullable() });

/**
 * Durable events of calendars: on the stream of the room when its members may know of the event, and on the streams of
 * its creator and attendees. The stream of a public room carries the time only, for everybody may look into it.
 */
export const CALENDAR_EVENTS: readonly EventType[] = [
  { type: "calendar.event.created", streams: ["room", "principal"], summary: "An event was made", data: changed },
  {
    type: "calendar.event.updated",
    streams: ["room", "principal"],
    summary: "An event, or a part of its series, changed",
    data: changed,
  },
  {
    type: "calendar.event.cancelled",
    streams: ["room", "principal"],
    summary: "An event, or a part of its series, was cancelled",
    data: changed,
  },
  {
    type: "calendar.event.rsvp",
    streams: ["room", "principal"],
    summary: "An attendee answered",
    data: z.object({
      eventId: EventId,
      occurrence: z.string().nullable(),
      principalId: PrincipalId,
      status: z.enum(ANSWERS),
      comment: z.string().nullable(),
      version: z.int().describe("Of the event, after the answer"),
    }),
  },
  {
    type: "calendar.event.reminder",
    streams: ["principal"],
    summary: "An event starts soon (principal)",
    data: z.object({ event: CalendarEntry, minutesBefore: z.int() }),
  },
];
