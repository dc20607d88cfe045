// Schemas of calendar events, feeds and imports, and of the events they publish.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { nameSchema } from "@/core/text/name.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion } from "@/core/patch.ts";
import { isLongerThan } from "@/core/text/text.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId, PrincipalRef } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import {
  ATTENDEES_MAX,
  DESCRIPTION_MAX,
  DURATION_SECONDS_MAX,
  EXCEPTIONS_MAX,
  FREEBUSY_MAX,
  IF_FREE_MAX,
  IMPORT_MAX_BYTES,
  LOCATION_MAX,
  OCCURRENCES_MAX,
  RANGE_DAYS_MAX,
  REMINDER_MINUTES_MAX,
  REMINDERS_MAX,
  TITLE_MAX,
} from "./limits.ts";

export const SCOPES = ["this", "following", "all"] as const;
const Scope = z.enum(SCOPES).meta({ id: "CalendarScope" });
export const EVENT_VISIBILITIES = ["room", "private", "busy_only"] as const;
const EventVisibility = z.enum(EVENT_VISIBILITIES).meta({ id: "CalendarVisibility" });
const RESPONSES = ["accepted", "tentative", "declined"] as const;
const AttendeeResponse = z.enum(RESPONSES).meta({ id: "CalendarResponse" });
export const STATUSES = ["needs_action", ...RESPONSES] as const;
const AttendeeStatus = z.enum(STATUSES).meta({ id: "CalendarAttendeeStatus" });
export const ATTENDEE_ROLES = ["chair", "required", "optional"] as const;
const AttendeeRole = z.enum(ATTENDEE_ROLES).meta({ id: "CalendarAttendeeRole" });

/** Text that fits in one line of a file. OpenAPI publishes the pattern, and many tools do not support \p{Cc}. */
// deno-lint-ignore no-control-regex -- it excludes control characters
const ONE_LINE = /^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$/;

export const EventId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
const Time = z.iso.datetime();
const Local = z.string().regex(
  /^(19|20|21)\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/,
  "expected a wall time such as 2026-03-29T09:00:00, without offset, from 1900 to 2199",
).refine((text) => isReal(`${text}Z`), "date or time does not exist").describe(
  "Wall time such as 2026-03-29T09:00:00, without UTC offset",
);
const Day = z.string().regex(/^(19|20|21)\d\d-\d\d-\d\d$/, "expected a date such as 2026-03-29, from 1900 to 2199")
  .refine((text) => isReal(`${text}T00:00:00Z`), "date does not exist").describe("Date such as 2026-03-29");

function isReal(text: string): boolean {
  const at = new Date(text);
  return !Number.isNaN(at.getTime()) && text.startsWith(at.toISOString().slice(0, 16));
}

/** When something starts or ends: a wall time in a zone, or a date. */
export const When = z.union([
  z.strictObject({
    dateTime: Local,
    timeZone: z.string().min(1).max(64).describe("IANA time zone such as Europe/Vienna"),
  })
    .meta({ id: "CalendarDateTime" }),
  z.strictObject({ date: Day }).meta({ id: "CalendarDate" }),
]).meta({ id: "CalendarTime" });
export type When = z.output<typeof When>;

/** The same in responses, without the range of years: what starts in the last year may end after it. */
const OutputTime = z.union([
  z.object({
    dateTime: z.string().describe("Wall time, without UTC offset"),
    timeZone: z.string().describe("IANA time zone of the wall time"),
  }).meta({ id: "CalendarDateTimeShown" }),
  z.object({ date: z.string().describe("Date such as 2026-03-29") }).meta({ id: "CalendarDateShown" }),
]).meta({ id: "CalendarTimeShown" });

const OccurrenceRef = z.string().max(40).describe(
  "Original start of the occurrence according to the rule, as in the field `occurrence` of responses; UTC " +
    "instants are accepted as well",
);

