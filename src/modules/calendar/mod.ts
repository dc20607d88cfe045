// The calendar: events and series of rooms and people, who comes, when who is busy, reminders, feeds and imports.
export { calendarModule } from "./api.ts";
export { type NotifyReminder } from "./reminders.ts";
export { type ScheduleMeeting } from "./service.ts";
export { CalendarSource } from "./source.ts";
export { type CalendarTables } from "./store.ts";
