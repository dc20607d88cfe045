// Imports the events of an archive: each with everything that belongs to it, once that has been read, or not at all.
import type { z } from "@zod/zod";
import {
  handleRecord,
  type ImportContext,
  type ImportedPart,
  PENDING_MAX_UNITS,
  type RecordHandler,
  type RecordPosition,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import type { LinkedMeetings } from "@/modules/meeting/mod.ts";
import { loadLocalIds } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import { EXCEPTIONS_MAX } from "../limits.ts";
import type { CalendarTables, EventAggregate } from "../store.ts";
import { EventRecord, OverrideRecord, RsvpRecord } from "./records.ts";
import type { ImportedEventWriter } from "./writer.ts";

const BATCH = 50;
/** Responses to single occurrences that are imported with an event. */
const RSVPS_MAX = 4000;

type Tx = Transaction<CalendarTables>;
type PendingEvent = {
  where: string;
  record: z.output<typeof EventRecord>;
  /** Null: personal; `undefined`: of a room that was deleted here, and so skipped. */
  roomId: string | null | undefined;
  overrides: Map<string, z.output<typeof OverrideRecord>>;
  responses: Map<string, z.output<typeof RsvpRecord>>;
  /** Records that followed it, valid or not. */
  parts: number;
  units: number;
};
type ResolvedEvent = { pending: PendingEvent; aggregate: EventAggregate };

/** An event in the history of imports. */
export function importedEvent(roomId: string | null, id: string): ImportedPart {
  return { container: roomId ?? "", name: `event ${id}` };
}

export class EventImporter implements SectionImporter {
  readonly records: Readonly<Record<string, RecordHandler>>;
  readonly #context: ImportContext<Tx>;
  readonly #writer: ImportedEventWriter;
  readonly #meetings: LinkedMeetings;
  #current: PendingEvent | undefined;
  #pending: PendingEvent[] = [];
  #units = 0;

  constructor(context: ImportContext<Tx>, writer: ImportedEventWriter, meetings: LinkedMeetings) {
    this.#context = context;
    this.#writer = writer;
    this.#meetings = meetings;
    this.records = {
      event: handleRecord(EventRecord, (record, position) => this.#open(record, position)),
      event_override: handleRecord(OverrideRecord, (record, { where }) => this.#override(record, where)),
      event_response: handleRecord(RsvpRecord, (record, { where }) => this.#response(record, where)),
    };
  }

  async beforeRecord(type: string): Promise<void> {
    if (type === "event") await this.#close();
    else if (this.#current !== undefined) this.#current.parts++;
  }

  async flush(): Promise<void> {
    await this.#close();
    await this.#importPending();
  }

  #open(record: z.output<typeof EventRecord>, { where, room }: RecordPosition): void {
    const { roomId: sourceRoomId } = record;
    if (sourceRoomId !== null && room?.sourceId !== sourceRoomId) {
      return this.#context.report.skip("unknown_room", where);
    }
    this.#current = {
      where,
      record,
      roomId: sourceRoomId === null ? null : room?.id,
      overrides: new Map(),
      responses: new Map(),
      parts: 0,
      units: record.description?.length ?? 0,
    };
  }

  #override(record: z.output<typeof OverrideRecord>, where: string): void {
    const event = this.#eventOf(record.eventId, where);
    if (event === undefined || event.overrides.has(record.occurrence)) return;
    if (event.overrides.size >= EXCEPTIONS_MAX) return this.#context.report.skip("too_many_exceptions", where);
    event.overrides.set(record.occurrence, record);
    event.units += record.patch.description?.length ?? 0;
  }

  #response(record: z.output<typeof RsvpRecord>, where: string): void {
    const event = this.#eventOf(record.eventId, where);
    const key = `${record.occurrence} ${record.principalId}`;
    if (event === undefined || event.responses.has(key)) return;
    if (event.responses.size >= RSVPS_MAX) return this.#context.report.skip("too_many_responses", where);
    event.responses.set(key, record);
  }

  /** The event of a record, which must directly follow it. */
  #eventOf(eventId: string, where: string): PendingEvent | undefined {
    if (this.#current?.record.id === eventId) return this.#current;
    this.#context.report.skip("unknown_event", where);
    return undefined;
  }

  /** All records of the current event have been read. */
  async #close(): Promise<void> {
    const event = this.#current;
    this.#current = undefined;
    if (event === undefined || event.roomId === undefined) return;
    if (event.parts < event.record.parts) {
      return this.#context.report.skip("invalid_record", `${event.where}: Related data is missing`);
    }
    this.#pending.push(event);
    this.#units += event.units;
    if (this.#pending.length >= BATCH || this.#units >= PENDING_MAX_UNITS) await this.#importPending();
  }

  async #importPending(): Promise<void> {
    const pending = this.#pending;
    this.#pending = [];
    this.#units = 0;
    if (pending.length === 0) return;
    // Computing a series takes time: it is done outside of a transaction, and only for events that are missing.
    const missing = await this.#context.write((tx) => this.#missing(tx, pending));
    const resolved: ResolvedEvent[] = [];
    for (const { event } of missing) {
      const aggregate = await this.#resolve(event);
      if (aggregate !== undefined) resolved.push({ pending: event, aggregate });
      // Other readers and writers run in between.
      await nextSlice();
    }
    if (resolved.length > 0) await this.#context.write((tx) => this.#importEvents(tx, resolved));
  }

  /** The event as rows; `undefined`, and reported, if it could not have been created here. */
  async #resolve({ where, record, roomId, overrides, responses }: PendingEvent): Promise<EventAggregate | undefined> {
    const { parts: _parts, ...event } = record;
    try {
      return await this.#writer.toRows({
        event: { ...event, roomId: roomId ?? null },
        overrides: [...overrides.values()],
        responses: [...responses.values()],
      });
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      this.#context.report.skip("invalid_record", `${where}: ${thrown.message}`);
      return undefined;
    }
  }

  /** Events that do not exist, each with a free id. */
  async #missing(tx: Tx, events: readonly PendingEvent[]): Promise<{ event: PendingEvent; id: string }[]> {
    const { tenantId } = this.#context;
    const refOf = ({ record }: PendingEvent) => this.#context.refOf("cal", record.id);
    const ids = await loadLocalIds(tx.db, "calendar_event", tenantId, events.map(refOf));
    const missing = events.flatMap((event) => {
      const id = ids.allocate(refOf(event));
      return id === undefined ? [] : [{ event, id }];
    });
    return await this.#context.history(tx).filterNew(
      missing,
      ({ event }) => candidateIds(refOf(event)).map((id) => importedEvent(event.roomId ?? null, id)),
    );
  }

  async #importEvents(tx: Tx, events: readonly ResolvedEvent[]): Promise<void> {
    const { tenantId, report } = this.#context;
    const ids = new Map(
      (await this.#missing(tx, events.map(({ pending }) => pending))).map(({ event, id }) => [event, id]),
    );
    const missing = events.flatMap(({ pending, aggregate }) => {
      const id = ids.get(pending);
      return id === undefined ? [] : [{ pending, aggregate, id }];
    });
    await this.#context.createPlaceholders(
      tx,
      missing.flatMap(({ aggregate: { row, attendees, rsvps } }) => [
        row.created_by,
        ...attendees.flatMap(({ principal_id }) => principal_id ?? []),
        ...rsvps.map(({ principal_id }) => principal_id),
      ]),
    );
    const meetings = await this.#locateMeetings(tx, missing.map(({ aggregate }) => aggregate));
    const skipped = await this.#writer.importEvents(
      tx,
      missing.map(({ aggregate, id }) => ({
        aggregate,
        target: {
          tenant_id: tenantId,
          id,
          room_id: aggregate.row.room_id,
          meeting_id: meetings.get(aggregate.row.meeting_id ?? "") ?? null,
        },
      })),
      // Naming a file is no right to show it; having its content is.
      ({ id }) => this.#context.hasFile(id),
    );
    await this.#context.history(tx).record(
      missing.filter(({ id }) => !skipped.has(id)).map(({ aggregate, id }) => importedEvent(aggregate.row.room_id, id)),
    );
    report.count("events", missing.length - skipped.size);
    for (const { pending: { where }, aggregate: { row }, id } of missing) {
      if (skipped.has(id)) report.skip("uid_taken", `${where}: ${row.uid}`);
      else if (row.meeting_id !== null && !meetings.has(row.meeting_id)) {
        report.skip("meeting_missing", `${where}: ${row.title}`);
      }
    }
  }

  /** Ids of the meetings of events, which are in the same room, by their ids in the archive. */
  async #locateMeetings(tx: Tx, events: readonly EventAggregate[]): Promise<Map<string, string>> {
    const linked = events.flatMap(({ row: { meeting_id: meetingId, room_id: roomId } }) =>
      meetingId === null || roomId === null ? [] : [{ meetingId, roomId }]
    );
    const located = await this.#meetings.locateImported(this.#context, tx.db, linked.map(({ meetingId }) => meetingId));
    return new Map(linked.flatMap(({ meetingId, roomId }) => {
      const meeting = located.get(meetingId)?.find((one) => one.roomId === roomId);
      return meeting === undefined ? [] : [[meetingId, meeting.id]];
    }));
  }
}
