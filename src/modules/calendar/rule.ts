// Recurrence rules (RFC 5545 3.3.10): read strictly, and refused by their cost before anything is expanded.
import { Fault } from "@/core/fault.ts";

const LIST = (item: string): RegExp => new RegExp(`^${item}(,${item}){0,365}$`);
const PARTS: Readonly<Record<string, RegExp>> = {
  FREQ: /^(YEARLY|MONTHLY|WEEKLY|DAILY|HOURLY|MINUTELY|SECONDLY)$/,
  INTERVAL: /^[1-9]\d{0,2}$/,
  COUNT: /^[1-9]\d{0,8}$/,
  UNTIL: /^\d{8}(T\d{6}Z?)?$/,
  BYMONTH: LIST("(0?[1-9]|1[0-2])"),
  BYMONTHDAY: LIST("[+-]?(0?[1-9]|[12]\\d|3[01])"),
  BYYEARDAY: LIST("[+-]?(0*[1-9]\\d?|[1-3]\\d\\d)"),
  BYWEEKNO: LIST("[+-]?(0?[1-9]|[1-4]\\d|5[0-3])"),
  BYDAY: LIST("([+-]?0?[1-9]\\d?)?(MO|TU|WE|TH|FR|SA|SU)"),
  BYHOUR: LIST("([01]?\\d|2[0-3])"),
  BYMINUTE: LIST("[0-5]?\\d"),
  BYSECOND: LIST("[0-5]?\\d"),
  BYSETPOS: LIST("[+-]?[1-9]\\d{0,2}"),
  WKST: /^(MO|TU|WE|TH|FR|SA|SU)$/,
};
const PERIOD_DAYS: Readonly<Record<string, number>> = { YEARLY: 365, MONTHLY: 30, WEEKLY: 7, DAILY: 1, HOURLY: 1 / 24 };
/** Combinations of BY lists in one period. */
const PRODUCT_MAX = 1000;
const COUNT_MAX = 2500;
const WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** A rule that may be expanded. */
export type Rule = {
  /** The rule without COUNT and UNTIL: where a series ends is worked out once, when it is written. */
  endless: string;
  count: number | undefined;
  /** `20260401T070000Z`, `20260401T090000` or `20260401`. */
  until: string | undefined;
  /** The most starts a day can have, for choosing how far to look at once. */
  perDay: number;
};

/** Reads a rule. Throws `validation_failed` when malformed, `recurrence_too_dense` when it asks for too much. */
export function parseRule(text: string): Rule {
  const parts = new Map<string, string>();
  for (const part of text.toUpperCase().replace(/^RRULE:/, "").replace(/;$/, "").split(";")) {
    const at = part.indexOf("=");
    const [name, value] = [part.slice(0, Math.max(at, 0)), part.slice(at + 1)];
    if (!Object.hasOwn(PARTS, name) || PARTS[name]?.test(value) !== true) {
      throw malformed(`${part.slice(0, 40)} is not understood`);
    }
    if (parts.has(name)) throw malformed(`${name} is given twice`);
    parts.set(name, value);
  }
  const frequency = parts.get("FREQ");
  if (frequency === undefined) throw malformed("FREQ is missing");
  if (parts.has("COUNT") && parts.has("UNTIL")) throw malformed("COUNT and UNTIL exclude each other");
  checkCombination(parts, frequency);
  const period = PERIOD_DAYS[frequency];
  if (period === undefined) throw tooDense("events recur hourly at most");
  const lengthOf = (name: string): number => parts.get(name)?.split(",").length ?? 1;
  const times = lengthOf("BYMINUTE") * lengthOf("BYSECOND") * (frequency === "HOURLY" ? 1 : lengthOf("BYHOUR"));
  const days = lengthOf("BYMONTH") * lengthOf("BYMONTHDAY") * lengthOf("BYYEARDAY") * lengthOf("BYWEEKNO") *
    lengthOf("BYDAY");
  const product = days * times * (frequency === "HOURLY" ? lengthOf("BYHOUR") : 1);
  if (product > PRODUCT_MAX) throw tooDense(`its lists make ${product} combinations, at most ${PRODUCT_MAX}`);
  if (isImpossible(parts, frequency, times)) throw malformed("it names no date");
  const count = parts.has("COUNT") ? Number(parts.get("COUNT")) : undefined;
  if (count !== undefined && count > COUNT_MAX) throw tooDense(`COUNT is ${COUNT_MAX} at most`);
  const isByDate = frequency === "HOURLY" || frequency === "DAILY";
  const hasWeekdays = parts.has("BYDAY") || parts.has("BYWEEKNO");
  // A weekday comes 53 times a year at most.
  const datesPerDay = isByDate ? 1 / period : Math.min(1, (hasWeekdays ? 53 : 1) * days / period);
  return {
    endless: [...parts].filter(([name]) => name !== "COUNT" && name !== "UNTIL").map((part) => part.join("=")).join(
      ";",
    ),
    count,
    until: parts.get("UNTIL"),
    perDay: datesPerDay * times / Number(parts.get("INTERVAL") ?? 1),
  };
}

