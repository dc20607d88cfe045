// When principals are busy: times of events they created or are invited to and have not declined, without details.
import { DAY_MS, iso } from "@/core/time/clock.ts";
import { patchedOr } from "@/core/patch.ts";
import type { AgendaStore } from "./agenda_store.ts";
import { busyPrincipals, filterOverlapping, occurrencesBetween } from "./recurrence/occurrence.ts";
import type { CalendarStore } from "./store.ts";
import { instantOf, localOf } from "./time_zone.ts";

type Busy = { principalId: string; startAt: number; endAt: number };
type BusyQuery = {
  tenantId: string;
  principalIds: readonly string[];
  from: number;
  to: number;
  /** Where days begin, for all-day events. */
  timeZone: string;
  /** Id of an event to leave out: the one that is being written. */
  except?: string;
  /** Yields to other requests. */
  yieldIfDue: () => Promise<unknown>;
};

const EVENTS_MAX = 5000;
/** So many times are merged before more are looked for, then twice as many: to sort all at once would block other requests. */
const MERGED_AT = 1000;
/** CPU time of the rule engine for one query, and occurrences that it looks at. */
const QUERY_BUDGET_MS = 200;
const OCCURRENCES_MAX = 100_000;

/** Busy times that overlap the range, merged, by principal and start. */
export async function busyTimes(
  { events, agenda }: { events: CalendarStore; agenda: AgendaStore },
  query: BusyQuery,
): Promise<{ busy: Busy[]; truncated: boolean }> {
  const { tenantId, principalIds, from, to, timeZone, except, yieldIfDue } = query;
  const window = { from: iso(from - DAY_MS), to: iso(to + DAY_MS) };
  const summaries = await agenda.findBusy(tenantId, window, principalIds, EVENTS_MAX + 1);
  const range = [from - DAY_MS, to + DAY_MS] as const;
  const ids = await filterOverlapping(agenda, tenantId, summaries.slice(0, EVENTS_MAX), range, yieldIfDue);
  let found: Busy[] = [];
  let mergeAt = MERGED_AT;
  let truncated = summaries.length > EVENTS_MAX;
  let [spentMs, seen] = [0, 0];
  for (const event of await events.findAggregates(tenantId, ids, yieldIfDue)) {
    const { row } = event;
    if (row.id === except) continue;
    if (spentMs > QUERY_BUDGET_MS || seen > OCCURRENCES_MAX) {
      return { busy: mergeBusy(found, principalIds), truncated: true };
    }
    const occurrences = occurrencesBetween(event, ...range);
    truncated ||= occurrences.truncated;
    spentMs += occurrences.engineMs;
    seen += occurrences.items.length;
    for (const occurrence of occurrences.items) {
      const isAllDay = patchedOr(occurrence.patch.timeZone, row.time_zone) === null;
      const [startAt, endAt] = isAllDay
        ? [dayIn(occurrence.startAt, timeZone), dayIn(occurrence.endAt, timeZone)]
        : [occurrence.startAt, occurrence.endAt];
      if (startAt >= to || endAt <= from || startAt === endAt) continue;
      for (const principalId of busyPrincipals(event, occurrence)) {
        if (principalIds.includes(principalId)) found.push({ principalId, startAt, endAt });
      }
    }
    if (found.length >= mergeAt) {
      found = mergeBusy(found, principalIds);
      mergeAt = MERGED_AT + 2 * found.length;
    }
    await yieldIfDue();
  }
  return { busy: mergeBusy(found, principalIds), truncated };
}

function dayIn(utcMidnight: number, timeZone: string): number {
  return instantOf(`${localOf(utcMidnight, null)}T00:00:00`, timeZone);
}

function mergeBusy(found: readonly Busy[], order: readonly string[]): Busy[] {
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
