// The lines of our own NDJSON export that tell of calendars.
import { z } from "@zod/zod";
import {
  ANSWER_STATUSES,
  ATTENDEE_ROLES,
  ATTENDEES_MAX,
  EVENT_DESCRIPTION_MAX,
  EVENT_TITLE_MAX,
  EVENT_VISIBILITIES,
  EXCEPTIONS_MAX,
  LOCATION_MAX,
  REMINDERS_MAX,
  When,
} from "@/modules/calendar/mod.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { Counter, Time } from "./line_value.ts";

const DURATION_MAX = 366 * 86_400;
const REMINDER_MINUTES_MAX = 28 * 24 * 60;
/** What may stand in a file line of its own. */
const OneLine = z.string().regex(/^[^\p{Cc}\p{Zl}\p{Zp}]+$/u, "no line of text");
const EventId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "no id of an event");
const [Timed, Dated] = When.options;
const Local = z.union([Timed.shape.dateTime, Dated.shape.date]);
const Title = z.string().min(1).max(EVENT_TITLE_MAX);
const Description = z.string().max(EVENT_DESCRIPTION_MAX).nullable();
const Location = z.string().max(LOCATION_MAX).nullable();
const Duration = z.int().min(0).max(DURATION_MAX);
const answer = { status: z.enum(ANSWER_STATUSES), comment: z.string().max(500).nullable() };
const Attending = z.object({
  principalId: PrincipalId.nullable(),
  email: OneLine.max(254).nullable(),
  role: z.enum(ATTENDEE_ROLES),
  ...answer,
  respondedAt: Time.nullable(),
}).refine(
  ({ principalId, email }) => (principalId === null) !== (email === null),
  "Neither a principal nor an address",
);

export const EventLine = z.object({
  id: EventId,
  // As files have it.
  uid: z.string().max(255).regex(/^\P{Cc}+$/u),
  roomId: RoomId.nullable(),
  title: Title,
  description: Description,
  location: Location,
  start: When,
  durationSeconds: Duration,
  // Those that came in with files may be longer than those that are written here.
  rrule: z.string().min(1).max(16_000).nullable(),
  exDates: z.array(Local).max(EXCEPTIONS_MAX),
  attendees: z.array(Attending).max(ATTENDEES_MAX).refine(
    (all) => new Set(all.map(({ principalId, email }) => principalId ?? `mailto:${email}`)).size === all.length,
    "Somebody is invited twice",
  ),
  reminders: z.array(z.object({ minutesBefore: z.int().min(0).max(REMINDER_MINUTES_MAX) })).max(REMINDERS_MAX),
  visibility: z.enum(EVENT_VISIBILITIES),
  transparent: z.boolean(),
  meetingId: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/).nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  /** Lines that follow it. */
  parts: z.int().min(0),
});
export const OverrideLine = z.object({
  eventId: EventId,
  occurrence: Local,
  patch: z.strictObject({
    title: Title.exactOptional(),
    description: Description.exactOptional(),
    location: Location.exactOptional(),
    startLocal: Local.exactOptional(),
    timeZone: z.string().max(64).nullable().exactOptional(),
    durationSeconds: Duration.exactOptional(),
  }),
});
export const AnswerLine = z.object({
  eventId: EventId,
  principalId: PrincipalId,
  occurrence: Local,
  ...answer,
  respondedAt: Time,
});
