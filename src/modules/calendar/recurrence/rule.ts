// Recurrence rules of events: what is refused besides malformed ones, and changes of a rule.
import { RecurrenceRuleParser } from "@/core/time/recurrence_rule.ts";
import { WEEKDAYS } from "./simple_rule.ts";

export const eventRules = new RecurrenceRuleParser({ resources: "events", pointer: "/rrule" });

const PERIOD_DAYS: Readonly<Record<string, number>> = { YEARLY: 365, MONTHLY: 30, WEEKLY: 7, DAILY: 1, HOURLY: 1 / 24 };
const COUNT_MAX = 2500;
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** A rule that may be expanded. */
export type Rule = {
  /** The rule without COUNT and UNTIL: the end of a series is computed once, when it is written. */
  baseRule: string;
  count: number | undefined;
  /** `20260401T070000Z`, `20260401T090000` or `20260401`. */
  until: string | undefined;
  /** Maximum number of starts a day; it determines the length of a chunk. */
  perDay: number;
};

/** Throws `validation_failed` for a malformed rule, `recurrence_too_complex` for one that costs too much. */
export function parseRule(text: string): Rule {
  const { parts, frequency, count } = eventRules.parse(text);
  assertCombination(parts, frequency);
  const period = PERIOD_DAYS[frequency] ?? 1;
  const lengthOf = (name: string): number => parts.get(name)?.split(",").length ?? 1;
  const times = lengthOf("BYMINUTE") * lengthOf("BYSECOND") * (frequency === "HOURLY" ? 1 : lengthOf("BYHOUR"));
  if (isImpossible(parts, frequency, times)) throw eventRules.malformed("it has no occurrences");
  if (count !== undefined && count > COUNT_MAX) throw eventRules.tooComplex(`COUNT is at most ${COUNT_MAX}`);
  const days = lengthOf("BYMONTH") * lengthOf("BYMONTHDAY") * lengthOf("BYYEARDAY") * lengthOf("BYWEEKNO") *
    lengthOf("BYDAY");
  const isByDate = frequency === "HOURLY" || frequency === "DAILY";
  const hasWeekdays = parts.has("BYDAY") || parts.has("BYWEEKNO");
  // A weekday comes 53 times a year at most.
  const datesPerDay = isByDate ? 1 / period : Math.min(1, (hasWeekdays ? 53 : 1) * days / period);
  return {
    baseRule: [...parts].filter(([name]) => name !== "COUNT" && name !== "UNTIL").map((part) => part.join("=")).join(
      ";",
    ),
    count,
    until: parts.get("UNTIL"),
    perDay: datesPerDay * times / Number(parts.get("INTERVAL") ?? 1),
  };
}

/** Whether the lists contradict each other: the search for an occurrence of such a rule would not end. */
function isImpossible(parts: ReadonlyMap<string, string>, frequency: string, times: number): boolean {
  const listOf = (name: string): number[] => parts.get(name)?.split(",").map(Number) ?? [];
  const [months, days] = [listOf("BYMONTH"), listOf("BYMONTHDAY")];
  const fits = (month: number): boolean => days.some((day) => Math.abs(day) <= (MONTH_DAYS[month - 1] ?? 0));
  if (months.length > 0 && days.length > 0 && !months.some(fits)) return true;
  const positions = listOf("BYSETPOS");
  const isByTime = frequency === "DAILY" || frequency === "HOURLY";
  return isByTime && positions.length > 0 && positions.every((position) => Math.abs(position) > times);
}

/** The rule as it is stored: in capitals, its end last. */
export function formatRule(rule: Rule): string {
  const { count, until } = rule;
  return withEnd(rule, count !== undefined ? { count } : until === undefined ? undefined : { until });
}

/**
 * The rule of a series whose starts all move by `days`, or (`isOtherTime`) to another time of day. Weekdays move with it; throws for
 * a rule with other parts that would have to move.
 */
export function shiftRule(rule: Rule, days: number, isOtherTime: boolean): Rule {
  const { baseRule } = rule;
  const isByWeek = /FREQ=(WEEKLY|DAILY)/.test(baseRule);
  const namesDays = /BY(MONTH|MONTHDAY|YEARDAY|WEEKNO)=/.test(baseRule) || (!isByWeek && baseRule.includes("BYDAY="));
  if ((days !== 0 && namesDays) || (isOtherTime && /BY(HOUR|MINUTE|SECOND)=/.test(baseRule))) {
    throw eventRules.malformed("the rule does not fit the new start; give a new rule as well");
  }
  if (days % 7 === 0 || !baseRule.includes("BYDAY=")) return rule;
  // The start of the week matters where weeks are skipped or their days are counted.
  const counts = /FREQ=WEEKLY/.test(baseRule) && /INTERVAL=|BYSETPOS=/.test(baseRule) && !baseRule.includes("WKST=");
  const whole = counts ? `${baseRule};WKST=MO` : baseRule;
  const moved = whole.replaceAll(/(BYDAY|WKST)=([A-Z,]+)/g, (_, name: string, list: string) => {
    const names = list.split(",").map((day) => WEEKDAYS.at((WEEKDAYS.indexOf(day) + days) % 7));
    return `${name}=${names.join(",")}`;
  });
  return { ...rule, baseRule: moved };
}

/** The rule with another end. */
export function withEnd(rule: Rule, end: { count: number } | { until: string } | undefined): string {
  if (end === undefined) return rule.baseRule;
  return `${rule.baseRule};${"count" in end ? `COUNT=${end.count}` : `UNTIL=${end.until}`}`;
}

function assertCombination(parts: ReadonlyMap<string, string>, frequency: string): void {
  if (parts.has("BYWEEKNO") && frequency !== "YEARLY") throw eventRules.malformed("BYWEEKNO requires FREQ=YEARLY");
  if (parts.has("BYYEARDAY") && ["DAILY", "WEEKLY", "MONTHLY"].includes(frequency)) {
    throw eventRules.malformed(`BYYEARDAY cannot be combined with FREQ=${frequency}`);
  }
  if (parts.has("BYMONTHDAY") && frequency === "WEEKLY") {
    throw eventRules.malformed("BYMONTHDAY cannot be combined with FREQ=WEEKLY");
  }
  if (/\d/.test(parts.get("BYDAY") ?? "") && frequency !== "MONTHLY" && frequency !== "YEARLY") {
    throw eventRules.malformed("a number in BYDAY requires FREQ=MONTHLY or YEARLY");
  }
  if (parts.has("BYSETPOS") && ![...parts.keys()].some((name) => name.startsWith("BY") && name !== "BYSETPOS")) {
    throw eventRules.malformed("BYSETPOS requires another BY part");
  }
}
