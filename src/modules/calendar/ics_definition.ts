// Time zones that a file names as it likes and then describes: found by when their clocks change, among zones of the database.
import { WINDOWS_TO_IANA_MAP } from "windows-iana";

/** `BEGIN:VTIMEZONE` and what follows of it, unfolded. */
export type Definition = readonly string[];

/** Rules that are in force in one year; the most are four, where clocks also change for Ramadan. */
const RULES_MAX = 8;
const WEEKDAYS = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
/** Zones as the world names them first, so that New York is found before its neighbours. */
const ZONES = WINDOWS_TO_IANA_MAP.flatMap(({ territory, iana }) => territory === "001" ? iana : []);

/** Finds zones by their definitions; remembers what it has read of them and worked out of the database. */
export class DefinedZones {
  readonly #rules = new Map<Definition, readonly Rule[]>();
  readonly #named = new Map<number, Map<string, string>>();

  /** The zone whose clocks do in this year what the definition says; `undefined` where none does. */
  find(definition: Definition, year: number): string | undefined {
    const rules = this.#rules.get(definition) ?? rulesIn(definition);
    this.#rules.set(definition, rules);
    const changes = changesIn(rules, year);
    return changes === undefined ? undefined : this.#zonesOf(year).get(changes);
  }

  #zonesOf(year: number): Map<string, string> {
    const known = this.#named.get(year);
    if (known !== undefined) return known;
    // The first of several keeps its place.
    const zones = new Map(ZONES.map((zone) => [changesOf(zone, year), zone] as const).reverse());
    this.#named.set(year, zones);
    return zones;
  }
}

/** What the clocks of a zone do in a year, as a text: the offset at its beginning, and each change of it. */
function changesOf(zone: string, year: number): string {
  let at = Temporal.PlainDate.from({ year, month: 1, day: 1 }).toZonedDateTime("UTC").withTimeZone(zone);
  const changes = [String(at.offsetNanoseconds / 1e9)];
  for (let next = at.getTimeZoneTransition("next"); next !== null; next = at.getTimeZoneTransition("next")) {
    if (next.withTimeZone("UTC").year > year) break;
    at = next;
    changes.push(`${at.epochMilliseconds} ${at.offsetNanoseconds / 1e9}`);
  }
  return changes.join("\n");
}

/** The same as rules of a definition have it. */
function changesIn(rules: readonly Rule[], year: number): string | undefined {
  const changes = rules.flatMap((rule) => {
    const at = changeOf(rule, year);
    return at === undefined ? [] : [{ ...rule, at: at - rule.from * 1000 }];
  }).sort((a, b) => a.at - b.at);
  if (changes.length > RULES_MAX) return undefined;
  const [first] = changes;
  // Without a change, what was changed last holds.
  const before = first?.from ?? rules.filter((rule) => rule.year <= year).sort((a, b) => b.year - a.year)[0]?.to;
  return before === undefined ? undefined : [before, ...changes.map(({ at, to }) => `${at} ${to}`)].join("\n");
}

type Rule = {
  year: number;
  month: number;
  day: number;
  timeMs: number;
  from: number;
  to: number;
  parts: Parts | undefined;
};
type Parts = ReadonlyMap<string, string>;

/** None where a definition lists changes one by one, as it does where they follow no rule. */
function rulesIn(definition: Definition): readonly Rule[] {
  if (definition.some((line) => /^RDATE/i.test(line))) return [];
  const rules: Rule[] = [];
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
        timeMs: (Number(hour) * 60 + Number(minute)) * 60_000,
        from,
        to,
        parts: rrule === undefined ? undefined : new Map(rrule),
      });
    }
  }
  return rules;
}

/** When a rule changes the clocks in a year, in their wall time as if it were UTC. */
function changeOf({ year: since, month, day, timeMs, parts }: Rule, year: number): number | undefined {
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
