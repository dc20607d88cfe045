// Operations, jobs and the feed route of the calendar.
import { z } from "@zod/zod";
import type { Clock } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import type { Route } from "@/core/route.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { CalendarAccess } from "./access.ts";
import { EventEditor } from "./editor.ts";
import { SERIES_MAX } from "./expansion.ts";
import { CalendarFeeds, FEED_PATH, FEEDS_MAX } from "./feeds.ts";
import { CalendarImports, IMPORT_JOB } from "./imports.ts";
import { EventMeetings, type Meetings } from "./meetings.ts";
import { REMINDER_JOB } from "./reminder.ts";
import { Reminders } from "./reminders.ts";
import {
  ATTENDEES_MAX,
  CALENDAR_EVENTS,
  CalendarEvent,
  DESCRIPTION_MAX,
  EventCreate,
  EventDelete,
  EventId,
  EventList,
  EventPage,
  EventRead,
  EventUpdate,
  EXCEPTIONS_MAX,
  Feed,
  FeedCreate,
  FreeBusy,
  FreeBusyAsk,
  Import,
  IMPORT_MAX_BYTES,
  ImportStart,
  NewFeed,
  OCCURRENCES_MAX,
  RANGE_DAYS_MAX,
  REMINDERS_MAX,
  Rsvp,
  TITLE_MAX,
} from "./schema.ts";
import { CalendarService } from "./service.ts";
import { purgeCalendar } from "./source.ts";
import type { CalendarTables } from "./store.ts";
import { type CalendarIndex, EventWriter } from "./writer.ts";

const PATH = "/v1/collaboration/calendar";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const EVENT = "cal_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const RANGE = { from: "2026-03-01T00:00:00Z", to: "2026-04-01T00:00:00Z" };
/** What one address may read of feeds: many people's programs may be behind it, and each reads seldom. */
const FEED_RATE = { perSecond: 5, burst: 100 };
const TIME_FAULTS = ["recurrence_too_dense", "invalid_time_zone", "busy_conflict"] as const;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  identity: IdentityService;
  /** Absent when there is no search. */
  index?: CalendarIndex;
  notify: Notify;
  meetings: Meetings;
};

/** The calendar module. */
export function calendarModule({ index, meetings, ...deps }: Deps): Module {
  const access = new CalendarAccess(deps);
  const eventMeetings = new EventMeetings(meetings);
  const writer = new EventWriter({ clock: deps.clock, index, meetings: eventMeetings, notify: deps.notify });
  const calendar = new CalendarService({ ...deps, access, writer, meetings: eventMeetings });
  const editor = new EventEditor({ ...deps, access, writer, meetings: eventMeetings });
  const feeds = new CalendarFeeds({ ...deps, access });
  const imports = new CalendarImports({ ...deps, writer });
  const reminders = new Reminders(deps);
  return {
    name: "calendar",
    events: CALENDAR_EVENTS,
    operations: [...eventOperations(calendar, editor), ...fileOperations(feeds, imports)],
    routes: [feedRoute(feeds)],
    jobs: [
      defineJob({
        kind: REMINDER_JOB,
        payload: z.strictObject({ eventId: EventId }),
        run: ({ tenantId, payload }) => reminders.send(tenantId, payload.eventId),
      }),
      defineJob({
        kind: IMPORT_JOB,
        payload: z.strictObject({ importId: EventId }),
        run: ({ tenantId, payload }) => imports.run(tenantId, payload.importId),
      }),
    ],
    purgeRoom: (tenantId, roomId) => purgeCalendar(deps.store, tenantId, roomId),
    capability: () => ({
      enabled: true,
      limits: {
        title: TITLE_MAX,
        description: DESCRIPTION_MAX,
        attendees: ATTENDEES_MAX,
        reminders: REMINDERS_MAX,
        exceptions: EXCEPTIONS_MAX,
        rangeDays: RANGE_DAYS_MAX,
        occurrences: OCCURRENCES_MAX,
        occurrencesPerSeries: SERIES_MAX,
        feeds: FEEDS_MAX,
        importBytes: IMPORT_MAX_BYTES,
      },
    }),
  };
}

