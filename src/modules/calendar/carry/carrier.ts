// Events on their way out of a gateway and into one: each whole, with its series, what differs in it, who comes and reminders.
import { type Clock, iso, nextTurn } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { byPages } from "@/core/page.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { DAY_SECONDS, misfit, ruleOf, type Timing } from "../draft.ts";
import { EventMeetings } from "../meetings.ts";
import { exDatesOf, type Patch, patchOf } from "../occurrence.ts";
import { type Attendee, type CalendarEvent, EXCEPTIONS_MAX, type When } from "../schema.ts";
import { calendarOf } from "../service.ts";
import { CalendarStore, type CalendarTables, type EventRow, type RsvpRow, type WholeEvent } from "../store.ts";
import { type CalendarIndex, EventWriter } from "../writer.ts";
import { checkZone, withSeconds } from "../zone.ts";
import { CalendarCarryStore } from "./store.ts";

const BATCH = 500;
/** Answers to single occurrences that come in with an event. */
export const ANSWERS_MAX = 4000;
/** Working out a rule has little time; a machine that is busy does not make it a bad one. */
const RULE_ATTEMPTS = 5;

type Facts = "id" | "uid" | "roomId" | "description" | "location" | "start" | "rrule" | "exDates" | "attendees";
type State = "reminders" | "visibility" | "transparent" | "meetingId" | "version" | "createdAt" | "updatedAt";
export type CarriedEvent = Pick<CalendarEvent, Facts | State> & {
  title: string;
  durationSeconds: number;
  createdBy: string;
};
/** What one occurrence of a series has otherwise. */
export type CarriedOverride = { occurrence: string; patch: Patch };
/** Somebody's answer to one occurrence. */
export type CarriedAnswer = Pick<Attendee, "status" | "comment"> & {
  principalId: string;
  occurrence: string;
  respondedAt: string;
};
/** An event with all that belongs to it. */
export type WholeCarried = { event: CarriedEvent; overrides: CarriedOverride[]; answers: CarriedAnswer[] };

/** Where an event goes. */
export type EventPlace = Pick<EventRow, "tenant_id" | "id" | "room_id" | "meeting_id">;

type Tx = Transaction<CalendarTables>;
type Deps = { store: Store<CalendarTables>; clock: Clock; index?: CalendarIndex | undefined };

export class CalendarCarrier {
  readonly #deps: Deps;
  readonly #writer: EventWriter;

  constructor(deps: Deps) {
    this.#deps = deps;
    const { clock, index } = deps;
    this.#writer = new EventWriter({ clock, index, meetings: new EventMeetings(undefined) });
  }

  /** Events of a room, or (null) personal ones, one at a time; with `isShown` those that all of the room may see. */
  async *events(tenantId: string, roomId: string | null, isShown: boolean): AsyncGenerator<WholeCarried> {
    const { store } = this.#deps;
    const carry = new CalendarCarryStore(store.db);
    const read = (last = "") => carry.ids(tenantId, roomId, isShown, last, BATCH);
    for await (const ids of byPages(BATCH, read)) {
      for (const id of ids) {
        const whole = await new CalendarStore(store.db).whole(tenantId, id);
        if (whole !== undefined && whole.row.room_id === roomId) yield carried(whole);
      }
    }
  }

