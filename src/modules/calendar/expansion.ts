// Expansion: the starts of a series, worked out in wall time piece by piece, so that no rule can hold the event loop.
//
// The rule engine runs on wall time as if it were UTC, where it is fast and knows no gaps; each start then becomes an
// instant by the zone of the event. So a meeting at nine stays at nine whatever the clocks do.
import { RRuleTemporal } from "rrule-temporal";
import { plainStarts } from "./plain_rule.ts";
import { asKept, malformed, movedRule, parseRule, type Rule, tooDense, withEnd } from "./rule.ts";
import { instantOf, localOf, WallClock, wallMs, wallOf } from "./zone.ts";

/** Time one expansion may take. */
export const BUDGET_MS = 50;
/** Checking a new rule searches in vain for so long at most, so that also the answer is there within the budget. */
const VAIN_MS = 20;
/** While it finds starts it may take longer: 2500 in a row take an eighth of this on a slow machine that does nothing else. */
const CHECK_MS = 1000;
/** Starts of one series in one answer. */
export const SERIES_MAX = 1000;
const DAY_MS = 86_400_000;
const YEAR_MS = 365.25 * DAY_MS;
/** A series without end is looked at this far from its start. */
const HORIZON_MS = 200 * YEAR_MS;
/** A rule that names no date for so long names none; leap days on a given weekday come every 40 years at least. */
const SEARCH_MS = 41 * YEAR_MS;
const STARTS_PER_PIECE = 300;
const PERIODS_MAX = 2000;
const CANDIDATES_MAX = 5000;

/** What makes starts: the first, in which zone (null: dates), by which rule, up to which last wall time. */
export type Series = { startLocal: string; timeZone: string | null; rrule: string | null; lastLocal: string | null };
/** One start of a series: the wall time the rule made, and when that is. */
export type Start = { wall: number; at: number };
export type Starts = { starts: Start[]; truncated: boolean };

/** The starts at or after `from` and before `to` (instants), at most `max` of them, within `budgetMs`. */
export function startsBetween(
  series: Series,
  from: number,
  to: number,
  max = SERIES_MAX,
  budgetMs = BUDGET_MS,
): Starts {
  const deadline = performance.now() + budgetMs;
  const clock = WallClock.of(series.timeZone);
  const starts: Start[] = [];
  let isLate = false;
  // Offsets differ by less than two days, whatever a zone did.
  try {
    for (const piece of pieces(series, from - 2 * DAY_MS, to + 2 * DAY_MS)) {
      if (isLate) return { starts, truncated: true };
      for (const wall of piece) {
        const at = instantIn(series, clock, wall);
        if (at === undefined || at < from || at >= to) continue;
        if (starts.length >= max) return { starts, truncated: true };
        starts.push({ wall, at });
      }
      // What ends here is whole, however busy the machine was meanwhile.
      isLate = performance.now() > deadline;
    }
  } catch (cause) {
    if (!(cause instanceof TooMuchWork)) throw cause;
    return { starts, truncated: true };
  }
  return { starts, truncated: false };
}

/** Whether it takes no more than arithmetic to see that a series has no start at or after `from` and before `to`. */
export function isSurelyIdle(series: Series, from: number, to: number): boolean {
  const { startLocal, timeZone, rrule, lastLocal } = series;
  if (rrule === null) return false;
  const first = wallMs(startLocal);
  const until = Math.min(to + 2 * DAY_MS, first + HORIZON_MS, lastLocal === null ? Infinity : wallMs(lastLocal));
  const since = from - 2 * DAY_MS;
  // The first start stands whatever the rule says.
  if (first >= since && first <= until) return false;
  const clock = WallClock.of(timeZone);
  // As it is kept, its end last; to read it with care would take longer than all the rest.
  return plainStarts(rrule.replace(/;(COUNT|UNTIL)=[^;]*$/, ""), first, since, until)?.every((wall) => {
    const at = clock.instantOf(wall);
    return at === undefined || at < from || at >= to;
  }) ?? false;
}

/** The start that an occurrence is named by (its wall time, date, or instant in UTC); `undefined` when there is none. */
export function startNamed(series: Series, name: string): Start | undefined {
  // Years of more digits are beyond what calendars can tell.
  if (!/^\d{4}-/.test(name)) return undefined;
  const isInstant = /Z$/.test(name);
  const given = isInstant ? Date.parse(name) : wallMs(name);
  if (Number.isNaN(given)) return undefined;
  const at = isInstant || series.timeZone === null
    ? given
    : instantOf(localOf(given, series.timeZone), series.timeZone);
  const [start] = startsBetween(series, at, at + 1, 1).starts;
  // The first start may be at a wall time that the zone skips, and is told of by the one that clocks show.
  return isInstant || start?.wall === given ? start : undefined;
}

