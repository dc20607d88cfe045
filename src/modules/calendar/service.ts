// Events: created, read, listed and responded to; and free/busy times.
import { compareText } from "@/core/text/text.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { chargedTo } from "@/core/actor.ts";
import { createYielder, runInSlices } from "@/core/caller.ts";
import { Slots } from "@/core/limit/slots.ts";
import { roomStream } from "@/core/event/event.ts";
import { assertAllFound, Fault, invalidField, notVisible } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import { requireTimeZone } from "@/core/time/time_zone.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { assertCanCheckBusy, type CalendarAccess } from "./access.ts";
import { AgendaStore } from "./agenda_store.ts";
import { busyTimes } from "./busy.ts";
import { resolveAttendees, resolveRule, resolveTiming } from "./event_input.ts";
import { BUSY_MAX, OCCURRENCES_MAX, RANGE_DAYS_MAX } from "./limits.ts";
import type { EventMeetings } from "./meetings.ts";
import { filterOverlapping, findOccurrence, findOccurrences, type Occurrence } from "./recurrence/occurrence.ts";
import { presentEntry, presentEvent, type Reader } from "./presenter.ts";
import type {
  CalendarEntry,
  CalendarEvent,
  EventCreate,
  EventList,
  EventPage,
  EventRead,
  FreeBusy,
  FreeBusyQuery,
  Rsvp,
} from "./schema.ts";
import { CalendarStore, type CalendarTables, type EventAggregate, type EventRow } from "./store.ts";
import { type EventWriter, uidTaken, writeEvents } from "./writer.ts";
import { instantOf } from "./time_zone.ts";

/** CPU time of the rule engine for one response. */
const LIST_BUDGET_MS = 200;

/** A list item: an event or one occurrence, presented only if it is on the page. */
type ListItem = { startAt: number; id: string; occurrence: string; present: () => CalendarEntry };

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  access: CalendarAccess;
  identity: IdentityService;
  writer: EventWriter;
  meetings: EventMeetings;
};

/** Lists and free/busy times at once, of a tenant and of a principal with its agents: each may hold thousands of occurrences. */
const EXPANSIONS = { tenant: 4, owner: 1 };