  /** The event as rows; throws what is wrong with it where it could not have been made here. */
  async settle({ event, overrides, answers }: WholeCarried): Promise<WholeEvent> {
    const { exDates, rrule } = event;
    if (overrides.length > EXCEPTIONS_MAX) throw misfit("/overrides", `more than ${EXCEPTIONS_MAX}`);
    const timing = timingOf(event.start, event.durationSeconds);
    const rule = await settled(rrule, exDates, timing);
    const now = iso(this.#deps.clock.now());
    const of = { tenant_id: "", event_id: event.id };
    const row: EventRow = {
      tenant_id: "",
      id: event.id,
      calendar: "",
      uid: event.uid,
      room_id: event.roomId,
      title: event.title,
      description: event.description,
      location: event.location,
      visibility: event.visibility,
      is_transparent: event.transparent ? 1 : 0,
      ...timing,
      ...rule,
      from_at: now,
      to_at: now,
      reminders_json: JSON.stringify(event.reminders),
      reminded_at: now,
      meeting_id: event.meetingId,
      version: event.version,
      created_by: event.createdBy,
      created_at: event.createdAt,
      updated_at: event.updatedAt,
    };
    for (const { occurrence } of [...overrides, ...answers]) checkOccurrence(row, occurrence);
    for (const override of overrides) checkPatch(row, override);
    return {
      row,
      overrides: overrides.map(({ occurrence, patch }) => ({ ...of, occurrence, patch_json: JSON.stringify(patch) })),
      attendees: event.attendees.map((attendee, position) => ({
        ...of,
        position,
        principal_id: attendee.principalId,
        email: attendee.email,
        role: attendee.role,
        status: attendee.status,
        comment: attendee.comment,
        responded_at: attendee.respondedAt,
      })),
      rsvps: answers.map((answer): RsvpRow => ({
        ...of,
        principal_id: answer.principalId,
        occurrence: answer.occurrence,
        status: answer.status,
        comment: answer.comment,
        responded_at: answer.respondedAt,
      })),
    };
  }

  /**
   * Adds events, whose ids are free, in their places, and tells of them. Reminders of what is past were sent where they come
   * from. Resolves to the ids of those left out: their calendar has an event of this uid, and that is the same one.
   */
  async put(tx: Tx, events: readonly { whole: WholeEvent; place: EventPlace }[]): Promise<Set<string>> {
    const store = new CalendarStore(tx.db);
    const reminded_at = iso(this.#deps.clock.now());
    const adopted = new Map<string, WholeEvent>();
    const leftOut = new Set<string>();
    for (const { whole: { row, ...parts }, place } of events) {
      const calendar = calendarOf(place.room_id, row.created_by);
      const { tenant_id, id: event_id } = place;
      const key = `${calendar} ${row.uid}`;
      if (adopted.has(key) || await store.byUid(tenant_id, calendar, row.uid) !== undefined) leftOut.add(event_id);
      else {
        adopted.set(key, {
          row: { ...row, ...place, calendar, reminded_at },
          overrides: parts.overrides.map((one) => ({ ...one, tenant_id, event_id })),
          attendees: parts.attendees.map((one) => ({ ...one, tenant_id, event_id })),
          rsvps: parts.rsvps.map((one) => ({ ...one, tenant_id, event_id })),
        });
      }
    }
    await this.#writer.adopt(tx, [...adopted.values()]);
    return leftOut;
  }
}

function carried({ row, overrides, attendees, rsvps }: WholeEvent): WholeCarried {
  const { start_local: local, time_zone: timeZone } = row;
  return {
    event: {
      id: row.id,
      uid: row.uid,
      roomId: row.room_id,
      title: row.title,
      description: row.description,
      location: row.location,
      start: timeZone === null ? { date: local } : { dateTime: local, timeZone },
      durationSeconds: row.duration_seconds,
      rrule: row.rrule,
      exDates: exDatesOf(row),
      attendees: attendees.map((attendee) => ({
        principalId: attendee.principal_id,
        email: attendee.email,
        role: attendee.role,
        status: attendee.status,
        comment: attendee.comment,
        respondedAt: attendee.responded_at,
      })),
      reminders: JSON.parse(row.reminders_json),
      visibility: row.visibility,
      transparent: row.is_transparent === 1,
      meetingId: row.meeting_id,
      version: row.version,
      createdBy: row.created_by,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    },
    overrides: overrides.map((override) => ({ occurrence: override.occurrence, patch: patchOf(override) })),
    answers: rsvps.map((rsvp) => ({
      principalId: rsvp.principal_id,
      occurrence: rsvp.occurrence,
      status: rsvp.status,
      comment: rsvp.comment,
      respondedAt: rsvp.responded_at,
    })).sort((a, b) => `${a.occurrence} ${a.principalId}` < `${b.occurrence} ${b.principalId}` ? -1 : 1),
  };
}

function timingOf(start: When, seconds: number): Timing {
  if ("date" in start) {
    if (seconds < DAY_SECONDS || seconds % DAY_SECONDS !== 0) throw misfit("/durationSeconds", "whole days");
    return { start_local: start.date, time_zone: null, duration_seconds: seconds };
  }
  checkZone(start.timeZone, "/start/timeZone");
  return { start_local: withSeconds(start.dateTime), time_zone: start.timeZone, duration_seconds: seconds };
}

async function settled(
  rrule: string | null,
  exDates: readonly string[],
  timing: Timing,
): Promise<ReturnType<typeof ruleOf>> {
  for (let attempt = 1;; attempt++) {
    try {
      return ruleOf(rrule, exDates, timing);
    } catch (error) {
      const isDense = error instanceof Fault && error.code === "recurrence_too_dense";
      if (!isDense || attempt >= RULE_ATTEMPTS) throw error;
      await nextTurn();
    }
  }
}

/** Occurrences are named as their series names its starts. */
function checkOccurrence({ rrule, time_zone }: EventRow, occurrence: string): void {
  if (rrule === null) throw misfit("/occurrence", "only a series has them");
  if (occurrence.length !== (time_zone === null ? 10 : 19)) throw misfit("/occurrence", "no start of the series");
}

function checkPatch(row: EventRow, { occurrence, patch }: CarriedOverride): void {
  const zone = patch.timeZone === undefined ? row.time_zone : patch.timeZone;
  if (zone !== null) checkZone(zone, "/patch/timeZone");
  if ((patch.startLocal ?? occurrence).length !== (zone === null ? 10 : 19)) {
    throw misfit(
      "/patch/startLocal",
      zone === null ? "a date, as there is no zone" : "a wall time, as there is a zone",
    );
  }
}
