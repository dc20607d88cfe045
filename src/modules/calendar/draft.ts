// What callers write, as rows: times settled, rules checked, attendees known.
import type { Actor } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { type IdentityService, idOf } from "@/modules/identity/mod.ts";
import { settleRule } from "./expansion.ts";
import type { AttendeeInput, When } from "./schema.ts";
import type { AttendeeRow, EventRow } from "./store.ts";
import { checkZone, instantOf, withSeconds } from "./zone.ts";

export const DAY_SECONDS = 86_400;
const HOUR_SECONDS = 3600;

export type Timing = Pick<EventRow, "start_local" | "time_zone" | "duration_seconds">;
type TimingInput = { start?: When | undefined; end?: When | undefined; durationMinutes?: number | undefined };

/** Start and length from what was given; what was not is as it was. */
export function timingOf({ start, end, durationMinutes }: TimingInput, before?: Timing): Timing {
  if (end !== undefined && durationMinutes !== undefined) {
    throw misfit("/durationMinutes", "end and durationMinutes exclude each other");
  }
  const from = start === undefined ? before : placeOf(start, "/start");
  if (from === undefined) throw misfit("/start", "needed");
  const { start_local, time_zone } = from;
  const isAllDay = time_zone === null;
  if (end !== undefined) {
    const { start_local: endLocal, time_zone: endZone } = placeOf(end, "/end");
    if ((endZone === null) !== isAllDay) throw misfit("/end", "a date when the start is one, else a time");
    const seconds = (instantOf(endLocal, endZone) - instantOf(start_local, time_zone)) / 1000;
    if (seconds < (isAllDay ? DAY_SECONDS : 0)) {
      throw misfit("/end", isAllDay ? "the day after the last, so after the start" : "not before the start");
    }
    return { start_local, time_zone, duration_seconds: bounded(seconds) };
  }
  const kept = before !== undefined && (before.time_zone === null) === isAllDay ? before.duration_seconds : undefined;
  const seconds = durationMinutes === undefined
    ? kept ?? (isAllDay ? DAY_SECONDS : HOUR_SECONDS)
    : durationMinutes * 60;
  if (isAllDay && (seconds < DAY_SECONDS || seconds % DAY_SECONDS !== 0)) {
    throw misfit("/durationMinutes", "whole days for an all-day event");
  }
  return { start_local, time_zone, duration_seconds: seconds };
}

/** The rule as it is kept, with the exceptions it has. */
export function ruleOf(
  rrule: string | null,
  exDates: readonly string[],
  { start_local, time_zone }: Timing,
): Pick<EventRow, "rrule" | "last_local" | "ex_dates_json"> {
  if (rrule === null) {
    if (exDates.length > 0) throw misfit("/exDates", "only a series has them");
    return { rrule: null, last_local: null, ex_dates_json: "[]" };
  }
  const isDates = time_zone === null;
  if (exDates.some((date) => (date.length === 10) !== isDates)) {
    throw misfit("/exDates", isDates ? "dates, as the start is one" : "wall times, as the start is one");
  }
  const { rrule: settled, lastLocal } = settleRule(rrule, start_local, time_zone);
  return {
    rrule: settled,
    last_local: lastLocal,
    ex_dates_json: JSON.stringify([...new Set(exDates.map(withSeconds))].sort()),
  };
}

/** Attendees as rows; those who were there keep their answers. Throws for principals who do not exist for the caller. */
export async function attendeesOf(
  identity: Pick<IdentityService, "enabledFor">,
  actor: Actor,
  event: Pick<EventRow, "tenant_id" | "id">,
  inputs: readonly AttendeeInput[],
  before: readonly AttendeeRow[],
): Promise<AttendeeRow[]> {
  const invited = inputs.map((input) => ({
    input,
    principalId: "principalId" in input ? idOf(actor, input.principalId) : null,
  }));
  const known = await identity.enabledFor(actor, invited.flatMap(({ principalId }) => principalId ?? []));
  const seen = new Set<string>();
  return invited.map(({ input, principalId }, position) => {
    const email = "email" in input ? input.email.toLowerCase() : null;
    const pointer = `/attendees/${position}`;
    const old = before.find((row) => principalId === null ? row.email === email : row.principal_id === principalId);
    if (principalId !== null && !known.has(principalId) && old === undefined) {
      throw misfit(pointer, `no principal ${principalId}`);
    }
    const key = principalId ?? `mailto:${email}`;
    if (seen.has(key)) throw misfit(pointer, "invited twice");
    seen.add(key);
    return {
      tenant_id: event.tenant_id,
      event_id: event.id,
      position,
      principal_id: principalId,
      email,
      role: input.role,
      status: old?.status ?? "needs_action",
      comment: old?.comment ?? null,
      responded_at: old?.responded_at ?? null,
    };
  });
}

/** Attendees of an event that has another time now, so all are asked again. */
export function askedAgain(attendees: readonly AttendeeRow[]): AttendeeRow[] {
  return attendees.map((one) => ({ ...one, status: "needs_action", comment: null, responded_at: null }));
}

/** A 422 that names the field. */
export function misfit(pointer: string, detail: string): Fault {
  return Fault.at(pointer, "invalid", detail);
}

function placeOf(when: When, pointer: string): Pick<EventRow, "start_local" | "time_zone"> {
  if ("date" in when) return { start_local: when.date, time_zone: null };
  checkZone(when.timeZone, `${pointer}/timeZone`);
  return { start_local: withSeconds(when.dateTime), time_zone: when.timeZone };
}

function bounded(seconds: number): number {
  if (seconds > 366 * DAY_SECONDS) throw misfit("/end", "at most 366 days after the start");
  return seconds;
}