export class CalendarService {
  readonly #deps: Deps;
  readonly #expansions = new Slots({ perKey: [EXPANSIONS.tenant, EXPANSIONS.owner] });

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(context: Context, input: EventCreate): Promise<CalendarEvent> {
    const { actor } = context;
    const { store, access, writer, identity, roomAccess, meetings } = this.#deps;
    if (input.ifFree) assertCanCheckBusy(actor);
    const timing = resolveTiming(input);
    const rule = await resolveRule(input.rrule, input.exDates, timing);
    return await writeEvents(store, async (tx) => {
      const roomId = input.roomId ?? null;
      if (roomId !== null) await roomAccess.require(context, roomId, { tx });
      const isTaken = input.uid !== undefined && (await access.lockByUid(tx, actor, roomId, [input.uid])).size > 0;
      if (isTaken) throw uidTaken();
      const at = this.#deps.clock.now();
      const now = iso(at);
      const id = newId("cal");
      const row: EventRow = {
        tenant_id: actor.tenantId,
        id,
        calendar: "",
        uid: input.uid ?? uidOf(id),
        room_id: roomId,
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
      const attendees = await resolveAttendees(tx.db, identity, actor, row, input.attendees, []);
      const draft: EventAggregate = { row, attendees, overrides: [], rsvps: [] };
      if (input.meeting !== undefined) row.meeting_id = await meetings.schedule(context, draft, at);
      const event = await writer.put(tx, draft, { actor, scope: "all", ifFree: input.ifFree });
      return presentEvent(event, { principalId: actor.principalId, level: "full" });
    });
  }

  async read({ actor }: Context, { id, occurrence: name }: EventRead): Promise<CalendarEvent> {
    const event = await new CalendarStore(this.#deps.store.db).findAggregate(actor.tenantId, id);
    const level = event === undefined ? undefined : await this.#deps.access.level(actor, event);
    if (event === undefined || level === undefined) throw notVisible("event");
    const occurrence = name === undefined ? undefined : requireOccurrence(event, name);
    return presentEvent(event, { principalId: actor.principalId, level }, occurrence);
  }

  async list(context: Context, { limit, cursor, ...query }: EventList): Promise<EventPage> {
    const { actor } = context;
    const { from, to } = rangeOf(query);
    if (query.roomId !== undefined) await this.#deps.roomAccess.require(context, query.roomId);
    const bind = ["event.list", actor.tenantId, actor.principalId, query];
    const after = this.#deps.cursors.decode(cursor, bind)?.join(" ");
    using _slot = await this.#expansions.acquire([actor.tenantId, chargedTo(actor)]);
    const { items, truncated } = await this.#listItems(context, query, from, to);
    const keyOf = ({ startAt, id, occurrence }: ListItem): [string, string, string] => [iso(startAt), id, occurrence];
    const remaining = after === undefined ? items : items.filter((item) => keyOf(item).join(" ") > after);
    const page = this.#deps.cursors.page(remaining, limit, bind, keyOf, ({ present }) => present());
    return { ...page, truncated };
  }

  async freeBusy({ actor }: Context, { principalIds, timeZone, ...range }: FreeBusyQuery): Promise<FreeBusy> {
    const { from, to } = rangeOf(range);
    requireTimeZone(timeZone, "/timeZone");
    const all = principalIds.map((id) => resolvePrincipalId(actor, id));
    const ids = [...new Set(all)];
    const enabled = await this.#deps.identity.findEnabledFor(actor, ids);
    assertAllFound(all, new Set(enabled.keys()), "/principalIds", (id) => `no principal ${id}`);
    const { db } = this.#deps.store;
    const stores = { events: new CalendarStore(db), agenda: new AgendaStore(db) };
    using _slot = await this.#expansions.acquire([actor.tenantId, chargedTo(actor)]);
    const { busy, truncated } = await busyTimes(stores, {
      tenantId: actor.tenantId,
      principalIds: ids,
      from,
      to,
      timeZone,
    });
    return {
      busy: busy.slice(0, BUSY_MAX).map(({ principalId, startAt, endAt }) => ({
        principalId,
        start: iso(startAt),
        end: iso(endAt),
      })),
      truncated: truncated || busy.length > BUSY_MAX,
    };
  }

  /** Whether the caller is a member of the room; throws if members may not write there. */
  async #isMember(tx: AnyTransaction, context: Context, roomId: string): Promise<boolean> {
    const role = (await this.#deps.roomAccess.find(context.actor, roomId, tx.db))?.role ?? null;
    if (role !== null) await this.#deps.roomAccess.require(context, roomId, { tx });
    return role !== null;
  }

  /**
   * Stores the caller's response to an event or to one occurrence of a series. Invitations are personal: attendees who are not members
   * of the room respond as well, which is not published to the room.
   */
  async rsvp(context: Context, { id, status, comment, occurrence: name }: Rsvp): Promise<CalendarEvent> {
    const { actor } = context;
    return await writeEvents(this.#deps.store, async (tx) => {
      const events = new CalendarStore(tx.db);
      const event = await events.lockAggregate(actor.tenantId, id);
      if (event === undefined) throw notVisible("event");
      const roomId = event.row.room_id;
      if (roomId !== null) await tx.lock(actor.tenantId, roomStream(roomId));
      const level = await this.#deps.access.level(actor, event, tx.db);
      if (level === undefined) throw notVisible("event");
      const isMember = roomId === null || await this.#isMember(tx, context, roomId);
      const mine = event.attendees.find((attendee) => attendee.principal_id === actor.principalId);
      if (mine === undefined) throw new Fault("forbidden", "Only attendees can respond to an event");
      const occurrence = name === undefined ? undefined : requireOccurrence(event, name);
      const now = iso(this.#deps.clock.now());
      const response = { status, comment, responded_at: now };
      const key = occurrence?.name ?? null;
      const before = event.rsvps.find((one) => one.principal_id === actor.principalId && one.occurrence === key) ??
        mine;
      if (before.responded_at !== null) await this.#deps.writer.keepState(tx, event, { actor });
      const row = { ...event.row, version: event.row.version + 1, updated_at: now };
      const after: EventAggregate = { ...event, row };
      await events.update(actor.tenantId, id, { version: row.version, updated_at: now });
      if (key === null) {
        after.attendees = event.attendees.map((one) => one === mine ? { ...one, ...response } : one);
        await events.replaceParts(actor.tenantId, id, { attendees: after.attendees });
      } else {
        const of = { tenant_id: actor.tenantId, event_id: id, principal_id: actor.principalId };
        const rsvp = { ...of, occurrence: key, ...response };
        const others = event.rsvps.filter((one) => one.principal_id !== actor.principalId || one.occurrence !== key);
        after.rsvps = [...others, rsvp];
        await events.saveRsvp(rsvp);
      }
      const recipients = (await this.#deps.writer.audience(tx, event, actor)).filter(({ principalId, level }) =>
        level === "full" &&
        (principalId === null ? isMember : [actor.principalId, row.created_by].includes(principalId))
      );
      await tx.emit(...recipients.map(({ stream }) => ({
        tenantId: actor.tenantId,
        stream,
        type: "calendar.event.rsvp",
        actor,
        data: { eventId: id, occurrence: key, principalId: actor.principalId, status, comment, version: row.version },
      })));
      if (status === "declined" && before.status !== "declined") {
        await this.#deps.writer.notifyDeclined(tx, after, { actor, scope: key === null ? "all" : "this", occurrence });
      }
      return presentEvent(after, { principalId: actor.principalId, level }, occurrence);
    });
  }

  async #listItems(
    { actor }: Context,
    { roomId, attendeeId, expand }: Pick<EventList, "roomId" | "attendeeId" | "expand">,
    from: number,
    to: number,
  ): Promise<{ items: ListItem[]; truncated: boolean }> {
    const { tenantId, principalId } = actor;
    const { db } = this.#deps.store;
    const yieldIfDue = createYielder();
    const agenda = new AgendaStore(db);
    const summaries = await agenda.findEarliest(
      tenantId,
      { from: iso(from), to: iso(to) },
      { roomId, attendeeId: attendeeId === undefined ? undefined : resolvePrincipalId(actor, attendeeId), principalId },
      OCCURRENCES_MAX + 1,
    );
    const ids = await filterOverlapping(agenda, tenantId, summaries.slice(0, OCCURRENCES_MAX), [from, to], yieldIfDue);
    const items: ListItem[] = [];
    let truncated = summaries.length > OCCURRENCES_MAX;
    let spentMs = 0;
    for await (const events of new CalendarStore(db).aggregatesInChunks(tenantId, ids)) {
      const levelOf = await this.#deps.access.levels(actor, events);
      for (const event of events) {
        const level = levelOf(event);
        // Attendance is visible to readers with full access only.
        if (level === undefined || (level === "busy" && attendeeId !== undefined)) continue;
        if (spentMs > LIST_BUDGET_MS || items.length > 2 * OCCURRENCES_MAX) return listed(items, true);
        const found = await runInSlices(findOccurrences(event, from, to, expand ? undefined : 1));
        const reader = { principalId, level };
        if (expand) items.push(...found.items.map((item) => listItemOf(event, reader, item)));
        else if (found.items.length > 0) items.push(listItemOf(event, reader));
        truncated ||= expand && found.truncated;
        spentMs += found.engineMs;
        await yieldIfDue();
      }
    }
    return listed(items, truncated);
  }
}

/** The first items, in their order. */
function listed(items: ListItem[], truncated: boolean): { items: ListItem[]; truncated: boolean } {
  items.sort((a, b) => a.startAt - b.startAt || compareText(a.id, b.id) || compareText(a.occurrence, b.occurrence));
  return { items: items.slice(0, OCCURRENCES_MAX), truncated: truncated || items.length > OCCURRENCES_MAX };
}

function listItemOf(event: EventAggregate, reader: Reader, occurrence?: Occurrence): ListItem {
  const startAt = occurrence?.startAt ?? instantOf(event.row.start_local, event.row.time_zone);
  const name = occurrence?.name ?? "";
  return { startAt, id: event.row.id, occurrence: name, present: () => presentEntry(event, reader, occurrence) };
}

/** The uid of an event that was not imported. */
export function uidOf(id: string): string {
  return `${id}@collaboration-gateway`;
}

/** The occurrence of this name; throws `not_found` when the series has none. */
export function requireOccurrence(event: EventAggregate, name: string): Occurrence {
  const occurrence = findOccurrence(event, name);
  if (occurrence === undefined) throw new Fault("not_found", `The event has no occurrence ${name}`);
  return occurrence;
}

function rangeOf(range: { from: string; to: string }): { from: number; to: number } {
  const [from, to] = [Date.parse(range.from), Date.parse(range.to)];
  if (to <= from) throw invalidField("/to", "must be after from");
  if (to - from > RANGE_DAYS_MAX * DAY_MS) throw invalidField("/to", `at most ${RANGE_DAYS_MAX} days after from`);
  return { from, to };
}
