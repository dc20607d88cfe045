// Times, sizes and names as people read them.
import { hour, locale, preferences } from "./preferences.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_SECONDS = 86_400;
const DAY_MS = 24 * HOUR_MS;
const time = new Intl.DateTimeFormat(locale, { ...hour, minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(locale, { weekday: "long" });
const day = new Intl.DateTimeFormat(locale, { weekday: "short", day: "numeric", month: "short" });
const date = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(locale, {
  dateStyle: "full",
  timeStyle: "short",
  hourCycle: preferences.hourCycle,
});
const fullDay = new Intl.DateTimeFormat(locale, { dateStyle: "full" });
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const number = new Intl.NumberFormat(locale);
const UNITS = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9]] as const;

export function timeOf(at: string): string {
  return time.format(new Date(at));
}

/** A full hour, as times are written elsewhere. */
export function hourOf(hour: number): string {
  return time.format(new Date(2000, 0, 1, hour));
}

export function fullTimeOf(at: string): string {
  return full.format(new Date(at));
}

/** A day with its weekday, as screen readers say it. */
export function fullDayOf(value: Date): string {
  return fullDay.format(value);
}

/** "Today", a weekday of the last week, or a date. */
export function dayOf(at: string): string {
  const days = daysAgo(at);
  if (days === 0 || days === 1) return capitalized(relative.format(-days, "day"));
  if (days > 1 && days < 7) return weekday.format(new Date(at));
  return dateOf(at);
}

/** A date; with the year if it is not this one. */
export function dateOf(at: string): string {
  const value = new Date(at);
  return (value.getFullYear() === new Date().getFullYear() ? day : date).format(value);
}

/** A time today, a weekday, or a date: for narrow columns. */
export function shortTimeOf(at: string): string {
  return daysAgo(at) === 0 ? timeOf(at) : dayOf(at);
}

export function sizeOf(bytes: number): string {
  const [unit, factor] = UNITS.findLast(([, least]) => bytes >= least) ?? UNITS[0];
  const value = bytes / factor;
  return `${value >= 10 || factor === 1 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

export function numberOf(n: number): string {
  return number.format(n);
}

/** "1 reply", "2 replies". */
export function count(n: number, singular: string, plural = `${singular}s`): string {
  return `${numberOf(n)} ${n === 1 ? singular : plural}`;
}

export function isSameDay(a: string, b: string): boolean {
  return new Date(a).toDateString() === new Date(b).toDateString();
}

/** The value of a `datetime-local` input, in local time. */
export function localInputOf(at: Date): string {
  return new Date(at.getTime() - at.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16);
}

/** First letters of a name, for its picture. */
export function initialsOf(name: string): string {
  const words = name.trim().split(/\s+/).map((word) => [...word][0] ?? "");
  return (words.length > 1 ? `${words[0]}${words.at(-1)}` : words[0] ?? "?").toUpperCase();
}

/** One of eight colors, the same for the same id. */
export function colorOf(id: string): string {
  let sum = 0;
  for (const char of id) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) % 997;
  return `color-${sum % 8}`;
}

function daysAgo(at: string): number {
  const midnight = new Date();
  midnight.setHours(0, 0, 0, 0);
  const other = new Date(at);
  other.setHours(0, 0, 0, 0);
  return Math.round((midnight.getTime() - other.getTime()) / DAY_MS);
}

export function capitalized(text: string): string {
  return text.charAt(0).toLocaleUpperCase() + text.slice(1);
}

/** A local date as `2026-03-01`. */
export function dateText(day: Date): string {
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}
