// Events as an iCalendar file (RFC 5545): wall times with their zones, so that recurring ones stay right across DST.
import ical, { ICalEventTransparency } from "ical-generator";
import { tzlib_get_ical_block } from "timezones-ical-library";
import { exDatesOf, type Patch, patchOf } from "./occurrence.ts";
import type { EventRow, WholeEvent } from "./store.ts";
import { instantOf, localOf, wallMs } from "./zone.ts";

/**
 * Names that stand for a RECURRENCE-ID of the series' own kind until the file is written: the library knows only times in
 * the zone of the edit, which readers that compare names as texts would not find in the series.
 */
const OCCURRENCE_IDS = {
  "X-RECURRENCE-DATE:": "RECURRENCE-ID;VALUE=DATE:",
  "X-RECURRENCE-UTC:": "RECURRENCE-ID:",
  "X-RECURRENCE-LOCAL:": "RECURRENCE-ID;TZID=",
} as const;

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
      calendar.createEvent({
        ...describe(row, patchOf(override), override.occurrence),
        x: [occurrenceId(override.occurrence, row.time_zone)],
      });
    }
  }
  return Object.entries(OCCURRENCE_IDS)
    .reduce((text, [mark, name]) => text.replaceAll(new RegExp(`^${mark}`, "gm"), name), calendar.toString())
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

function occurrenceId(occurrence: string, zone: string | null): [string, string] {
  const stamp = occurrence.replaceAll(/[-:]/g, "");
  if (zone === null) return ["X-RECURRENCE-DATE", stamp];
  return isUtc(zone) ? ["X-RECURRENCE-UTC", `${stamp}Z`] : ["X-RECURRENCE-LOCAL", `${zone}:${stamp}`];
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
