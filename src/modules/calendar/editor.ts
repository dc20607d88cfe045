// Changes to events that exist: of a whole series, of one occurrence, or of one and all that follow.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { checkVersion } from "@/core/patch.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { absent, type CalendarAccess, checkMayAsk } from "./access.ts";
import { askedAgain, attendeesOf, misfit, ruleOf, timingOf } from "./draft.ts";
import { countBefore, cutAt, lastBefore, ruleFrom, shiftOf } from "./expansion.ts";
import type { EventMeetings } from "./meetings.ts";
import { exDatesOf, firstOccurrence, type Occurrence, type Patch, patchOf, seriesOf } from "./occurrence.ts";
import { presentEvent } from "./presenter.ts";
import { asKept, parseRule, withEnd } from "./rule.ts";
import { type CalendarEvent, type EventDelete, type EventUpdate, EXCEPTIONS_MAX } from "./schema.ts";
import { namedOccurrence, uidOf } from "./service.ts";
import { CalendarStore, type CalendarTables, type EventRow, type OverrideRow, type WholeEvent } from "./store.ts";
import type { EventWriter } from "./writer.ts";
import { localOf, wallMs, wallOf } from "./zone.ts";

/** What one occurrence cannot have for itself. */
const SERIES_FIELDS = ["rrule", "exDates", "attendees", "reminders", "visibility", "transparent"] as const;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  access: CalendarAccess;
  identity: IdentityService;
  writer: EventWriter;
  meetings: EventMeetings;
};
type Tx = Transaction<CalendarTables>;

