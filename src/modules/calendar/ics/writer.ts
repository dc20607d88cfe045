// Events as an iCalendar file (RFC 5545): wall times with their zones, so that series stay correct when clocks change.
import ical, { foldLines, ICalEvent, ICalEventClass, type ICalEventData, ICalEventTransparency } from "ical-generator";
import { tzlib_get_ical_block } from "timezones-ical-library";
import { createYielder } from "@/core/caller.ts";
import { patchedOr } from "@/core/patch.ts";
import { endRuleAt } from "../recurrence/expansion.ts";
import { exDatesOf, type Occurrence, type Patch, patchOf, responseOf, seriesOf } from "../recurrence/occurrence.ts";
import type { AttendeeRow, EventAggregate, EventRow } from "../store.ts";
import { instantOf, localOf, wallMs } from "../time_zone.ts";

/**
 * Placeholders for a RECURRENCE-ID in the zone of the series. The library writes it in the zone of the edit, where clients that
 * compare it as text would not find the occurrence.
 */
const OCCURRENCE_IDS = {
  "X-RECURRENCE-DATE:": "RECURRENCE-ID;VALUE=DATE:",
  "X-RECURRENCE-UTC:": "RECURRENCE-ID:",
  "X-RECURRENCE-LOCAL:": "RECURRENCE-ID;TZID=",
} as const;
const OCCURRENCE_MARKS = Object.entries(OCCURRENCE_IDS).map(([mark, name]) =>
  [new RegExp(`^${mark}`, "gm"), name] as const
);

const CLASSES = { room: null, busy_only: ICalEventClass.CONFIDENTIAL, private: ICalEventClass.PRIVATE } as const;

/** Principals have no address. Outlook and Apple Calendar use this one for attendees that cannot get mail. */
const NO_EMAIL = "invalid:nomail";
/** Clients that copy the event into another calendar must not send invitations either (RFC 6638 7.1). */
const NO_SCHEDULING = "SCHEDULE-AGENT=NONE";
const ICS_ROLES = { chair: "CHAIR", required: "REQ-PARTICIPANT", optional: "OPT-PARTICIPANT" } as const;
const ICS_STATUSES = {
  needs_action: "NEEDS-ACTION",
  accepted: "ACCEPTED",
  tentative: "TENTATIVE",
  declined: "DECLINED",
} as const;

/** In UTF-16 units; events beyond that are left out. */
const FILE_MAX_CHARS = 8_000_000;
/** Attendees beyond that are left out, in favor of further events. */
const ATTENDEES_MAX_CHARS = FILE_MAX_CHARS / 2;
const BEGIN = "BEGIN:VEVENT\r\n";
const END = "END:VEVENT";

type PrincipalName = { display_name: string; kind: string };
export type PrincipalNames = ReadonlyMap<string, PrincipalName>;

/** Writes a calendar, which may be large, in slices. Principals that are not in `names` are named by their id. */
export async function writeCalendar(
  name: string,
  events: readonly EventAggregate[],
  names: PrincipalNames = new Map(),
): Promise<string> {
  const calendar = ical({
    name,
    prodId: "//Collaboration Gateway//Calendar//EN",
    timezone: { name: null, generator: zoneBlock },
  });
  const zones = new Set<string>();
  const written: string[] = [];
  let size = 0;
  const yieldIfDue = createYielder();
  for (const { data, lines } of dataOf(events, names)) {
    // One event of each zone is enough for the calendar to describe it.
    const zone = data.timezone ?? "";
    const event = zones.has(zone) ? new ICalEvent(data, calendar) : calendar.createEvent(data);
    zones.add(zone);
    const text = sanitizeText(foldLines(withLines(event.toString(), lines)));
    if ((size += text.length) > FILE_MAX_CHARS) break;
    written.push(text);
    await yieldIfDue();
  }
  const skeleton = sanitizeText(calendar.toString());
  const at = skeleton.indexOf(`\r\n${BEGIN}`) + 2;
  return at < 2 ? skeleton : `${skeleton.slice(0, at)}${written.join("")}END:VCALENDAR`;
}

function* dataOf(
  events: readonly EventAggregate[],
  names: PrincipalNames,
): Generator<{ data: EventData; lines: string[] }> {
  let size = 0;
  const linesOf = (event: EventAggregate, name?: string): string[] => {
    const lines = size > ATTENDEES_MAX_CHARS
      ? []
      : attendeeLines(event, names, name === undefined ? undefined : { name });
    for (const line of lines) size += line.length;
    return lines;
  };
  for (const event of events) {
    const { row, overrides, rsvps } = event;
    const data = { ...describe(row, {}), repeating: row.rrule === null ? null : recurrence(row) };
    yield { data, lines: linesOf(event) };
    // An occurrence that somebody responded to differs from the series, too.
    const patches = new Map(rsvps.map(({ occurrence }): [string, Patch] => [occurrence, {}]));
    for (const override of overrides) patches.set(override.occurrence, patchOf(override));
    for (const [occurrence, patch] of patches) {
      const data = { ...describe(row, patch, occurrence), x: [occurrenceId(occurrence, row.time_zone)] };
      yield { data, lines: linesOf(event, occurrence) };
    }
  }
}

