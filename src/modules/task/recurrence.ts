// Recurrence of tasks: their RFC 5545 rules.
import { type RecurrenceRule, RecurrenceRuleParser } from "@/core/time/recurrence_rule.ts";

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
/** Throws `validation_failed` for a malformed rule, `recurrence_too_complex` for one that costs too much. */
export function parseRule(text: string): RecurrenceRule {
  const rule = taskRules.parse(text);
  const until = rule.parts.get("UNTIL");
  if (until !== undefined && !isDate(until)) throw taskRules.malformed(`UNTIL=${until} is not a date`);
  return rule;
}

function isDate(text: string): boolean {
  try {
    Temporal.PlainDateTime.from(text.replace("Z", ""));
    return true;
  } catch {
    return false;
  }
}
