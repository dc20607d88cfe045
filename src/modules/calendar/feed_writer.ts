// Events as an iCalendar file (RFC 5545): wall times with their zones, so that recurring ones stay right across DST.
import ical, { ICalEventTransparency } from "ical-generator";
import { tzlib_get_ical_block } from "timezones-ical-library";
import { exDatesOf, type Patch, patchOf } from "./occurrence.ts";
import type { EventRow, WholeEvent } from "./store.ts";
import { instantOf, localOf, wallMs } from "./zone.ts";

/** Stands for a RECURRENCE-ID that is a date, which the library cannot write. */
const DATE_ID = "X-RECURRENCE-DATE";

/** Writes the calendar. */
export function writeCalendar(name: string, events: readonly WholeEvent[]): string {
  const calendar = ical({
    name,
    prodId: "//Collaboration Gateway//Calendar//EN",
    timezone: { name: null, generator: zoneBlock },
  });
  for (const { row, overrides } of events) {
    calendar.createEvent({ ...describe(row, {}), repeating: row.rrule === null ? null : recurrence(row) });
    for (const override of overrides) {
      const isDate = row.time_zone === null;
      calendar.createEvent({
        ...describe(row, patchOf(override), override.occurrence),
        ...(isDate ? { x: [[DATE_ID, override.occurrence.replaceAll("-", "")] as [string, string]] } : {
          recurrenceId: placed(override.occurrence, row.time_zone),
        }),
      });
    }
  }
  return calendar.toString().replaceAll(new RegExp(`^${DATE_ID}:`, "gm"), "RECURRENCE-ID;VALUE=DATE:")
    // Texts of calendars have no other control characters (RFC 5545 3.3.11).
    .replaceAll(/[^\P{Cc}\r\n\t]/gu, "");
}

function describe(row: EventRow, patch: Patch, occurrence?: string) {
  const zone = patch.timeZone === undefined ? row.time_zone : patch.timeZone;
  const local = patch.startLocal ?? occurrence ?? row.start_local;
  const seconds = patch.durationSeconds ?? row.duration_seconds;
  const description = patch.description === undefined ? row.description : patch.description;
  const location = patch.location === undefined ? row.location : patch.location;
  return {
    id: row.uid,
    sequence: row.version,
    stamp: new Date(row.updated_at),
    created: new Date(row.created_at),
    lastModified: new Date(row.updated_at),
    allDay: zone === null,
    timezone: zone === null || isUtc(zone) ? null : zone,
    start: placed(local, zone),
    end: zone === null
      ? placed(localOf(wallMs(local) + seconds * 1000, null), null)
      : Temporal.Instant.fromEpochMilliseconds(instantOf(local, zone) + seconds * 1000).toZonedDateTimeISO(zone),
    summary: patch.title ?? row.title,
    ...(description === null ? {} : { description }),
    ...(location === null ? {} : { location }),
    transparency: row.is_transparent === 1 ? ICalEventTransparency.TRANSPARENT : ICalEventTransparency.OPAQUE,
  };
}

/** RRULE and EXDATE lines. */
function recurrence(row: EventRow): string {
  const dates = exDatesOf(row).map((date) => date.replaceAll(/[-:]/g, ""));
  const lines = [`RRULE:${row.rrule}`];
  if (dates.length > 0) {
    lines.push(
      row.time_zone === null
        ? `EXDATE;VALUE=DATE:${dates.join(",")}`
        : isUtc(row.time_zone)
        ? `EXDATE:${dates.map((date) => `${date}Z`).join(",")}`
        : `EXDATE;TZID=${row.time_zone}:${dates.join(",")}`,
    );
  }
  return lines.join("\r\n");
}

function placed(local: string, zone: string | null): Temporal.ZonedDateTime | Temporal.PlainDate {
  return zone === null
    ? Temporal.PlainDate.from(local)
    : Temporal.Instant.fromEpochMilliseconds(instantOf(local, zone)).toZonedDateTimeISO(zone);
}

/** The VTIMEZONE of a zone, under the name that the events use. */
function zoneBlock(zone: string): string | null {
  // The library knows names as the time-zone database spells them only.
  const [block] = tzlib_get_ical_block(Temporal.Now.zonedDateTimeISO(zone).timeZoneId);
  return block === undefined || !block.startsWith("BEGIN:VTIMEZONE")
    ? null
    : block.replace(/^TZID:.*$/m, `TZID:${zone}`);
}

function isUtc(zone: string): boolean {
  return /^(Etc\/)?(UTC|GMT|Zulu|UCT|Universal)$/i.test(zone);
}
