// Calendars in archives: how events are exported, and what imports them.
import type { ArchiveSection, ExportContext } from "@/core/archive/section.ts";
import type { Clock } from "@/core/time/clock.ts";
import { paginate } from "@/core/page.ts";
import type { LinkedMeetings } from "@/modules/meeting/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { eventFileOwner } from "../files.ts";
import { CalendarStore, type CalendarTables, type EventAggregate } from "../store.ts";
import type { EventWriter } from "../writer.ts";
import { toArchived } from "./archived_event.ts";
import { EventImporter, importedEvent } from "./import.ts";
import { ImportedEventWriter } from "./writer.ts";

const BATCH = 500;

type Deps = { store: Store<CalendarTables>; clock: Clock; writer: EventWriter; meetings: LinkedMeetings };

export function calendarArchive(deps: Deps): ArchiveSection<Transaction<CalendarTables>> {
  const { store, meetings } = deps;
  const writer = new ImportedEventWriter(deps);
  return {
    description: {
      exported:
        "calendar events (`event`), each followed by exceptions of its series (`event_override`) and responses to " +
        "these (`event_response`); in the export of a room those visible to the whole room, in that of a tenant all, " +
        "including personal ones",
      imported:
        "Calendar events are skipped if the calendar has an event with the same `uid`; otherwise they are imported " +
        "with their series, responses and meetings.",
    },
    counts: { events: "Events of calendars; a series counts as one" },
    skipCodes: {
      unknown_event: "each_run",
      too_many_exceptions: "each_run",
      too_many_responses: "each_run",
      uid_taken: "each_run",
      meeting_missing: "once",
    },
    exportRoom: (context, roomId) => exportEvents(store, context, roomId),
    exportPersonal: (context) => exportEvents(store, context, null),
    createImporter: (context) => new EventImporter(context, writer, meetings),
  };
}

/** Events of a room, or (null) personal ones; in the export of a room those visible to the whole room. */
async function* exportEvents(
  { db }: Store<CalendarTables>,
  context: ExportContext,
  roomId: string | null,
): AsyncGenerator<unknown[]> {
  const { tenantId, isRoomOnly } = context;
  const events = new CalendarStore(db);
  const read = (last = "") => events.idsAfter(tenantId, roomId, isRoomOnly, last, BATCH);
  for await (const ids of paginate(BATCH, read)) {
    for (const id of ids) {
      const aggregate = await events.findAggregate(tenantId, id);
      if (aggregate !== undefined && aggregate.row.room_id === roomId) yield* exportEvent(context, aggregate);
    }
  }
}

async function* exportEvent(context: ExportContext, aggregate: EventAggregate): AsyncGenerator<unknown[]> {
  const { event, overrides, responses } = toArchived(aggregate);
  yield await context.principalRecords([
    event.createdBy,
    ...event.attendees.flatMap(({ principalId }) => principalId ?? []),
    ...responses.map(({ principalId }) => principalId),
  ]);
  context.recordExported([importedEvent(event.roomId, event.id)]);
  context.count("events", 1);
  yield* context.fileRecords(eventFileOwner(event.id));
  const eventId = event.id;
  yield [
    { type: "event", ...event, parts: overrides.length + responses.length },
    ...overrides.map((override) => ({ type: "event_override", eventId, ...override })),
    ...responses.map((response) => ({ type: "event_response", eventId, ...response })),
  ];
}
