// Expansion of the most frequent rules by arithmetic: the rule engine takes a millisecond to start with any rule.
import { DAY_MS } from "@/core/time/clock.ts";

export const WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
/** Parts of a simple rule. */
const PARTS = /^(FREQ|INTERVAL|WKST)=/;

/**
 * Starts from `from` to `to`, after `first`, ascending, all of them wall times; `undefined` if the rule needs the engine.
 * `baseRule` has been validated and has no COUNT or UNTIL.
 */
export function expandSimple(baseRule: string, first: number, from: number, to: number): number[] | undefined {
  const isWeekly = baseRule.includes("FREQ=WEEKLY");
  const parts = baseRule.split(";");
  if (!parts.every((part) => PARTS.test(part) || (isWeekly && part.startsWith("BYDAY=")))) return undefined;
  const valueOf = (name: string): string | undefined => parts.find((part) => part.startsWith(name))?.slice(name.length);
  const [frequency, interval] = [valueOf("FREQ="), Number(valueOf("INTERVAL=") ?? 1)];
  const [after, until] = [Math.max(from, first + 1), to];
  if (frequency === "MONTHLY") return byMonths(interval, first, after, until);
  if (frequency === "YEARLY") return byMonths(12 * interval, first, after, until);
  if (frequency === "DAILY") return byDays(interval, [0], first, after, until);
  if (!isWeekly) return undefined;
  return byDays(7 * interval, weekdays(first, valueOf("BYDAY="), valueOf("WKST=") ?? "MO"), first, after, until);
}

/** Periods of `days` days, with starts at `offsets` days from the first start of each. */
function byDays(days: number, offsets: readonly number[], first: number, after: number, until: number): number[] {
  const starts: number[] = [];
  const period = days * DAY_MS;
  // The days of a week may be up to six before and after that of its start.
  const begin = Math.max(0, Math.floor((after - first - 6 * DAY_MS) / period));
  for (let at = first + begin * period; at <= until + 6 * DAY_MS; at += period) {
    for (const offset of offsets) {
      const start = at + offset * DAY_MS;
      if (start >= after && start <= until) starts.push(start);
    }
  }
  return starts;
}

/** Every `months` months on the same day, without months that lack it. */
function byMonths(months: number, first: number, after: number, until: number): number[] {
  const starts: number[] = [];
  const date = new Date(first);
  const [month, day] = [date.getUTCMonth(), date.getUTCDate()];
  for (let n = Math.max(0, Math.floor((after - first) / (31 * DAY_MS * months)));; n++) {
    const start = new Date(first);
    start.setUTCMonth(month + n * months);
    const at = start.getTime();
    // In a month without this day the date overflows into the next month.
    if (at > until + 4 * DAY_MS || Number.isNaN(at)) return starts;
    if (start.getUTCDate() === day && at >= after && at <= until) starts.push(at);
  }
}

/** Offsets in days of the weekdays from the first start, ascending. */
function weekdays(first: number, byDay: string | undefined, weekStart: string): number[] {
  if (byDay === undefined) return [0];
  const dayOfWeek = (weekday: number): number => (weekday - WEEKDAYS.indexOf(weekStart) + 7) % 7;
  // January 1, 1970 was a Thursday.
  const own = dayOfWeek((Math.floor(first / DAY_MS) % 7 + 7 + 3) % 7);
  return [...new Set(byDay.split(","))].map((name) => dayOfWeek(WEEKDAYS.indexOf(name)) - own).sort((a, b) => a - b);
}
