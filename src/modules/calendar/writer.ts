// Writes events to the store with their stream events, meeting, search entry, next reminder and invitations.
import type { Actor } from "@/core/actor.ts";
import { runInSlices } from "@/core/caller.ts";
import { type Clock, DAY_MS, iso, nextTick } from "@/core/time/clock.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { type Holds, holdSubjectOf } from "@/core/hold.ts";
import { type MayShow, type NamedFiles, uploadedBy } from "@/modules/file/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { SearchEntry } from "@/core/searchable.ts";
import { type Store, type Transaction, whenTaken } from "@/ports/store.ts";
import { AgendaStore } from "./agenda_store.ts";
import { type AccessLevel, notifiable, participantIds, viewersOfEvents } from "./access.ts";
import { toArchived } from "./archive/archived_event.ts";
import { busyTimes } from "./busy.ts";
import { attachNamedFiles, eventFileOwner } from "./files.ts";
import { IF_FREE_MAX } from "./limits.ts";
import type { EventMeetings } from "./meetings.ts";
import { currentOccurrence, findOccurrences, type Occurrence, timeBounds } from "./recurrence/occurrence.ts";
import { presentEntry } from "./presenter.ts";
import { reminderJob } from "./reminders.ts";
import type { SCOPES } from "./schema.ts";
import { calendarOf, CalendarStore, type CalendarTables, type EventAggregate } from "./store.ts";

export const KIND = "event";
/** Kinds of notifications of changes, with the preference that turns them off. */
export const CHANGE_NOTIFICATIONS = {
  event_moved: "invitations",
  event_cancelled: "invitations",
  event_declined: "invitations",
} as const;
const IF_FREE_DAYS = 366;
/** For expanding the event itself in `ifFree`. */
const IF_FREE_MS = 200;

type Deps = {
  clock: Clock;
  /** Absent where search is off. */
  index: Pick<SearchIndex, "put" | "remove"> | undefined;
  meetings: EventMeetings;
  files: NamedFiles;
  notify: Notify;
  holds: Holds;
};
type Tx = Transaction<CalendarTables>;
type Change = {
  /** Absent for imported archives, and for what the gateway does by itself. */
  actor?: Pick<Actor, "principalId" | "kind" | "bounds">;
  scope: (typeof SCOPES)[number];
  occurrence?: Occurrence | undefined;
  ifFree?: boolean;
  /** Whether it takes place at another time now. */
  isMoved?: boolean;
  /** Attendees who are already invited. Default: those of the event before the change. */
  invited?: Pick<EventAggregate, "attendees"> | undefined;
  /** The series that it was split off. */
  original?: EventAggregate | undefined;
};
/** An event to write, and its state before if it exists. */
export type EventWrite = { event: EventAggregate; change: Change; before?: EventAggregate | undefined };
type ChangeKind = "created" | "updated" | "cancelled";
type EventRecipient = { stream: string; principalId: string | null; level: AccessLevel };

