// Updates and deletion of events: of a whole series, of one occurrence, or of one and all following.
import { type Clock, iso, nextTick } from "@/core/time/clock.ts";
import { Fault, invalidField, notVisible } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { type Holds, holdSubjectOf } from "@/core/hold.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion, flagOf, jsonOf, patchedOr, withoutUndefined } from "@/core/patch.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { assertCanCheckBusy, type CalendarAccess } from "./access.ts";
import { hidesEvent, resetResponses, resolveAttendees, resolveRule, resolveTiming } from "./event_input.ts";
import { countBefore, endRuleAt, lastBefore, moveRule, shiftOf } from "./recurrence/expansion.ts";
import { EXCEPTIONS_MAX } from "./limits.ts";
import type { EventMeetings } from "./meetings.ts";
import { exDatesOf, firstOccurrence, type Occurrence, type Patch, patchOf, seriesOf } from "./recurrence/occurrence.ts";
import { presentEvent } from "./presenter.ts";
import { formatRule, parseRule, withEnd } from "./recurrence/rule.ts";
import type { CalendarEvent, EventDelete, EventUpdate } from "./schema.ts";
import { requireOccurrence, uidOf } from "./service.ts";
import type { CalendarTables, EventAggregate, EventRow, OverrideRow } from "./store.ts";
import { type EventWriter, writeEvents } from "./writer.ts";
import { localOf, wallMs, wallOf } from "./time_zone.ts";

/** Fields that apply to the whole series only. */
const SERIES_FIELDS = ["rrule", "exDates", "attendees", "reminders", "visibility", "transparent"] as const;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  access: CalendarAccess;
  identity: IdentityService;
  writer: EventWriter;
  meetings: EventMeetings;
  holds: Holds;
};
type Tx = Transaction<CalendarTables>;

