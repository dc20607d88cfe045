// Recurrence: an RFC 5545 rule, read strictly and bounded, and the one date that follows another by it.
import { RRuleTemporal } from "rrule-temporal";
import { Fault } from "@/core/fault.ts";

const LIST = (item: string): RegExp => new RegExp(`^${item}(,${item}){0,365}$`);
const PARTS: Readonly<Record<string, RegExp>> = {
  FREQ: /^(YEARLY|MONTHLY|WEEKLY|DAILY|HOURLY|MINUTELY|SECONDLY)$/,
  INTERVAL: /^[1-9]\d{0,2}$/,
  COUNT: /^[1-9]\d{0,3}$/,
  // In UTC: the rule engine takes no other times.
  UNTIL: /^\d{8}(T\d{6}Z)?$/,
  BYMONTH: LIST("([1-9]|1[0-2])"),
  BYMONTHDAY: LIST("-?([1-9]|[12]\\d|3[01])"),
  BYYEARDAY: LIST("-?[1-9]\\d{0,2}"),
  BYWEEKNO: LIST("-?([1-9]|[1-4]\\d|5[0-3])"),
  BYDAY: LIST("([+-]?[1-9]\\d?)?(MO|TU|WE|TH|FR|SA|SU)"),
  BYHOUR: LIST("(1?\\d|2[0-3])"),
  BYMINUTE: LIST("[1-5]?\\d"),
  BYSETPOS: LIST("-?[1-9]\\d{0,2}"),
  WKST: /^(MO|TU|WE|TH|FR|SA|SU)$/,
};
/** Combinations of BY lists in one period. */
const PRODUCT_MAX = 1000;
/** Empty periods looked through before a rule is given up, by how much work one takes. */
const PERIODS_MAX: Readonly<Record<string, number>> = {
  YEARLY: 100,
  MONTHLY: 1200,
  WEEKLY: 1000,
  DAILY: 1500,
  HOURLY: 800,
};

export type Rule = {
  parts: ReadonlyMap<string, string>;
  /** How many tasks the series has at most. */
  count: number | undefined;
};

/** Reads a rule; throws `validation_failed` for one that is malformed, `recurrence_too_dense` for one that is too much work. */
export function parseRule(text: string): Rule {
  const parts = new Map<string, string>();
  for (const part of text.toUpperCase().replace(/^RRULE:/, "").split(";")) {
    const [name = "", value = "", ...more] = part.split("=");
    if (more.length > 0 || PARTS[name]?.test(value) !== true) throw malformed(`${part.slice(0, 40)} is not understood`);
    if (parts.has(name)) throw malformed(`${name} is given twice`);
    parts.set(name, value);
  }
  const until = parts.get("UNTIL");
  if (until !== undefined && !isDate(until)) throw malformed(`UNTIL=${until} is no date`);
  const frequency = parts.get("FREQ");
  if (frequency === undefined) throw malformed("FREQ is missing");
  if (parts.has("COUNT") && parts.has("UNTIL")) throw malformed("COUNT and UNTIL exclude each other");
  if (PERIODS_MAX[frequency] === undefined) throw tooDense("tasks recur hourly at most");
  const product = [...parts].filter(([name]) => name.startsWith("BY") && name !== "BYSETPOS")
    .reduce((all, [, value]) => all * value.split(",").length, 1);
  if (product > PRODUCT_MAX) throw tooDense(`its lists make ${product} combinations, at most ${PRODUCT_MAX}`);
  const count = parts.get("COUNT");
  return { parts, count: count === undefined ? undefined : Number(count) };
}

/**
 * The first date by the rule after `start`, in the zone of `start`; `undefined` when there is none. Wall times that a zone
 * skips are left out, as RFC 5545 wants it. COUNT is for the caller to heed, who knows where in the series this is.
 */
export function nextAfter(
  rule: Rule,
  start: Temporal.ZonedDateTime,
  after: Temporal.Instant,
): Temporal.ZonedDateTime | undefined {
  const frequency = rule.parts.get("FREQ") ?? "";
  const text = [...rule.parts].filter(([name]) => name !== "COUNT").map((part) => part.join("=")).join(";");
  const wall = start.toPlainDateTime().toString({ smallestUnit: "second" }).replaceAll(/[-:]/g, "");
  try {
    const next = new RRuleTemporal({
      rruleString: `DTSTART;TZID=${start.timeZoneId}:${wall}\nRRULE:${text}`,
      maxIterations: PERIODS_MAX[frequency] ?? 1,
      temporal: Temporal,
    }).next(new Date(after.epochMilliseconds), false);
    return next === null || next === undefined ? undefined : Temporal.ZonedDateTime.from(next.toString());
  } catch (cause) {
    throw new Fault("recurrence_too_dense", "/recurrence/rrule: no date is found with reasonable effort", { cause });
  }
}

function isDate(text: string): boolean {
  try {
    Temporal.PlainDateTime.from(text.replace("Z", ""));
    return true;
  } catch {
    return false;
  }
}

/** A rule that is not one. */
export function malformed(detail: string): Fault {
  return Fault.at("/recurrence/rrule", "invalid_rule", detail);
}

function tooDense(detail: string): Fault {
  return new Fault("recurrence_too_dense", `/recurrence/rrule: ${detail}`);
}