const Title = nameSchema(TITLE_MAX).describe("Title of the event");
const Description = z.string().max(DESCRIPTION_MAX).describe("Description of the event");
const Location = z.string().max(LOCATION_MAX).describe("Location of the event");
const Rrule = z.string().min(1).max(1024).describe(
  "RFC 5545 rule such as FREQ=WEEKLY;BYDAY=MO, without DTSTART and EXDATE",
);
const ExDates = z.array(z.union([Local, Day])).max(EXCEPTIONS_MAX).describe("Starts of excluded occurrences");
const Duration = z.int().min(0).max(DURATION_SECONDS_MAX / 60).describe("Duration in minutes, instead of `end`");
const Reminder = z.strictObject({
  minutesBefore: z.int().min(0).max(REMINDER_MINUTES_MAX).describe("Minutes before the start"),
});
const Reminders = z.array(Reminder).max(REMINDERS_MAX).describe("Times at which attendees are reminded");
const Visibility = EventVisibility.describe(
  "room: visible to members of the room; busy_only: members see only that the time is taken; private: " +
    "visible to the creator and attendees",
);
const AttendeeInput = z.union([
  z.strictObject({ principalId: PrincipalRef, role: AttendeeRole.default("required") })
    .meta({ id: "CalendarAttendeePrincipal" }),
  z.strictObject({ email: z.email().max(254).describe("Email address"), role: AttendeeRole.default("required") })
    .meta({ id: "CalendarAttendeeEmail" }),
]).meta({ id: "CalendarInvitee" });
export type AttendeeInput = z.output<typeof AttendeeInput>;
const Attendees = z.array(AttendeeInput).max(ATTENDEES_MAX).describe(
  "Attendees: principals of the tenant or email addresses",
);

const IfFree = z.boolean().default(false).describe(
  "Fail with `time_conflict` if the creator or an attendee is busy at that time. For a series, checks the occurrences " +
    `of the first year, at most ${IF_FREE_MAX}. Requires the scope \`calendar.read\`; not available to guests of the tenant`,
);

export const Attendee = z.object({
  principalId: PrincipalId.nullable(),
  email: z.string().nullable().describe("Email address of an external attendee; null for a principal"),
  role: AttendeeRole,
  status: AttendeeStatus,
  comment: z.string().nullable().describe("Comment given with the response"),
  respondedAt: Time.nullable().describe("When the attendee responded; null if not yet"),
}).meta({ id: "CalendarAttendee" });
export type Attendee = z.output<typeof Attendee>;

export const CalendarEvent = z.object({
  id: EventId,
  uid: z.string().describe("Id of the event in iCalendar files"),
  roomId: RoomId.nullable(),
  busyOnly: z.boolean().describe("The caller may see only that this time is taken; details are left out"),
  title: z.string().nullable().describe("Title of the event"),
  description: z.string().nullable().describe("Description of the event"),
  location: z.string().nullable().describe("Location of the event"),
  start: OutputTime,
  end: OutputTime.describe("End, exclusive; for all-day events the day after the last day"),
  startAt: Time.describe("`start` as an instant; dates start at midnight UTC"),
  endAt: Time.describe("`end` as an instant"),
  allDay: z.boolean().describe("Whether it is an all-day event"),
  rrule: z.string().nullable().describe("RFC 5545 rule of the series; null for a single event"),
  exDates: z.array(z.string()).describe("Starts of excluded occurrences"),
  occurrence: z.string().nullable().describe(
    "Identifies the occurrence of a series; null for a series or a single event",
  ),
  attendees: z.array(Attendee).describe("Attendees"),
  myStatus: AttendeeStatus.nullable().describe("The caller's response; null if not invited"),
  reminders: z.array(Reminder).describe("Times at which attendees are reminded"),
  visibility: EventVisibility,
  transparent: z.boolean().describe("Whether attendees remain free at this time"),
  meetingId: z.string().nullable().describe(
    "Meeting of the event, of a series that of its current or next occurrence; null if it has none",
  ),
  version: z.int(),
  createdBy: PrincipalId.nullable(),
  createdAt: Time,
  updatedAt: Time,
}).meta({ id: "CalendarEvent" });
export type CalendarEvent = z.output<typeof CalendarEvent>;

/** An event in lists: what a calendar view displays. */
export const CalendarEntry = CalendarEvent.omit({ description: true, attendees: true, reminders: true, exDates: true })
  .meta({ id: "CalendarEntry" });