export class EventUpdater {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async update(context: Context, input: EventUpdate): Promise<CalendarEvent> {
    const { actor } = context;
    if (input.ifFree) assertCanCheckBusy(actor);
    return await this.#withLock(context, input, "member", async (tx, event) => {
      if (hidesEvent(event.row, input)) await this.#deps.access.assertMayUpdate(tx, context, event, "moderator");
      const occurrence = occurrenceOf(event, input);
      const isFirst = occurrence?.name === firstName(event);
      const scope = input.scope === "following" && isFirst ? "all" : input.scope;
      if (scope === "this" && occurrence !== undefined) {
        return await this.#updateOne(tx, context, event, occurrence, input);
      }
      const after = scope === "following" && occurrence !== undefined
        ? await this.#split(tx, context, event, occurrence, input)
        : await this.#updateAll(tx, context, event, occurrence, input);
      return presentEvent(after, { principalId: actor.principalId, level: "full" });
    });
  }

  async delete(context: Context, input: EventDelete): Promise<void> {
    const { actor } = context;
    const { writer, holds } = this.#deps;
    await this.#withLock(context, input, "moderator", async (tx, event) => {
      const { row } = event;
      const occurrence = occurrenceOf(event, input);
      const remaining = input.scope === "all" || occurrence === undefined
        ? undefined
        : remainderOf(event, occurrence, input.scope);
      // It would delete what was written about single occurrences, or responses to them.
      const partsOf = ({ overrides, rsvps }: EventAggregate): number => overrides.length + rsvps.length;
      if (remaining === undefined || partsOf(remaining) < partsOf(event)) {
        await holds.assertNotHeld("The event cannot be deleted", tx.db, row.tenant_id, holdSubjectOf(row));
      }
      if (remaining === undefined || occurrence === undefined) {
        return await writer.remove(tx, event, { actor, scope: "all" });
      }
      await writer.publishCancelled(tx, event, { actor, scope: input.scope, occurrence });
      await writer.put(tx, remaining, { actor, scope: "all" }, event);
    });
  }

  /** Runs `work` with the event locked for a caller who may change it. */
  #withLock<Result>(
    context: Context,
    { id, version }: { id: string; version?: number | undefined },
    least: "member" | "moderator",
    work: (tx: Tx, event: EventAggregate) => Promise<Result>,
  ): Promise<Result> {
    const { store, access } = this.#deps;
    return writeEvents(store, async (tx) => {
      const event = await access.requireForUpdate(tx, context, id, least);
      assertVersion("event", event.row.version, version);
      const result = await work(tx, event);
      // The room stream is locked by now: a removal has either been committed or waits for this commit.
      await access.assertMayUpdate(tx, context, event, least);
      return result;
    });
  }

  async #updateAll(
    tx: Tx,
    { actor }: Context,
    event: EventAggregate,
    occurrence: Occurrence | undefined,
    input: EventUpdate,
  ): Promise<EventAggregate> {
    const { row } = event;
    const shown = occurrence === undefined ? row.start_local : displayedStart(occurrence, row);
    const timing = resolveTiming(input, { ...row, start_local: shown });
    // A rule that differs only in its notation is not a new one, so exceptions remain.
    const ruleText = input.rrule === undefined ? row.rrule : input.rrule && formatRule(parseRule(input.rrule));
    const hasNewRule = ruleText !== row.rrule || timing.time_zone !== row.time_zone;
    // A new start of one occurrence moves the whole series by as much, from where the occurrence is shown unless its edit is dropped.
    if (occurrence !== undefined) {
      const from = hasNewRule && input.start !== undefined ? occurrence.name ?? shown : shown;
      timing.start_local = shiftedStart(row, from, timing.start_local);
    }
    const to = { startLocal: timing.start_local, timeZone: timing.time_zone };
    const rrule = ruleText === row.rrule ? moveRule(seriesOf(row), to, occurrence !== undefined) : ruleText;
    const shift = wallMs(timing.start_local) - wallMs(row.start_local);
    const others = occurrence === undefined ? shiftOf(seriesOf(row), timing.start_local) : shift;
    const own = occurrence === undefined ? 0 : shift;
    const parts = hasNewRule ? { overrides: [], rsvps: [] } : shiftParts(event, row, others, own);
    const exDates = input.exDates ??
      (hasNewRule ? [] : exDatesOf(row).map((date) => shiftLocal(date, others, row.time_zone)));
    const isMoved = shift !== 0 || hasNewRule || timing.duration_seconds !== row.duration_seconds;
    const after: EventAggregate = {
      ...parts,
      row: { ...row, ...timing, ...await resolveRule(rrule, exDates, timing, nextTick), ...this.#textOf(input, row) },
      attendees: await this.#attendees(tx, actor, row, input, event, isMoved),
    };
    return await this.#deps.writer.put(tx, after, { actor, scope: "all", ifFree: input.ifFree, isMoved }, event);
  }

  async #updateOne(
    tx: Tx,
    { actor }: Context,
    event: EventAggregate,
    occurrence: Occurrence,
    input: EventUpdate,
  ): Promise<CalendarEvent> {
    const { row } = event;
    const name = occurrence.name ?? "";
    const field = SERIES_FIELDS.find((field) => input[field] !== undefined);
    if (field !== undefined) throw invalidField(`/${field}`, "applies to the whole series; use scope all or following");
    const { title, description, location } = input;
    const patch: Patch = { ...occurrence.patch, ...withoutUndefined({ title, description, location }) };
    const before = {
      start_local: patch.startLocal ?? name,
      time_zone: patchedOr(patch.timeZone, row.time_zone),
      duration_seconds: patch.durationSeconds ?? row.duration_seconds,
    };
    const timing = resolveTiming(input, before);
    const isMoved = timing.start_local !== before.start_local || timing.time_zone !== before.time_zone ||
      timing.duration_seconds !== before.duration_seconds;
    if (isMoved) {
      patch.startLocal = timing.start_local;
      patch.timeZone = timing.time_zone;
      patch.durationSeconds = timing.duration_seconds;
    }
    const others = event.overrides.filter((override) => override.occurrence !== name);
    assertExceptions(others.length + 1);
    const override: OverrideRow = {
      tenant_id: row.tenant_id,
      event_id: row.id,
      occurrence: name,
      patch_json: JSON.stringify(patch),
    };
    const draft: EventAggregate = {
      ...event,
      overrides: [...others, override],
      rsvps: isMoved ? event.rsvps.filter((rsvp) => rsvp.occurrence !== name) : event.rsvps,
    };
    const shown = requireOccurrence(draft, name);
    const change = { actor, scope: "this" as const, occurrence: shown, ifFree: input.ifFree, isMoved };
    const after = await this.#deps.writer.put(tx, draft, change, event);
    return presentEvent(after, { principalId: actor.principalId, level: "full" }, shown);
  }

  /** Ends the series before the occurrence and starts another there. */
  async #split(
    tx: Tx,
    { actor }: Context,
    event: EventAggregate,
    occurrence: Occurrence,
    input: EventUpdate,
  ): Promise<EventAggregate> {
    const { row } = event;
    const name = occurrence.name ?? "";
    const head = seriesBefore(event, name);
    if (head === undefined) throw notVisible("event");
    const timing = resolveTiming(input, { ...row, start_local: name });
    const shift = wallMs(timing.start_local) - wallMs(name);
    const hasNewRule = input.rrule !== undefined || timing.time_zone !== row.time_zone;
    const to = { startLocal: timing.start_local, timeZone: timing.time_zone };
    const following = { ...seriesOf(row), startLocal: name, rrule: tailRule(row, name) };
    const rrule = input.rrule === undefined ? moveRule(following, to, true) : input.rrule;
    const id = newId("cal");
    const own = input.start === undefined ? 0 : wallMs(timing.start_local) - wallMs(displayedStart(occurrence, row));
    const tail = hasNewRule
      ? { overrides: [], rsvps: [] }
      : shiftParts({ ...event, ...withoutOccurrences(event, (other) => other < name) }, { ...row, id }, shift, own);
    const remaining = hasNewRule ? [] : exDatesOf(row).filter((date) => date >= name);
    const exDates = input.exDates ?? remaining.map((date) => shiftLocal(date, shift, row.time_zone));
    const now = iso(this.#deps.clock.now());
    const newRow: EventRow = {
      ...row,
      id,
      uid: uidOf(id),
      ...timing,
      ...await resolveRule(rrule, exDates, timing, nextTick),
      ...this.#textOf(input, row),
      created_at: now,
    };
    const isMoved = shift !== 0 || hasNewRule || timing.duration_seconds !== row.duration_seconds;
    const attendees = await this.#attendees(tx, actor, newRow, input, event, isMoved);
    const after: EventAggregate = { ...tail, row: newRow, attendees };
    newRow.meeting_id = await this.#deps.meetings.copyForPart(actor, event, after);
    await this.#deps.writer.put(tx, head, { actor, scope: "following", occurrence }, event);
    return await this.#deps.writer.put(tx, after, {
      actor,
      scope: "all",
      ifFree: input.ifFree,
      invited: event,
      original: event,
      isMoved,
    });
  }

  /** Attendees after the change; if the event was moved, without their responses. */
  async #attendees(
    tx: Tx,
    actor: Context["actor"],
    row: EventRow,
    input: EventUpdate,
    event: EventAggregate,
    isMoved: boolean,
  ): Promise<EventAggregate["attendees"]> {
    const rows = input.attendees === undefined
      ? event.attendees.map((attendee) => ({ ...attendee, event_id: row.id }))
      : await resolveAttendees(tx.db, this.#deps.identity, actor, row, input.attendees, event.attendees);
    return isMoved ? resetResponses(rows) : rows;
  }

  #textOf(input: EventUpdate, row: EventRow): Pick<
    EventRow,
    "title" | "description" | "location" | "visibility" | "is_transparent" | "reminders_json" | "reminded_at"
  > {
    const reminders = jsonOf(input.reminders) ?? row.reminders_json;
    return {
      title: input.title ?? row.title,
      description: patchedOr(input.description, row.description),
      location: patchedOr(input.location, row.location),
      visibility: input.visibility ?? row.visibility,
      is_transparent: flagOf(input.transparent) ?? row.is_transparent,
      reminders_json: reminders,
      // Changed reminders apply to future occurrences only.
      reminded_at: reminders === row.reminders_json ? row.reminded_at : iso(this.#deps.clock.now()),
    };
  }
}

function occurrenceOf(
  event: EventAggregate,
  { scope, occurrence }: { scope: EventUpdate["scope"]; occurrence?: string | undefined },
): Occurrence | undefined {
  if (occurrence !== undefined) return requireOccurrence(event, occurrence);
  if (scope === "all") return undefined;
  if (event.row.rrule === null) throw invalidField("/scope", "the event has a single occurrence");
  throw invalidField("/occurrence", `required with scope ${scope}`);
}

function firstName({ row }: EventAggregate): string | null {
  return row.rrule === null ? null : row.start_local;
}

/** What is left without this occurrence, or it and all following; `undefined` if none is: in no list, it could not be deleted later. */
function remainderOf(
  event: EventAggregate,
  { name }: Occurrence,
  scope: EventDelete["scope"],
): EventAggregate | undefined {
  if (name === null) return undefined;
  const remaining = scope === "this" ? excludeOccurrence(event, name) : seriesBefore(event, name);
  return remaining === undefined || isEmptySeries(remaining) ? undefined : remaining;
}

/** The series without one of its occurrences. */
function excludeOccurrence(event: EventAggregate, name: string): EventAggregate {
  const exDates = [...exDatesOf(event.row), name].sort();
  assertExceptions(exDates.length);
  const row = { ...event.row, ex_dates_json: JSON.stringify(exDates) };
  return { ...event, row, ...withoutOccurrences(event, (other) => other === name) };
}

function isEmptySeries(event: EventAggregate): boolean {
  const { items, truncated } = firstOccurrence(event);
  return items.length === 0 && !truncated;
}

/** The series up to before this occurrence; `undefined` if it is the first. */
function seriesBefore(event: EventAggregate, name: string): EventAggregate | undefined {
  const { row } = event;
  const last = lastBefore(seriesOf(row), wallMs(name));
  if (last === undefined) return undefined;
  return {
    ...event,
    ...withoutOccurrences(event, (other) => other >= name),
    row: {
      ...row,
      rrule: endRuleAt(seriesOf(row), last),
      last_local: localOf(last, row.time_zone),
      ex_dates_json: JSON.stringify(exDatesOf(row).filter((date) => date < name)),
    },
  };
}

/** The rule from this occurrence on: the same, with the remaining COUNT. */
function tailRule(row: EventRow, name: string): string | null {
  if (row.rrule === null) return null;
  const rule = parseRule(row.rrule);
  if (rule.count === undefined) return row.rrule;
  return withEnd(rule, { count: Math.max(1, rule.count - countBefore(seriesOf(row), wallMs(name))) });
}

/** Edits of and responses to single occurrences, without those of removed ones. */
function withoutOccurrences(
  { overrides, rsvps }: EventAggregate,
  isRemoved: (occurrence: string) => boolean,
): Pick<EventAggregate, "overrides" | "rsvps"> {
  return {
    overrides: overrides.filter(({ occurrence }) => !isRemoved(occurrence)),
    rsvps: rsvps.filter(({ occurrence }) => !isRemoved(occurrence)),
  };
}

/**
 * Edits and responses for a series moved by `shift`; occurrences with a time of their own move by `own`. Responses are dropped if the
 * series moves.
 */
function shiftParts(
  { overrides, rsvps }: EventAggregate,
  { id, time_zone }: Pick<EventRow, "id" | "time_zone">,
  shift: number,
  own: number,
): Pick<EventAggregate, "overrides" | "rsvps"> {
  return {
    overrides: overrides.map((override) => ({
      ...override,
      event_id: id,
      occurrence: shiftLocal(override.occurrence, shift, time_zone),
      patch_json: JSON.stringify(shiftPatch(patchOf(override), own, time_zone)),
    })),
    rsvps: shift === 0 ? rsvps.map((rsvp) => ({ ...rsvp, event_id: id })) : [],
  };
}

function shiftPatch(patch: Patch, by: number, zone: string | null): Patch {
  const { startLocal, timeZone = zone } = patch;
  return startLocal === undefined ? patch : { ...patch, startLocal: shiftLocal(startLocal, by, timeZone) };
}

function shiftLocal(local: string, shift: number, zone: string | null): string {
  return localOf(wallMs(local) + shift, zone);
}

/** The wall time of an occurrence, in the zone of the series. */
function displayedStart({ name, startAt }: Occurrence, row: EventRow): string {
  return name === null ? row.start_local : localOf(wallOf(startAt, row.time_zone), row.time_zone);
}

/** The start of a series whose occurrence at `shown` moves to `wanted`; between a date and a time it moves by whole days. */
function shiftedStart(row: EventRow, shown: string, wanted: string): string {
  if (shown.length === wanted.length) return shiftLocal(row.start_local, wallMs(wanted) - wallMs(shown), row.time_zone);
  const days = wallMs(wanted.slice(0, 10)) - wallMs(shown.slice(0, 10));
  return `${shiftLocal(row.start_local.slice(0, 10), days, null)}${wanted.slice(10)}`;
}

function assertExceptions(count: number): void {
  if (count > EXCEPTIONS_MAX) throw new Fault("limit_reached", `A series has at most ${EXCEPTIONS_MAX} exceptions`);
}
