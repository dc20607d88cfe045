// Events made, read, listed and answered, and when people are busy.
import { type Clock, iso, turns } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import { type IdentityService, idOf } from "@/modules/identity/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import { type Store, type Transaction, UniqueViolation } from "@/ports/store.ts";
import { absent, type CalendarAccess, checkMayAsk } from "./access.ts";
import { reaching } from "./agenda/reach.ts";
import { AgendaStore } from "./agenda/store.ts";
import { busyTimes } from "./busy.ts";
import { attendeesOf, misfit, ruleOf, timingOf } from "./draft.ts";
import type { EventMeetings } from "./meetings.ts";
import { type Occurrence, occurrenceNamed, occurrencesBetween } from "./occurrence.ts";
import { presentEntry, presentEvent, type Reader } from "./presenter.ts";
import {
  type CalendarEntry,
  type CalendarEvent,
  type EventCreate,
  type EventList,
  type EventPage,
  type EventRead,
  type FreeBusy,
  type FreeBusyAsk,
  OCCURRENCES_MAX,
  RANGE_DAYS_MAX,
  type Rsvp,
} from "./schema.ts";
import { CalendarStore, type CalendarTables, type EventRow, type WholeEvent } from "./store.ts";
import type { EventWriter } from "./writer.ts";
import { checkZone, instantOf } from "./zone.ts";

const DAY_MS = 86_400_000;
/** All expansions of one answer together. */
const ANSWER_MS = 200;

/** What stands in a list: an event, or one occurrence, that is presented once it is on the page. */
type Line = { startAt: string; id: string; occurrence: string; entry: () => CalendarEntry };

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  access: CalendarAccess;
  identity: IdentityService;
  writer: EventWriter;
  meetings: EventMeetings;
};