export class EventWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates an event or, given its state before, updates it; an update gets the next version. */
  async put(tx: Tx, event: EventAggregate, change: Change, before?: EventAggregate): Promise<EventAggregate> {
    const [after = event] = await this.putAll(tx, [{ event, change, before }]);
    return after;
  }

  /** The same for distinct events of one tenant, with hardly more statements than for one. */
  async putAll(tx: Tx, puts: readonly EventWrite[]): Promise<EventAggregate[]> {
    const now = this.#deps.clock.now();
    const writes: EventWrite[] = [];
    for (const put of puts) writes.push({ ...put, event: await this.#resolve(put, iso(now)) });
    // Published first: this locks the streams of participants, so that two requests for the same time run one after the other.
    await this.#publish(
      tx,
      writes.map(({ event, change, before }) => ({
        what: before === undefined ? "created" : "updated",
        event,
        change,
        before,
      })),
    );
    const events = new CalendarStore(tx.db);
    for (const { event, change } of writes) {
      if (change.ifFree === true) await this.#checkFree({ events, agenda: new AgendaStore(tx.db) }, event, now, change);
    }
    for (const { event, before, change } of writes) {
      if (before === undefined) continue;
      await this.keepState(tx, before, change);
      await events.update(event.row.tenant_id, event.row.id, event.row);
      await events.replaceParts(event.row.tenant_id, event.row.id, event);
    }
    await addEvents(tx, writes.flatMap(({ event, before }) => before === undefined ? [event] : []));
    for (const { event, change: { actor, original }, before } of writes) {
      await attachNamedFiles(tx, this.#deps.files, event, uploadedBy(actor?.principalId), original ?? before);
    }
    const written = writes.map(({ event }) => event);
    await this.#indexAndSchedule(tx, written);
    for (const { event, change, before } of writes) await this.#notifyOf(tx, event, change, before);
    return written;
  }

  /** Stores the event before a change, if it is under a legal hold. */
  async keepState(tx: Tx, before: EventAggregate, { actor }: Pick<Change, "actor">): Promise<void> {
    const { tenant_id: tenantId, id, version } = before.row;
    await this.#deps.holds.keepState(tx.db, {
      tenantId,
      subject: holdSubjectOf(before.row),
      type: KIND,
      id,
      version,
      stateOf: () => toArchived(before),
      replacedBy: actor?.principalId,
    });
  }

  /** The event with its derived columns. */
  async #resolve({ event, change, before }: EventWrite, now: string): Promise<EventAggregate> {
    const { from, to } = timeBounds(event);
    const invited = new Set(event.attendees.map(({ principal_id }) => principal_id));
    const row = {
      ...event.row,
      calendar: calendarOf(event.row),
      // Before streams are locked: a meeting is locked before streams.
      meeting_id: before === undefined
        ? event.row.meeting_id
        : await this.#deps.meetings.update(change.actor, before, event),
      from_at: iso(from),
      to_at: to === null ? null : iso(to),
      version: before === undefined ? 1 : before.row.version + 1,
      updated_at: now,
    };
    return { ...event, row, rsvps: event.rsvps.filter(({ principal_id }) => invited.has(principal_id)) };
  }

  /** Gives a series whose meeting is of an occurrence that is over that of the next one. */
  async advanceMeeting(tx: Tx, event: EventAggregate): Promise<EventAggregate> {
    const meeting_id = await this.#deps.meetings.advance(tx.db, event);
    if (meeting_id === event.row.meeting_id) return event;
    return await this.put(tx, { ...event, row: { ...event.row, meeting_id } }, { scope: "all" }, event);
  }

  async #indexAndSchedule(tx: Tx, events: readonly EventAggregate[]): Promise<void> {
    await this.#deps.index?.put(...events.map(searchEntry));
    await tx.enqueue(...events.flatMap((event) => reminderJob(event) ?? []));
  }

  /** Notifies new attendees, and the others if it was moved; their streams are locked by the events published before. */
  async #notifyOf(tx: Tx, event: EventAggregate, change: Change, before?: EventAggregate): Promise<void> {
    const invitedIds = new Set((change.invited ?? before)?.attendees.map(({ principal_id }) => principal_id));
    const newIds = event.attendees.flatMap(({ principal_id: id }) => invitedIds.has(id) ? [] : id ?? []);
    await this.#notify(tx, event, "invitation", newIds, change);
    if (change.isMoved !== true) return;
    await this.#notify(tx, event, "event_moved", participantIds(event).filter((id) => !newIds.includes(id)), change);
  }

  /** Notifies the creator that an attendee declined, as `#notifyOf` does. */
  async notifyDeclined(tx: Tx, event: EventAggregate, change: Change): Promise<void> {
    await this.#notify(tx, event, "event_declined", [event.row.created_by], change);
  }

  /** Notifies some participants of an event, unless it is over. */
  async #notify(
    tx: Tx,
    event: EventAggregate,
    kind: "invitation" | keyof typeof CHANGE_NOTIFICATIONS,
    ids: readonly string[],
    { actor, occurrence }: Change,
  ): Promise<void> {
    if (ids.length === 0) return;
    const { row } = event;
    const now = this.#deps.clock.now();
    const [shown] = occurrence === undefined ? currentOccurrence(event, now).items : [occurrence];
    const isOver = kind !== "invitation" && shown !== undefined && shown.endAt <= now;
    if (isOver) return;
    await this.#deps.notify({
      tenantId: row.tenant_id,
      principalIds: await notifiable(new RoomStore(tx.db), event, ids),
      kind,
      actor,
      // A cancelled event can no longer be read, so its title is visible to those who are notified.
      ...kind === "event_cancelled" ? {} : { roomId: row.room_id ?? undefined, resource: { type: KIND, id: row.id } },
      title: shown?.patch.title ?? row.title,
      ...kind === "invitation" || shown === undefined ? {} : { data: { startAt: iso(shown.startAt) } },
    });
  }

  /** Inserts imported events of one tenant unchanged; their ids and uids are free. */
  async insertImported(tx: Tx, imported: readonly EventAggregate[], mayShow: MayShow): Promise<void> {
    const events = imported.map((event) => {
      const { from, to } = timeBounds(event);
      return { ...event, row: { ...event.row, from_at: iso(from), to_at: to === null ? null : iso(to) } };
    });
    await this.#publish(tx, events.map((event) => ({ what: "created", event, change: { scope: "all" } })));
    await addEvents(tx, events);
    for (const event of events) await attachNamedFiles(tx, this.#deps.files, event, mayShow);
    await this.#indexAndSchedule(tx, events);
  }

  async remove(tx: Tx, event: EventAggregate, change: Change): Promise<void> {
    const { tenant_id, id } = event.row;
    await this.#deps.meetings.cancel(change.actor, event.row);
    await new CalendarStore(tx.db).remove(tenant_id, id);
    await this.#deps.files.detach(tx, tenant_id, eventFileOwner(id));
    await this.#deps.index?.remove(tenant_id, KIND, [id]);
    await this.publishCancelled(tx, event, change);
  }

  /** Publishes that a part of a series is cancelled, in addition to the update by `put`. */
  async publishCancelled(tx: Tx, event: EventAggregate, change: Change): Promise<void> {
    await this.#publish(tx, [{ what: "cancelled", event, change }]);
    await this.#notify(tx, event, "event_cancelled", participantIds(event), change);
  }

  /** The streams of an event that the actor changes, with recipient and access level. */
  async audience(tx: Tx, event: EventAggregate, actor: Change["actor"]): Promise<EventRecipient[]> {
    const audience = (await audiencesOf(tx, [event]))(event);
    reportReaders(actor, audience);
    return audience;
  }

  async #publish(
    tx: Tx,
    changes: readonly {
      what: ChangeKind;
      event: EventAggregate;
      change: Change;
      before?: EventAggregate | undefined;
    }[],
  ): Promise<void> {
    const audienceOf = await audiencesOf(
      tx,
      changes.flatMap(({ event, before }) => [event, ...before ? [before] : []]),
    );
    await tx.emit(...changes.flatMap(({ what, event, change, before }) => {
      const audience = audienceOf(event);
      if (what !== "cancelled") reportReaders(change.actor, audience);
      const drafts = audience.map((to) => eventDraftOf(what, event, to, change));
      // For former attendees the event is cancelled.
      for (const to of before === undefined ? [] : audienceOf(before)) {
        if (!audience.some(({ stream }) => stream === to.stream) && before !== undefined) {
          drafts.push(eventDraftOf("cancelled", before, to, change));
        }
      }
      return drafts;
    }));
  }

  async #checkFree(
    stores: { events: CalendarStore; agenda: AgendaStore },
    event: EventAggregate,
    now: number,
    { scope, occurrence }: Pick<Change, "scope" | "occurrence">,
  ): Promise<void> {
    const { row, attendees } = event;
    if (row.is_transparent === 1) return;
    // A change of one occurrence does not check the others.
    const only = scope === "this" ? occurrence : undefined;
    const from = only?.startAt ?? Math.max(Date.parse(row.from_at), now - DAY_MS);
    const own = only === undefined
      ? await runInSlices(findOccurrences(event, from, from + IF_FREE_DAYS * DAY_MS, IF_FREE_MAX, IF_FREE_MS), nextTick)
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
      pause: nextTick,
    });
    const clash = busy.find((time) => items.some((item) => item.startAt < time.endAt && item.endAt > time.startAt));
    if (clash !== undefined) {
      throw new Fault(
        "time_conflict",
        `${clash.principalId} is busy from ${iso(clash.startAt)} to ${iso(clash.endAt)}`,
      );
    }
    // Times that were not checked may be busy.
    if (truncated || own.truncated && items.length < IF_FREE_MAX) {
      const detail =
        "these calendars have too many events to check whether everybody is free; reduce the number of occurrences";
      throw Fault.forField("/ifFree", "recurrence_too_complex", detail, "recurrence_too_complex");
    }
  }
}

