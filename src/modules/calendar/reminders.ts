// Reminders, and the meetings of series: each event has one waiting job, for what is due next. The job does what is due and enqueues
// the next one in the same commit, so that no reminder is lost or sent twice.
import { type Clock, DAY_MS, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { type EventDraft, principalEvent } from "@/core/event/event.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { notifiable } from "./access.ts";
import { REMINDERS_MAX } from "./limits.ts";
import {
  busyPrincipals,
  currentOccurrence,
  type EventParts,
  LATE_MS,
  type Occurrence,
  occurrencesBetween,
} from "./recurrence/occurrence.ts";
import { presentEntry } from "./presenter.ts";
import { CalendarStore, type CalendarTables, type EventAggregate, type EventRow } from "./store.ts";

export const REMINDER_JOB = "calendar.reminder";
/** After an outage, reminders of what ended longer ago than this are not sent. */
const REMINDER_TTL_MS = 60 * MINUTE_MS;
/** How far ahead the next occurrence is searched, in growing steps. */
const LOOKAHEAD_DAYS = [8, 64, 400, 5 * 366, 200 * 366] as const;
/** Reminders of one event that are sent; after an outage there may be many. */
const DUE_MAX = 100;
/** Those of one time. Only of occurrences that were moved to one time are more than an event has reminders due at once. */
const AT_ONCE_MAX = 2 * REMINDERS_MAX;

type Deps = {
  store: Store<CalendarTables>;
  clock: Clock;
  notify: Notify;
  /** Links the meeting of the next occurrence, if that of the event is over. */
  advanceMeeting: (tx: Transaction<CalendarTables>, event: EventAggregate) => Promise<EventAggregate>;
};

export class ReminderSender {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Sends the due reminders of one event, those of each time in a write of their own: others write in between. */
  async send(tenantId: string, eventId: string): Promise<void> {
    while (await this.#sendNext(tenantId, eventId));
  }

  /** Sends those that are due first; whether more are due. Idempotent: `reminded_at` is updated in the same commit. */
  #sendNext(tenantId: string, eventId: string): Promise<boolean> {
    return this.#deps.store.write(async (tx) => {
      const events = new CalendarStore(tx.db);
      const locked = await events.lockAggregate(tenantId, eventId);
      if (locked === undefined) return false;
      // First: a meeting is locked before streams.
      const event = await this.#deps.advanceMeeting(tx, locked);
      const now = this.#deps.clock.now();
      const due = dueReminders(event, now);
      const at = due[0]?.at ?? now;
      const sent = due.filter((one) => one.at === at);
      await this.#notify(tx, event, sent.slice(-AT_ONCE_MAX));
      const isMore = sent.length < due.length;
      const reminded_at = iso(isMore ? at : now);
      await events.update(tenantId, eventId, { reminded_at });
      const next = isMore ? undefined : reminderJob({ ...event, row: { ...event.row, reminded_at } });
      if (next !== undefined) await tx.enqueue(next);
      return isMore;
    });
  }

  async #notify(
    tx: Transaction<CalendarTables>,
    event: EventAggregate,
    reminders: readonly DueReminder[],
  ): Promise<void> {
    const { tenant_id: tenantId, id, room_id, title } = event.row;
    const recipients: string[][] = [];
    for (const { occurrence } of reminders) {
      recipients.push(await notifiable(new RoomStore(tx.db), event, [...busyPrincipals(event, occurrence)]));
    }
    await tx.emit(
      ...reminders.flatMap((due, n) =>
        (recipients[n] ?? []).map((principalId) => reminderEvent(event, due, principalId))
      ),
    );
    await this.#deps.notify(...reminders.map(({ occurrence, minutesBefore }, n) => ({
      tenantId,
      principalIds: recipients[n] ?? [],
      kind: "reminder",
      roomId: room_id ?? undefined,
      resource: { type: "event", id },
      title: occurrence.patch.title ?? title,
      data: { startAt: iso(occurrence.startAt), minutesBefore },
    })));
  }
}

type DueReminder = { occurrence: Occurrence; minutesBefore: number; at: number };

/** The job for what is due next, immediately if it is late; `undefined` if there is nothing. */
export function reminderJob(event: EventParts): JobDraft | undefined {
  const { row } = event;
  const after = Date.parse(row.reminded_at);
  const at = minutesOf(row).map((minutes) => nextStart(event, after + minutes * MINUTE_MS, minutes * MINUTE_MS))
    .concat(meetingEnd(event)).filter((time) => time !== undefined);
  if (at.length === 0) return undefined;
  return {
    tenantId: row.tenant_id,
    kind: REMINDER_JOB,
    key: row.id,
    payload: { eventId: row.id },
    runAt: Math.min(...at),
  };
}

/** Reminders that became due after `reminded_at` and not after `now`, in the order of their times. */
function dueReminders(event: EventParts, now: number): DueReminder[] {
  const since = Date.parse(event.row.reminded_at);
  return minutesOf(event.row).flatMap((minutesBefore) => {
    const before = minutesBefore * MINUTE_MS;
    return startsIn(event, since + before + 1, now + before + 1)
      .filter((occurrence) => occurrence.endAt + REMINDER_TTL_MS > now)
      .map((occurrence) => ({ occurrence, minutesBefore, at: occurrence.startAt - before }));
  }).sort((a, b) => a.at - b.at).slice(-DUE_MAX);
}

/** The event on the stream of a principal. */
function reminderEvent(
  event: EventAggregate,
  { occurrence, minutesBefore }: DueReminder,
  principalId: string,
): EventDraft {
  return principalEvent({ tenantId: event.row.tenant_id }, principalId, "calendar.event.reminder", {
    event: presentEntry(event, { principalId, level: "full" }, occurrence),
    minutesBefore,
  });
}

/** When the meeting of a series is that of its next occurrence. */
function meetingEnd(event: EventParts): number | undefined {
  if (event.row.meeting_id === null || event.row.rrule === null) return undefined;
  const [current] = currentOccurrence(event, Date.parse(event.row.reminded_at)).items;
  const next = current === undefined ? undefined : nextStart(event, current.startAt, 0);
  return current === undefined || next === undefined ? undefined : Math.min(current.endAt + LATE_MS, next);
}

function nextStart(event: EventParts, after: number, before: number): number | undefined {
  for (const days of LOOKAHEAD_DAYS) {
    const [next] = startsIn(event, after + 1, after + days * DAY_MS);
    if (next !== undefined) return next.startAt - before;
  }
  return undefined;
}

/** Occurrences that start from `from` to before `to`. */
function startsIn(event: EventParts, from: number, to: number): Occurrence[] {
  return occurrencesBetween(event, from, to).items.filter(({ startAt }) => startAt >= from);
}

function minutesOf(row: EventRow): number[] {
  const reminders: { minutesBefore: number }[] = JSON.parse(row.reminders_json);
  return [...new Set(reminders.map(({ minutesBefore }) => minutesBefore))];
}
