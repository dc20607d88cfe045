// Occurrences: what a stored event comes to in a stretch of time, with its exceptions and single-occurrence edits.
import { BUDGET_MS, type Series, SERIES_MAX, startNamed, startsBetween } from "./expansion.ts";
import type { EventRow, OverrideRow } from "./store.ts";
import { instantOf, localOf } from "./zone.ts";

/** Where the first occurrence of a series that goes on is looked for. */
const HORIZON_MS = 20 * 366 * 86_400_000;

/** What one occurrence has otherwise than its series. */
export type Patch = {
  title?: string;
  description?: string | null;
  location?: string | null;
  startLocal?: string;
  timeZone?: string | null;
  durationSeconds?: number;
};

/** One occurrence. `name` is the start that the rule gave it; null for a single event. */
export type Occurrence = { name: string | null; startAt: number; endAt: number; patch: Patch };
export type Occurrences = { items: Occurrence[]; truncated: boolean };

/** An event and its single-occurrence edits. */
export type EventParts = { row: EventRow; overrides: readonly OverrideRow[] };

/** Occurrences that overlap the time from `from` to before `to`, by start. */
export function occurrencesBetween(
  { row, overrides }: EventParts,
  from: number,
  to: number,
  max = SERIES_MAX,
  budgetMs = BUDGET_MS,
): Occurrences {
  const series = seriesOf(row);
  const durationMs = row.duration_seconds * 1000;
  const { starts, truncated } = startsBetween(series, from - durationMs, to, max + overrides.length, budgetMs);
  const skipped = new Set<string>([...exDatesOf(row), ...overrides.map((override) => override.occurrence)]);
  const items: Occurrence[] = [];
  for (const { wall, at } of starts) {
    const name = row.rrule === null ? null : localOf(wall, row.time_zone);
    if (name !== null && skipped.has(name)) continue;
    items.push({ name, startAt: at, endAt: at + durationMs, patch: {} });
  }
  for (const override of overrides) items.push(overridden(row, override));
  const overlapping = items.filter((item) => overlaps(item, from, to)).sort((a, b) => a.startAt - b.startAt);
  return { items: overlapping.slice(0, max), truncated: truncated || overlapping.length > max };
}

/** The occurrence of this name, unless there is none. */
export function occurrenceNamed({ row, overrides }: EventParts, name: string): Occurrence | undefined {
  const start = row.rrule === null ? undefined : startNamed(seriesOf(row), name);
  const exact = start === undefined ? name : localOf(start.wall, row.time_zone);
  // Before anything else: files bring edits of occurrences that their series does not have.
  const override = overrides.find(({ occurrence }) => occurrence === exact);
  if (override !== undefined) return overridden(row, override);
  if (start === undefined || exDatesOf(row).includes(exact)) return undefined;
  return { name: exact, startAt: start.at, endAt: start.at + row.duration_seconds * 1000, patch: {} };
}

/** The first occurrence of an event, before any others; none and `truncated` when it is not found in time. */
export function firstOccurrence(event: EventParts): Occurrences {
  const { from, to } = extentOf(event);
  // Those left out count as found.
  const max = 1 + exDatesOf(event.row).length;
  return occurrencesBetween(event, from, (to ?? from + HORIZON_MS) + 1, max);
}

/** What an event makes its starts from. */
export function seriesOf(row: EventRow): Series {
  return { startLocal: row.start_local, timeZone: row.time_zone, rrule: row.rrule, lastLocal: row.last_local };
}

export function exDatesOf(row: EventRow): string[] {
  return JSON.parse(row.ex_dates_json);
}

export function patchOf(override: OverrideRow): Patch {
  return JSON.parse(override.patch_json);
}

/** The stretch of time that everything of an event lies in; `to` is null when its series goes on. */
export function extentOf({ row, overrides }: EventParts): { from: number; to: number | null } {
  const durationMs = row.duration_seconds * 1000;
  const moved = overrides.map((override) => overridden(row, override));
  const last = row.rrule === null ? row.start_local : row.last_local;
  return {
    from: Math.min(instantOf(row.start_local, row.time_zone), ...moved.map(({ startAt }) => startAt)),
    to: last === null
      ? null
      : Math.max(instantOf(last, row.time_zone) + durationMs, ...moved.map(({ endAt }) => endAt)),
  };
}

function overridden(row: EventRow, override: OverrideRow): Occurrence {
  const patch = patchOf(override);
  const zone = patch.timeZone === undefined ? row.time_zone : patch.timeZone;
  const startAt = instantOf(patch.startLocal ?? override.occurrence, zone);
  return {
    name: override.occurrence,
    startAt,
    endAt: startAt + (patch.durationSeconds ?? row.duration_seconds) * 1000,
    patch,
  };
}

/** Something that takes no time is where it starts. */
function overlaps({ startAt, endAt }: Occurrence, from: number, to: number): boolean {
  return startAt < to && (endAt > from || (endAt === startAt && startAt >= from));
}
