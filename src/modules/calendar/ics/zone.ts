// Time zones of iCalendar files: names as calendar programs write them, and definitions, as zones of the time-zone database.
import { findIana, WINDOWS_TO_IANA_MAP } from "windows-iana";
import { MINUTE_MS } from "@/core/time/clock.ts";
import { findTimeZone, TIME_ZONE_MAX_CHARS } from "@/core/time/time_zone.ts";
import type { IcsFile } from "./file.ts";

/** The lines of a VTIMEZONE, unfolded. */
type Vtimezone = readonly string[];

/** Changes of clocks in one year; there are at most four, where they also change for Ramadan. */
const RULES_MAX = 8;
const WEEKDAYS = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
/** The primary zone of each group, so that New York is found before its neighbors. */
const ZONES = WINDOWS_TO_IANA_MAP.flatMap(({ territory, iana }) => territory === "001" ? iana : []);

export class IcsTimeZones {
  readonly #file: Pick<IcsFile, "zone" | "locations" | "definitions">;
  readonly #homeZone: string;
  readonly #matcher = new VtimezoneMatcher();

  /** `homeZone` is for times without a zone in a file without one. */
  constructor(file: Pick<IcsFile, "zone" | "locations" | "definitions">, homeZone: string) {
    this.#file = file;
    this.#homeZone = homeZone;
  }

  /** The IANA name of a TZID, or for times without one, in that year; `undefined` if it is unknown. */
  resolve(tzid: string | undefined, year: number): string | undefined {
    const name = tzid ?? this.#file.zone ?? this.#homeZone;
    if (name.length > TIME_ZONE_MAX_CHARS) return undefined;
    const unquoted = name.replaceAll(/^"|"$/g, "").trim();
    // Programs write `/example.org/2024/Europe/Berlin` and `(UTC) Europe/Berlin`: the name in the database is the end.
    const path = unquoted.split(/[^A-Za-z_+/-]/).at(-1)?.split("/") ?? [];
    const candidates = [
      unquoted,
      ...path.length > 2 ? [path.slice(-3).join("/")] : [],
      ...path.length > 1 ? [path.slice(-2).join("/")] : [],
      this.#file.locations.get(unquoted),
      windowsName(unquoted),
    ];
    const definition = this.#file.definitions.get(unquoted);
    return candidates.map((name) => findTimeZone(name ?? "")).find((zone) => zone !== undefined) ??
      (definition === undefined ? fixedOffsetZone(unquoted) : this.#matcher.find(definition, year));
  }
}

function windowsName(name: string): string | undefined {
  return findIana(name)[0];
}

/** The zone of an offset in a name such as `(UTC+07:00) Bangkok, Hanoi`, for zones the file does not define; only whole hours have one. */
function fixedOffsetZone(name: string): string | undefined {
  const [, sign, hours] = /^\(?(?:UTC|GMT)([+-])0?(\d{1,2}):00\)?/.exec(name) ?? [];
  if (hours === undefined) return undefined;
  if (hours === "0") return "Etc/UTC";
  // POSIX counts west of Greenwich.
  return `Etc/GMT${sign === "+" ? "-" : "+"}${hours}`;
}

/** Finds zones by their definitions: by when their clocks change. Caches parsed definitions and zones by year. */
class VtimezoneMatcher {
  readonly #rules = new Map<Vtimezone, readonly TransitionRule[]>();
  readonly #zonesByYear = new Map<number, Map<string, string>>();

  /** The zone whose clocks change in this year as the definition says; `undefined` if there is none. */
  find(definition: Vtimezone, year: number): string | undefined {
    const rules = this.#rules.get(definition) ?? parseRules(definition);
    this.#rules.set(definition, rules);
    const changes = transitionsIn(rules, year);
    return changes === undefined ? undefined : this.#zonesOf(year).get(changes);
  }

  #zonesOf(year: number): Map<string, string> {
    const known = this.#zonesByYear.get(year);
    if (known !== undefined) return known;
    // Of several zones with the same changes the first one is used.
    const zones = new Map(ZONES.map((zone) => [transitionsOf(zone, year), zone] as const).reverse());
    this.#zonesByYear.set(year, zones);
    return zones;
  }
}