/** Whether the lists contradict each other, so that a rule that looks harmless would be searched in vain for ever. */
function isImpossible(parts: ReadonlyMap<string, string>, frequency: string, times: number): boolean {
  const listOf = (name: string): number[] => parts.get(name)?.split(",").map(Number) ?? [];
  const [months, days] = [listOf("BYMONTH"), listOf("BYMONTHDAY")];
  const fits = (month: number): boolean => days.some((day) => Math.abs(day) <= (MONTH_DAYS[month - 1] ?? 0));
  if (months.length > 0 && days.length > 0 && !months.some(fits)) return true;
  const positions = listOf("BYSETPOS");
  const isByTime = frequency === "DAILY" || frequency === "HOURLY";
  return isByTime && positions.length > 0 && positions.every((position) => Math.abs(position) > times);
}

/** The rule as it is kept: in capitals, its end last. */
export function asKept(rule: Rule): string {
  const { count, until } = rule;
  return withEnd(rule, count !== undefined ? { count } : until === undefined ? undefined : { until });
}

/**
 * The rule of a series whose starts all go to other days, or (`isOtherTime`) another time of day. Weekdays of weeks go along;
 * throws for a rule that names anything else which would have to.
 */
export function movedRule(rule: Rule, days: number, isOtherTime: boolean): Rule {
  const { endless } = rule;
  const isByWeek = /FREQ=(WEEKLY|DAILY)/.test(endless);
  const namesDays = /BY(MONTH|MONTHDAY|YEARDAY|WEEKNO)=/.test(endless) || (!isByWeek && endless.includes("BYDAY="));
  if ((days !== 0 && namesDays) || (isOtherTime && /BY(HOUR|MINUTE|SECOND)=/.test(endless))) {
    throw malformed("what it names does not move along with the start; give the new rule as well");
  }
  if (days % 7 === 0 || !endless.includes("BYDAY=")) return rule;
  // Which days make one week matters where weeks are left out, or counted in.
  const counts = /FREQ=WEEKLY/.test(endless) && /INTERVAL=|BYSETPOS=/.test(endless) && !endless.includes("WKST=");
  const whole = counts ? `${endless};WKST=MO` : endless;
  const moved = whole.replaceAll(/(BYDAY|WKST)=([A-Z,]+)/g, (_, name: string, list: string) => {
    const names = list.split(",").map((day) => WEEKDAYS.at((WEEKDAYS.indexOf(day) + days) % 7));
    return `${name}=${names.join(",")}`;
  });
  return { ...rule, endless: moved };
}

/** The rule with another end. */
export function withEnd(rule: Rule, end: { count: number } | { until: string } | undefined): string {
  if (end === undefined) return rule.endless;
  return `${rule.endless};${"count" in end ? `COUNT=${end.count}` : `UNTIL=${end.until}`}`;
}

function checkCombination(parts: ReadonlyMap<string, string>, frequency: string): void {
  if (parts.has("BYWEEKNO") && frequency !== "YEARLY") throw malformed("BYWEEKNO goes with FREQ=YEARLY only");
  if (parts.has("BYYEARDAY") && ["DAILY", "WEEKLY", "MONTHLY"].includes(frequency)) {
    throw malformed(`BYYEARDAY does not go with FREQ=${frequency}`);
  }
  if (parts.has("BYMONTHDAY") && frequency === "WEEKLY") throw malformed("BYMONTHDAY does not go with FREQ=WEEKLY");
  if (/\d/.test(parts.get("BYDAY") ?? "") && frequency !== "MONTHLY" && frequency !== "YEARLY") {
    throw malformed("a number in BYDAY goes with FREQ=MONTHLY and YEARLY only");
  }
  if (parts.has("BYSETPOS") && ![...parts.keys()].some((name) => name.startsWith("BY") && name !== "BYSETPOS")) {
    throw malformed("BYSETPOS needs another BY part");
  }
}

/** A rule that is not one. */
export function malformed(detail: string): Fault {
  return Fault.at("/rrule", "invalid_rule", detail);
}

/** A rule that is too much work. */
export function tooDense(detail: string): Fault {
  return Fault.at("/rrule", "recurrence_too_dense", detail, "recurrence_too_dense");
}