/** How many starts there are before this wall time. */
export function countBefore(series: Series, wall: number): number {
  const clock = WallClock.of(series.timeZone);
  let count = 0;
  for (const piece of pieces(series, wallMs(series.startLocal), wall)) {
    count += piece.filter((at) => at < wall && instantIn(series, clock, at) !== undefined).length;
  }
  return count;
}

/** The last start before this wall time. */
export function lastBefore(series: Series, wall: number): number | undefined {
  const clock = WallClock.of(series.timeZone);
  let last: number | undefined;
  // Backwards in growing steps: the one before is near, unless the series has a hole.
  for (let reach = 8 * DAY_MS; last === undefined; reach *= 4) {
    for (const piece of pieces(series, wall - reach, wall)) {
      for (const at of piece) if (at < wall && instantIn(series, clock, at) !== undefined) last = at;
    }
    if (wall - reach < wallMs(series.startLocal)) break;
  }
  return last;
}

/** Checks a rule for a series that starts so, and finds where it ends; throws what is wrong with it. */
export function settleRule(
  text: string,
  startLocal: string,
  timeZone: string | null,
): { rrule: string; lastLocal: string | null } {
  const rule = parseRule(text);
  if (timeZone === null && /HOURLY|BYHOUR|BYMINUTE|BYSECOND/.test(rule.endless)) {
    throw malformed("all-day events recur by days, not by hours");
  }
  // Few years have a 53rd, and the rule engine would run over into the next; a series kept from before goes on.
  if (/(5[3-9]|[6-9]\d)(MO|TU|WE|TH|FR|SA|SU)/.test(rule.endless)) throw malformed("BYDAY goes up to the 52nd");
  const open: Series = { startLocal, timeZone, rrule: rule.endless, lastLocal: null };
  const end = endOf(rule, open);
  if (end !== null && end < wallMs(startLocal)) throw malformed("UNTIL is before the start");
  return { rrule: asKept(rule), lastLocal: end === null ? null : localOf(end, timeZone) };
}

/** The rule of a series cut so that `wall` is its last start. */
export function cutAt({ rrule, timeZone }: Series, wall: number): string | null {
  return rrule === null ? null : withEnd(parseRule(rrule), { until: untilAt(wall, timeZone) });
}

/**
 * The rule of a series that starts elsewhere, so that it ends where its last start went. With `isWhole` its other starts go
 * along, else they come where the rule puts them.
 */
export function ruleFrom(
  { startLocal, timeZone, rrule, lastLocal }: Series,
  to: Pick<Series, "startLocal" | "timeZone">,
  isWhole: boolean,
): string | null {
  if (rrule === null || (to.startLocal === startLocal && to.timeZone === timeZone)) return rrule;
  const shift = wallMs(to.startLocal) - wallMs(startLocal);
  const days = (dayOf(to.startLocal) - dayOf(startLocal)) / DAY_MS;
  const read = parseRule(rrule);
  const rule = isWhole ? movedRule(read, days, shift !== days * DAY_MS) : read;
  if (rule.until === undefined || lastLocal === null) return asKept(rule);
  const last = wallMs(lastLocal) + (isWhole ? shift : shift - days * DAY_MS);
  return withEnd(rule, { until: untilAt(last, to.timeZone) });
}

/** How far the other starts of a series go when it starts elsewhere: not along with what its rule names, days or times of day. */
export function shiftOf({ startLocal, rrule }: Pick<Series, "startLocal" | "rrule">, to: string): number {
  const rule = rrule ?? "";
  const days = /BY(DAY|MONTHDAY|YEARDAY|WEEKNO)=/.test(rule) ? 0 : dayOf(to) - dayOf(startLocal);
  return ["HOUR", "MINUTE", "SECOND"].reduce((shift, unit, at) => {
    const part = (local: string): number => Number(local.slice(11 + 3 * at, 13 + 3 * at)) * 3_600_000 / 60 ** at;
    return rule.includes(`BY${unit}=`) ? shift : shift + part(to) - part(startLocal);
  }, days);
}

