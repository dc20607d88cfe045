// Events of an iCalendar file: parsed by `ical.js`, converted to ours.
import ICAL from "ical.js";
import { DAY_SECONDS, HOUR_SECONDS } from "@/core/time/clock.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { sanitizeName } from "@/core/text/name_rules.ts";
import {
  ATTENDEES_MAX,
  DESCRIPTION_MAX,
  DURATION_DAYS_MAX,
  DURATION_SECONDS_MAX,
  LOCATION_MAX,
  REMINDER_MINUTES_MAX,
  REMINDERS_MAX,
  TITLE_MAX,
} from "../limits.ts";
import type { AttendeeRow, EventRow } from "../store.ts";
import { instantOf, type Timing, toSeriesTime, wallMs } from "../time_zone.ts";
import { type IcsFile, rawValue } from "./file.ts";
import { IcsTimeZones } from "./zone.ts";

const EMAIL = /^[^\s@<>"]{1,64}@[^\s@<>"]{1,189}$/;
const PARTSTATS: Readonly<Record<string, AttendeeRow["status"]>> = {
  ACCEPTED: "accepted",
  TENTATIVE: "tentative",
  DECLINED: "declined",
};
const ROLES: Readonly<Record<string, AttendeeRow["role"]>> = { CHAIR: "chair", "OPT-PARTICIPANT": "optional" };
const VISIBILITIES: Readonly<Record<string, EventRow["visibility"] | null>> = {
  "": null,
  PUBLIC: "room",
  PRIVATE: "private",
  CONFIDENTIAL: "busy_only",
};

/** One VEVENT. */
export type IcsEvent = {
  uid: string;
  /** The start in the series that this VEVENT edits, in the zone of this VEVENT. */
  occurrence: { local: string; zone: string | null } | null;
  isCancelled: boolean;
  title: string;
  description: string | null;
  location: string | null;
  timing: Timing;
  rrule: string | null;
  exDates: string[];
  /** Null if the file has none. */
  reminders: { minutesBefore: number }[] | null;
  /** Null if the file has none. */
  visibility: EventRow["visibility"] | null;
  isTransparent: boolean;
  attendees: Pick<AttendeeRow, "email" | "role" | "status">[];
  /** Properties that cannot be imported, as problems. */
  unsupported: readonly string[];
};

/** Creates a reader of the events of a file; it throws a Fault for an invalid event. `homeZone` is for times without a zone. */
export function createEventReader(file: IcsFile, homeZone: string): (event: IcsFile["events"][number]) => IcsEvent {
  const zones = new IcsTimeZones(file, homeZone);
  return (event) => readEvent(zones, event);
}

function readEvent(zones: IcsTimeZones, event: IcsFile["events"][number]): IcsEvent {
  try {
    return eventOf(zones, event);
  } catch (cause) {
    if (cause instanceof Fault) throw cause;
    // The library parses values lazily and throws plain errors for invalid ones.
    throw invalidField("/text", `invalid event: ${cause instanceof Error ? cause.message.slice(0, 100) : "unknown"}`);
  }
}

function eventOf(zones: IcsTimeZones, { uid, lines }: IcsFile["events"][number]): IcsEvent {
  const component = new ICAL.Component(ICAL.parse(lines.join("\r\n")));
  const text = (name: string): string => String(component.getFirstPropertyValue(name) ?? "").trim();
  const start = timeOf(component, "dtstart", zones);
  if (start === undefined) throw invalidField("/text", "DTSTART is missing");
  const rrule = rawValue(lines, "RRULE") ?? null;
  const original = timeOf(component, "recurrence-id", zones) ?? null;
  const duration_seconds = durationOf(component, start, zones);
  const timing = { start_local: start.local, time_zone: start.zone, duration_seconds };
  return {
    uid,
    occurrence: original,
    isCancelled: text("status").toUpperCase() === "CANCELLED",
    title: assertText(sanitizeName(text("summary") ?? "") || "(no title)", TITLE_MAX, "SUMMARY"),
    description: assertText(text("description"), DESCRIPTION_MAX, "DESCRIPTION") || null,
    location: assertText(text("location"), LOCATION_MAX, "LOCATION") || null,
    timing,
    rrule,
    exDates: rrule === null ? [] : exDatesIn(component, timing, zones),
    reminders: remindersIn(component),
    visibility: visibilityOf(text("class").toUpperCase()),
    isTransparent: text("transp").toUpperCase() === "TRANSPARENT",
    attendees: attendeesIn(component),
    unsupported: unsupportedOf(component),
  };
}

/** An unknown class is treated as private (RFC 5545 3.8.1.3). */
function visibilityOf(name: string): IcsEvent["visibility"] {
  return Object.hasOwn(VISIBILITIES, name) ? VISIBILITIES[name] ?? null : "private";
}

