// Expansion: the starts of a series, computed in wall time in chunks, so that no rule can block the event loop.
//
// The rule engine runs on wall time as if it were UTC, where it is fast and has no gaps; each start then becomes an
// instant by the zone of the event. So a meeting at nine remains at nine when clocks change.
import { threadCpuUsage } from "node:process";
import { RRuleTemporal } from "rrule-temporal";
import { runAtOnce, type Steps } from "@/core/caller.ts";
import { DAY_MS, HOUR_MS } from "@/core/time/clock.ts";
import { instantOf, localOf, WallClock, wallMs, wallOf } from "../time_zone.ts";
import { eventRules, formatRule, parseRule, type Rule, shiftRule, withEnd } from "./rule.ts";
import { expandSimple } from "./simple_rule.ts";

/** CPU time of the rule engine for one expansion. Arithmetic needs no bound: it finds a start a day at most, and takes a microsecond. */
export const BUDGET_MS = 50;
/** The same without a start, after which a new rule is refused. */
const EMPTY_SEARCH_MS = 20;
/** The same for checking a new rule while it finds starts: 2500 take a quarter of this on a slow machine. */
const CHECK_MS = 500;
/** Starts of one series in one response. */
export const SERIES_MAX = 1000;
const YEAR_MS = 365.25 * DAY_MS;
/** A series without end is expanded this far from its start. */
const HORIZON_MS = 200 * YEAR_MS;
/** A rule without a date in this time has none; leap days on a wanted weekday are at most 40 years apart. */
const SEARCH_MS = 41 * YEAR_MS;
const STARTS_PER_CHUNK = 300;
const PERIODS_MAX = 2000;
const CANDIDATES_MAX = 5000;

/** The first start, its zone (null: dates), the rule, and the last wall time. */
export type Series = { startLocal: string; timeZone: string | null; rrule: string | null; lastLocal: string | null };
/** One start of a series: its wall time by the rule, and its instant. */
type Start = { wall: number; at: number };
/** CPU time of the rule engine, not time that passes: on a busy machine no series has fewer starts. */
type Spent = { engineMs: number };
type Starts = Spent & { starts: Start[]; truncated: boolean };

/** The starts at or after `from` and before `to` (instants), at most `max` of them, within `budgetMs`, in steps of limited work. */
export function* findStarts(
  series: Series,
  from: number,
  to: number,
  max = SERIES_MAX,
  budgetMs = BUDGET_MS,
): Steps<Starts> {
  const spent: Spent = { engineMs: 0 };
  const clock = WallClock.of(series.timeZone);
  const starts: Start[] = [];
  let isLate = false;
  // Offsets differ by less than two days, whatever a zone did.
  try {
    for (const chunk of expandInChunks(series, from - 2 * DAY_MS, to + 2 * DAY_MS, spent)) {
      if (isLate) return { ...spent, starts, truncated: true };
      for (const wall of chunk) {
        const at = instantIn(series, clock, wall);
        if (at === undefined || at < from || at >= to) continue;
        if (starts.length >= max) return { ...spent, starts, truncated: true };
        starts.push({ wall, at });
      }
      // A result that ends with this chunk is complete, however late it is.
      isLate = spent.engineMs > budgetMs;
      yield;
    }
  } catch (cause) {
    if (!(cause instanceof BudgetExceeded)) throw cause;
    return { ...spent, starts, truncated: true };
  }
  return { ...spent, starts, truncated: false };
}

/** The same at once. */
export function startsBetween(...series: Parameters<typeof findStarts>): Starts {
  return runAtOnce(findStarts(...series));
}

/** Whether arithmetic alone shows that a series has no start at or after `from` and before `to`. */
export function cannotOverlap(series: Series, from: number, to: number): boolean {
  const { startLocal, timeZone, rrule, lastLocal } = series;
  if (rrule === null) return false;
  const first = wallMs(startLocal);
  const until = Math.min(to + 2 * DAY_MS, first + HORIZON_MS, lastLocal === null ? Infinity : wallMs(lastLocal));
  const since = from - 2 * DAY_MS;
  // The first start belongs to the series whatever the rule says.
  if (first >= since && first <= until) return false;
  const clock = WallClock.of(timeZone);
  // A stored rule has its end last; parsing it would take longer than the expansion.
  return expandSimple(rrule.replace(/;(COUNT|UNTIL)=[^;]*$/, ""), first, since, until)?.every((wall) => {
    const at = clock.instantOf(wall);
    return at === undefined || at < from || at >= to;
  }) ?? false;
}