/** Adds lines to an event: the library accepts no attendees without an address. */
function withLines(event: string, lines: readonly string[]): string {
  const at = event.lastIndexOf(END);
  return `${event.slice(0, at)}${lines.map((line) => `${line}\r\n`).join("")}${event.slice(at)}`;
}

function sanitizeText(text: string): string {
  return OCCURRENCE_MARKS.reduce((text, [mark, name]) => text.replaceAll(mark, name), text)
    // Other control characters are not allowed in text (RFC 5545 3.3.11).
    .replaceAll(/[^\P{Cc}\r\n\t]/gu, "")
    // Allowed, but some programs take them for the end of a line of the file.
    .replaceAll(/[\u2028\u2029]/g, "\\n");
}

type EventData = ICalEventData & { timezone: string | null };

function describe(row: EventRow, patch: Patch, occurrence?: string): EventData {
  const zone = patchedOr(patch.timeZone, row.time_zone);
  const local = patch.startLocal ?? occurrence ?? row.start_local;
  const seconds = patch.durationSeconds ?? row.duration_seconds;
  const description = patchedOr(patch.description, row.description);
  const location = patchedOr(patch.location, row.location);
  return {
    id: row.uid,
    sequence: row.version,
    stamp: new Date(row.updated_at),
    created: new Date(row.created_at),
    lastModified: new Date(row.updated_at),
    allDay: zone === null,
    timezone: zone === null || isUtc(zone) ? null : zone,
    start: toTemporal(local, zone),
    end: zone === null
      ? toTemporal(localOf(wallMs(local) + seconds * 1000, null), null)
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
  const lines = [`RRULE:${exportedRule(row)}`];
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

/** The rule with UNTIL as a date if the start is one, else in UTC (RFC 5545 3.3.10); the stored rule may differ. */
function exportedRule(row: EventRow): string | null {
  const { rrule, last_local } = row;
  return last_local === null || !rrule?.includes("UNTIL=") ? rrule : endRuleAt(seriesOf(row), wallMs(last_local));
}

function toTemporal(local: string, zone: string | null): Temporal.ZonedDateTime | Temporal.PlainDate {
  return zone === null
    ? Temporal.PlainDate.from(local)
    : Temporal.Instant.fromEpochMilliseconds(instantOf(local, zone)).toZonedDateTimeISO(zone);
}

/** The VTIMEZONE of a zone, under the name that the events use. */
function zoneBlock(zone: string): string | null {
  // The library accepts names only as the time-zone database spells them.
  const [block] = tzlib_get_ical_block(Temporal.Now.zonedDateTimeISO(zone).timeZoneId);
  return block === undefined || !block.startsWith("BEGIN:VTIMEZONE")
    ? null
    : block.replace(/^TZID:.*$/m, `TZID:${zone}`);
}

function isUtc(zone: string): boolean {
  return /^(Etc\/)?(UTC|GMT|Zulu|UCT|Universal)$/i.test(zone);
}

/** Organizer and attendees of an event, or of one occurrence; none without attendees. */
function attendeeLines(
  { row, attendees, rsvps }: EventAggregate,
  names: PrincipalNames,
  occurrence?: Pick<Occurrence, "name">,
): string[] {
  if (attendees.length === 0) return [];
  return [
    `ORGANIZER;${nameOf(row.created_by, names)};${NO_SCHEDULING}:${NO_EMAIL}`,
    ...attendees.map((attendee) => attendeeLine(attendee, responseOf(attendee, rsvps, occurrence).status, names)),
  ];
}

function attendeeLine(
  { principal_id: id, email, role }: AttendeeRow,
  status: AttendeeRow["status"],
  names: PrincipalNames,
): string {
  const how = `ROLE=${ICS_ROLES[role]};PARTSTAT=${ICS_STATUSES[status]};${NO_SCHEDULING}`;
  if (id === null) return `ATTENDEE;${how}:mailto:${email ?? ""}`;
  const kind = names.get(id)?.kind ?? "human";
  return `ATTENDEE;${nameOf(id, names)};CUTYPE=${kind === "human" ? "INDIVIDUAL" : "UNKNOWN"};${how}:${NO_EMAIL}`;
}

/** Quoted; a name in a file cannot contain quotes. */
function nameOf(id: string, names: PrincipalNames): string {
  const name = names.get(id)?.display_name ?? id;
  return `CN="${name.replaceAll(/[\p{Cc}\u2028\u2029]/gu, " ").replaceAll('"', "'")}"`;
}
