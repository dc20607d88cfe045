// Operations of the calendar and the route of feeds.
import { z } from "@zod/zod";
import { DAY_MS, iso } from "@/core/time/clock.ts";
import { notFound } from "@/core/fault.ts";
import { hash64 } from "@/core/text/hash.ts";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import { matchesIfNoneMatch } from "@/core/http/request.ts";
import type { Route } from "@/core/http/route.ts";
import type { EventUpdater } from "./updater.ts";
import { type CalendarFeeds, FEED_PATH } from "./feeds.ts";
import type { CalendarImports } from "./imports.ts";
import { IMPORT_MAX_BYTES, RANGE_DAYS_MAX, WAITING_IMPORTS_MAX } from "./limits.ts";
import {
  CALENDAR_EVENTS,
  CalendarEvent,
  EventCreate,
  EventDelete,
  EventId,
  EventList,
  EventPage,
  EventRead,
  EventUpdate,
  Feed,
  FeedCreate,
  FreeBusy,
  FreeBusyQuery,
  Import,
  ImportStart,
  NewFeed,
  Rsvp,
} from "./schema.ts";
import type { CalendarService } from "./service.ts";

const PATH = "/v1/collaboration/calendar";
const ROOM = exampleId("room");
const EVENT = exampleId("cal");
const RANGE = { from: "2026-03-01T00:00:00Z", to: "2026-04-01T00:00:00Z" };
/** Feed requests of one client address: it may be shared by many calendar clients that poll rarely. */
const FEED_RATE = { perSecond: 5, burst: 100 };
const TIME_FAULTS = ["recurrence_too_complex", "invalid_time_zone", "time_conflict"] as const;

type Deps = { calendar: CalendarService; updater: EventUpdater; feeds: CalendarFeeds; imports: CalendarImports };

export function calendarApi({ calendar, updater, feeds, imports }: Deps): ModuleApi {
  return {
    tags: { calendar: "Events, series, invitations, free/busy times, feeds and iCalendar import." },
    events: CALENDAR_EVENTS,
    operations: [...eventOperations(calendar, updater), ...fileOperations(feeds, imports)],
    routes: [feedRoute(feeds)],
  };
}

