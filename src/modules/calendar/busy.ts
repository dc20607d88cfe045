// When principals are busy: the times of events they made or are invited to and have not declined, and nothing else.
import { iso } from "@/core/clock.ts";
import { type Occurrence, occurrencesBetween } from "./occurrence.ts";
import { answerOf } from "./presenter.ts";
import { reaching } from "./agenda/reach.ts";
import type { AgendaStore } from "./agenda/store.ts";
import type { CalendarStore, WholeEvent } from "./store.ts";
import { instantOf, localOf } from "./zone.ts";

export type Busy = { principalId: string; startAt: number; endAt: number };
type Question = {
  tenantId: string;
  principalIds: readonly string[];
  from: number;
  to: number;
  /** Where days begin, for all-day events. */
  timeZone: string;
  /** The event that asks does not stand in its own way. */
  except?: string;
  /** Lets others have their turn now and then; absent inside a transaction, which waits for nothing else. */
  rest?: () => Promise<unknown>;
};

const EVENTS_MAX = 5000;
const DAY_MS = 86_400_000;
/** All expansions of one question together. */
const QUESTION_MS = 200;

/** Busy times that overlap the range, merged, by principal and start. */
export async function busyTimes(
  { events, agenda }: { events: CalendarStore; agenda: AgendaStore },
  question: Question,
): Promise<{ busy: Busy[]; truncated: boolean }> {
  const { tenantId, principalIds, from, to, timeZone, except, rest } = question;
  const window = { from: iso(from - DAY_MS), to: iso(to + DAY_MS) };
  const outlines = await agenda.busy(tenantId, window, principalIds, EVENTS_MAX + 1);
  const range = [from - DAY_MS, to + DAY_MS] as const;
  const ids = await reaching(agenda, tenantId, outlines.slice(0, EVENTS_MAX), range, rest);
  const found: Busy[] = [];
  let truncated = outlines.length > EVENTS_MAX;
  let spentMs = 0;
  for (const event of await events.wholesOf(tenantId, ids, rest)) {
    const { row } = event;
    if (row.id === except) continue;
    if (spentMs > QUESTION_MS) return { busy: merged(found, principalIds), truncated: true };
    const startedAt = performance.now();
    const occurrences = occurrencesBetween(event, ...range);
    truncated ||= occurrences.truncated;
    for (const occurrence of occurrences.items) {
      const isAllDay = (occurrence.patch.timeZone === undefined ? row.time_zone : occurrence.patch.timeZone) === null;
      const [startAt, endAt] = isAllDay
        ? [dayIn(occurrence.startAt, timeZone), dayIn(occurrence.endAt, timeZone)]
        : [occurrence.startAt, occurrence.endAt];
      if (startAt >= to || endAt <= from || startAt === endAt) continue;
      for (const principalId of whoIsBusy(event, occurrence)) {
        if (principalIds.includes(principalId)) found.push({ principalId, startAt, endAt });
      }
    }
    spentMs += performance.now() - startedAt;
    await rest?.();
  }
  return { busy: merged(found, principalIds), truncated };
}

function whoIsBusy({ row, attendees, rsvps }: WholeEvent, occurrence: Occurrence): Set<string> {
  const busy = new Set([row.created_by]);
  for (const attendee of attendees) {
    if (attendee.principal_id === null) continue;
    if (answerOf(attendee, rsvps, occurrence).status === "declined") busy.delete(attendee.principal_id);
    else busy.add(attendee.principal_id);
  }
  return busy;
}

function dayIn(utcMidnight: number, timeZone: string): number {
  return instantOf(`${localOf(utcMidnight, null)}T00:00:00`, timeZone);
}

function merged(found: readonly Busy[], order: readonly string[]): Busy[] {
  const byPrincipal = Map.groupBy(found, ({ principalId }) => principalId);
  return order.flatMap((principalId) => {
    const times: Busy[] = [];
    for (const time of (byPrincipal.get(principalId) ?? []).sort((a, b) => a.startAt - b.startAt)) {
      const last = times.at(-1);
      if (last !== undefined && time.startAt <= last.endAt) last.endAt = Math.max(last.endAt, time.endAt);
      else times.push({ ...time });
    }
    return times;
  });
}