export class CalendarService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(context: Context, input: EventCreate): Promise<CalendarEvent> {
    const { actor } = context;
    const { writer, identity, gate, meetings } = this.#deps;
    if (input.ifFree) checkMayAsk(actor);
    const timing = timingOf(input);
    const rule = ruleOf(input.rrule, input.exDates, timing);
    return await this.#write(async (tx) => {
      if (input.roomId !== undefined) await gate.enter(context, input.roomId);
      const at = this.#deps.clock.now();
      const now = iso(at);
      const id = newId("cal");
      const row: EventRow = {
        tenant_id: actor.tenantId,
        id,
        calendar: calendarOf(input.roomId ?? null, actor.principalId),
        uid: input.uid ?? uidOf(id),
        room_id: input.roomId ?? null,
        title: input.title,
        description: input.description,
        location: input.location,
        visibility: input.visibility,
        is_transparent: input.transparent ? 1 : 0,
        ...timing,
        ...rule,
        from_at: now,
        to_at: now,
        reminders_json: JSON.stringify(input.reminders),
        reminded_at: now,
        meeting_id: null,
        version: 1,
        created_by: actor.principalId,
        created_at: now,
        updated_at: now,
      };
      const attendees = await attendeesOf(identity, actor, row, input.attendees, []);
      const draft: WholeEvent = { row, attendees, overrides: [], rsvps: [] };
      if (input.meeting !== undefined) row.meeting_id = await meetings.schedule(context, draft, at);
      const event = await writer.put(tx, draft, { actor, scope: "all", ifFree: input.ifFree });
      // The room is held by now: a removal that came before is seen, and one to come waits for this.
      if (input.roomId !== undefined) await gate.enter(context, input.roomId);
      return presentEvent(event, { principalId: actor.principalId, level: "full" });
    });
  }

  async read({ actor }: Context, { id, occurrence: name }: EventRead): Promise<CalendarEvent> {
    const event = await new CalendarStore(this.#deps.store.db).whole(actor.tenantId, id);
    const level = event === undefined ? undefined : await this.#deps.access.level(actor, event);
    if (event === undefined || level === undefined) throw absent();
    const occurrence = name === undefined ? undefined : namedOccurrence(event, name);
    return presentEvent(event, { principalId: actor.principalId, level }, occurrence);
  }

  async list(context: Context, { limit, cursor, ...question }: EventList): Promise<EventPage> {
    const { actor } = context;
    const { from, to } = rangeOf(question);
    if (question.roomId !== undefined) await this.#deps.gate.enter(context, question.roomId);
    const bind = ["event.list", actor.tenantId, actor.principalId, question];
    const after = this.#deps.cursors.open(cursor, bind)?.join(" ");
    const { lines, truncated } = await this.#lines(context, question, from, to);
    const keyOf = ({ startAt, id, occurrence }: Line): [string, string, string] => [startAt, id, occurrence];
    const rest = after === undefined ? lines : lines.filter((line) => keyOf(line).join(" ") > after);
    const page = this.#deps.cursors.page(rest.slice(0, limit + 1), limit, bind, keyOf, ({ entry }) => entry());
    return { ...page, truncated };
  }

  async freeBusy({ actor }: Context, { principalIds, timeZone, ...range }: FreeBusyAsk): Promise<FreeBusy> {
    const { from, to } = rangeOf(range);
    checkZone(timeZone, "/timeZone");
    const ids = [...new Set(principalIds.map((id) => idOf(actor, id)))];
    const known = await this.#deps.identity.enabled(actor.tenantId, ids);
    const unknown = ids.find((id) => !known.has(id));
    if (unknown !== undefined) throw misfit("/principalIds", `no principal ${unknown}`);
    const { db } = this.#deps.store;
    const stores = { events: new CalendarStore(db), agenda: new AgendaStore(db) };
    const { busy, truncated } = await busyTimes(stores, {
      rest: turns(),
      tenantId: actor.tenantId,
      principalIds: ids,
      from,
      to,
      timeZone,
    });
    return {
      busy: busy.map(({ principalId, startAt, endAt }) => ({ principalId, start: iso(startAt), end: iso(endAt) })),
      truncated,
    };
  }

  /** The caller's answer to an event, or to one occurrence of a series. */
  async rsvp(context: Context, { id, status, comment, occurrence: name }: Rsvp): Promise<CalendarEvent> {
    const { actor } = context;
    return await this.#write(async (tx) => {
      const events = new CalendarStore(tx.db);
      const event = await events.locked(actor.tenantId, id);
      const level = event === undefined ? undefined : await this.#deps.access.level(actor, event);
      if (event === undefined || level === undefined) throw absent();
      const mine = event.attendees.find((attendee) => attendee.principal_id === actor.principalId);
      if (mine === undefined) throw new Fault("forbidden", "Only attendees answer an event");
      const occurrence = name === undefined ? undefined : namedOccurrence(event, name);
      const now = iso(this.#deps.clock.now());
      const answer = { status, comment, responded_at: now };
      const key = occurrence?.name ?? null;
      const row = { ...event.row, version: event.row.version + 1, updated_at: now };
      const after: WholeEvent = { ...event, row };
      await events.update(actor.tenantId, id, { version: row.version, updated_at: now });
      if (key === null) {
        after.attendees = event.attendees.map((one) => one === mine ? { ...one, ...answer } : one);
        await events.replaceParts(actor.tenantId, id, { attendees: after.attendees });
      } else {
        const of = { tenant_id: actor.tenantId, event_id: id, principal_id: actor.principalId };
        const rsvp = { ...of, occurrence: key, ...answer };
        const others = event.rsvps.filter((one) => one.principal_id !== actor.principalId || one.occurrence !== key);
        after.rsvps = [...others, rsvp];
        await events.answer(rsvp);
      }
      const heard = (await this.#deps.writer.audience(tx, event)).filter(({ principalId, level }) =>
        level === "full" && (principalId === null || [actor.principalId, row.created_by].includes(principalId))
      );
      await tx.emit(...heard.map(({ stream }) => ({
        tenantId: actor.tenantId,
        stream,
        type: "calendar.event.rsvp",
        actor,
        data: { eventId: id, occurrence: key, principalId: actor.principalId, status, comment, version: row.version },
      })));
      return presentEvent(after, { principalId: actor.principalId, level }, occurrence);
    });
  }

  async #lines(
    { actor }: Context,
    { roomId, attendeeId, expand }: Pick<EventList, "roomId" | "attendeeId" | "expand">,
    from: number,
    to: number,
  ): Promise<{ lines: Line[]; truncated: boolean }> {
    const { tenantId, principalId } = actor;
    const { db } = this.#deps.store;
    const rest = turns();
    const agenda = new AgendaStore(db);
    const outlines = await agenda.first(
      tenantId,
      { from: iso(from), to: iso(to) },
      { roomId, attendeeId: attendeeId === undefined ? undefined : idOf(actor, attendeeId), principalId },
      OCCURRENCES_MAX + 1,
    );
    const ids = await reaching(agenda, tenantId, outlines.slice(0, OCCURRENCES_MAX), [from, to], rest);
    const events = await new CalendarStore(db).wholesOf(tenantId, ids, rest);
    const levelOf = await this.#deps.access.levels(actor, events);
    const lines: Line[] = [];
    let truncated = outlines.length > OCCURRENCES_MAX;
    let spentMs = 0;
    for (const event of events) {
      const level = levelOf(event);
      // Whose attendance is asked about is itself something only full readers may know.
      if (level === undefined || (level === "busy" && attendeeId !== undefined)) continue;
      if (spentMs > ANSWER_MS || lines.length > 2 * OCCURRENCES_MAX) {
        truncated = true;
        break;
      }
      const startedAt = performance.now();
      const found = occurrencesBetween(event, from, to, expand ? undefined : 1);
      const reader = { principalId, level };
      if (expand) lines.push(...found.items.map((item) => lineOf(event, reader, item)));
      else if (found.items.length > 0) lines.push(lineOf(event, reader));
      truncated ||= expand && found.truncated;
      spentMs += performance.now() - startedAt;
      await rest();
    }
    lines.sort((a, b) => compare(a.startAt, b.startAt) || compare(a.id, b.id) || compare(a.occurrence, b.occurrence));
    if (lines.length > OCCURRENCES_MAX) truncated = true;
    return { lines: lines.slice(0, OCCURRENCES_MAX), truncated };
  }

  async #write<Result>(work: (tx: Transaction<CalendarTables>) => Promise<Result>): Promise<Result> {
    try {
      return await this.#deps.store.write(work);
    } catch (error) {
      if (error instanceof UniqueViolation) {
        throw new Fault("conflict", "The calendar has an event with this uid", { cause: error });
      }
      throw error;
    }
  }
}

