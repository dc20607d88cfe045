// Events out of an iCalendar file, as `ical.js` reads them and as ours are.
import ICAL from "ical.js";
import { Fault } from "@/core/fault.ts";
import { DAY_SECONDS, misfit, type Timing } from "./draft.ts";
import { type IcsFile, rawValue } from "./ics_file.ts";
import { FileZones } from "./ics_zone.ts";
import { ATTENDEES_MAX, DESCRIPTION_MAX, LOCATION_MAX, REMINDERS_MAX, TITLE_MAX } from "./schema.ts";
import type { AttendeeRow, EventRow } from "./store.ts";
import { instantOf, localOf, wallMs, wallOf } from "./zone.ts";

const HOUR_SECONDS = 3600;
const EMAIL = /^[^\s@<>"]{1,64}@[^\s@<>"]{1,189}$/;
const ANSWERS: Readonly<Record<string, AttendeeRow["status"]>> = {
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
  /** Null where the file does not say. */
  reminders: { minutesBefore: number }[] | null;
  /** Null where the file does not say. */
  visibility: EventRow["visibility"] | null;
  isTransparent: boolean;
  attendees: Pick<AttendeeRow, "email" | "role" | "status">[];
  /** What the file says of it that we cannot keep. */
  leftOut: readonly string[];
};

/**
 * Reads events of a file one by one; what it returns throws a Fault for what cannot be an event here. `homeZone` is for times
 * without a zone.
 */
export function readerOf(file: IcsFile, homeZone: string): (event: IcsFile["events"][number]) => IcsEvent {
  const zones = new FileZones(file, homeZone);
  return (event) => readEvent(zones, event);
}

function readEvent(zones: FileZones, event: IcsFile["events"][number]): IcsEvent {
  try {
    return eventOf(zones, event);
  } catch (cause) {
    if (cause instanceof Fault) throw cause;
    // The library reads values when they are asked for, and throws plain errors at those that are none.
    throw misfit("/text", `it cannot be read: ${cause instanceof Error ? cause.message.slice(0, 100) : "unknown"}`);
  }
}

function eventOf(zones: FileZones, { uid, lines }: IcsFile["events"][number]): IcsEvent {
  const component = new ICAL.Component(ICAL.parse(lines.join("\r\n")));
  const text = (name: string): string => String(component.getFirstPropertyValue(name) ?? "").trim();
  const start = place(component, "dtstart", zones);
  if (start === undefined) throw misfit("/text", "DTSTART is missing");
  const rrule = rawValue(lines, "RRULE") ?? null;
  const original = place(component, "recurrence-id", zones) ?? null;
  const duration_seconds = durationOf(component, start, zones);
  const timing = { start_local: start.local, time_zone: start.zone, duration_seconds };
  return {
    uid,
    occurrence: original,
    isCancelled: text("status").toUpperCase() === "CANCELLED",
    title: bounded(text("summary") || "(no title)", TITLE_MAX, "SUMMARY"),
    description: bounded(text("description"), DESCRIPTION_MAX, "DESCRIPTION") || null,
    location: bounded(text("location"), LOCATION_MAX, "LOCATION") || null,
    timing,
    rrule,
    exDates: rrule === null ? [] : exDatesIn(component, timing, zones),
    reminders: remindersIn(component),
    visibility: visibilityOf(text("class").toUpperCase()),
    isTransparent: text("transp").toUpperCase() === "TRANSPARENT",
    attendees: attendeesIn(component),
    leftOut: leftOutOf(component),
  };
}

/** A class that nobody knows is to be taken for private (RFC 5545 3.8.1.3). */
function visibilityOf(name: string): IcsEvent["visibility"] {
  return Object.hasOwn(VISIBILITIES, name) ? VISIBILITIES[name] ?? null : "private";
}

function leftOutOf(component: ICAL.Component): string[] {
  const range = component.getFirstProperty("recurrence-id")?.getFirstParameter("range");
  return [
    ...(component.hasProperty("rdate") ? ["its additional dates (RDATE) are left out"] : []),
    ...(component.hasProperty("exrule") ? ["its excluding rule (EXRULE) is left out"] : []),
    ...(component.getAllProperties("rrule").length > 1 ? ["its rules after the first are left out"] : []),
    ...(range === undefined ? [] : ["its change of all that follow (RANGE) is kept for one occurrence only"]),
  ];
}