/** The start with this name (its wall time, date, or instant in UTC). */
export function findStart(series: Series, name: string): Start | undefined {
  // Calendars have years of four digits only.
  if (!/^\d{4}-/.test(name)) return undefined;
  const isInstant = /Z$/.test(name);
  const wanted = isInstant ? Date.parse(name) : wallMs(name);
  if (Number.isNaN(wanted)) return undefined;
  const at = isInstant || series.timeZone === null
    ? wanted
    : instantOf(localOf(wanted, series.timeZone), series.timeZone);
  const [start] = startsBetween(series, at, at + 1, 1).starts;
  // The first start may be at a wall time that the zone skips; its name is then the time that clocks show.
  return isInstant || start?.wall === wanted ? start : undefined;
}

/** The number of starts before this wall time. */
export function countBefore(series: Series, wall: number): number {
  const clock = WallClock.of(series.timeZone);
  let count = 0;
  for (const chunk of expandInChunks(series, wallMs(series.startLocal), wall)) {
    count += chunk.filter((at) => at < wall && instantIn(series, clock, at) !== undefined).length;
  }
  return count;
}

/** The last start before this wall time. */
export function lastBefore(series: Series, wall: number): number | undefined {
  const clock = WallClock.of(series.timeZone);
  let last: number | undefined;
  // Backwards in growing steps: the start before is near unless the series has a gap.
  for (let reach = 8 * DAY_MS; last === undefined; reach *= 4) {
    for (const chunk of expandInChunks(series, wall - reach, wall)) {
      for (const at of chunk) if (at < wall && instantIn(series, clock, at) !== undefined) last = at;
    }
    if (wall - reach < wallMs(series.startLocal)) break;
  }
  return last;
}

/** Validates a rule for a series with this start, and finds its last start, in steps of limited work. */
export function* validateRule(
  text: string,
  startLocal: string,
  timeZone: string | null,
): Steps<{ rrule: string; lastLocal: string | null }> {
  const rule = parseRule(text);
  if (timeZone === null && /HOURLY|BYHOUR|BYMINUTE|BYSECOND/.test(rule.baseRule)) {
    throw eventRules.malformed("all-day events cannot recur by hours");
  }
  eventRules.assertWeekdaysExist(rule.baseRule);
  const open: Series = { startLocal, timeZone, rrule: rule.baseRule, lastLocal: null };
  const end = yield* endOf(rule, open);
  if (end !== null && end < wallMs(startLocal)) throw eventRules.malformed("UNTIL is before the start");
  return { rrule: formatRule(rule), lastLocal: end === null ? null : localOf(end, timeZone) };
}

/** The rule of a series cut so that `wall` is its last start. */
export function endRuleAt({ rrule, timeZone }: Series, wall: number): string | null {
  return rrule === null ? null : withEnd(parseRule(rrule), { until: untilAt(wall, timeZone) });
}

/**
 * The rule of a series that was moved to another start, with its end moved as well. With `isWhole` its other starts move by as much,
 * else they are where the rule puts them.
 */
export function moveRule(
  { startLocal, timeZone, rrule, lastLocal }: Series,
  to: Pick<Series, "startLocal" | "timeZone">,
  isWhole: boolean,
): string | null {
  if (rrule === null || (to.startLocal === startLocal && to.timeZone === timeZone)) return rrule;
  const shift = wallMs(to.startLocal) - wallMs(startLocal);
  const days = (dayOf(to.startLocal) - dayOf(startLocal)) / DAY_MS;
  const before = parseRule(rrule);
  const rule = isWhole ? shiftRule(before, days, shift !== days * DAY_MS) : before;
  if (rule.until === undefined || lastLocal === null) return formatRule(rule);
  const last = wallMs(lastLocal) + (isWhole ? shift : shift - days * DAY_MS);
  return withEnd(rule, { until: untilAt(last, to.timeZone) });
}

/** How far the other starts of a series move when its first start does: days or times of day that the rule names remain. */
export function shiftOf({ startLocal, rrule }: Pick<Series, "startLocal" | "rrule">, to: string): number {
  const rule = rrule ?? "";
  const days = /BY(DAY|MONTHDAY|YEARDAY|WEEKNO)=/.test(rule) ? 0 : dayOf(to) - dayOf(startLocal);
  return ["HOUR", "MINUTE", "SECOND"].reduce((shift, unit, at) => {
    const part = (local: string): number => Number(local.slice(11 + 3 * at, 13 + 3 * at)) * HOUR_MS / 60 ** at;
    return rule.includes(`BY${unit}=`) ? shift : shift + part(to) - part(startLocal);
  }, days);
}

