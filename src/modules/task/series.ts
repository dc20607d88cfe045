// The series of a recurring task: the number of the instance, and the dates of the next one.
import { iso } from "@/core/time/clock.ts";
import { invalidField } from "@/core/fault.ts";
import { parseRule, taskRules } from "./recurrence.ts";
import type { Recurrence } from "./schema.ts";
import type { TaskRow } from "./tables.ts";

/** The content of `recurrence_json`. `wallTime` is the time of day of the series, even if a DST change moves one task. */
export type Series = Recurrence & { instance: number; wallTime: string | null };

type Dated = Pick<TaskRow, "start_at" | "due_at" | "timezone">;

/** Starts a series at a task, or continues it by another rule; throws if the rule cannot be applied to the task. */
export function startSeries(recurrence: Recurrence, task: Dated, instance: number, now: number): Series {
  if (recurrence.anchor === "due" && task.due_at === null) {
    throw invalidField("/recurrence", "requires dueAt when anchored on the due date");
  }
  const { rrule, anchor } = recurrence;
  taskRules.assertWeekdaysExist(rrule);
  const wallTime = task.due_at === null ? null : zoned(task.due_at, task.timezone).toPlainTime().toString();
  const series = { rrule, anchor, instance, wallTime };
  // Computes the first step now, so that a rule that is too expensive is rejected when it is set, not when it is due.
  nextDates(series, task, now);
  return series;
}

/** Dates and series of the task after one completed at `now`; `undefined` if the series ends. */
export function nextDates(
  series: Series,
  task: Dated,
  now: number,
): (Pick<TaskRow, "start_at" | "due_at"> & { series: Series }) | undefined {
  const rule = parseRule(series.rrule);
  if (rule.count !== undefined && series.instance >= rule.count) return undefined;
  const hasWallTime = rule.frequency !== "HOURLY" && series.wallTime !== null;
  const current = task.due_at === null ? undefined : zoned(task.due_at, task.timezone);
  const done = Temporal.Instant.fromEpochMilliseconds(now).toZonedDateTimeISO(task.timezone);
  let start = series.anchor === "due" && current !== undefined ? current : done;
  if (series.anchor === "completion" && hasWallTime) start = start.withPlainTime(series.wallTime ?? undefined);
  const passed = series.anchor === "completion" && Temporal.ZonedDateTime.compare(done, start) > 0 ? done : start;
  const wall = start.toPlainDateTime().toString();
  let due = taskRules.nextDate(rule, { timeZone: start.timeZoneId, wall }, passed.epochMilliseconds);
  if (due === undefined) return undefined;
  // A start inside a DST gap was moved; the next date returns to the time of the series.
  const isTimeOfRule = rule.parts.has("BYHOUR") || rule.parts.has("BYMINUTE");
  if (hasWallTime && !isTimeOfRule) due = due.withPlainTime(series.wallTime ?? undefined);
  const due_at = text(due);
  return {
    start_at: task.start_at === null || task.due_at === null
      ? null
      : shiftWall(task.start_at, task.timezone, wallBetween(task.due_at, due, task.timezone), due_at),
    due_at,
    series: { ...series, instance: series.instance + 1 },
  };
}

/** The wall-clock duration by which the subtasks of a task are moved with it. */
export function wallBetween(from: string, to: Temporal.ZonedDateTime, timezone: string): Temporal.Duration {
  return zoned(from, timezone).toPlainDateTime().until(to.toPlainDateTime(), { largestUnit: "day" });
}

/** A time moved along the wall clock of its zone, but not past `latest`, even by a DST change. */
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
