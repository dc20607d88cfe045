// Writes imported events: each with its series, exceptions, responses and reminders, or not at all.
import { type Clock, DAY_SECONDS, iso } from "@/core/time/clock.ts";
import { nextSlice } from "@/core/caller.ts";
import { invalidField, isFault } from "@/core/fault.ts";
import { patchedOr } from "@/core/patch.ts";
import { requireTimeZone } from "@/core/time/time_zone.ts";
import type { MayShow } from "@/modules/file/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { resolveRule, type RuleColumns } from "../event_input.ts";
import { EXCEPTIONS_MAX } from "../limits.ts";
import type { When } from "../schema.ts";
import {
  calendarOf,
  CalendarStore,
  type CalendarTables,
  type EventAggregate,
  type EventRow,
  type RsvpRow,
} from "../store.ts";
import type { EventWriter } from "../writer.ts";
import { type Timing, withSeconds } from "../time_zone.ts";
import type { ArchivedEvent } from "./records.ts";

/** A rule gets little CPU time, which may run out on a busy machine even if the rule is simple. */
const RULE_ATTEMPTS = 5;

/** The ids that an event gets. */
type EventTarget = Pick<EventRow, "tenant_id" | "id" | "room_id" | "meeting_id">;

type Tx = Transaction<CalendarTables>;
type Deps = { clock: Clock; writer: EventWriter };

export class ImportedEventWriter {
  readonly #clock: Clock;
  readonly #writer: EventWriter;

  constructor({ clock, writer }: Deps) {
    this.#clock = clock;
    this.#writer = writer;
  }

  /** The event as rows; throws a fault if it could not have been created here. */
  async toRows({ event, overrides, responses }: ArchivedEvent): Promise<EventAggregate> {
    const { exDates, rrule } = event;
    if (overrides.length > EXCEPTIONS_MAX) throw invalidField("/overrides", `at most ${EXCEPTIONS_MAX}`);
    const timing = timingOf(event.start, event.durationSeconds);
    const rule = await resolveRuleWithRetry(rrule, exDates, timing);
    const now = iso(this.#clock.now());
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
    for (const { occurrence } of [...overrides, ...responses]) assertOccurrence(row, occurrence);
    for (const override of overrides) assertPatch(row, override);
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
      rsvps: responses.map((response): RsvpRow => ({
        ...of,
        principal_id: response.principalId,
        occurrence: response.occurrence,
        status: response.status,
        comment: response.comment,
        responded_at: response.respondedAt,
      })),
    };
  }

  /**
   * Adds events, whose ids are free, and publishes them. Past reminders were sent by the gateway that exported them. Resolves to
   * the ids of skipped events: their calendar has an event with the same uid.
   */
  async importEvents(
    tx: Tx,
    events: readonly { aggregate: EventAggregate; target: EventTarget }[],
    mayShow: MayShow,
  ): Promise<Set<string>> {
    const store = new CalendarStore(tx.db);
    const reminded_at = iso(this.#clock.now());
    const accepted = new Map<string, EventAggregate>();
    const skipped = new Set<string>();
    for (const { aggregate: { row, ...parts }, target } of events) {
      const calendar = calendarOf({ ...row, ...target });
      const { tenant_id, id: event_id } = target;
      const key = `${calendar} ${row.uid}`;
      if (accepted.has(key) || await store.byUid(tenant_id, calendar, row.uid) !== undefined) skipped.add(event_id);
      else {
        accepted.set(key, {
          row: { ...row, ...target, calendar, reminded_at },
          overrides: parts.overrides.map((one) => ({ ...one, tenant_id, event_id })),
          attendees: parts.attendees.map((one) => ({ ...one, tenant_id, event_id })),
          rsvps: parts.rsvps.map((one) => ({ ...one, tenant_id, event_id })),
        });
      }
    }
    await this.#writer.insertImported(tx, [...accepted.values()], mayShow);
    return skipped;
  }
}

function timingOf(start: When, seconds: number): Timing {
  if ("date" in start) {
    if (seconds < DAY_SECONDS || seconds % DAY_SECONDS !== 0) {
      throw invalidField("/durationSeconds", "expected whole days");
    }
    return { start_local: start.date, time_zone: null, duration_seconds: seconds };
  }
  const time_zone = requireTimeZone(start.timeZone, "/start/timeZone");
  return { start_local: withSeconds(start.dateTime), time_zone, duration_seconds: seconds };
}

async function resolveRuleWithRetry(
  rrule: string | null,
  exDates: readonly string[],
  timing: Timing,
): Promise<RuleColumns> {
  for (let attempt = 1;; attempt++) {
    try {
      return await resolveRule(rrule, exDates, timing);
    } catch (thrown) {
      const isDense = isFault(thrown, "recurrence_too_complex");
      if (!isDense || attempt >= RULE_ATTEMPTS) throw thrown;
      await nextSlice();
    }
  }
}

/** An occurrence is identified by its start in the format of its series. */
function assertOccurrence({ rrule, time_zone }: EventRow, occurrence: string): void {
  if (rrule === null) throw invalidField("/occurrence", "only occurrences of a series have one");
  if (occurrence.length !== (time_zone === null ? 10 : 19)) {
    throw invalidField("/occurrence", "not an occurrence of the series");
  }
}

function assertPatch(row: EventRow, { occurrence, patch }: ArchivedEvent["overrides"][number]): void {
  const zone = patchedOr(patch.timeZone, row.time_zone);
  if (zone !== null) requireTimeZone(zone, "/patch/timeZone");
  if ((patch.startLocal ?? occurrence).length !== (zone === null ? 10 : 19)) {
    throw invalidField(
      "/patch/startLocal",
      zone === null
        ? "expected a date, because there is no time zone"
        : "expected a wall time, because there is a time zone",
    );
  }
}