function eventOperations(calendar: CalendarService, editor: EventEditor): Operation[] {
  return [
    defineOperation({
      name: "event.create",
      summary: "Put an event, or a series of them, in a calendar",
      description:
        "Times are wall times in a zone, so a series stays at its hour when clocks change. Each occurrence lasts as long as the " +
        "first, by the clock that does not change; one at a time that the clocks skip is left out, and COUNT does not count it " +
        "(RFC 5545). Who is invited is told by a notification `invitation`.",
      access: { scope: "calendar.write", room: "member" },
      http: { method: "POST", path: `${PATH}/events`, status: 201 },
      input: EventCreate,
      output: CalendarEvent,
      faults: ["not_found", "room_archived", "conflict", ...TIME_FAULTS],
      example: {
        roomId: ROOM,
        title: "Stand-up",
        start: { dateTime: "2026-03-02T09:00:00", timeZone: "Europe/Vienna" },
        durationMinutes: 15,
        rrule: "FREQ=WEEKLY;BYDAY=MO,WE,FR",
        reminders: [{ minutesBefore: 10 }],
      },
      async run(context, input) {
        const event = await calendar.create(context, input);
        return new Outcome(event, { location: `${PATH}/events/${event.id}` });
      },
    }),
    defineOperation({
      name: "event.list",
      summary: "List what happens in a stretch of time",
      description:
        "Without a room: of the caller's rooms, own calendar and invitations. Series come as their occurrences.",
      access: { scope: "calendar.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/events`, status: 200 },
      input: EventList,
      output: EventPage,
      faults: ["not_found", "invalid_cursor"],
      example: { ...RANGE, roomId: ROOM },
      run: (context, input) => calendar.list(context, input),
    }),
    defineOperation({
      name: "event.read",
      summary: "Read an event, or one occurrence of a series",
      access: { scope: "calendar.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/events/:id`, status: 200 },
      input: EventRead,
      output: CalendarEvent,
      faults: ["not_found"],
      example: { id: EVENT },
      run: (context, input) => calendar.read(context, input),
    }),
    defineOperation({
      name: "event.update",
      summary: "Change an event: the whole series, one occurrence, or one and all that follow",
      description: "following ends the series before the occurrence and answers the new one that begins there. " +
        "A series that is moved keeps its length, and its weekdays go along; a new rule or zone drops what was changed " +
        "in single occurrences. The meeting of an event goes along with its first occurrence; when it has begun already, " +
        "the event gets another for a later time.",
      access: { scope: "calendar.write", room: "member" },
      http: { method: "PATCH", path: `${PATH}/events/:id`, status: 200, ifMatch: "version" },
      input: EventUpdate,
      output: CalendarEvent,
      faults: ["not_found", "room_archived", "version_mismatch", "limit_reached", ...TIME_FAULTS],
      example: { id: EVENT, title: "Daily" },
      run: (context, input) => editor.update(context, input),
    }),
    defineOperation({
      name: "event.delete",
      summary: "Cancel an event: the whole series, one occurrence, or one and all that follow",
      description: "Its meeting is cancelled with it, unless people are in it.",
      access: { scope: "calendar.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/events/:id`, status: 204, ifMatch: "version" },
      input: EventDelete,
      output: z.void(),
      faults: ["not_found", "room_archived", "version_mismatch", "limit_reached"],
      example: { id: EVENT },
      run: (context, input) => editor.delete(context, input),
    }),
    defineOperation({
      name: "event.rsvp",
      summary: "Answer an invitation",
      access: { scope: "calendar.write" },
      http: { method: "PUT", path: `${PATH}/events/:id/rsvp`, status: 200 },
      input: Rsvp,
      output: CalendarEvent,
      faults: ["not_found"],
      example: { id: EVENT, status: "accepted" },
      run: (context, input) => calendar.rsvp(context, input),
    }),
    defineOperation({
      name: "freebusy.read",
      summary: "When principals are busy, without saying with what",
      access: { scope: "calendar.read", tenant: "member" },
      http: { method: "POST", path: `${PATH}/freebusy`, status: 200 },
      input: FreeBusyAsk,
      output: FreeBusy,
      faults: ["invalid_time_zone"],
      example: { ...RANGE, principalIds: ["me"], timeZone: "Europe/Vienna" },
      run: (context, input) => calendar.freeBusy(context, input),
    }),
  ];
}

function fileOperations(feeds: CalendarFeeds, imports: CalendarImports): Operation[] {
  return [
    defineOperation({
      name: "feed.create",
      summary: "Make a secret address under which calendar programs read the calendar",
      description: "Needs the scope `calendar.read` as well.",
      access: { scope: "calendar.write", room: "observer" },
      http: { method: "POST", path: FEED_PATH, status: 201 },
      input: FeedCreate,
      output: NewFeed,
      isSecret: true,
      faults: ["not_found", "limit_reached"],
      example: { name: "Operations", roomId: ROOM },
      run: (context, input) => feeds.create(context, input),
    }),
    defineOperation({
      name: "feed.list",
      summary: "List one's own feeds, without their addresses",
      access: { scope: "calendar.read" },
      http: { method: "GET", path: FEED_PATH, status: 200 },
      input: z.strictObject({}),
      output: z.object({ items: z.array(Feed) }),
      async run(context) {
        return { items: await feeds.list(context) };
      },
    }),
    defineOperation({
      name: "feed.delete",
      summary: "Revoke a feed; its address answers 404 from then on",
      access: { scope: "calendar.write" },
      http: { method: "DELETE", path: `${FEED_PATH}/:id`, status: 204 },
      input: z.strictObject({ id: EventId }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: "feed_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" },
      run: (context, { id }) => feeds.delete(context, id),
    }),
    defineOperation({
      name: "import.create",
      summary: "Import an iCalendar file",
      description:
        "Answers at once; the report tells what came of it. Events are told by their uid, so it may be repeated; principals " +
        "who are invited stay so, and reminders where the file has none. Attendees with an email address are those of the " +
        "file. The file may be the body itself; the room is then told in the query.",
      access: { scope: "calendar.write", room: "member" },
      // A byte of the file may take two of JSON.
      http: {
        method: "POST",
        path: `${PATH}/import`,
        status: 202,
        bodyMaxBytes: 2 * IMPORT_MAX_BYTES + 4096,
        text: { type: "text/calendar", field: "text" },
      },
      input: ImportStart,
      output: Import,
      faults: ["not_found", "room_archived"],
      example: { roomId: ROOM, text: "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n" },
      async run(context, input) {
        const started = await imports.start(context, input);
        return new Outcome(started, { location: `${PATH}/import/${started.id}` });
      },
    }),
    defineOperation({
      name: "import.read",
      summary: "Read what came of an import",
      access: { scope: "calendar.read" },
      http: { method: "GET", path: `${PATH}/import/:id`, status: 200 },
      input: z.strictObject({ id: EventId }),
      output: Import,
      faults: ["not_found"],
      example: { id: "imp_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" },
      run: (context, { id }) => imports.read(context, id),
    }),
  ];
}

/** Feeds are read without a token: the address is the secret. */
function feedRoute(feeds: CalendarFeeds): Route {
  return {
    name: "feed.read",
    summary: "Read a calendar by its secret address",
    tag: "feed",
    method: "GET",
    path: `${FEED_PATH}/:id`,
    auth: "public",
    rate: FEED_RATE,
    faults: ["not_found", "rate_limited"],
    document: {
      parameters: [{
        name: "id",
        in: "path",
        required: true,
        description: "The secret, with `.ics` at its end",
        schema: { type: "string" },
      }],
      responses: {
        "200": {
          description: "The calendar (RFC 5545), with who attends and what they answered",
          content: { "text/calendar": { schema: { type: "string" } } },
        },
      },
    },
    async handle(_request, { params }) {
      const [, secret] = /^([A-Za-z0-9_-]{22,64})\.ics$/.exec(params["id"] ?? "") ?? [];
      if (secret === undefined) throw new Fault("not_found", "No such feed");
      return new Response(await feeds.feed(secret), {
        headers: { "Content-Type": "text/calendar; charset=utf-8", "Cache-Control": "private, max-age=300" },
      });
    },
  };
}
