// Events of an archive: each comes in whole, once all that belongs to it has been read, or not at all.
import type { z } from "@zod/zod";
import { nextTurn } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { ANSWERS_MAX, type CalendarCarrier, EXCEPTIONS_MAX, type WholeEvent } from "@/modules/calendar/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { Brought, partOf } from "./brought.ts";
import { AnswerLine, EventLine, OverrideLine } from "./calendar_line.ts";
import { CarriedStore } from "./carried/store.ts";
import type { Refs } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { idsOf, takeId } from "./places.ts";
import { type Here, readAs, type Section } from "./section.ts";
import { TransferStore, type TransferTables } from "./store.ts";

const BATCH = 50;
/** Longer texts do not wait for others. */
const WAITING_MAX_UNITS = 1024 * 1024;

type Tx = Transaction<TransferTables>;
type Group = {
  where: string;
  line: z.output<typeof EventLine>;
  roomId: string | null;
  overrides: Map<string, z.output<typeof OverrideLine>>;
  answers: Map<string, z.output<typeof AnswerLine>>;
  /** Lines that follow it, whatever is in them. */
  parts: number;
  units: number;
};
type Settled = { group: Group; whole: WholeEvent };

export class CalendarImport implements Section {
  readonly types = ["event", "event_override", "event_answer"];
  readonly #importer: Importer;
  readonly #refs: Refs;
  readonly #carrier: CalendarCarrier;
  readonly #tenantId: string;
  #group: Group | undefined;
  #waiting: Group[] = [];
  #units = 0;

  constructor(importer: Importer, refs: Refs, carrier: CalendarCarrier, tenantId: string) {
    this.#importer = importer;
    this.#refs = refs;
    this.#carrier = carrier;
    this.#tenantId = tenantId;
  }

  async take(type: string, value: unknown, where: string, here: Here | undefined): Promise<void> {
    const { report } = this.#importer;
    if (type === "event") {
      await this.#close();
      const line = readAs(EventLine, value, where, report);
      if (line !== undefined) this.#open(line, where, here);
    } else if (type === "event_override") {
      if (this.#group !== undefined) this.#group.parts++;
      const line = readAs(OverrideLine, value, where, report);
      if (line !== undefined) this.#override(line, where);
    } else if (type === "event_answer") {
      if (this.#group !== undefined) this.#group.parts++;
      const line = readAs(AnswerLine, value, where, report);
      if (line !== undefined) this.#answer(line, where);
    }
  }

  async flush(): Promise<void> {
    await this.#close();
    await this.#putWaiting();
  }

  #open(line: z.output<typeof EventLine>, where: string, here: Here | undefined): void {
    this.#group = undefined;
    if (line.roomId !== null && here?.sourceId !== line.roomId) {
      return this.#importer.report.skip("unknown_room", where);
    }
    const room = line.roomId === null ? null : here?.open;
    this.#group = {
      where,
      line,
      // Of a room that was deleted here nothing comes in, and nothing is told.
      roomId: room === undefined ? "" : room?.id ?? null,
      overrides: new Map(),
      answers: new Map(),
      parts: 0,
      units: line.description?.length ?? 0,
    };
  }

