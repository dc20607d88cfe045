// The one way an event gets into the store: with its events, its meeting, its entry in the search index, and its next reminder.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { SearchEntry } from "@/modules/search/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { AgendaStore } from "./agenda/store.ts";
import { addressed, knowing, type Level } from "./access.ts";
import { busyTimes } from "./busy.ts";
import type { EventMeetings } from "./meetings.ts";
import { extentOf, type Occurrence, occurrencesBetween } from "./occurrence.ts";
import { presentEvent } from "./presenter.ts";
import { reminderJob } from "./reminder.ts";
import { IF_FREE_MAX, type SCOPES } from "./schema.ts";
import { CalendarStore, type CalendarTables, type WholeEvent } from "./store.ts";

export const KIND = "event";
const DAY_MS = 86_400_000;
const IF_FREE_DAYS = 366;
/** Time in which `ifFree` works out when an event itself is. */
const IF_FREE_MS = 200;

/** What of search the calendar uses. */
export type CalendarIndex = {
  put(...entries: readonly SearchEntry[]): Promise<void>;
  remove(tenantId: string, kind: string, ids: readonly string[]): Promise<void>;
};

type Deps = {
  clock: Clock;
  index: CalendarIndex | undefined;
  meetings: EventMeetings;
  /** Absent where events come in as they were elsewhere, which is no invitation. */
  notify?: Notify;
};
type Tx = Transaction<CalendarTables>;
/** What a change is about. */
export type Change = {
  actor: Pick<Actor, "principalId" | "kind">;
  scope: (typeof SCOPES)[number];
  occurrence?: Occurrence | undefined;
  ifFree?: boolean;
  /** Whose attendees know already that they are invited; else those of the event before the change. */
  invited?: Pick<WholeEvent, "attendees"> | undefined;
};
/** The same of what nobody here does. */
type Told = Pick<Change, "scope" | "occurrence"> & { actor?: Change["actor"] };
type What = "created" | "updated" | "cancelled";