export type CalendarEntry = z.output<typeof CalendarEntry>;

export const EventCreate = z.strictObject({
  roomId: RoomId.optional().describe("Room of the event. Default: the caller's personal calendar"),
  uid: z.string().max(255).regex(ONE_LINE, "expected a single line of text").optional().describe(
    "Id of the event in iCalendar files. Default: generated",
  ),
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
  transparent: z.boolean().default(false).describe("Whether attendees remain free at this time"),
  meeting: z.strictObject({ create: z.literal(true).describe("Always true") }).optional().describe(
    "Also schedule a meeting in the room",
  ),
  ifFree: IfFree,
});
export type EventCreate = z.output<typeof EventCreate>;

export const EventUpdate = z.strictObject({
  id: EventId,
  scope: Scope.default("all"),
  occurrence: OccurrenceRef.optional().describe(
    "Required with scope `this` and `following`. With `all`, `start` is the new start of this occurrence and " +
      "the others are moved accordingly",
  ),
  title: Title.optional(),
  description: Description.nullable().optional(),
  location: Location.nullable().optional(),
  start: When.optional(),
  end: When.optional(),
  durationMinutes: Duration.optional(),
  rrule: Rrule.nullable().optional(),
  exDates: ExDates.optional(),
  attendees: Attendees.optional().describe("New list of attendees; existing attendees keep their response"),
  reminders: Reminders.optional(),
  visibility: Visibility.optional(),
  transparent: z.boolean().optional().describe("Whether attendees remain free at this time"),
  ifFree: IfFree,
  version: BaseVersion,
});
export type EventUpdate = z.output<typeof EventUpdate>;

export const EventDelete = z.strictObject({
  id: EventId,
  scope: Scope.default("all").describe("Which occurrences of a series: this one, this and the following, or all"),
  occurrence: OccurrenceRef.optional(),
  version: BaseVersion,
});
export type EventDelete = z.output<typeof EventDelete>;

export const EventRead = z.strictObject({ id: EventId, occurrence: OccurrenceRef.optional() });
export type EventRead = z.output<typeof EventRead>;

const Bound = TimeInput.refine((text) => /^(19|20|21)\d\d-/.test(text), "expected a year from 1900 to 2199");

export const EventList = z.strictObject({
  from: Bound.describe("Start of the range, inclusive"),
  to: Bound.describe(`End of the range, exclusive; at most ${RANGE_DAYS_MAX} days after \`from\``),
  roomId: RoomId.optional(),
  attendeeId: PrincipalRef.optional().describe("Only events of this attendee: a principal id, or `me`"),
  expand: z.boolean().default(true).describe(
    "Whether to expand series into occurrences; if false, each series is listed once, with its rule",
  ),
  limit: z.int().min(1).max(OCCURRENCES_MAX).default(1000),
  cursor: pageInput.cursor,
});
export type EventList = z.output<typeof EventList>;

export const EventPage = z.object({
  items: z.array(CalendarEntry).describe("Ordered by start"),
  nextCursor: z.string().nullable(),
  hasMore: z.boolean(),
  truncated: z.boolean().describe(
    "Whether results are missing because a series or the range has too many; request a shorter range",
  ),
}).meta({ id: "CalendarEntries" });
export type EventPage = z.output<typeof EventPage>;

export const Rsvp = z.strictObject({
  id: EventId,
  status: AttendeeResponse,
  comment: z.string().max(500).nullable().default(null).describe("Comment for the organizer"),
  occurrence: OccurrenceRef.optional().describe("Respond to this occurrence only. Default: the whole series"),
});
export type Rsvp = z.output<typeof Rsvp>;

export const FreeBusyQuery = z.strictObject({
  principalIds: z.array(PrincipalRef).min(1).max(FREEBUSY_MAX).describe("Principal ids; `me` is the caller"),
  from: Bound.describe("Start of the range, inclusive"),
  to: Bound.describe(`End of the range, exclusive; at most ${RANGE_DAYS_MAX} days after \`from\``),
  timeZone: z.string().min(1).max(64).default("UTC").describe(
    "Time zone that defines the start of days, for all-day events",
  ),
});
export type FreeBusyQuery = z.output<typeof FreeBusyQuery>;

