// Input to rows: times resolved, rules validated, attendees looked up.
import type { Actor } from "@/core/actor.ts";
import { runInSlices } from "@/core/caller.ts";
import { DAY_SECONDS, HOUR_SECONDS } from "@/core/time/clock.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { requireTimeZone } from "@/core/time/time_zone.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { AnyDatabase } from "@/ports/store.ts";
import { validateRule } from "./recurrence/expansion.ts";
import { DURATION_DAYS_MAX, DURATION_SECONDS_MAX } from "./limits.ts";
import { exDatesOf } from "./recurrence/occurrence.ts";
import type { AttendeeInput, EventUpdate, When } from "./schema.ts";
import type { AttendeeRow, EventRow } from "./store.ts";
import { instantOf, type Timing, withSeconds } from "./time_zone.ts";

export type RuleColumns = Pick<EventRow, "rrule" | "last_local" | "ex_dates_json">;
type TimingInput = { start?: When | undefined; end?: When | undefined; durationMinutes?: number | undefined };

/** Start and duration of the input, with defaults from `before`. */
export function resolveTiming({ start, end, durationMinutes }: TimingInput, before?: Timing): Timing {
  if (end !== undefined && durationMinutes !== undefined) {
    throw invalidField("/durationMinutes", "end and durationMinutes are mutually exclusive");
  }
  const from = start === undefined ? before : parseWhen(start, "/start");
  if (from === undefined) throw invalidField("/start", "required");
  const { start_local, time_zone } = from;
  const isAllDay = time_zone === null;
  if (end !== undefined) {
    const { start_local: endLocal, time_zone: endZone } = parseWhen(end, "/end");
    if ((endZone === null) !== isAllDay) {
      throw invalidField("/end", "must be a date if the start is a date, and a time if it is a time");
    }
    const seconds = (instantOf(endLocal, endZone) - instantOf(start_local, time_zone)) / 1000;
    if (seconds < (isAllDay ? DAY_SECONDS : 0)) {
      throw invalidField("/end", isAllDay ? "must be a day after the start" : "must not be before the start");
    }
    return { start_local, time_zone, duration_seconds: assertDuration(seconds) };
  }
  const unchanged = before !== undefined && (before.time_zone === null) === isAllDay
    ? before.duration_seconds
    : undefined;
  const seconds = durationMinutes === undefined
    ? unchanged ?? (isAllDay ? DAY_SECONDS : HOUR_SECONDS)
    : durationMinutes * 60;
  if (isAllDay && (seconds < DAY_SECONDS || seconds % DAY_SECONDS !== 0)) {
    throw invalidField("/durationMinutes", "must be whole days for an all-day event");
  }
  return { start_local, time_zone, duration_seconds: seconds };
}

/** The columns of a rule and its exceptions. Others are served while the rule is checked: `pause` as for `runInSlices`. */
export async function resolveRule(
  rrule: string | null,
  exDates: readonly string[],
  { start_local, time_zone }: Timing,
  pause?: () => Promise<void>,
): Promise<RuleColumns> {
  if (rrule === null) {
    if (exDates.length > 0) throw invalidField("/exDates", "requires a series");
    return { rrule: null, last_local: null, ex_dates_json: "[]" };
  }
  const isDates = time_zone === null;
  if (exDates.some((date) => (date.length === 10) !== isDates)) {
    throw invalidField("/exDates", isDates ? "must be dates, like the start" : "must be wall times, like the start");
  }
  const { rrule: normalized, lastLocal } = await runInSlices(validateRule(rrule, start_local, time_zone), pause);
  return {
    rrule: normalized,
    last_local: lastLocal,
    ex_dates_json: JSON.stringify([...new Set(exDates.map(withSeconds))].sort()),
  };
}

/**
 * Whether a change takes an event, or occurrences of it, away from members of its room: like a deletion, it is not for everybody who may
 * change it.
 */
export function hidesEvent(
  before: EventRow,
  { visibility = before.visibility, exDates = [] }: Pick<EventUpdate, "visibility" | "exDates">,
): boolean {
  const excluded = new Set(exDatesOf(before));
  return visibility !== before.visibility || exDates.some((date) => !excluded.has(withSeconds(date)));
}

/** Attendees as rows; those who remain keep their response. Throws for principals that are not visible to the caller. */
export async function resolveAttendees(
  db: AnyDatabase,
  identity: Pick<IdentityService, "findEnabledFor">,
  actor: Actor,
  event: Pick<EventRow, "tenant_id" | "id">,
  inputs: readonly AttendeeInput[],
  before: readonly AttendeeRow[],
): Promise<AttendeeRow[]> {
  const invited = inputs.map((input) => ({
    input,
    principalId: "principalId" in input ? resolvePrincipalId(actor, input.principalId) : null,
  }));
  const visible = await identity.findEnabledFor(actor, invited.flatMap(({ principalId }) => principalId ?? []), db);
  const seen = new Set<string>();
  return invited.map(({ input, principalId }, position) => {
    const email = "email" in input ? input.email.toLowerCase() : null;
    const pointer = `/attendees/${position}`;
    const old = before.find((row) => principalId === null ? row.email === email : row.principal_id === principalId);
    if (principalId !== null && !visible.has(principalId) && old === undefined) {
      throw Fault.forField(`${pointer}/principalId`, "not_found", `no principal ${principalId}`);
    }
    const key = principalId ?? `mailto:${email}`;
    if (seen.has(key)) throw invalidField(pointer, "listed more than once");
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

/** Attendees without their responses, for an event that was moved. */
export function resetResponses(attendees: readonly AttendeeRow[]): AttendeeRow[] {
  return attendees.map((one) => ({ ...one, status: "needs_action", comment: null, responded_at: null }));
}

function parseWhen(when: When, pointer: string): Pick<EventRow, "start_local" | "time_zone"> {
  if ("date" in when) return { start_local: when.date, time_zone: null };
  const time_zone = requireTimeZone(when.timeZone, `${pointer}/timeZone`);
  return { start_local: withSeconds(when.dateTime), time_zone };
}

function assertDuration(seconds: number): number {
  if (seconds > DURATION_SECONDS_MAX) throw invalidField("/end", `at most ${DURATION_DAYS_MAX} days after the start`);
  return seconds;
}