function unsupportedOf(component: ICAL.Component): string[] {
  const range = component.getFirstProperty("recurrence-id")?.getFirstParameter("range");
  return [
    ...(component.hasProperty("rdate") ? ["additional dates (RDATE) are not supported and were ignored"] : []),
    ...(component.hasProperty("exrule") ? ["exclusion rules (EXRULE) are not supported and were ignored"] : []),
    ...(component.getAllProperties("rrule").length > 1
      ? ["only one rule is supported; further ones were ignored"]
      : []),
    ...(range === undefined
      ? []
      : ["a change of all following occurrences (RANGE) is not supported and was applied to a single one"]),
  ];
}

type LocalTime = { local: string; zone: string | null };

function timeOf(component: ICAL.Component, name: string, zones: IcsTimeZones): LocalTime | undefined {
  const property = component.getFirstProperty(name);
  return property === null ? undefined : timesOf(property, zones)[0];
}

function timesOf(property: ICAL.Property, zones: IcsTimeZones): LocalTime[] {
  const tzid = property.getFirstParameter("tzid");
  const written: unknown[] = property.toJSON().slice(3);
  return property.getValues().map((value, at) => {
    if (!(value instanceof ICAL.Time)) throw invalidField("/text", `${property.name} is not a time`);
    const text = value.toString();
    // The library converts February 30 to March 2; for a leap second such a change is correct.
    const original = String(written[at]);
    if (original !== text && !original.includes(":60")) {
      throw invalidField("/text", `${property.name} is not a valid date: ${original.slice(0, 40)}`);
    }
    if (!/^(19|20|21)\d\d-\d\d-\d\d(T\d\d:\d\d:\d\dZ?)?$/.test(text) || Number.isNaN(wallMs(text.replace("Z", "")))) {
      throw invalidField("/text", `${property.name} must be between 1900 and 2199`);
    }
    if (value.isDate) return { local: text, zone: null };
    if (text.endsWith("Z")) return { local: text.slice(0, -1), zone: "UTC" };
    const zone = zones.resolve(tzid, value.year);
    if (zone === undefined) throw invalidField("/text", `unknown time zone ${(tzid ?? "of the file").slice(0, 60)}`);
    return { local: text, zone };
  });
}

function durationOf(component: ICAL.Component, start: LocalTime, zones: IcsTimeZones): number {
  const defaultSeconds = start.zone === null ? DAY_SECONDS : 0;
  const end = timeOf(component, "dtend", zones);
  const duration = component.getFirstPropertyValue("duration");
  const seconds = end !== undefined
    ? (instantOf(end.local, end.zone) - instantOf(start.local, start.zone)) / 1000
    : duration instanceof ICAL.Duration
    ? duration.toSeconds()
    : defaultSeconds;
  if (seconds > DURATION_SECONDS_MAX) throw invalidField("/text", `it is longer than ${DURATION_DAYS_MAX} days`);
  // Some programs write an end at or before the start.
  if (start.zone === null) return Math.max(DAY_SECONDS, Math.round(seconds / DAY_SECONDS) * DAY_SECONDS);
  return seconds < 0 ? HOUR_SECONDS : Math.round(seconds);
}

/** EXDATEs as starts of the series; those in another zone are converted. */
function exDatesIn(component: ICAL.Component, series: Timing, zones: IcsTimeZones): string[] {
  return component.getAllProperties("exdate").flatMap((property) =>
    timesOf(property, zones).map((date) => toSeriesTime(date, series))
  );
}

function remindersIn(component: ICAL.Component): IcsEvent["reminders"] {
  const alarms = component.getAllSubcomponents("valarm");
  if (alarms.length === 0) return null;
  const minutes = alarms.flatMap((alarm) => {
    const trigger = alarm.getFirstPropertyValue("trigger");
    if (!(trigger instanceof ICAL.Duration)) return [];
    const before = Math.round(-trigger.toSeconds() / 60);
    return before >= 0 && before <= REMINDER_MINUTES_MAX ? [before] : [];
  });
  return [...new Set(minutes)].slice(0, REMINDERS_MAX).map((minutesBefore) => ({ minutesBefore }));
}

function attendeesIn(component: ICAL.Component): IcsEvent["attendees"] {
  const found = new Map<string, IcsEvent["attendees"][number]>();
  for (const property of component.getAllProperties("attendee")) {
    const email = String(property.getFirstValue() ?? "").replace(/^mailto:/i, "").toLowerCase();
    if (!EMAIL.test(email) || found.has(email)) continue;
    const parameter = (name: string): string => String(property.getFirstParameter(name) ?? "").toUpperCase();
    found.set(email, {
      email,
      role: ROLES[parameter("role")] ?? "required",
      status: PARTSTATS[parameter("partstat")] ?? "needs_action",
    });
  }
  if (found.size > ATTENDEES_MAX) throw invalidField("/text", `it has more than ${ATTENDEES_MAX} attendees`);
  return [...found.values()];
}

function assertText(text: string, max: number, name: string): string {
  if (text.length > max) throw invalidField("/text", `${name} has more than ${max} characters`);
  if (!text.isWellFormed() || text.includes("\0")) throw invalidField("/text", `${name} contains invalid characters`);
  return text;
}
