// Reminders: for each event one waiting job, for the next reminder there is. When it fires it looks for the one after.
import { type EventDraft, principalStream } from "@/core/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { type EventParts, type Occurrence, occurrencesBetween } from "./occurrence.ts";
import { answerOf, presentEntry } from "./presenter.ts";
import type { EventRow, WholeEvent } from "./store.ts";

export const REMINDER_JOB = "calendar.reminder";
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** After an outage, a reminder of something that ended longer ago than this is not sent. */
const STALE_MS = 60 * MINUTE_MS;
/** How far ahead the next occurrence is looked for, in growing steps. */
const AHEAD_DAYS = [8, 64, 400, 5 * 366, 200 * 366] as const;
/** Reminders of one event sent at once; after an outage there may be many. */
const DUE_MAX = 100;

/** One reminder that is due now. */
export type Due = { occurrence: Occurrence; minutesBefore: number };

/** The job for the first reminder that was not sent yet, at once when it is late; `undefined` when there is none. */
export function reminderJob(event: EventParts): JobDraft | undefined {
  const { row } = event;
  const after = Date.parse(row.reminded_at);
  const at = minutesOf(row).map((minutes) => nextStart(event, after + minutes * MINUTE_MS, minutes * MINUTE_MS))
    .filter((time) => time !== undefined);
  if (at.length === 0) return undefined;
  return {
    tenantId: row.tenant_id,
    kind: REMINDER_JOB,
    key: row.id,
    payload: { eventId: row.id },
    runAt: Math.min(...at),
  };
}

/** Reminders whose time came after the event's last and is not after `now`. */
export function dueReminders(event: EventParts, now: number): Due[] {
  const since = Date.parse(event.row.reminded_at);
  return minutesOf(event.row).flatMap((minutesBefore) => {
    const before = minutesBefore * MINUTE_MS;
    return startsIn(event, since + before + 1, now + before + 1)
      .filter((occurrence) => occurrence.endAt + STALE_MS > now)
      .map((occurrence) => ({ occurrence, minutesBefore }));
  }).slice(-DUE_MAX);
}

/** Principals to remind of an occurrence: attendees and the creator, unless they declined. */
export function remindedOf({ row, attendees, rsvps }: WholeEvent, occurrence: Occurrence): string[] {
  const ids = new Set([row.created_by]);
  for (const attendee of attendees) {
    if (attendee.principal_id === null) continue;
    if (answerOf(attendee, rsvps, occurrence).status === "declined") ids.delete(attendee.principal_id);
    else ids.add(attendee.principal_id);
  }
  return [...ids];
}

/** The reminder as it arrives on a principal's stream. */
export function reminderEvent(event: WholeEvent, { occurrence, minutesBefore }: Due, principalId: string): EventDraft {
  return {
    tenantId: event.row.tenant_id,
    stream: principalStream(principalId),
    type: "calendar.event.reminder",
    data: { event: presentEntry(event, { principalId, level: "full" }, occurrence), minutesBefore },
  };
}

function nextStart(event: EventParts, after: number, before: number): number | undefined {
  for (const days of AHEAD_DAYS) {
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
