// The records of calendars in archives. Unknown fields are those of a later version, and ignored.
import { z } from "@zod/zod";
import { Counter } from "@/core/archive/fields.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import {
  ATTENDEES_MAX,
  DESCRIPTION_MAX,
  DURATION_SECONDS_MAX,
  EXCEPTIONS_MAX,
  LOCATION_MAX,
  REMINDER_MINUTES_MAX,
  REMINDERS_MAX,
  TITLE_MAX,
} from "../limits.ts";
import { ATTENDEE_ROLES, EVENT_VISIBILITIES, STATUSES, When } from "../schema.ts";

/** Calendar files have it in a line of its own. */
const OneLine = z.string().regex(/^[^\p{Cc}\p{Zl}\p{Zp}]+$/u, "expected a single line of text");
const EventId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected the id of an event");
const [Timed, Dated] = When.options;
const Local = z.union([Timed.shape.dateTime, Dated.shape.date]);
const Title = z.string().overwrite(sanitizeName).min(1).max(TITLE_MAX);
const Description = z.string().max(DESCRIPTION_MAX).nullable();
const Location = z.string().max(LOCATION_MAX).nullable();
const Duration = z.int().min(0).max(DURATION_SECONDS_MAX);
const response = { status: z.enum(STATUSES), comment: z.string().max(500).nullable() };
const Attending = z.object({
  principalId: PrincipalId.nullable(),
  email: OneLine.max(254).nullable(),
  role: z.enum(ATTENDEE_ROLES),
  ...response,
  respondedAt: TimeInput.nullable(),
}).refine(
  ({ principalId, email }) => (principalId === null) !== (email === null),
  "expected a principal or an email address",
);

export const EventRecord = z.object({
  id: EventId,
  // As in calendar files.
  uid: z.string().max(255).regex(/^\P{Cc}+$/u),
  roomId: RoomId.nullable(),
  title: Title,
  description: Description,
  location: Location,
  start: When,
  durationSeconds: Duration,
  // Rules of imported calendar files may be longer than those of requests.
  rrule: z.string().min(1).max(16_000).nullable(),
  exDates: z.array(Local).max(EXCEPTIONS_MAX),
  attendees: z.array(Attending).max(ATTENDEES_MAX).refine(
    (all) => new Set(all.map(({ principalId, email }) => principalId ?? `mailto:${email}`)).size === all.length,
    "duplicate attendee",
  ),
  reminders: z.array(z.object({ minutesBefore: z.int().min(0).max(REMINDER_MINUTES_MAX) })).max(REMINDERS_MAX),
  visibility: z.enum(EVENT_VISIBILITIES),
  transparent: z.boolean(),
  meetingId: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/).nullable(),
  version: Counter.min(1),
  createdBy: PrincipalId,
  createdAt: TimeInput,
  updatedAt: TimeInput,
  /** Number of records that follow it. */
  parts: z.int().min(0),
});
export const OverrideRecord = z.object({
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
export const RsvpRecord = z.object({
  eventId: EventId,
  principalId: PrincipalId,
  occurrence: Local,
  ...response,
  respondedAt: TimeInput,
});

/** An event with its exceptions and responses. */
export type ArchivedEvent = {
  event: Omit<z.output<typeof EventRecord>, "parts">;
  overrides: z.output<typeof OverrideRecord>[];
  responses: z.output<typeof RsvpRecord>[];
};