export class EventWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Writes an event that is new, or (given what it was before) one that changed; a changed one gets the next version. */
  async put(tx: Tx, event: WholeEvent, change: Change, before?: WholeEvent): Promise<WholeEvent> {
    const now = this.#deps.clock.now();
    const { from, to } = extentOf(event);
    const invited = new Set(event.attendees.map(({ principal_id }) => principal_id));
    const row = {
      ...event.row,
      // Before the streams are locked: whoever changes a meeting locks it first.
      meeting_id: before === undefined
        ? event.row.meeting_id
        : await this.#deps.meetings.follow(change.actor, before, event),
      from_at: iso(from),
      to_at: to === null ? null : iso(to),
      version: before === undefined ? 1 : before.row.version + 1,
      updated_at: iso(now),
    };
    const rsvps = event.rsvps.filter(({ principal_id }) => invited.has(principal_id));
    const after: WholeEvent = { ...event, row, rsvps };
    // Events come first: they lock the participants' streams, so two who want the same time ask one after the other.
    await this.#tell(tx, after, before === undefined ? "created" : "updated", change, before);
    const events = new CalendarStore(tx.db);
    if (change.ifFree === true) await this.#checkFree({ events, agenda: new AgendaStore(tx.db) }, after, now, change);
    if (before === undefined) await events.add(row);
    else await events.update(row.tenant_id, row.id, row);
    await events.replaceParts(row.tenant_id, row.id, after);
    await this.#deps.index?.put(searchEntry(after));
    const job = reminderJob(after);
    if (job !== undefined) await tx.enqueue(job);
    await this.#invite(tx, after, change, before);
    return after;
  }

  /** Those who were not invited before find it in their inbox; their streams are held, as they were told of the event. */
  async #invite(tx: Tx, event: WholeEvent, { actor, invited }: Change, before?: WholeEvent): Promise<void> {
    const { row, attendees } = event;
    const known = new Set((invited ?? before)?.attendees.map(({ principal_id }) => principal_id));
    const fresh = attendees.flatMap(({ principal_id }) => known.has(principal_id) ? [] : principal_id ?? []);
    if (fresh.length === 0) return;
    await this.#deps.notify?.({
      tenantId: row.tenant_id,
      principalIds: await addressed(new RoomStore(tx.db), event, fresh),
      kind: "invitation",
      actor,
      roomId: row.room_id ?? undefined,
      resource: { type: KIND, id: row.id },
      title: row.title,
    });
  }

  /** Adds events as they were elsewhere; their ids and uids are free. */
  async adopt(tx: Tx, given: readonly WholeEvent[]): Promise<void> {
    const events: WholeEvent[] = [];
    for (const event of given) events.push(await this.#adopt(tx, event));
    await this.#deps.index?.put(...events.map(searchEntry));
    await tx.enqueue(...events.flatMap((event) => reminderJob(event) ?? []));
  }

  async #adopt(tx: Tx, event: WholeEvent): Promise<WholeEvent> {
    const { from, to } = extentOf(event);
    const row = { ...event.row, from_at: iso(from), to_at: to === null ? null : iso(to) };
    const whole = { ...event, row };
    await this.#tell(tx, whole, "created", { scope: "all" });
    const events = new CalendarStore(tx.db);
    await events.add(row);
    await events.replaceParts(row.tenant_id, row.id, whole);
    return whole;
  }

  async remove(tx: Tx, event: WholeEvent, change: Change): Promise<void> {
    const { tenant_id, id } = event.row;
    await this.#deps.meetings.cancel(change.actor, event.row);
    await new CalendarStore(tx.db).remove(tenant_id, id);
    await this.#deps.index?.remove(tenant_id, KIND, [id]);
    await this.#tell(tx, event, "cancelled", change);
  }

  /** Tells of a part of a series that is cancelled, besides what `put` tells of the series. */
  async tellCancelled(tx: Tx, event: WholeEvent, change: Change): Promise<void> {
    await this.#tell(tx, event, "cancelled", change);
  }

  /** Streams on which an event is told: with how much of it, and to whom. */
  async audience(tx: Tx, event: WholeEvent): Promise<{ stream: string; principalId: string | null; level: Level }[]> {
    const { row, attendees } = event;
    const rooms = new RoomStore(tx.db);
    const room = row.room_id === null ? undefined : await rooms.find(row.tenant_id, row.room_id);
    const ids = [row.created_by, ...attendees.flatMap(({ principal_id }) => principal_id ?? [])];
    const personal = (await knowing(rooms, event, [...new Set(ids)])).map((principalId) => ({
      stream: principalStream(principalId),
      principalId,
      level: "full" as const,
    }));
    if (room === undefined || row.visibility === "private") return personal;
    const level: Level = row.visibility === "room" && room.visibility === "private" ? "full" : "busy";
    return [{ stream: roomStream(room.id), principalId: null, level }, ...personal];
  }

  async #tell(tx: Tx, event: WholeEvent, what: What, change: Told, before?: WholeEvent): Promise<void> {
    const { actor, scope, occurrence } = change;
    const draft = (
      type: What,
      subject: WholeEvent,
      to: { stream: string; principalId: string | null; level: Level },
    ): EventDraft => ({
      tenantId: event.row.tenant_id,
      stream: to.stream,
      type: `calendar.event.${type}`,
      ...(actor === undefined ? {} : { actor }),
      data: { event: presentEvent(subject, to, occurrence), scope, occurrence: occurrence?.name ?? null },
    });
    const audience = await this.audience(tx, event);
    const drafts = audience.map((to) => draft(what, event, to));
    // Who is no longer invited is told that, for them, it is off.
    const past = before === undefined ? [] : await this.audience(tx, before);
    for (const to of past) {
      if (!audience.some(({ stream }) => stream === to.stream) && before !== undefined) {
        drafts.push(draft("cancelled", before, to));
      }
    }
    await tx.emit(...drafts);
    // Held also where nothing is told to the room: who is removed from it writes nothing there any more. It comes last in the
    // order in which streams are held.
    if (event.row.room_id !== null) await tx.reserve(event.row.tenant_id, roomStream(event.row.room_id), 0);
  }

  async #checkFree(
    stores: { events: CalendarStore; agenda: AgendaStore },
    event: WholeEvent,
    now: number,
    { scope, occurrence }: Pick<Change, "scope" | "occurrence">,
  ): Promise<void> {
    const { row, attendees } = event;
    if (row.is_transparent === 1) return;
    // A change of one occurrence does not ask about the others.
    const only = scope === "this" ? occurrence : undefined;
    const from = only?.startAt ?? Math.max(Date.parse(row.from_at), now - DAY_MS);
    const own = only === undefined
      ? occurrencesBetween(event, from, from + IF_FREE_DAYS * DAY_MS, IF_FREE_MAX, IF_FREE_MS)
      : { items: [only], truncated: false };
    const { items } = own;
    if (items.length === 0) return;
    const declined = new Set(attendees.flatMap((one) => one.status === "declined" ? [one.principal_id] : []));
    const ids = [row.created_by, ...attendees.flatMap(({ principal_id }) => principal_id ?? [])]
      .filter((id) => !declined.has(id));
    const { busy, truncated } = await busyTimes(stores, {
      tenantId: row.tenant_id,
      principalIds: [...new Set(ids)],
      from,
      to: Math.max(...items.map(({ endAt }) => endAt)),
      timeZone: row.time_zone ?? "UTC",
      except: row.id,
    });
    const clash = busy.find((time) => items.some((item) => item.startAt < time.endAt && item.endAt > time.startAt));
    if (clash !== undefined) {
      throw new Fault(
        "busy_conflict",
        `${clash.principalId} is busy from ${iso(clash.startAt)} to ${iso(clash.endAt)}`,
      );
    }
    // What was not looked at may be taken.
    if (truncated || own.truncated && items.length < IF_FREE_MAX) {
      const detail =
        "too much stands in these calendars to tell whether everybody is free; book fewer occurrences at once";
      throw Fault.at("/ifFree", "recurrence_too_dense", detail, "recurrence_too_dense");
    }
  }
}

/** An event as search knows it: with its room when all of the room may see it, else for its creator and who is invited. */
export function searchEntry({ row, attendees }: Pick<WholeEvent, "row" | "attendees">): SearchEntry {
  return {
    tenantId: row.tenant_id,
    kind: KIND,
    id: row.id,
    roomId: row.visibility === "room" ? row.room_id : null,
    principalId: row.created_by,
    readerIds: attendees.flatMap(({ principal_id }) => principal_id ?? []),
    authorId: row.created_by,
    at: row.created_at,
    version: row.version,
    texts: [row.title, row.description ?? "", row.location ?? ""].filter((text) => text !== ""),
  };
}