type Place = { local: string; zone: string | null };

function place(component: ICAL.Component, name: string, zones: FileZones): Place | undefined {
  const property = component.getFirstProperty(name);
  return property === null ? undefined : placesOf(property, zones)[0];
}

function placesOf(property: ICAL.Property, zones: FileZones): Place[] {
  const tzid = property.getFirstParameter("tzid");
  const written: unknown[] = property.toJSON().slice(3);
  return property.getValues().map((value, at) => {
    if (!(value instanceof ICAL.Time)) throw misfit("/text", `${property.name} is no time`);
    const text = value.toString();
    // The library turns February 30 into March 2; a leap second may well be the next one.
    const given = String(written[at]);
    if (given !== text && !given.includes(":60")) {
      throw misfit("/text", `${property.name} is no date of a calendar: ${given.slice(0, 40)}`);
    }
    if (!/^(19|20|21)\d\d-\d\d-\d\d(T\d\d:\d\d:\d\dZ?)?$/.test(text) || Number.isNaN(wallMs(text.replace("Z", "")))) {
      throw misfit("/text", `${property.name} is not between 1900 and 2199`);
    }
    if (value.isDate) return { local: text, zone: null };
    if (text.endsWith("Z")) return { local: text.slice(0, -1), zone: "UTC" };
    const zone = zones.named(tzid, value.year);
    if (zone === undefined) throw misfit("/text", `the time zone ${(tzid ?? "of the file").slice(0, 60)} is not known`);
    return { local: text, zone };
  });
}

function durationOf(component: ICAL.Component, start: Place, zones: FileZones): number {
  const usual = start.zone === null ? DAY_SECONDS : 0;
  const end = place(component, "dtend", zones);
  const duration = component.getFirstPropertyValue("duration");
  const seconds = end !== undefined
    ? (instantOf(end.local, end.zone) - instantOf(start.local, start.zone)) / 1000
    : duration instanceof ICAL.Duration
    ? duration.toSeconds()
    : usual;
  if (seconds > 366 * DAY_SECONDS) throw misfit("/text", "it lasts longer than 366 days");
  // Some programs write an end that is the start, or before it.
  if (start.zone === null) return Math.max(DAY_SECONDS, Math.round(seconds / DAY_SECONDS) * DAY_SECONDS);
  return seconds < 0 ? HOUR_SECONDS : Math.round(seconds);
}

/** EXDATEs in the terms of the series; those in another zone are converted. */
function exDatesIn(component: ICAL.Component, series: Timing, zones: FileZones): string[] {
  return component.getAllProperties("exdate").flatMap((property) =>
    placesOf(property, zones).map((date) => inSeries(date, series))
  );
}

/** A time of the file as a start of this series. Some programs name one by its day alone. */
export function inSeries({ local, zone: from }: Place, { start_local, time_zone: zone }: Timing): string {
  if (from === zone) return local;
  if (zone === null) return local.slice(0, 10);
  if (from === null) return `${local}${start_local.slice(local.length)}`;
  return localOf(wallOf(instantOf(local, from), zone), zone);
}

function remindersIn(component: ICAL.Component): IcsEvent["reminders"] {
  const alarms = component.getAllSubcomponents("valarm");
  if (alarms.length === 0) return null;
  const minutes = alarms.flatMap((alarm) => {
    const trigger = alarm.getFirstPropertyValue("trigger");
    if (!(trigger instanceof ICAL.Duration)) return [];
    const before = Math.round(-trigger.toSeconds() / 60);
    return before >= 0 && before <= 60 * 24 * 28 ? [before] : [];
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
      status: ANSWERS[parameter("partstat")] ?? "needs_action",
    });
  }
  if (found.size > ATTENDEES_MAX) throw misfit("/text", `it has more than ${ATTENDEES_MAX} attendees`);
  return [...found.values()];
}

function bounded(text: string, max: number, name: string): string {
  if (text.length > max) throw misfit("/text", `${name} has more than ${max} characters`);
  if (!text.isWellFormed() || text.includes("\0")) throw misfit("/text", `${name} has characters that no text has`);
  return text;
}
