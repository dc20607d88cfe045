// The calendar module: events and series, invitations, free/busy, reminders, imports and feeds.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import type { CredentialSnapshot, IdentityService } from "@/modules/identity/mod.ts";
import type { LinkedMeetings } from "@/modules/meeting/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { CalendarAccess } from "./access.ts";
import { calendarApi } from "./api.ts";
import { calendarArchive } from "./archive/section.ts";
import { EventUpdater } from "./updater.ts";
import { SERIES_MAX } from "./recurrence/expansion.ts";
import { CalendarFeeds, deleteFeedsJob, FEEDS_JOB, FEEDS_MAX } from "./feeds.ts";
import { CalendarImports, IMPORT_JOB } from "./imports.ts";
import { EventMeetings } from "./meetings.ts";
import { migrations } from "./migrations.ts";
import { calendarErasure } from "./principal_erasure.ts";
import { REMINDER_JOB, ReminderSender } from "./reminders.ts";
import {
  ATTENDEES_MAX,
  DESCRIPTION_MAX,
  EXCEPTIONS_MAX,
  IMPORT_MAX_BYTES,
  OCCURRENCES_MAX,
  RANGE_DAYS_MAX,
  REMINDERS_MAX,
  TITLE_MAX,
} from "./limits.ts";
import { EventId } from "./schema.ts";
import { CalendarService } from "./service.ts";
import { CalendarSearchable, purgeCalendar, purgeUnshared } from "./searchable.ts";
import { CHANGE_NOTIFICATIONS, EventWriter } from "./writer.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
  notify: Notify;
  meetings: LinkedMeetings;
  files: NamedFiles;
  /** Absent where search is off. */
  index: SearchIndex | undefined;
};

export function calendarModule({ store, clock, cursors, cpu, holds }: Platform, deps: Deps): Module {
  const { index, notify, files, roomAccess } = deps;
  const access = new CalendarAccess({ ...deps, store });
  const meetings = new EventMeetings(clock, deps.meetings);
  const writer = new EventWriter({ clock, index, meetings, files, notify, holds });
  const shared = { ...deps, store, clock, cursors, access, writer, meetings, holds };
  const calendar = new CalendarService(shared);
  const updater = new EventUpdater(shared);
  const feeds = new CalendarFeeds({ ...shared, cpu });
  const imports = new CalendarImports(shared);
  const reminders = new ReminderSender({
    store,
    clock,
    notify,
    advanceMeeting: (tx, event) => writer.advanceMeeting(tx, event),
  });
  const search = new CalendarSearchable({ store, roomAccess });
  return {
    name: "calendar",
    migrations,
    erases: calendarErasure((...of) => purgeUnshared({ store, files, index }, ...of)),
    ...calendarApi({ calendar, updater, feeds, imports }),
    notificationKinds: { reminder: "reminders", ...CHANGE_NOTIFICATIONS },
    jobs: [
      defineJob({
        kind: REMINDER_JOB,
        payload: z.strictObject({ eventId: EventId }),
        run: ({ tenantId, payload }) => reminders.send(tenantId, payload.eventId),
      }),
      defineJob({
        kind: FEEDS_JOB,
        payload: z.strictObject({ tokenId: z.string() }),
        run: ({ tenantId, payload }) => feeds.deleteByToken(tenantId, payload.tokenId),
      }),
      defineJob({
        kind: IMPORT_JOB,
        payload: z.strictObject({ importId: EventId }),
        isLongRunning: true,
        run: ({ tenantId, payload }) => imports.run(tenantId, payload.importId),
        onDeadLetter: ({ tenantId, payload, reason }) => imports.abandon(tenantId, payload.importId, reason),
      }),
    ],
    jobsOn: { token_ended: deleteFeedsJob },
    search,
    resourceScopes: { event: "calendar.read" },
    canRead: { event: async (actor, ids, db) => new Set((await search.load(actor, ids, db)).keys()) },
    purgeRoom: (tenantId, roomId) => purgeCalendar(store, files, tenantId, roomId),
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
    archive: calendarArchive({ store, clock, writer, meetings: deps.meetings }),
  };
}
