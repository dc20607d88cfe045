// When principals are busy: times of events they created or are invited to and have not declined, without details.
import { createYielder, runInSlices } from "@/core/caller.ts";
import { DAY_MS, iso } from "@/core/time/clock.ts";
import { patchedOr } from "@/core/patch.ts";
import type { AgendaStore } from "./agenda_store.ts";
import { busyPrincipals, filterOverlapping, findOccurrences, type Occurrence } from "./recurrence/occurrence.ts";
import type { CalendarStore, EventAggregate } from "./store.ts";
import { instantOf, localOf } from "./time_zone.ts";

type Time = { startAt: number; endAt: number };
type Stores = { events: CalendarStore; agenda: AgendaStore };
type Busy = Time & { principalId: string };
type BusyQuery = {
  tenantId: string;
  principalIds: readonly string[];
  from: number;
  to: number;
  /** Where days begin, for all-day events. */
  timeZone: string;
  /** Id of an event to leave out: the one that is being written. */
  except?: string;
  /** As for `runInSlices`. */
  pause?: () => Promise<void>;
};

const EVENTS_MAX = 5000;
/** So many times are merged before more are looked for, then twice as many: to sort all at once would block other requests. */
const MERGED_AT = 1000;
/** CPU time of the rule engine for one query, and occurrences that it looks at. */
const QUERY_BUDGET_MS = 200;
const OCCURRENCES_MAX = 100_000;

/** Busy times that overlap the range, merged, by principal and start. */
export async function busyTimes(stores: Stores, query: BusyQuery): Promise<{ busy: Busy[]; truncated: boolean }> {
  const found = new Map(query.principalIds.map((id) => [id, new BusyTimes()]));
  const yieldIfDue = createYielder(query.pause);
  const truncated = await findTimes(stores, query, found, yieldIfDue);
  const busy: Busy[] = [];
  for (const [principalId, times] of found) {
    for (const time of times.merge()) busy.push({ principalId, ...time });
    await yieldIfDue();
  }
  return { busy, truncated };
}

/** Adds the times of each principal; resolves to whether there may be more. */
async function findTimes(
  { events, agenda }: Stores,
  query: BusyQuery,
  found: ReadonlyMap<string, BusyTimes>,
  yieldIfDue: () => Promise<unknown>,
): Promise<boolean> {
  const { tenantId, principalIds, from, to, except, pause } = query;
  const window = { from: iso(from - DAY_MS), to: iso(to + DAY_MS) };
  const summaries = await agenda.findBusy(tenantId, window, principalIds, EVENTS_MAX + 1);
  const range = [from - DAY_MS, to + DAY_MS] as const;
  const ids = await filterOverlapping(agenda, tenantId, summaries.slice(0, EVENTS_MAX), range, yieldIfDue);
  let truncated = summaries.length > EVENTS_MAX;
  let [spentMs, seen] = [0, 0];
  for await (const some of events.aggregatesInChunks(tenantId, ids)) {
    for (const event of some) {
      if (event.row.id === except) continue;
      if (spentMs > QUERY_BUDGET_MS || seen > OCCURRENCES_MAX) return true;
      const occurrences = await runInSlices(findOccurrences(event, ...range), pause);
      truncated ||= occurrences.truncated;
      spentMs += occurrences.engineMs;
      seen += occurrences.items.length;
      addTimes(found, event, occurrences.items, query);
      await yieldIfDue();
      for (const times of found.values()) if (times.mergeIfDue()) await yieldIfDue();
    }
  }
  return truncated;
}

/** Adds the occurrences of an event to the times of those in the query whom they make busy. */
function addTimes(
  found: ReadonlyMap<string, BusyTimes>,
  event: EventAggregate,
  occurrences: readonly Occurrence[],
  { from, to, timeZone }: Pick<BusyQuery, "from" | "to" | "timeZone">,
): void {
  const timesAt = (occurrence: Pick<Occurrence, "name">): BusyTimes[] =>
    [...busyPrincipals(event, occurrence)].flatMap((id) => found.get(id) ?? []);
  // Few occurrences have responses of their own.
  const usual = timesAt({ name: null });
  const responded = new Set<string | null>(event.rsvps.map(({ occurrence }) => occurrence));
  for (const occurrence of occurrences) {
    const isAllDay = patchedOr(occurrence.patch.timeZone, event.row.time_zone) === null;
    const [startAt, endAt] = isAllDay
      ? [dayIn(occurrence.startAt, timeZone), dayIn(occurrence.endAt, timeZone)]
      : [occurrence.startAt, occurrence.endAt];
    if (startAt >= to || endAt <= from || startAt === endAt) continue;
    const time = { startAt, endAt };
    for (const times of responded.has(occurrence.name) ? timesAt(occurrence) : usual) times.add(time);
  }
}

/** When one principal is busy. */
class BusyTimes {
  #times: Time[] = [];
  #mergeAt = MERGED_AT;

  add(time: Time): void {
    this.#times.push(time);
  }

  /** Whether there were so many that they were merged. */
  mergeIfDue(): boolean {
    if (this.#times.length < this.#mergeAt) return false;
    this.#mergeAt = MERGED_AT + 2 * this.merge().length;
    return true;
  }

  /** The times by their start, those that overlap as one. */
  merge(): readonly Time[] {
    const merged: Time[] = [];
    for (const time of this.#times.sort((a, b) => a.startAt - b.startAt)) {
      const last = merged.at(-1);
      if (last === undefined || time.startAt > last.endAt) merged.push(time);
      else if (time.endAt > last.endAt) merged[merged.length - 1] = { startAt: last.startAt, endAt: time.endAt };
    }
    return this.#times = merged;
  }
}

function dayIn(utcMidnight: number, timeZone: string): number {
  return instantOf(`${localOf(utcMidnight, null)}T00:00:00`, timeZone);
}
