// Recurrence of tasks: an RFC 5545 rule, and the next date by it.
import { RRuleTemporal } from "rrule-temporal";
import { Fault } from "@/core/fault.ts";
import { type RecurrenceRule, RecurrenceRuleParser } from "@/core/recurrence_rule.ts";

export const taskRules = new RecurrenceRuleParser({
  resources: "tasks",
  pointer: "/recurrence/rrule",
  grammar: {
    COUNT: /^[1-9]\d{0,3}$/,
    // In UTC: the rule engine accepts no other times.
    UNTIL: /^\d{8}(T\d{6}Z)?$/,
    BYSECOND: undefined,
  },
});
/** Empty periods searched before a rule is refused, by the work of one. */
const PERIODS_MAX: Readonly<Record<string, number>> = {
  YEARLY: 100,
  MONTHLY: 1200,
  WEEKLY: 1000,
  DAILY: 1500,
  HOURLY: 800,
};

/** Throws `validation_failed` for a malformed rule, `recurrence_too_complex` for one that costs too much. */
export function parseRule(text: string): RecurrenceRule {
  const rule = taskRules.parse(text);
  const until = rule.parts.get("UNTIL");
  if (until !== undefined && !isDate(until)) throw taskRules.malformed(`UNTIL=${until} is not a date`);
  return rule;
}

/**
 * The first date by the rule after `start`, in the zone of `start`; `undefined` when there is none. Wall times that a zone
 * skips are left out (RFC 5545). The caller checks COUNT, since it knows the position in the series.
 */
export function nextAfter(
  rule: RecurrenceRule,
  start: Temporal.ZonedDateTime,
  after: Temporal.Instant,
): Temporal.ZonedDateTime | undefined {
  const text = [...rule.parts].filter(([name]) => name !== "COUNT").map((part) => part.join("=")).join(";");
  const wall = start.toPlainDateTime().toString({ smallestUnit: "second" }).replaceAll(/[-:]/g, "");
  try {
    const next = new RRuleTemporal({
      rruleString: `DTSTART;TZID=${start.timeZoneId}:${wall}\nRRULE:${text}`,
      maxIterations: PERIODS_MAX[rule.frequency] ?? 1,
      temporal: Temporal,
    }).next(new Date(after.epochMilliseconds), false);
    return next === null || next === undefined ? undefined : Temporal.ZonedDateTime.from(next.toString());
  } catch (cause) {
    throw new Fault("recurrence_too_complex", "/recurrence/rrule: finding the next date takes too long", { cause });
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