/** A wall time in the format of UNTIL. */
function untilAt(wall: number, timeZone: string | null): string {
  const at = timeZone === null ? wall : instantOf(localOf(wall, timeZone), timeZone);
  const stamp = localOf(at, timeZone).replaceAll(/[-:]/g, "");
  return timeZone === null ? stamp : `${stamp}Z`;
}

/** The day of a wall time, as milliseconds. */
function dayOf(local: string): number {
  return wallMs(local.slice(0, 10));
}

/** The wall time of the last start; null: no end. It expands the starts, so it finds costly rules too. */
function* endOf(rule: Rule, series: Series): Steps<number | null> {
  const spent: Spent = { engineMs: 0 };
  let foundMs = 0;
  const first = wallMs(series.startLocal);
  const clock = WallClock.of(series.timeZone);
  let seen = 0;
  let last = first;
  try {
    const to = first + (rule.count === undefined ? SEARCH_MS : HORIZON_MS);
    for (const chunk of expandInChunks(series, first, to, spent)) {
      for (const wall of chunk) {
        if (instantIn(series, clock, wall) === undefined) continue;
        last = wall;
        if (++seen === rule.count) return last;
      }
      // One start besides the first shows that the rule has dates.
      if (rule.count === undefined && seen > 1) return untilOf(rule, series.timeZone);
      if (chunk.length > 0) foundMs = spent.engineMs;
      if (spent.engineMs > Math.min(CHECK_MS, foundMs + EMPTY_SEARCH_MS)) {
        throw eventRules.tooComplex("expanding it takes too long");
      }
      yield;
    }
  } catch (cause) {
    if (cause instanceof BudgetExceeded) throw eventRules.tooComplex("expanding it takes too long");
    throw cause;
  }
  if (rule.count === undefined && rule.until === undefined && seen < 2 && !hasMatch(rule, first)) {
    throw eventRules.malformed("it has no occurrences");
  }
  return rule.count === undefined ? untilOf(rule, series.timeZone) : last;
}

/** Whether the rule generates the start itself; a rule with a large interval may generate no other for long. */
function hasMatch(rule: Rule, first: number): boolean {
  return engineOf(rule.baseRule, first).between(new Date(first), new Date(first), true).length > 0;
}

function untilOf({ until }: Rule, zone: string | null): number | null {
  if (until === undefined) return null;
  const [, year, month, day, hour = "23", minute = "59", second = "59"] =
    /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d))?/.exec(until) ?? [];
  const wall = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(wall)) throw eventRules.malformed("UNTIL is not a date");
  return until.endsWith("Z") && zone !== null ? wallOf(wall, zone) : wall;
}

/** Wall times of the starts from about `from` to `to`, ascending, in chunks of limited work. */
function* expandInChunks(series: Series, from: number, to: number, spent?: Spent): Generator<number[]> {
  const first = wallMs(series.startLocal);
  if (first > to) return;
  if (from <= first) yield [first];
  if (series.rrule === null) return;
  const rule = parseRule(series.rrule);
  let engine: RRuleTemporal | undefined;
  const last = Math.min(to, first + HORIZON_MS, series.lastLocal === null ? Infinity : wallMs(series.lastLocal));
  const step = Math.max(1, Math.min(10 * 366, Math.floor(STARTS_PER_CHUNK / rule.perDay))) * DAY_MS;
  for (let at = Math.max(from, first + 1); at <= last; at += step) {
    const until = Math.min(at + step - 1, last);
    yield expandSimple(rule.baseRule, first, at, until) ??
      runEngine(engine ??= engineOf(rule.baseRule, first), at, until, spent).filter((wall) => wall !== first);
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

function runEngine(engine: RRuleTemporal, from: number, to: number, spent: Spent = { engineMs: 0 }): number[] {
  const before = threadCpuUsage();
  try {
    return engine.between(new Date(from), new Date(to), true).map((start) => start.epochMilliseconds);
  } catch (cause) {
    throw new BudgetExceeded("Expanding the rule failed", { cause });
  } finally {
    const { user, system } = threadCpuUsage(before);
    spent.engineMs += (user + system) / 1000;
  }
}

/** The first start belongs to the series also if the zone skips it. */
function instantIn(series: Series, clock: WallClock, wall: number): number | undefined {
  return wall === wallMs(series.startLocal) ? instantOf(series.startLocal, series.timeZone) : clock.instantOf(wall);
}

/** The engine exceeded one of its limits. */
class BudgetExceeded extends Error {}
