// The calendar: events and series of rooms and principals, responses, free/busy times, reminders, feeds and imports.
export { calendarModule } from "./module.ts";
