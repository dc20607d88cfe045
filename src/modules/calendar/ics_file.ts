// An iCalendar file taken apart into its events, with bounds before anything is parsed.
import { createHash } from "node:crypto";
import { Fault } from "@/core/fault.ts";

const EVENTS_MAX = 2000;
const LINES_MAX = 100_000;
const DEPTH_MAX = 4;
/** Zones that a file describes, and lines that one takes with all of its past; more are not read. */
const DEFINITIONS_MAX = 50;
const DEFINITION_LINES_MAX = 1000;
const EVENT_MAX_CHARS = 256 * 1024;

export type IcsFile = {
  /** Each event as its unfolded lines, with a uid made from them where it has none. */
  events: { uid: string; lines: string[] }[];
  /** X-WR-TIMEZONE: the zone of times that name none. */
  zone: string | undefined;
  /** X-LIC-LOCATION by TZID. */
  locations: Map<string, string>;
  /** VTIMEZONE by TZID, as unfolded lines. */
  definitions: Map<string, string[]>;
  /** Events too large to read. */
  oversized: number;
};

/** Splits a file; throws `validation_failed` when it is none, or too much. */
export function splitIcs(text: string): IcsFile {
  const lines = unfold(text);
  if (lines[0]?.trim().toUpperCase() !== "BEGIN:VCALENDAR") throw broken("it does not begin with BEGIN:VCALENDAR");
  const file: IcsFile = { events: [], zone: undefined, locations: new Map(), definitions: new Map(), oversized: 0 };
  const open: string[] = [];
  let event: string[] | undefined;
  let definition: string[] = [];
  let tzid = "";
  for (const line of lines) {
    const [name, value] = nameAndValue(line);
    if (name === "BEGIN") {
      open.push(value.toUpperCase());
      if (open.length > DEPTH_MAX) throw broken(`parts are nested deeper than ${DEPTH_MAX}`);
      if (value.toUpperCase() === "VEVENT" && event === undefined) event = [];
      if (value.toUpperCase() === "VTIMEZONE") definition = [];
    }
    (event ?? definition).push(line);
    if (name === "END") {
      if (open.pop() !== value.toUpperCase()) throw broken(`END:${value.slice(0, 40)} has no BEGIN`);
      if (value.toUpperCase() === "VEVENT" && event !== undefined) {
        addEvent(file, event);
        event = undefined;
      }
      if (value.toUpperCase() === "VTIMEZONE" && file.definitions.size < DEFINITIONS_MAX) {
        file.definitions.set(tzid, definition.length > DEFINITION_LINES_MAX ? [] : definition);
        definition = [];
      }
    } else if (event === undefined) {
      if (name === "X-WR-TIMEZONE") file.zone = value;
      else if (name === "TZID") tzid = value.replaceAll("\\", "");
      else if (name === "X-LIC-LOCATION") file.locations.set(tzid, value);
    }
  }
  if (open.length > 0) throw broken(`${open.at(-1)?.slice(0, 40)} does not end`);
  return file;
}

/** The value of the first line of this name. */
export function rawValue(lines: readonly string[], wanted: string): string | undefined {
  for (const line of lines) {
    const [name, value] = nameAndValue(line);
    if (name === wanted) return value;
  }
  return undefined;
}

function addEvent(file: IcsFile, lines: string[]): void {
  if (lines.reduce((sum, line) => sum + line.length, 0) > EVENT_MAX_CHARS) {
    file.oversized++;
    return;
  }
  if (file.events.length >= EVENTS_MAX) throw broken(`it has more than ${EVENTS_MAX} events`);
  const uid = rawValue(lines, "UID")?.trim();
  const isUsable = uid !== undefined && uid.length <= 255 && /^\P{Cc}+$/u.test(uid) && uid.isWellFormed();
  const made = createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 40);
  file.events.push({ uid: isUsable ? uid : made, lines });
}

/** Lines as they were before long ones were folded; empty ones are left out. */
function unfold(text: string): string[] {
  const lines: string[][] = [];
  for (const line of text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/)) {
    const last = lines.at(-1);
    if ((line.startsWith(" ") || line.startsWith("\t")) && last !== undefined) last.push(line.slice(1));
    else if (line.trim() !== "") lines.push([line]);
    if (lines.length > LINES_MAX) throw broken(`it has more than ${LINES_MAX} lines`);
  }
  return lines.map((parts) => parts.join(""));
}

function nameAndValue(line: string): [string, string] {
  const end = line.search(/[;:]/);
  if (end < 0) return ["", ""];
  const colon = line.indexOf(":", end);
  return [line.slice(0, end).toUpperCase(), colon < 0 ? "" : line.slice(colon + 1).trim()];
}

function broken(detail: string): Fault {
  return new Fault("validation_failed", `/text: this is not an iCalendar file we can read, ${detail}`, {
    errors: [{ pointer: "/text", code: "invalid_calendar", detail }],
  });
}
