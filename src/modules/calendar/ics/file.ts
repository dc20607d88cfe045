// Splits an iCalendar file into its events, with limits that apply before anything is parsed.
import { createYielder } from "@/core/caller.ts";
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";

const EVENTS_MAX = 2000;
const LINES_MAX = 100_000;
const DEPTH_MAX = 4;
/** Zone definitions of a file, and lines of one; further ones are ignored. */
const DEFINITIONS_MAX = 50;
const DEFINITION_LINES_MAX = 1000;
const EVENT_MAX_CHARS = 256 * 1024;
/** Lines processed without yielding: less than a millisecond. */
const LINES_PER_TICK = 500;

export type IcsFile = {
  /** Each event as its unfolded lines, with a uid derived from them if it has none. */
  events: { uid: string; lines: string[] }[];
  /** X-WR-TIMEZONE: the zone of times without one. */
  zone: string | undefined;
  /** X-LIC-LOCATION by TZID. */
  locations: Map<string, string>;
  /** VTIMEZONE by TZID, as unfolded lines. */
  definitions: Map<string, string[]>;
  /** Number of events that are too large. */
  oversized: number;
};

/** Splits a file, yielding to other requests; throws `validation_failed` if it is invalid or exceeds a limit. */
export async function parseIcs(text: string): Promise<IcsFile> {
  const yieldIfDue = createYielder();
  const lines = await unfold(text, yieldIfDue);
  if (lines[0]?.join("").trim().toUpperCase() !== "BEGIN:VCALENDAR") {
    throw invalidFile("it does not start with BEGIN:VCALENDAR");
  }
  const file: IcsFile = { events: [], zone: undefined, locations: new Map(), definitions: new Map(), oversized: 0 };
  const open: string[] = [];
  let event: string[] | undefined;
  let uid: string | undefined;
  let definition: string[] = [];
  let tzid = "";
  for (const [at, parts] of lines.entries()) {
    if (at % LINES_PER_TICK === 0) await yieldIfDue();
    const line = parts.join("");
    const [name, value] = nameAndValue(line);
    if (name === "BEGIN") {
      open.push(value.toUpperCase());
      if (open.length > DEPTH_MAX) throw invalidFile(`components are nested deeper than ${DEPTH_MAX} levels`);
      if (value.toUpperCase() === "VEVENT" && event === undefined) [event, uid] = [[], undefined];
      if (value.toUpperCase() === "VTIMEZONE") definition = [];
    }
    (event ?? definition).push(line);
    if (name === "END") {
      if (open.pop() !== value.toUpperCase()) throw invalidFile(`END:${value.slice(0, 40)} has no matching BEGIN`);
      if (value.toUpperCase() === "VEVENT" && event !== undefined) {
        addEvent(file, event, uid);
        event = undefined;
      }
      if (value.toUpperCase() === "VTIMEZONE" && file.definitions.size < DEFINITIONS_MAX) {
        file.definitions.set(tzid, definition.length > DEFINITION_LINES_MAX ? [] : definition);
        definition = [];
      }
    } else if (event !== undefined) {
      if (name === "UID") uid ??= value;
    } else if (name === "X-WR-TIMEZONE") file.zone = value;
    else if (name === "TZID") tzid = value.replaceAll("\\", "");
    else if (name === "X-LIC-LOCATION") file.locations.set(tzid, value);
  }
  if (open.length > 0) throw invalidFile(`${open.at(-1)?.slice(0, 40)} has no END`);
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

function addEvent(file: IcsFile, lines: string[], uid: string | undefined): void {
  if (lines.reduce((sum, line) => sum + line.length, 0) > EVENT_MAX_CHARS) {
    file.oversized++;
    return;
  }
  if (file.events.length >= EVENTS_MAX) throw invalidFile(`it has more than ${EVENTS_MAX} events`);
  file.events.push({ uid: uid !== undefined && isUsable(uid) ? uid : hashUid(lines), lines });
}

function isUsable(uid: string): boolean {
  return uid.length <= 255 && /^\P{Cc}+$/u.test(uid) && uid.isWellFormed();
}

function hashUid(lines: readonly string[]): string {
  return hashText(lines.join("\n")).slice(0, 40);
}

/** The parts of each unfolded line, without empty lines. */
async function unfold(text: string, yieldIfDue: () => Promise<unknown>): Promise<string[][]> {
  const lines: string[][] = [];
  let count = 0;
  for (const line of linesOf(text)) {
    if (++count % LINES_PER_TICK === 0) await yieldIfDue();
    const last = lines.at(-1);
    if ((line.startsWith(" ") || line.startsWith("\t")) && last !== undefined) last.push(line.slice(1));
    else if (line.trim() !== "") lines.push([line]);
    if (lines.length > LINES_MAX) throw invalidFile(`it has more than ${LINES_MAX} lines`);
  }
  return lines;
}

/** The lines one by one, since splitting a text of line ends only takes long. */
function* linesOf(text: string): Generator<string> {
  let from = text.startsWith("\uFEFF") ? 1 : 0;
  for (const { 0: end, index } of text.matchAll(/\r\n|\n|\r/g)) {
    yield text.slice(from, index);
    from = index + end.length;
  }
  yield text.slice(from);
}

function nameAndValue(line: string): [string, string] {
  const end = line.search(/[;:]/);
  if (end < 0) return ["", ""];
  const colon = line.indexOf(":", end);
  return [line.slice(0, end).toUpperCase(), colon < 0 ? "" : line.slice(colon + 1).trim()];
}

function invalidFile(detail: string): Fault {
  return Fault.forField("/text", "invalid_calendar", `invalid iCalendar file: ${detail}`);
}