export class EventEditor {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async update(context: Context, input: EventUpdate): Promise<CalendarEvent> {
    const { actor } = context;
    if (input.ifFree) checkMayAsk(actor);
    return await this.#change(context, input, "member", async (tx, event) => {
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
    const { writer } = this.#deps;
    await this.#change(context, input, "moderator", async (tx, event) => {
      const occurrence = occurrenceOf(event, input);
      if (input.scope === "all" || occurrence === undefined || occurrence.name === null) {
        return await writer.remove(tx, event, { actor, scope: "all" });
      }
      const rest = input.scope === "this" ? lessOne(event, occurrence.name) : headOf(event, occurrence.name);
      // An event that takes place no more is in no list, from which it could be deleted.
      if (rest === undefined || isOver(rest)) return await writer.remove(tx, event, { actor, scope: "all" });
      await writer.tellCancelled(tx, event, { actor, scope: input.scope, occurrence });
      await writer.put(tx, rest, { actor, scope: "all" }, event);
    });
  }

  /** Runs `work` with the event held, for who may change it. */
  #change<Result>(
    context: Context,
    { id, version }: { id: string; version?: number | undefined },
    least: "member" | "moderator",
    work: (tx: Tx, event: WholeEvent) => Promise<Result>,
  ): Promise<Result> {
    const { store, access } = this.#deps;
    return store.write(async (tx) => {
      const event = await new CalendarStore(tx.db).locked(context.actor.tenantId, id);
      if (event === undefined) throw absent();
      await access.enterToWrite(context, event, least);
      checkVersion("event", event.row.version, version);
      const result = await work(tx, event);
      // The room is held by now: a removal that came before is seen, and one to come waits for this.
      await access.enterToWrite(context, event, least);
      return result;
    });
  }

  async #updateAll(
    tx: Tx,
    { actor }: Context,
    event: WholeEvent,
    occurrence: Occurrence | undefined,
    input: EventUpdate,
  ): Promise<WholeEvent> {
    const { row } = event;
    const shown = occurrence === undefined ? row.start_local : nowShown(occurrence, row);
    const timing = timingOf(input, { ...row, start_local: shown });
    // The same rule in other words is no new one, and the series keeps its exceptions.
    const given = input.rrule === undefined ? row.rrule : input.rrule && asKept(parseRule(input.rrule));
    const hasNewRule = given !== row.rrule || timing.time_zone !== row.time_zone;
    // A new start of one occurrence moves the whole series by as much; a time of its own counts unless that is dropped.
    if (occurrence !== undefined) {
      const from = hasNewRule && input.start !== undefined ? occurrence.name ?? shown : shown;
      timing.start_local = startMovedWith(row, from, timing.start_local);
    }
    const to = { startLocal: timing.start_local, timeZone: timing.time_zone };
    const rrule = given === row.rrule ? ruleFrom(seriesOf(row), to, occurrence !== undefined) : given;
    const shift = wallMs(timing.start_local) - wallMs(row.start_local);
    const others = occurrence === undefined ? shiftOf(seriesOf(row), timing.start_local) : shift;
    const own = occurrence === undefined ? 0 : shift;
    const kept = hasNewRule ? { overrides: [], rsvps: [] } : moved(event, row, others, own);
    const exDates = input.exDates ??
      (hasNewRule ? [] : exDatesOf(row).map((date) => shifted(date, others, row.time_zone)));
    const isMoved = shift !== 0 || hasNewRule || timing.duration_seconds !== row.duration_seconds;
    const after: WholeEvent = {
      ...kept,
      row: { ...row, ...timing, ...ruleOf(rrule, exDates, timing), ...this.#textOf(input, row) },
      attendees: await this.#attendees(actor, row, input, event, isMoved),
    };
    return await this.#deps.writer.put(tx, after, { actor, scope: "all", ifFree: input.ifFree }, event);
  }

  async #updateOne(
    tx: Tx,
    { actor }: Context,
    event: WholeEvent,
    occurrence: Occurrence,
    input: EventUpdate,
  ): Promise<CalendarEvent> {
    const { row } = event;
    const name = occurrence.name ?? "";
    const field = SERIES_FIELDS.find((field) => input[field] !== undefined);
    if (field !== undefined) throw misfit(`/${field}`, "belongs to the series; change it with scope all or following");
    const patch: Patch = {
      ...occurrence.patch,
      ...(input.title === undefined ? {} : { title: input.title }),
      ...(input.description === undefined ? {} : { description: input.description }),
      ...(input.location === undefined ? {} : { location: input.location }),
    };
    const before = {
      start_local: patch.startLocal ?? name,
      time_zone: patch.timeZone === undefined ? row.time_zone : patch.timeZone,
      duration_seconds: patch.durationSeconds ?? row.duration_seconds,
    };
    const timing = timingOf(input, before);
    const isMoved = timing.start_local !== before.start_local || timing.time_zone !== before.time_zone ||
      timing.duration_seconds !== before.duration_seconds;
    if (isMoved) {
      patch.startLocal = timing.start_local;
      patch.timeZone = timing.time_zone;
      patch.durationSeconds = timing.duration_seconds;
    }
    const rest = event.overrides.filter((override) => override.occurrence !== name);
    checkExceptions(rest.length + 1);
    const override: OverrideRow = {
      tenant_id: row.tenant_id,
      event_id: row.id,
      occurrence: name,
      patch_json: JSON.stringify(patch),
    };
    const draft: WholeEvent = {
      ...event,
      overrides: [...rest, override],
      rsvps: isMoved ? event.rsvps.filter((rsvp) => rsvp.occurrence !== name) : event.rsvps,
    };
    const change = { actor, scope: "this" as const, occurrence: namedOccurrence(draft, name), ifFree: input.ifFree };
    const after = await this.#deps.writer.put(tx, draft, change, event);
    return presentEvent(after, { principalId: actor.principalId, level: "full" }, change.occurrence);
  }

  /** Ends the series before the occurrence and starts another there. */
  async #split(
    tx: Tx,
    { actor }: Context,
    event: WholeEvent,
    occurrence: Occurrence,
    input: EventUpdate,
  ): Promise<WholeEvent> {
    const { row } = event;
    const name = occurrence.name ?? "";
    const head = headOf(event, name);
    if (head === undefined) throw absent();
    const timing = timingOf(input, { ...row, start_local: name });
    const shift = wallMs(timing.start_local) - wallMs(name);
    const hasNewRule = input.rrule !== undefined || timing.time_zone !== row.time_zone;
    const to = { startLocal: timing.start_local, timeZone: timing.time_zone };
    const left = { ...seriesOf(row), startLocal: name, rrule: tailRule(row, name) };
    const rrule = input.rrule === undefined ? ruleFrom(left, to, true) : input.rrule;
    const id = newId("cal");
    const own = input.start === undefined ? 0 : wallMs(timing.start_local) - wallMs(nowShown(occurrence, row));
    const tail = hasNewRule
      ? { overrides: [], rsvps: [] }
      : moved({ ...event, ...without(event, (other) => other < name) }, { ...row, id }, shift, own);
    const kept = hasNewRule ? [] : exDatesOf(row).filter((date) => date >= name);
    const exDates = input.exDates ?? kept.map((date) => shifted(date, shift, row.time_zone));
    const now = iso(this.#deps.clock.now());
    const newRow: EventRow = {
      ...row,
      id,
      uid: uidOf(id),
      ...timing,
      ...ruleOf(rrule, exDates, timing),
      ...this.#textOf(input, row),
      created_at: now,
    };
    const isMoved = shift !== 0 || hasNewRule || timing.duration_seconds !== row.duration_seconds;
    const attendees = await this.#attendees(actor, newRow, input, event, isMoved);
    const after: WholeEvent = { ...tail, row: newRow, attendees };
    newRow.meeting_id = await this.#deps.meetings.ofPart(actor, event, after);
    await this.#deps.writer.put(tx, head, { actor, scope: "following", occurrence }, event);
    return await this.#deps.writer.put(tx, after, { actor, scope: "all", ifFree: input.ifFree, invited: event });
  }

  /** Attendees as they are after the change; when the time is another, everybody is asked again. */
  async #attendees(
    actor: Context["actor"],
    row: EventRow,
    input: EventUpdate,
    event: WholeEvent,
    isMoved: boolean,
  ): Promise<WholeEvent["attendees"]> {
    const rows = input.attendees === undefined
      ? event.attendees.map((attendee) => ({ ...attendee, event_id: row.id }))
      : await attendeesOf(this.#deps.identity, actor, row, input.attendees, event.attendees);
    return isMoved ? askedAgain(rows) : rows;
  }

  #textOf(input: EventUpdate, row: EventRow): Pick<
    EventRow,
    "title" | "description" | "location" | "visibility" | "is_transparent" | "reminders_json" | "reminded_at"
  > {
    const reminders = input.reminders === undefined ? row.reminders_json : JSON.stringify(input.reminders);
    return {
      title: input.title ?? row.title,
      description: input.description === undefined ? row.description : input.description,
      location: input.location === undefined ? row.location : input.location,
      visibility: input.visibility ?? row.visibility,
      is_transparent: input.transparent === undefined ? row.is_transparent : input.transparent ? 1 : 0,
      reminders_json: reminders,
      // Other reminders are for what is still to come.
      reminded_at: reminders === row.reminders_json ? row.reminded_at : iso(this.#deps.clock.now()),
    };
  }
}

function occurrenceOf(
  event: WholeEvent,
  { scope, occurrence }: { scope: EventUpdate["scope"]; occurrence?: string | undefined },
): Occurrence | undefined {
  if (occurrence !== undefined) return namedOccurrence(event, occurrence);
  if (scope === "all") return undefined;
  if (event.row.rrule === null) throw misfit("/scope", "the event has one occurrence only");
  throw misfit("/occurrence", `needed with scope ${scope}`);
}

function firstName({ row }: WholeEvent): string | null {
  return row.rrule === null ? null : row.start_local;
}

/** The series without one of its occurrences. */
function lessOne(event: WholeEvent, name: string): WholeEvent {
  const exDates = [...exDatesOf(event.row), name].sort();
  checkExceptions(exDates.length);
  const row = { ...event.row, ex_dates_json: JSON.stringify(exDates) };
  return { ...event, row, ...without(event, (other) => other === name) };
}

/** Whether nothing is left of a series. */
function isOver(event: WholeEvent): boolean {
  const { items, truncated } = firstOccurrence(event);
  return items.length === 0 && !truncated;
}

/** The series up to before this occurrence; `undefined` when nothing comes before it. */
function headOf(event: WholeEvent, name: string): WholeEvent | undefined {
  const { row } = event;
  const last = lastBefore(seriesOf(row), wallMs(name));
  if (last === undefined) return undefined;
  return {
    ...event,
    ...without(event, (other) => other >= name),
    row: {
      ...row,
      rrule: cutAt(seriesOf(row), last),
      last_local: localOf(last, row.time_zone),
      ex_dates_json: JSON.stringify(exDatesOf(row).filter((date) => date < name)),
    },
  };
}

/** The rule of what follows: the same, with as many starts as are left of its COUNT. */
function tailRule(row: EventRow, name: string): string | null {
  if (row.rrule === null) return null;
  const rule = parseRule(row.rrule);
  if (rule.count === undefined) return row.rrule;
  return withEnd(rule, { count: Math.max(1, rule.count - countBefore(seriesOf(row), wallMs(name))) });
}

/** Edits and answers of single occurrences, less those of the occurrences that are `gone`. */
function without(
  { overrides, rsvps }: WholeEvent,
  gone: (occurrence: string) => boolean,
): Pick<WholeEvent, "overrides" | "rsvps"> {
  return {
    overrides: overrides.filter(({ occurrence }) => !gone(occurrence)),
    rsvps: rsvps.filter(({ occurrence }) => !gone(occurrence)),
  };
}

/**
 * The same edits and answers for a series that starts earlier or later; occurrences with a time of their own go as far as
 * `own` says. Who answered for another time is asked again.
 */
function moved(
  { overrides, rsvps }: WholeEvent,
  { id, time_zone }: Pick<EventRow, "id" | "time_zone">,
  shift: number,
  own: number,
): Pick<WholeEvent, "overrides" | "rsvps"> {
  return {
    overrides: overrides.map((override) => ({
      ...override,
      event_id: id,
      occurrence: shifted(override.occurrence, shift, time_zone),
      patch_json: JSON.stringify(movedPatch(patchOf(override), own, time_zone)),
    })),
    rsvps: shift === 0 ? rsvps.map((rsvp) => ({ ...rsvp, event_id: id })) : [],
  };
}

function movedPatch(patch: Patch, by: number, zone: string | null): Patch {
  const { startLocal, timeZone = zone } = patch;
  return startLocal === undefined ? patch : { ...patch, startLocal: shifted(startLocal, by, timeZone) };
}

function shifted(local: string, shift: number, zone: string | null): string {
  return localOf(wallMs(local) + shift, zone);
}

/** The wall time at which an occurrence is shown to start now. */
function nowShown({ name, startAt }: Occurrence, row: EventRow): string {
  return name === null ? row.start_local : localOf(wallOf(startAt, row.time_zone), row.time_zone);
}

/** Where the series starts when something shown at `shown` goes to `wanted`; a date and a time apart move by whole days. */
function startMovedWith(row: EventRow, shown: string, wanted: string): string {
  if (shown.length === wanted.length) return shifted(row.start_local, wallMs(wanted) - wallMs(shown), row.time_zone);
  const days = wallMs(wanted.slice(0, 10)) - wallMs(shown.slice(0, 10));
  return `${shifted(row.start_local.slice(0, 10), days, null)}${wanted.slice(10)}`;
}

function checkExceptions(count: number): void {
  if (count > EXCEPTIONS_MAX) {
    throw new Fault("limit_reached", `A series has at most ${EXCEPTIONS_MAX} occurrences that differ from it`);
  }
}
