// The rules that most series have, by arithmetic: the rule engine takes a millisecond to begin with any of them.

const DAY_MS = 86_400_000;
const WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
/** Of these rules nothing else is plain. */
const PARTS = /^(FREQ|INTERVAL|WKST)=/;

/**
 * Starts from `from` to `to`, after `first`, ascending, all of them wall times; `undefined` when the rule is one for the
 * engine. `endless` is a rule that was read, without its end.
 */
export function plainStarts(endless: string, first: number, from: number, to: number): number[] | undefined {
  const isWeekly = endless.includes("FREQ=WEEKLY");
  const parts = endless.split(";");
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

/** Every so many days, on days that are so far from the one of the first start. */
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

/** Every so many months, on the same day, in those that have it. */
function byMonths(months: number, first: number, after: number, until: number): number[] {
  const starts: number[] = [];
  const date = new Date(first);
  const [month, day] = [date.getUTCMonth(), date.getUTCDate()];
  for (let n = Math.max(0, Math.floor((after - first) / (31 * DAY_MS * months)));; n++) {
    const start = new Date(first);
    start.setUTCMonth(month + n * months);
    const at = start.getTime();
    // Where it has no such day the date ran over into the month after.
    if (at > until + 4 * DAY_MS || Number.isNaN(at)) return starts;
    if (start.getUTCDate() === day && at >= after && at <= until) starts.push(at);
  }
}

/** How far the days of a week are from that of the first start, ascending. */
function weekdays(first: number, byDay: string | undefined, weekStart: string): number[] {
  if (byDay === undefined) return [0];
  const place = (weekday: number): number => (weekday - WEEKDAYS.indexOf(weekStart) + 7) % 7;
  // The first of January 1970 was a Thursday.
  const own = place((Math.floor(first / DAY_MS) % 7 + 7 + 3) % 7);
  return [...new Set(byDay.split(","))].map((name) => place(WEEKDAYS.indexOf(name)) - own).sort((a, b) => a - b);
}