function lineOf(event: WholeEvent, reader: Reader, occurrence?: Occurrence): Line {
  const startAt = occurrence?.startAt ?? instantOf(event.row.start_local, event.row.time_zone);
  const name = occurrence?.name ?? "";
  return {
    startAt: iso(startAt),
    id: event.row.id,
    occurrence: name,
    entry: () => presentEntry(event, reader, occurrence),
  };
}

/** The calendar an event is in: of a room, or of a principal. */
export function calendarOf(roomId: string | null, principalId: string): string {
  return roomId === null ? `principal:${principalId}` : `room:${roomId}`;
}

/** What names an event in files that came from none. */
export function uidOf(id: string): string {
  return `${id}@collaboration-gateway`;
}

/** The occurrence of this name; throws `not_found` when the series has none. */
export function namedOccurrence(event: WholeEvent, name: string): Occurrence {
  const occurrence = occurrenceNamed(event, name);
  if (occurrence === undefined) throw new Fault("not_found", `The event has no occurrence ${name}`);
  return occurrence;
}

function rangeOf(range: { from: string; to: string }): { from: number; to: number } {
  const [from, to] = [Date.parse(range.from), Date.parse(range.to)];
  if (to <= from) throw misfit("/to", "after from");
  if (to - from > RANGE_DAYS_MAX * DAY_MS) throw misfit("/to", `at most ${RANGE_DAYS_MAX} days after from`);
  return { from, to };
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
