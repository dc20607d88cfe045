// The calendar: events and series of rooms and people, who comes, when who is busy, reminders, feeds and imports.
export { calendarModule } from "./api.ts";
export type { Meetings } from "./meetings.ts";
export { type NotifyReminder } from "./reminders.ts";
export { CalendarSource } from "./source.ts";
export { type CalendarTables } from "./store.ts";
