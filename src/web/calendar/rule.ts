// Recurrence rules: those that are offered, and any in words.
import { count, dateOf } from "../core/format.ts";
import { locale } from "../core/preferences.ts";

/** Rules to choose from. */
export const REPEATS: readonly (readonly [rule: string, label: string])[] = [
  ["", "does not repeat"],
  ["FREQ=DAILY", "every day"],
  ["FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "every working day"],
  ["FREQ=WEEKLY", "every week"],
  ["FREQ=WEEKLY;INTERVAL=2", "every two weeks"],
  ["FREQ=MONTHLY", "every month"],
];
const UNITS: Readonly<Record<string, string>> = {
  HOURLY: "hour",
  DAILY: "day",
  WEEKLY: "week",
  MONTHLY: "month",
  YEARLY: "year",
};
const DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
const PLACES: Readonly<Record<string, string>> = {
  "": "",
  1: "the first ",
  2: "the second ",
  3: "the third ",
  4: "the fourth ",
  "-1": "the last ",
};
/** A weekday, which may be one of those in a month: `2MO` is the second Monday. */
const WEEKDAY = /^\+?(-?\d{0,2})([A-Z]{2})$/;
/** A day, and the time if it is one of UTC. */
const END = /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?$/;
const list = new Intl.ListFormat("en");
const weekday = new Intl.DateTimeFormat(locale, { weekday: "long", timeZone: "UTC" });

/** How often an event repeats, and until when, such as "every week on Monday, until 8 Nov 2026". */
export function ruleInWords(rule: string): string {
  const parts = new Map(rule.split(";").map((part) => part.split("=") as [string, string]));
  const [until, times] = [parts.get("UNTIL"), parts.get("COUNT")];
  for (const name of ["UNTIL", "COUNT", "WKST"]) parts.delete(name);
  const known = REPEATS.find(([one]) => one === [...parts].map((part) => part.join("=")).join(";"))?.[1];
  return [
    known ?? frequencyOf(parts),
    ...times === undefined ? [] : [count(Number(times), "time")],
    ...until === undefined ? [] : [`until ${dateOf(endOf(until))}`],
  ].join(", ");
}

function frequencyOf(parts: ReadonlyMap<string, string>): string {
  const { FREQ = "", INTERVAL: interval = "1", BYDAY: days, ...others } = Object.fromEntries(parts);
  const unit = UNITS[FREQ] ?? "time";
  const every = interval === "1" ? `every ${unit}` : `every ${count(Number(interval), unit)}`;
  const names = days?.split(",").map(weekdayOf) ?? [];
  if (Object.keys(others).length > 0 || names.includes(undefined)) return `${every}, by a rule of its own`;
  return names.length === 0 ? every : `${every} on ${list.format(names as string[])}`;
}

/** A weekday in words; nothing if there are none for it. */
function weekdayOf(text: string): string | undefined {
  const [, place = "", name = ""] = WEEKDAY.exec(text) ?? [];
  const [words, day] = [PLACES[place], DAYS.indexOf(name)];
  // 1 January 2024 was a Monday.
  return words === undefined || day < 0 ? undefined : words + weekday.format(Date.UTC(2024, 0, 1 + day));
}

/** The end of a series as a time: that of UTC, or the middle of the day. */
function endOf(until: string): string {
  const [, year, month, day, hour, minute, second, zone] = END.exec(until) ?? [];
  return `${year}-${month}-${day}T${zone === "Z" ? `${hour}:${minute}:${second}Z` : "12:00:00"}`;
}