/** The changes of clocks of a zone in a year, as text: the offset at its beginning and each change. */
function transitionsOf(zone: string, year: number): string {
  let at = Temporal.PlainDate.from({ year, month: 1, day: 1 }).toZonedDateTime("UTC").withTimeZone(zone);
  const changes = [String(at.offsetNanoseconds / 1e9)];
  for (let next = at.getTimeZoneTransition("next"); next !== null; next = at.getTimeZoneTransition("next")) {
    if (next.withTimeZone("UTC").year > year) break;
    at = next;
    changes.push(`${at.epochMilliseconds} ${at.offsetNanoseconds / 1e9}`);
  }
  return changes.join("\n");
}

/** The same by the rules of a definition. */
function transitionsIn(rules: readonly TransitionRule[], year: number): string | undefined {
  const changes = rules.flatMap((rule) => {
    const at = transitionOf(rule, year);
    return at === undefined ? [] : [{ ...rule, at: at - rule.from * 1000 }];
  }).sort((a, b) => a.at - b.at);
  if (changes.length > RULES_MAX) return undefined;
  const [first] = changes;
  // Without a change in this year, the last change before it applies.
  const before = first?.from ?? rules.filter((rule) => rule.year <= year).sort((a, b) => b.year - a.year)[0]?.to;
  return before === undefined ? undefined : [before, ...changes.map(({ at, to }) => `${at} ${to}`)].join("\n");
}

type TransitionRule = {
  year: number;
  month: number;
  day: number;
  timeMs: number;
  from: number;
  to: number;
  parts: Parts | undefined;
};
type Parts = ReadonlyMap<string, string>;

/** None if the definition lists single changes. */
function parseRules(definition: Vtimezone): readonly TransitionRule[] {
  if (definition.some((line) => /^RDATE/i.test(line))) return [];
  const rules: TransitionRule[] = [];
  let found = new Map<string, string>();
  for (const line of definition) {
    const [, name = "", value = ""] = /^([\w-]+)(?:;[^:]*)?:(.*)$/.exec(line.trim().toUpperCase()) ?? [];
    if (name === "BEGIN") found = new Map();
    else if (name !== "END") found.set(name, value);
    else if (value !== "VTIMEZONE") {
      const [, year, month, day, hour, minute] =
        /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\d$/.exec(found.get("DTSTART") ?? "") ?? [];
      const [from, to] = [offsetOf(found.get("TZOFFSETFROM")), offsetOf(found.get("TZOFFSETTO"))];
      if (year === undefined || from === undefined || to === undefined) continue;
      const rrule = found.get("RRULE")?.split(";").map((part): [string, string] => {
        const [key = "", text = ""] = part.split("=", 2);
        return [key, text];
      });
      rules.push({
        year: Number(year),
        month: Number(month),
        day: Number(day),
        timeMs: (Number(hour) * 60 + Number(minute)) * MINUTE_MS,
        from,
        to,
        parts: rrule === undefined ? undefined : new Map(rrule),
      });
    }
  }
  return rules;
}

/** The wall time, as if it were UTC, at which a rule changes the clocks in a year. */
function transitionOf({ year: since, month, day, timeMs, parts }: TransitionRule, year: number): number | undefined {
  if (parts === undefined) return since === year ? Date.UTC(year, month - 1, day) + timeMs : undefined;
  const until = Number(parts.get("UNTIL")?.slice(0, 4) ?? Infinity);
  if (since > year || until < year || parts.get("FREQ") !== "YEARLY") return undefined;
  const [, nth, weekday = ""] = /^([+-]?\d)?([A-Z]{2})$/.exec(parts.get("BYDAY") ?? "") ?? [];
  const inMonth = Number(parts.get("BYMONTH") ?? month);
  const monthDays = parts.get("BYMONTHDAY")?.split(",").map(Number);
  const days = Array.from({ length: new Date(Date.UTC(year, inMonth, 0)).getUTCDate() || 0 }, (_, at) => at + 1)
    .filter((one) =>
      weekday === "" || new Date(Date.UTC(year, inMonth - 1, one)).getUTCDay() === WEEKDAYS.indexOf(weekday)
    )
    .filter((one) => monthDays === undefined || monthDays.includes(one));
  const fixed = weekday === "" && monthDays === undefined ? day : undefined;
  const found = fixed ?? (nth === undefined ? days[0] : days.at(Number(nth) > 0 ? Number(nth) - 1 : Number(nth)));
  return found === undefined ? undefined : Date.UTC(year, inMonth - 1, found) + timeMs;
}

/** `-0430` in seconds. */
function offsetOf(text = ""): number | undefined {
  const [, sign, hours, minutes] = /^([+-])(\d\d)(\d\d)/.exec(text) ?? [];
  return sign === undefined ? undefined : Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60;
}