function eventOperations(calendar: CalendarService, updater: EventUpdater): Operation[] {
  return [
    defineOperation({
      name: "event.create",
      summary: "Create an event or a series",
      description:
        "Times are wall times in a time zone, so a series keeps its hour when clocks change. Every occurrence has " +
        "the duration of the first one. Occurrences at a time skipped by a clock change are left out and not " +
        "counted by COUNT (RFC 5545). Attendees get a notification `invitation`.",
      access: { scope: "calendar.write", room: "member" },
      http: { method: "POST", path: `${PATH}/events`, status: 201, hasLocation: true },
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
      summary: "List events in a time range",
      description:
        "Without `roomId`: events of the caller's rooms, personal calendar and invitations. Series are expanded " +
        "into occurrences.",
      access: { scope: "calendar.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/events`, status: 200 },
      input: EventList,
      output: EventPage,
      faults: ["not_found", "invalid_cursor"],
      example: { ...RANGE, roomId: ROOM },
      ownData: {
        inputs: yearsAround,
        isOwn: ({ createdBy, myStatus }, principalId) => createdBy === principalId || myStatus !== null,
        readBy: "event.read",
      },
      run: (context, input) => calendar.list(context, input),
    }),
    defineOperation({
      name: "event.read",
      summary: "Get an event, or one occurrence of a series",
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
      summary: "Update an event: the whole series, one occurrence, or one and all following",
      description:
        "`following` ends the series before the occurrence and returns a new series that starts there. When a " +
        "series is moved, it keeps its duration and its weekdays move with it; a new rule or time zone discards " +
        "changes to single occurrences. The meeting of an event moves with its first occurrence; if that meeting " +
        "has started, the event gets a new one for a later time. Making an event visible to the room fails if " +
        "another visible event has the same `uid`.",
      access: { scope: "calendar.write", room: "member" },
      http: { method: "PATCH", path: `${PATH}/events/:id`, status: 200, ifMatch: "version" },
      input: EventUpdate,
      output: CalendarEvent,
      faults: ["not_found", "conflict", "room_archived", "version_mismatch", "limit_reached", ...TIME_FAULTS],
      example: { id: EVENT, title: "Daily" },
      run: (context, input) => updater.update(context, input),
    }),
    defineOperation({
      name: "event.delete",
      summary: "Cancel an event: the whole series, one occurrence, or one and all following",
      description: "Also cancels its meeting, unless it has participants.",
      access: { scope: "calendar.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/events/:id`, status: 204, ifMatch: "version" },
      input: EventDelete,
      output: z.void(),
      faults: ["not_found", "room_archived", "version_mismatch", "limit_reached", "legal_hold"],
      example: { id: EVENT },
      run: (context, input) => updater.delete(context, input),
    }),
    defineOperation({
      name: "event.rsvp",
      summary: "Respond to an invitation",
      description:
        "Invitations are personal: attendees who are not in the event's room, or no longer, can respond as well; " +
        "this notifies the creator but not the room. Members cannot respond in an archived room.",
      access: { scope: "calendar.write" },
      http: { method: "PUT", path: `${PATH}/events/:id/rsvp`, status: 200 },
      input: Rsvp,
      output: CalendarEvent,
      faults: ["not_found", "agent_muted", "room_archived"],
      example: { id: EVENT, status: "accepted" },
      run: (context, input) => calendar.rsvp(context, input),
    }),
    defineOperation({
      name: "freebusy.read",
      summary: "List when principals are busy, without details",
      access: { scope: "calendar.read", tenant: "member" },
      http: { method: "POST", path: `${PATH}/freebusy`, status: 200 },
      input: FreeBusyQuery,
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
      summary: "Create a secret feed address for calendar clients",
      description:
        "Also requires the scope `calendar.read`. The feed contains what the caller may see at the time of each " +
        "request. It ends when the token of this call is revoked (including by logging out), when an API token expires " +
        "or a token family ends, or when the caller is disabled. It does not end when a JWT expires.",
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
      summary: "List the caller's feeds, without their addresses",
      access: { scope: "calendar.read" },
      http: { method: "GET", path: FEED_PATH, status: 200 },
      input: z.strictObject({}),
      output: z.object({ items: z.array(Feed) }).meta({ id: "CalendarFeeds" }),
      ownData: {},
      async run(context) {
        return { items: await feeds.list(context) };
      },
    }),
    defineOperation({
      name: "feed.delete",
      summary: "Revoke a feed; its address then returns 404",
      access: { scope: "calendar.write" },
      http: { method: "DELETE", path: `${FEED_PATH}/:id`, status: 204 },
      input: z.strictObject({ id: EventId }),
      output: z.void(),
      faults: ["not_found"],
      example: { id: exampleId("feed") },
      run: (context, { id }) => feeds.delete(context, id),
    }),
    defineOperation({
      name: "calendar_import.create",
      summary: "Import an iCalendar file",
      description:
        "Returns immediately; the result is in the report. Events are matched by `uid`, so an import can be " +
        "repeated. Attendees that are principals remain, and so do reminders if the file has none; attendees " +
        "with an email address are replaced by those of the file. The body may also be the file itself, with " +
        `\`roomId\` in the query. A principal may have ${WAITING_IMPORTS_MAX} imports that wait.`,
      access: { scope: "calendar.write", room: "member" },
      // A byte of the file may take two of JSON.
      http: {
        method: "POST",
        path: `${PATH}/import`,
        status: 202,
        hasLocation: true,
        bodyMaxBytes: 2 * IMPORT_MAX_BYTES + 4096,
        textBody: { type: "text/calendar", field: "text" },
      },
      input: ImportStart,
      output: Import,
      faults: ["not_found", "room_archived", "limit_reached"],
      example: { roomId: ROOM, text: "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n" },
      async run(context, input) {
        const started = await imports.start(context, input);
        return new Outcome(started, { location: `${PATH}/import/${started.id}` });
      },
    }),
    defineOperation({
      name: "calendar_import.read",
      summary: "Get an import and its report",
      access: { scope: "calendar.read" },
      http: { method: "GET", path: `${PATH}/import/:id`, status: 200 },
      input: z.strictObject({ id: EventId }),
      output: Import,
      faults: ["not_found"],
      example: { id: exampleId("imp") },
      run: (context, { id }) => imports.read(context, id),
    }),
  ];
}

/** Feeds are read without a token: the address is the secret. */
function feedRoute(feeds: CalendarFeeds): Route {
  return {
    name: "feed.read",
    summary: "Get a calendar feed",
    tag: "feed",
    method: "GET",
    path: `${FEED_PATH}/:id`,
    auth: "public",
    rate: FEED_RATE,
    faults: ["not_found", "rate_limited"],
    document: {
      examples: { id: "5kXGd0GBYhH2cWd0sYtS0Q.ics" },
      parameters: [{
        name: "id",
        in: "path",
        required: true,
        description: "The secret of the feed, followed by `.ics`",
        schema: { type: "string" },
      }, {
        name: "If-None-Match",
        in: "header",
        description: "ETag of the caller's copy; 304 if it is current",
        schema: { type: "string" },
      }],
      responses: {
        "200": {
          description: "The calendar (RFC 5545), including attendees and their responses",
          content: { "text/calendar": { schema: { type: "string" } } },
        },
        "304": { description: "Not modified" },
      },
    },
    async handle(request, { params, toBody }) {
      const [, secret] = /^([A-Za-z0-9_-]{22,64})\.ics$/.exec(params["id"] ?? "") ?? [];
      if (secret === undefined) throw notFound("feed");
      const text = await feeds.render(secret);
      const headers = { "Cache-Control": "private, max-age=300", ETag: `"${hash64(text)}"` };
      if (matchesIfNoneMatch(request.headers, headers.ETag)) return new Response(null, { status: 304, headers });
      return new Response(toBody(text), { headers: { ...headers, "Content-Type": "text/calendar; charset=utf-8" } });
    },
  };
}

/** The ranges in which events of the last ten years and of the next two begin. */
function yearsAround(nowMs: number): { from: string; to: string; expand: false }[] {
  const at = (years: number): string => iso(nowMs + years * RANGE_DAYS_MAX * DAY_MS);
  return Array.from({ length: 12 }, (_, n) => ({ from: at(n - 10), to: at(n - 9), expand: false }));
}