/** The streams of events of a tenant; their rooms and principals are loaded together. */
async function audiencesOf(
  tx: Tx,
  events: readonly EventAggregate[],
): Promise<(event: EventAggregate) => EventRecipient[]> {
  const viewersOf = await viewersOfEvents(new RoomStore(tx.db), events);
  return (event) => {
    const { room, viewers } = viewersOf(event);
    const personal = viewers.map(({ id }): EventRecipient => ({
      stream: principalStream(id),
      principalId: id,
      level: "full",
    }));
    const { visibility } = event.row;
    if (!room || visibility === "private") return personal;
    const level: AccessLevel = visibility === "room" && room.visibility === "private" ? "full" : "busy";
    return [{ stream: roomStream(room.id), principalId: null, level }, ...personal];
  };
}

/** Attendees read the event as a whole, whether or not they can see its room. */
function reportReaders(actor: Change["actor"] | undefined, audience: readonly EventRecipient[]): void {
  actor?.bounds?.addReaders(audience.flatMap(({ principalId }) => principalId ?? []));
}

function eventDraftOf(
  what: ChangeKind,
  event: EventAggregate,
  to: EventRecipient,
  { actor, scope, occurrence }: Change,
): EventDraft {
  return {
    tenantId: event.row.tenant_id,
    stream: to.stream,
    type: `calendar.event.${what}`,
    actor,
    data: { event: presentEntry(event, to, occurrence), scope, occurrence: occurrence?.name ?? null },
  };
}

async function addEvents(tx: Tx, events: readonly EventAggregate[]): Promise<void> {
  await tx.insertMany("calendar_event", events.map(({ row }) => row));
  await tx.insertMany("calendar_override", events.flatMap(({ overrides }) => overrides));
  await tx.insertMany("calendar_attendee", events.flatMap(({ attendees }) => attendees));
  await tx.insertMany("calendar_rsvp", events.flatMap(({ rsvps }) => rsvps));
}

/** Runs a write of events; a uid that is taken in the calendar is a conflict. */
export function writeEvents<Result>(store: Store<CalendarTables>, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  return store.write(work).catch(whenTaken(uidTaken));
}

export function uidTaken(cause?: unknown): Fault {
  return new Fault("conflict", "The calendar has an event with this uid", { cause });
}

/** The search entry of an event: of its room if all members may see it, else of its creator and attendees. */
export function searchEntry({ row, attendees }: Pick<EventAggregate, "row" | "attendees">): SearchEntry {
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
