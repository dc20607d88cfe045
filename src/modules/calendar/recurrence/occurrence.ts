// Occurrences of a stored event in a time range, with its exceptions and single-occurrence edits.
import { runAtOnce, type Steps } from "@/core/caller.ts";
import { DAY_MS, MINUTE_MS } from "@/core/time/clock.ts";
import { patchedOr } from "@/core/patch.ts";
import type { AgendaStore, EventSummary } from "../agenda_store.ts";
import type { AttendeeRow, EventAggregate, EventRow, OverrideRow, RsvpRow } from "../store.ts";
import { instantOf, localOf } from "../time_zone.ts";
import { BUDGET_MS, cannotOverlap, findStart, findStarts, type Series, SERIES_MAX } from "./expansion.ts";

/** How far the first occurrence of a series without end is searched. */
const HORIZON_MS = 20 * 366 * DAY_MS;
/** How long after its end an occurrence is still the current one, unless another one starts: calls run late. */
export const LATE_MS = 60 * MINUTE_MS;

/** How one occurrence differs from its series. */
export type Patch = {
  title?: string;
  description?: string | null;
  location?: string | null;
  startLocal?: string;
  timeZone?: string | null;
  durationSeconds?: number;
};

/** One occurrence. `name` is its start according to the rule; null for a single event. */
export type Occurrence = { name: string | null; startAt: number; endAt: number; patch: Patch };
/** `engineMs`: CPU time of the rule engine. */
type Occurrences = { items: Occurrence[]; truncated: boolean; engineMs: number };

/** An event and its single-occurrence edits. */
export type EventParts = { row: EventRow; overrides: readonly OverrideRow[] };

/** Occurrences that overlap the time from `from` to before `to`, ordered by start, in steps of limited work. */
export function* findOccurrences(
  { row, overrides }: EventParts,
  from: number,
  to: number,
  max = SERIES_MAX,
  budgetMs = BUDGET_MS,
): Steps<Occurrences> {
  const series = seriesOf(row);
  const durationMs = row.duration_seconds * 1000;
  const { starts, truncated, engineMs } = yield* findStarts(
    series,
    from - durationMs,
    to,
    max + overrides.length,
    budgetMs,
  );
  const skipped = new Set<string>([...exDatesOf(row), ...overrides.map((override) => override.occurrence)]);
  const items: Occurrence[] = [];
  for (const { wall, at } of starts) {
    const name = row.rrule === null ? null : localOf(wall, row.time_zone);
    if (name !== null && skipped.has(name)) continue;
    items.push({ name, startAt: at, endAt: at + durationMs, patch: {} });
  }
  for (const override of overrides) items.push(applyOverride(row, override));
  const overlapping = items.filter((item) => overlaps(item, from, to)).sort((a, b) => a.startAt - b.startAt);
  return { items: overlapping.slice(0, max), truncated: truncated || overlapping.length > max, engineMs };
}

/** The same at once. */
export function occurrencesBetween(...range: Parameters<typeof findOccurrences>): Occurrences {
  return runAtOnce(findOccurrences(...range));
}

export function findOccurrence({ row, overrides }: EventParts, name: string): Occurrence | undefined {
  const start = row.rrule === null ? undefined : findStart(seriesOf(row), name);
  const exact = start === undefined ? name : localOf(start.wall, row.time_zone);
  // Checked first: imported files may edit occurrences that their series does not have.
  const override = overrides.find(({ occurrence }) => occurrence === exact);
  if (override !== undefined) return applyOverride(row, override);
  if (start === undefined || exDatesOf(row).includes(exact)) return undefined;
  return { name: exact, startAt: start.at, endAt: start.at + row.duration_seconds * 1000, patch: {} };
}

/** The first occurrence of an event that is not over at `since`; none and `truncated` if the search exceeds its budget. */
export function firstOccurrence(event: EventParts, since = -Infinity): Occurrences {
  const bounds = timeBounds(event);
  const from = Math.max(bounds.from, since);
  // Excluded starts count towards the maximum.
  const max = 1 + exDatesOf(event.row).length;
  return occurrencesBetween(event, from, (bounds.to ?? from + HORIZON_MS) + 1, max);
}

