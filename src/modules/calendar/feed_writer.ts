// Events as an iCalendar file (RFC 5545): wall times with their zones, so that recurring ones stay right across DST.
import ical, { foldLines, ICalEvent, ICalEventClass, type ICalEventData, ICalEventTransparency } from "ical-generator";
import { tzlib_get_ical_block } from "timezones-ical-library";
import { nextTurn } from "@/core/clock.ts";
import { cutAt } from "./expansion.ts";
import { type People, peopleLines } from "./feed_people.ts";
import { exDatesOf, type Patch, patchOf, seriesOf } from "./occurrence.ts";
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

const CLASSES = { room: null, busy_only: ICalEventClass.CONFIDENTIAL, private: ICalEventClass.PRIVATE } as const;

/** What a file holds at most, in UTF-16 units; events beyond that are left out. */
const FILE_MAX = 8_000_000;
/** Of that what tells who attends: the events of a feed matter more. */
const PEOPLE_MAX = FILE_MAX / 2;
/** Written before others get their turn. */
const PIECE = 50_000;
const BEGIN = "BEGIN:VEVENT\r\n";
const END = "END:VEVENT";

/** Writes the calendar, piece by piece: it may be large. Who is not among `people` is called by their id. */
export async function writeCalendar(
  name: string,
  events: readonly WholeEvent[],
  people: People = new Map(),
): Promise<string> {
  const calendar = ical({
    name,
    prodId: "//Collaboration Gateway//Calendar//EN",
    timezone: { name: null, generator: zoneBlock },
  });
  const zones = new Set<string>();
  const written: string[] = [];
  let size = 0;
  let turnAt = PIECE;
  for (const { data, lines } of dataOf(events, people)) {
    // One event of each zone is enough for the calendar to describe it.
    const zone = data.timezone ?? "";
    const event = zones.has(zone) ? new ICalEvent(data, calendar) : calendar.createEvent(data);
    zones.add(zone);
    const text = plain(foldLines(withLines(event.toString(), lines)));
    if ((size += text.length) > FILE_MAX) break;
    written.push(text);
    if (size < turnAt) continue;
    await nextTurn();
    turnAt = size + PIECE;
  }
  const outline = plain(calendar.toString());
  const at = outline.indexOf(`\r\n${BEGIN}`) + 2;
  return at < 2 ? outline : `${outline.slice(0, at)}${written.join("")}END:VCALENDAR`;
}

function* dataOf(events: readonly WholeEvent[], people: People): Generator<{ data: EventData; lines: string[] }> {
  let size = 0;
  const linesOf = (event: WholeEvent, name?: string): string[] => {
    const lines = size > PEOPLE_MAX ? [] : peopleLines(event, people, name === undefined ? undefined : { name });
    for (const line of lines) size += line.length;
    return lines;
  };
  for (const event of events) {
    const { row, overrides } = event;
    const data = { ...describe(row, {}), repeating: row.rrule === null ? null : recurrence(row) };
    yield { data, lines: linesOf(event) };
    for (const override of overrides) {
      const data = {
        ...describe(row, patchOf(override), override.occurrence),
        x: [occurrenceId(override.occurrence, row.time_zone)],
      };
      yield { data, lines: linesOf(event, override.occurrence) };
    }
  }
}

/** An event with some more lines: the library takes nobody without an address. */
function withLines(event: string, lines: readonly string[]): string {
  const at = event.lastIndexOf(END);
  return `${event.slice(0, at)}${lines.map((line) => `${line}\r\n`).join("")}${event.slice(at)}`;
}

function plain(text: string): string {
  return Object.entries(OCCURRENCE_IDS)
    .reduce((text, [mark, name]) => text.replaceAll(new RegExp(`^${mark}`, "gm"), name), text)
    // Texts of calendars have no other control characters (RFC 5545 3.3.11).
    .replaceAll(/[^\P{Cc}\r\n\t]/gu, "")
    // These they may have, and some programs take what follows for the next line of the file.
    .replaceAll(/[\u2028\u2029]/g, "\\n");
}

type EventData = ICalEventData & { timezone: string | null };

function describe(row: EventRow, patch: Patch, occurrence?: string): EventData {
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
    class: CLASSES[row.visibility],
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
  const lines = [`RRULE:${plainRule(row)}`];
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

/** The rule with its UNTIL as a date where the start is one, else in UTC (RFC 5545 3.3.10); who made it may have said it otherwise. */
function plainRule(row: EventRow): string | null {
  const { rrule, last_local } = row;
  return last_local === null || !rrule?.includes("UNTIL=") ? rrule : cutAt(seriesOf(row), wallMs(last_local));
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
