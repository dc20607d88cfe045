// The series a recurring task belongs to: where it stands, and the dates of the task that follows.
import { iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { malformed, nextAfter, parseRule } from "./recurrence.ts";
import type { Recurrence } from "./schema.ts";
import type { TaskRow } from "./tables.ts";

/** What `recurrence_json` holds. `wallTime` is the time of day the series keeps, whatever a change of clocks does to one task. */
export type Series = Recurrence & { instance: number; wallTime: string | null };

export type Dated = Pick<TaskRow, "start_at" | "due_at" | "timezone">;

/** Starts a series at a task, or goes on with it by another rule; throws when the rule cannot be followed from there. */
export function startSeries(recurrence: Recurrence, task: Dated, instance: number, now: number): Series {
  if (recurrence.anchor === "due" && task.due_at === null) {
    throw new Fault("validation_failed", "/recurrence: a recurrence anchored on the due date needs dueAt");
  }
  const { rrule, anchor } = recurrence;
  // Few years have a 53rd, and the rule engine would run over into the next; a series kept from before goes on.
  if (/(5[3-9]|[6-9]\d)(MO|TU|WE|TH|FR|SA|SU)/i.test(rrule)) throw malformed("BYDAY goes up to the 52nd");
  const wallTime = task.due_at === null ? null : zoned(task.due_at, task.timezone).toPlainTime().toString();
  const series = { rrule, anchor, instance, wallTime };
  // The first step is taken now, so that a rule that costs too much is refused by whom it is set, not when it is due.
  nextDates(series, task, now);
  return series;
}

/** Dates and place in the series of the task that follows one completed at `now`; `undefined` when the series ends. */
export function nextDates(
  series: Series,
  task: Dated,
  now: number,
): (Pick<TaskRow, "start_at" | "due_at"> & { series: Series }) | undefined {
  const rule = parseRule(series.rrule);
  if (rule.count !== undefined && series.instance >= rule.count) return undefined;
  const keepsTime = rule.parts.get("FREQ") !== "HOURLY" && series.wallTime !== null;
  const current = task.due_at === null ? undefined : zoned(task.due_at, task.timezone);
  const done = Temporal.Instant.fromEpochMilliseconds(now).toZonedDateTimeISO(task.timezone);
  let start = series.anchor === "due" && current !== undefined ? current : done;
  if (series.anchor === "completion" && keepsTime) start = start.withPlainTime(series.wallTime ?? undefined);
  const passed = series.anchor === "completion" && Temporal.ZonedDateTime.compare(done, start) > 0 ? done : start;
  let due = nextAfter(rule, start, passed.toInstant());
  if (due === undefined) return undefined;
  // A start that fell into a gap of the clock has moved; what follows it goes back to the time of the series.
  const isTimeOfRule = rule.parts.has("BYHOUR") || rule.parts.has("BYMINUTE");
  if (keepsTime && !isTimeOfRule) due = due.withPlainTime(series.wallTime ?? undefined);
  const due_at = text(due);
  return {
    start_at: task.start_at === null || task.due_at === null
      ? null
      : shiftWall(task.start_at, task.timezone, wallBetween(task.due_at, due, task.timezone), due_at),
    due_at,
    series: { ...series, instance: series.instance + 1 },
  };
}

/** How far a task's subtasks move with it, in days and hours of the wall clock. */
export function wallBetween(from: string, to: Temporal.ZonedDateTime, timezone: string): Temporal.Duration {
  return zoned(from, timezone).toPlainDateTime().until(to.toPlainDateTime(), { largestUnit: "day" });
}

/** A time moved along the wall clock of its zone; never past `latest`, whatever a change of clocks does to it. */
export function shiftWall(time: string, timezone: string, by: Temporal.Duration, latest: string | null): string {
  const moved = text(zoned(time, timezone).toPlainDateTime().add(by).toZonedDateTime(timezone));
  return latest !== null && moved > latest ? latest : moved;
}

/** A stored time in a zone. */
export function zoned(time: string, timezone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.from(time).toZonedDateTimeISO(timezone);
}

function text(time: Temporal.ZonedDateTime): string {
  return iso(time.epochMilliseconds);
}
