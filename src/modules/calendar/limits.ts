// Bounds of calendar events. Without schemas, for the worker that parses files.
import { DAY_SECONDS } from "@/core/time/clock.ts";

export const TITLE_MAX = 255;
export const DESCRIPTION_MAX = 16_000;
export const LOCATION_MAX = 500;
export const ATTENDEES_MAX = 200;
export const REMINDERS_MAX = 5;
/** Edited occurrences of one series, and as many excluded ones. */
export const EXCEPTIONS_MAX = 500;
export const RANGE_DAYS_MAX = 366;
export const OCCURRENCES_MAX = 5000;
export const FREEBUSY_MAX = 50;
/** Busy times of one response: a month of fifty people, with a dozen a day. */
export const BUSY_MAX = 20_000;
/** Occurrences of a series that `ifFree` checks: a year of daily ones. */
export const IF_FREE_MAX = 366;
/** Imports of one principal that have not run. */
export const WAITING_IMPORTS_MAX = 10;
export const IMPORT_MAX_BYTES = 1024 * 1024;
export const DURATION_DAYS_MAX = 366;
export const DURATION_SECONDS_MAX = DURATION_DAYS_MAX * DAY_SECONDS;
export const REMINDER_MINUTES_MAX = 60 * 24 * 28;