/** The occurrence that takes place at a time, or the next one; of an event that is over, the first. */
export function currentOccurrence(event: EventParts, at: number): Occurrences {
  const { items, engineMs } = occurrencesBetween(event, at - LATE_MS, at + 1);
  if (items.length > 0) return { items: items.slice(-1), truncated: false, engineMs };
  const next = firstOccurrence(event, at);
  return next.items.length > 0 || next.truncated ? next : firstOccurrence(event);
}

/** Ids of the events that have, or may have, an occurrence from `from` to before `to`: most series have none on a given day. */
export async function filterOverlapping(
  agenda: Pick<AgendaStore, "idsWithOverrides">,
  tenantId: string,
  summaries: readonly EventSummary[],
  [from, to]: readonly [from: number, to: number],
  yieldIfDue?: () => Promise<unknown>,
): Promise<string[]> {
  const excluded = new Set<string>();
  for (const summary of summaries) {
    if (cannotOverlap(seriesOf(summary), from - summary.duration_seconds * 1000, to)) excluded.add(summary.id);
    await yieldIfDue?.();
  }
  // An edit may have moved an occurrence to where the series has none.
  for (const id of await agenda.idsWithOverrides(tenantId, [...excluded])) excluded.delete(id);
  return summaries.flatMap(({ id }) => excluded.has(id) ? [] : [id]);
}

/** An attendee's response to an occurrence: the one for it, else the one for the series. */
export function responseOf(
  attendee: AttendeeRow,
  rsvps: readonly RsvpRow[],
  occurrence: Pick<Occurrence, "name"> | undefined,
): Pick<AttendeeRow, "status" | "comment" | "responded_at"> {
  const name = occurrence?.name ?? null;
  if (name === null) return attendee;
  return rsvps.find((rsvp) =>
    rsvp.event_id === attendee.event_id && rsvp.principal_id === attendee.principal_id && rsvp.occurrence === name
  ) ?? attendee;
}

/** The creator and the attendees of an occurrence, without those who declined it. */
export function busyPrincipals(
  { row, attendees, rsvps }: EventAggregate,
  occurrence: Pick<Occurrence, "name">,
): Set<string> {
  const busy = new Set([row.created_by]);
  for (const attendee of attendees) {
    if (attendee.principal_id === null) continue;
    if (responseOf(attendee, rsvps, occurrence).status === "declined") busy.delete(attendee.principal_id);
    else busy.add(attendee.principal_id);
  }
  return busy;
}

export function seriesOf(row: Pick<EventRow, "start_local" | "time_zone" | "rrule" | "last_local">): Series {
  return { startLocal: row.start_local, timeZone: row.time_zone, rrule: row.rrule, lastLocal: row.last_local };
}

export function exDatesOf(row: EventRow): string[] {
  return JSON.parse(row.ex_dates_json);
}

export function patchOf(override: OverrideRow): Patch {
  return JSON.parse(override.patch_json);
}

/** The time range of all occurrences of an event; `to` is null for a series without end. */
export function timeBounds({ row, overrides }: EventParts): { from: number; to: number | null } {
  const durationMs = row.duration_seconds * 1000;
  const moved = overrides.map((override) => applyOverride(row, override));
  const last = row.rrule === null ? row.start_local : row.last_local;
  return {
    from: Math.min(instantOf(row.start_local, row.time_zone), ...moved.map(({ startAt }) => startAt)),
    to: last === null
      ? null
      : Math.max(instantOf(last, row.time_zone) + durationMs, ...moved.map(({ endAt }) => endAt)),
  };
}

function applyOverride(row: EventRow, override: OverrideRow): Occurrence {
  const patch = patchOf(override);
  const zone = patchedOr(patch.timeZone, row.time_zone);
  const startAt = instantOf(patch.startLocal ?? override.occurrence, zone);
  return {
    name: override.occurrence,
    startAt,
    endAt: startAt + (patch.durationSeconds ?? row.duration_seconds) * 1000,
    patch,
  };
}

/** An occurrence without duration overlaps the range that contains its start. */
function overlaps({ startAt, endAt }: Occurrence, from: number, to: number): boolean {
  return startAt < to && (endAt > from || (endAt === startAt && startAt >= from));
}