/** A wall time as UNTIL has it. */
function untilAt(wall: number, timeZone: string | null): string {
  const at = timeZone === null ? wall : instantOf(localOf(wall, timeZone), timeZone);
  const stamp = localOf(at, timeZone).replaceAll(/[-:]/g, "");
  return timeZone === null ? stamp : `${stamp}Z`;
}

/** The day of a wall time, as milliseconds. */
function dayOf(local: string): number {
  return wallMs(local.slice(0, 10));
}

/** The wall time after which no start comes; null: goes on. Goes through the starts, so it finds costly rules too. */
function endOf(rule: Rule, series: Series): number | null {
  let foundAt = performance.now();
  const deadline = foundAt + CHECK_MS;
  const first = wallMs(series.startLocal);
  const clock = WallClock.of(series.timeZone);
  let seen = 0;
  let last = first;
  try {
    for (const piece of pieces(series, first, first + (rule.count === undefined ? SEARCH_MS : HORIZON_MS))) {
      for (const wall of piece) {
        if (instantIn(series, clock, wall) === undefined) continue;
        last = wall;
        if (++seen === rule.count) return last;
      }
      // One start besides the first shows that the rule names dates at all.
      if (rule.count === undefined && seen > 1) return untilOf(rule, series.timeZone);
      const now = performance.now();
      if (piece.length > 0) foundAt = now;
      if (now > Math.min(deadline, foundAt + VAIN_MS)) throw tooDense("working it out takes too long");
    }
  } catch (cause) {
    if (cause instanceof TooMuchWork) throw tooDense("working it out takes too much");
    throw cause;
  }
  if (rule.count === undefined && rule.until === undefined && seen < 2 && !hasMatch(rule, first)) {
    throw malformed("it names no date");
  }
  return rule.count === undefined ? untilOf(rule, series.timeZone) : last;
}

/** Whether the rule makes the start itself; a rule with large intervals may make nothing else for long. */
function hasMatch(rule: Rule, first: number): boolean {
  return engineOf(rule.endless, first).between(new Date(first), new Date(first), true).length > 0;
}

function untilOf({ until }: Rule, zone: string | null): number | null {
  if (until === undefined) return null;
  const [, year, month, day, hour = "23", minute = "59", second = "59"] =
    /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d))?/.exec(until) ?? [];
  const wall = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(wall)) throw malformed("UNTIL is no date");
  return until.endsWith("Z") && zone !== null ? wallOf(wall, zone) : wall;
}

/** Wall times of the starts from about `from` to `to`, ascending, in pieces that are small work each. */
function* pieces(series: Series, from: number, to: number): Generator<number[]> {
  const first = wallMs(series.startLocal);
  if (first > to) return;
  if (from <= first) yield [first];
  if (series.rrule === null) return;
  const rule = parseRule(series.rrule);
  let engine: RRuleTemporal | undefined;
  const last = Math.min(to, first + HORIZON_MS, series.lastLocal === null ? Infinity : wallMs(series.lastLocal));
  const step = Math.max(1, Math.min(10 * 366, Math.floor(STARTS_PER_PIECE / rule.perDay))) * DAY_MS;
  for (let at = Math.max(from, first + 1); at <= last; at += step) {
    const until = Math.min(at + step - 1, last);
    yield plainStarts(rule.endless, first, at, until) ??
      engineRun(engine ??= engineOf(rule.endless, first), at, until).filter((wall) => wall !== first);
  }
}

function engineOf(rrule: string, first: number): RRuleTemporal {
  const stamp = new Date(first).toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  return new RRuleTemporal({
    rruleString: `DTSTART:${stamp}Z\nRRULE:${rrule}`,
    maxIterations: PERIODS_MAX,
    maxCandidateEvaluations: CANDIDATES_MAX,
  });
}

function engineRun(engine: RRuleTemporal, from: number, to: number): number[] {
  try {
    return engine.between(new Date(from), new Date(to), true).map((start) => start.epochMilliseconds);
  } catch (cause) {
    throw new TooMuchWork("The rule engine gave up", { cause });
  }
}

/** The first start is meant as it is written, also where the zone skips it. */
function instantIn(series: Series, clock: WallClock, wall: number): number | undefined {
  return wall === wallMs(series.startLocal) ? instantOf(series.startLocal, series.timeZone) : clock.instantOf(wall);
}

/** The engine met one of its limits. */
class TooMuchWork extends Error {}
