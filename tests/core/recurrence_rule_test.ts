// Recurrence rules: one grammar for events and tasks, with what each of them refuses.
import assert from "node:assert/strict";
import type { Fault } from "@/core/fault.ts";
import { RecurrenceRuleParser } from "@/core/time/recurrence_rule.ts";

const rules = new RecurrenceRuleParser({ resources: "shifts", pointer: "/rule", grammar: { BYSECOND: undefined } });

Deno.test("a rule is parsed into its parts, whatever its case, prefix, signs and zeros", () => {
  const { parts, frequency, count } = rules.parse("RRULE:freq=Monthly;BYMONTHDAY=+01,-1;BYMONTH=02;COUNT=3;");
  assert.deepEqual([...parts], [["FREQ", "MONTHLY"], ["BYMONTHDAY", "+01,-1"], ["BYMONTH", "02"], ["COUNT", "3"]]);
  assert.deepEqual([frequency, count], ["MONTHLY", 3]);
});

Deno.test("a fault of a rule names the field, and what is wrong", () => {
  const cases: [string, string, string][] = [
    ["BYDAY=MO", "validation_failed", "/rule: FREQ is missing"],
    ["FREQ=DAILY;FREQ=DAILY", "validation_failed", "/rule: FREQ is given more than once"],
    ["FREQ=DAILY;BYSECOND=1", "validation_failed", "/rule: invalid part BYSECOND=1"],
    ["FREQ=DAILY;CONSTRUCTOR=1", "validation_failed", "/rule: invalid part CONSTRUCTOR=1"],
    ["FREQ=DAILY;COUNT=1;UNTIL=20270101", "validation_failed", "/rule: COUNT and UNTIL are mutually exclusive"],
    ["FREQ=SECONDLY", "recurrence_too_complex", "/rule: the highest frequency of shifts is hourly"],
  ];
  for (const [text, code, message] of cases) {
    assert.throws(() => rules.parse(text), (fault: Fault) => fault.code === code && fault.message === message, text);
  }
  assert.throws(() => rules.assertWeekdaysExist("FREQ=YEARLY;BYDAY=53MO"), /BYDAY must not exceed 52/);
});
