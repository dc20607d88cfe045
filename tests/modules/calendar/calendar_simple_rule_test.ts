// Series expanded by arithmetic: exactly as the rule engine does it, and without the engine where it is not needed. And what a rule costs.
import assert from "node:assert/strict";
import { RRuleTemporal } from "rrule-temporal";
import { DAY_MS } from "@/core/time/clock.ts";
import { startsBetween, validateRule } from "@/modules/calendar/recurrence/expansion.ts";
import { expandSimple } from "@/modules/calendar/recurrence/simple_rule.ts";
import { replace } from "../../replace.ts";

const FIRSTS = ["2024-01-31T09:00:00", "2024-02-29T00:00:00", "2025-12-28T23:59:59", "1969-12-30T12:00:00"];
const WINDOWS = [[0, 0], [1, 40], [25, 31], [360, 800], [3000, 3007], [5000, 6900]] as const;
const RULES = [
  "FREQ=DAILY",
  "FREQ=DAILY;INTERVAL=3;WKST=SU",
  "FREQ=DAILY;INTERVAL=400",
  "FREQ=WEEKLY",
  "INTERVAL=2;FREQ=WEEKLY",
  "FREQ=WEEKLY;BYDAY=MO,WE,FR",
  "FREQ=WEEKLY;BYDAY=SU,MO,SU",
  "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO,SA",
  "FREQ=WEEKLY;INTERVAL=3;WKST=SU;BYDAY=SU,MO,TH",
  "FREQ=WEEKLY;INTERVAL=2;WKST=WE;BYDAY=TU,WE",
  "FREQ=MONTHLY",
  "FREQ=MONTHLY;INTERVAL=5",
  "FREQ=YEARLY",
  "FREQ=YEARLY;INTERVAL=2",
];

function byEngine(rrule: string, first: number, from: number, to: number): number[] {
  const stamp = new Date(first).toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  const engine = new RRuleTemporal({ rruleString: `DTSTART:${stamp}Z\nRRULE:${rrule}`, maxIterations: 100_000 });
  return engine.between(new Date(from), new Date(to), true).map((start) => start.epochMilliseconds)
    .filter((at) => at > first);
}

Deno.test("simple rules give the same starts as the rule engine", () => {
  for (const rrule of RULES) {
    let seen = 0;
    for (const start of FIRSTS) {
      const first = Date.parse(`${start}Z`);
      for (const [a, b] of WINDOWS) {
        const [from, to] = [first + a * DAY_MS, first + b * DAY_MS];
        const starts = expandSimple(rrule, first, from, to);
        assert.deepEqual(starts, byEngine(rrule, first, from, to), `${rrule} from ${start}, days ${a} to ${b}`);
        seen += starts?.length ?? 0;
      }
    }
    assert.ok(seen > 0, rrule);
  }
});

Deno.test("other rules are left to the rule engine", () => {
  for (
    const rrule of [
      "FREQ=HOURLY",
      "FREQ=DAILY;BYDAY=MO",
      "FREQ=WEEKLY;BYHOUR=4",
      "FREQ=MONTHLY;BYDAY=1MO",
      "FREQ=MONTHLY;BYMONTHDAY=31",
      "FREQ=YEARLY;BYMONTH=3",
      "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1",
    ]
  ) assert.equal(expandSimple(rrule, 0, 1, 400 * DAY_MS), undefined, rrule);
});

Deno.test("a weekly series is expanded without the rule engine", () => {
  const between = RRuleTemporal.prototype.between;
  let asked = 0;
  using _replaced = replace(
    RRuleTemporal.prototype,
    "between",
    function (this: RRuleTemporal, ...range: Parameters<typeof between>) {
      asked++;
      return between.apply(this, range);
    },
  );
  const series = { startLocal: "2026-01-05T09:00:00", timeZone: "Europe/Vienna", lastLocal: null };
  const [from, to] = [Date.parse("2026-03-23T00:00:00Z"), Date.parse("2026-04-06T00:00:00Z")];
  const startsOf = (rrule: string): string[] =>
    startsBetween({ ...series, rrule }, from, to).starts.map(({ at }) => new Date(at).toISOString());
  assert.deepEqual(startsOf("FREQ=WEEKLY"), ["2026-03-23T08:00:00.000Z", "2026-03-30T07:00:00.000Z"]);
  assert.equal(asked, 0);
  assert.deepEqual(startsOf("FREQ=WEEKLY;BYHOUR=9"), startsOf("FREQ=WEEKLY"));
  assert.equal(asked, 1);
});

Deno.test("a series that exceeds its budget is truncated, and one that ends just then is complete", () => {
  const [from, to] = [Date.parse("2026-01-01T00:00:00Z"), Date.parse("2027-12-31T00:00:00Z")];
  const startsOf = (rrule: string | null, budgetMs: number) => {
    const series = { startLocal: "2026-01-05T09:00:00", timeZone: "Europe/Vienna", lastLocal: null, rrule };
    const { starts, truncated } = startsBetween(series, from, to, 1000, budgetMs);
    return [starts.length, truncated];
  };
  assert.deepEqual(startsOf(null, -1), [1, false]);
  assert.deepEqual(startsOf("FREQ=DAILY;BYHOUR=9", -1), [1, true]);
  for (const rrule of ["FREQ=DAILY;BYHOUR=9", "FREQ=DAILY"]) assert.deepEqual(startsOf(rrule, 10_000), [725, false]);
});

Deno.test("a rule that takes long to check is checked in steps, between which others are served", () => {
  const seconds = Array.from({ length: 58 }, (_, at) => at + 1);
  const positions = [-357, -233, -150, -98, -50, 68, 139, 250, 290, 306, 332];
  const rule = `FREQ=YEARLY;COUNT=2500;BYMONTH=1,2,3,4,5,6,7,8,9,10,11,12;BYSECOND=${seconds};BYSETPOS=${positions}`;
  const check = validateRule(rule, "2026-01-01T09:00:00", "America/St_Johns");
  let steps = 0;
  assert.throws(() => {
    while (check.next().done !== true) steps++;
  }, { code: "recurrence_too_complex" });
  assert.ok(steps >= 10, `${steps} steps`);
});