export const FreeBusy = z.object({
  busy: z.array(
    z.object({
      principalId: PrincipalId,
      start: Time.describe("Start of the busy period"),
      end: Time.describe("End of the busy period"),
    }).meta({ id: "BusyPeriod" }),
  ).describe("Busy periods, merged, ordered by principal and start"),
  truncated: z.boolean().describe(
    "Whether results are missing because the range has too many; request a shorter range",
  ),
}).meta({ id: "FreeBusy" });
export type FreeBusy = z.output<typeof FreeBusy>;

export const Feed = z.object({
  id: z.string(),
  name: z.string().describe("Name of the feed, displayed by calendar clients"),
  roomId: RoomId.nullable(),
  createdAt: Time,
}).meta({ id: "CalendarFeed" });
export type Feed = z.output<typeof Feed>;

export const NewFeed = Feed.extend({
  path: z.string().describe("Path of the feed, including its secret. Returned only once; only a hash is stored"),
}).meta({ id: "CreatedCalendarFeed" });
export type NewFeed = z.output<typeof NewFeed>;

export const FeedCreate = z.strictObject({
  name: nameSchema(100).default("Calendar").describe("Name of the feed, displayed by calendar clients"),
  roomId: RoomId.optional().describe("Only events of this room. Default: everything the caller can list"),
});
export type FeedCreate = z.output<typeof FeedCreate>;

export const ImportStart = z.strictObject({
  roomId: RoomId.optional().describe("Room to import into. Default: the caller's personal calendar"),
  text: z.string().min(1).refine(
    (text) => !isLongerThan(text, IMPORT_MAX_BYTES),
    `at most ${IMPORT_MAX_BYTES} bytes`,
  ).describe("An iCalendar file (RFC 5545)"),
});
export type ImportStart = z.output<typeof ImportStart>;

export const ImportReport = z.object({
  created: z.int().describe("Number of created events"),
  updated: z.int().describe("Number of changed events"),
  unchanged: z.int().describe("Number of events that were already up to date"),
  problems: z.array(z.object({
    uid: z.string().nullable().describe("Id of the event in the file; null if it has none"),
    detail: z.string(),
  })).describe("Events and properties that were skipped, and why"),
}).meta({ id: "CalendarImportReport" });
export type ImportReport = z.output<typeof ImportReport>;

export const Import = z.object({
  id: z.string(),
  roomId: RoomId.nullable(),
  state: z.enum(["waiting", "done"]),
  report: ImportReport.nullable().describe("Result of the import; null while it is waiting"),
  createdAt: Time,
  finishedAt: Time.nullable(),
}).meta({ id: "CalendarImport" });
export type Import = z.output<typeof Import>;

const changed = z.object({ event: CalendarEntry, scope: Scope, occurrence: z.string().nullable() });

/**
 * Durable events of calendars: on the stream of the room if its members may see the event, and on the streams of its creator and
 * attendees. The stream of a public room carries the time only, since non-members can read it.
 */
export const CALENDAR_EVENTS: readonly EventType[] = eventTypes("calendar.read", [
  { type: "calendar.event.created", streams: ["room", "principal"], summary: "An event was created", data: changed },
  {
    type: "calendar.event.updated",
    streams: ["room", "principal"],
    summary: "An event or a part of its series was changed",
    data: changed,
  },
  {
    type: "calendar.event.cancelled",
    streams: ["room", "principal"],
    summary: "An event or a part of its series was cancelled",
    data: changed,
  },
  {
    type: "calendar.event.rsvp",
    streams: ["room", "principal"],
    summary: "An attendee responded",
    data: z.object({
      eventId: EventId,
      occurrence: z.string().nullable(),
      principalId: PrincipalId,
      status: AttendeeResponse,
      comment: z.string().nullable(),
      version: z.int().describe("Version of the event after the response"),
    }),
  },
  {
    type: "calendar.event.reminder",
    streams: ["principal"],
    summary: "An event starts soon (principal)",
    data: z.object({ event: CalendarEntry, minutesBefore: z.int() }),
  },
]);
