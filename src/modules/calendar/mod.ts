// The calendar: events and series of rooms and people, who comes, when who is busy, reminders, feeds and imports.
export { calendarModule } from "./api.ts";
export { ANSWERS_MAX, CalendarCarrier } from "./carry/carrier.ts";
export {
  ATTENDEE_ROLES,
  ATTENDEES_MAX,
  DESCRIPTION_MAX as EVENT_DESCRIPTION_MAX,
  EVENT_VISIBILITIES,
  EXCEPTIONS_MAX,
  LOCATION_MAX,
  REMINDERS_MAX,
  STATUSES as ANSWER_STATUSES,
  TITLE_MAX as EVENT_TITLE_MAX,
  When,
} from "./schema.ts";
export { CalendarSource } from "./source.ts";
export { type CalendarTables, type WholeEvent } from "./store.ts";