  #override(line: z.output<typeof OverrideLine>, where: string): void {
    const group = this.#groupOf(line.eventId, where);
    if (group === undefined || group.overrides.has(line.occurrence)) return;
    if (group.overrides.size >= EXCEPTIONS_MAX) return this.#importer.report.skip("too_many_exceptions", where);
    group.overrides.set(line.occurrence, line);
    group.units += line.patch.description?.length ?? 0;
  }

  #answer(line: z.output<typeof AnswerLine>, where: string): void {
    const group = this.#groupOf(line.eventId, where);
    const key = `${line.occurrence} ${line.principalId}`;
    if (group === undefined || group.answers.has(key)) return;
    if (group.answers.size >= ANSWERS_MAX) return this.#importer.report.skip("too_many_answers", where);
    group.answers.set(key, line);
  }

  /** The event that something belongs to; it comes right after it. */
  #groupOf(eventId: string, where: string): Group | undefined {
    if (this.#group?.line.id === eventId) return this.#group;
    this.#importer.report.skip("unknown_event", where);
    return undefined;
  }

  /** Everything of an event has been read. */
  async #close(): Promise<void> {
    const group = this.#group;
    this.#group = undefined;
    if (group === undefined || group.roomId === "") return;
    if (group.parts < group.line.parts) {
      return this.#importer.report.skip("invalid_record", `${group.where}: Some of what belongs to it is missing`);
    }
    this.#waiting.push(group);
    this.#units += group.units;
    if (this.#waiting.length >= BATCH || this.#units >= WAITING_MAX_UNITS) await this.#putWaiting();
  }

  async #putWaiting(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#units = 0;
    if (waiting.length === 0) return;
    // Working out a series takes time, and no transaction waits for that, nor is it done for what is there.
    const missing = await this.#importer.write((tx) => this.#missing(tx, waiting));
    const settled: Settled[] = [];
    for (const { group } of missing) {
      const whole = await this.#settle(group);
      if (whole !== undefined) settled.push({ group, whole });
      // Readers and writers of others get their turn.
      await nextTurn();
    }
    if (settled.length > 0) await this.#importer.write((tx) => this.#put(tx, settled));
  }

  /** The event as rows; `undefined`, and a note in the report, where it could not have been made here. */
  async #settle({ where, line, roomId, overrides, answers }: Group): Promise<WholeEvent | undefined> {
    const { parts: _parts, ...event } = line;
    try {
      return await this.#carrier.settle({
        event: { ...event, roomId },
        overrides: [...overrides.values()],
        answers: [...answers.values()],
      });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      this.#importer.report.skip("invalid_record", `${where}: ${error.message}`);
      return undefined;
    }
  }

  /** Events that are not there, each with the id that is free for it. */
  async #missing(tx: Tx, groups: readonly Group[]): Promise<{ group: Group; id: string }[]> {
    const refs = groups.map(({ line }) => this.#refs.event(line.id));
    const there = await new CarriedStore(tx.db).events(this.#tenantId, refs.flatMap(idsOf));
    const elsewhere = await new TransferStore(tx.db).takenElsewhere(
      this.#tenantId,
      "calendar_event",
      refs.map(({ own }) => own),
    );
    const missing = groups.flatMap((group, at) => {
      const ref = refs[at];
      const id = ref === undefined ? undefined : takeId(ref, there, elsewhere);
      return id === undefined ? [] : [{ group, id }];
    });
    return await new Brought(tx, this.#tenantId).fresh(
      missing,
      ({ group: { line, roomId } }) => idsOf(this.#refs.event(line.id)).map((id) => partOf.event(roomId, id)),
    );
  }

  async #put(tx: Tx, events: readonly Settled[]): Promise<void> {
    const { report, people, now } = this.#importer;
    const ids = new Map(
      (await this.#missing(tx, events.map(({ group }) => group))).map(({ group, id }) => [group, id]),
    );
    const missing = events.flatMap(({ group, whole }) => {
      const id = ids.get(group);
      return id === undefined ? [] : [{ group, whole, id }];
    });
    await people.standIn(
      tx,
      missing.flatMap(({ whole: { row, attendees, rsvps } }) => [
        row.created_by,
        ...attendees.flatMap(({ principal_id }) => principal_id ?? []),
        ...rsvps.map(({ principal_id }) => principal_id),
      ]),
      now,
    );
    const meetings = await this.#meetings(tx, missing);
    const leftOut = await this.#carrier.put(
      tx,
      missing.map(({ whole, id }) => ({
        whole,
        place: {
          tenant_id: this.#tenantId,
          id,
          room_id: whole.row.room_id,
          meeting_id: meetings.get(whole.row.meeting_id ?? "") ?? null,
        },
      })),
    );
    await new Brought(tx, this.#tenantId).note(
      missing.filter(({ id }) => !leftOut.has(id)).map(({ group, id }) => partOf.event(group.roomId, id)),
    );
    for (const { group: { where }, whole: { row }, id } of missing) {
      if (leftOut.has(id)) {
        report.skip("uid_taken", `${where}: ${row.uid}`);
        continue;
      }
      report.added.events++;
      if (row.meeting_id !== null && !meetings.has(row.meeting_id)) {
        report.skip("meeting_missing", `${where}: ${row.title}`);
      }
    }
  }

  /** The meetings of events, by the ids they have in the archive: those of the same room. */
  async #meetings(tx: Tx, events: readonly Settled[]): Promise<Map<string, string>> {
    const named = events.flatMap(({ whole: { row } }) =>
      row.meeting_id === null ? [] : [{ ref: this.#refs.meeting(row.meeting_id), roomId: row.room_id }]
    );
    const rooms = await new CarriedStore(tx.db).meetings(this.#tenantId, named.flatMap(({ ref }) => idsOf(ref)));
    return new Map(named.flatMap(({ ref, roomId }) => {
      const here = idsOf(ref).find((id) => roomId !== null && rooms.get(id) === roomId);
      return here === undefined ? [] : [[ref.own, here]];
    }));
  }
}
