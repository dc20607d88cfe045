// Events of the calendar.
import { listAll } from "../core/api.ts";
import { colorOf, dateText } from "../core/format.ts";
import { classes } from "../core/html.ts";
import { preferences } from "../core/preferences.ts";
import { isAdmin, myId } from "../core/session.ts";
import { canModerate, rooms } from "../room/rooms.ts";

type EventTime = { dateTime: string; timeZone: string } | { date: string };
export type Rsvp = "accepted" | "tentative" | "declined";
export type Entry = {
  id: string;
  roomId: string | null;
  busyOnly: boolean;
  title: string | null;
  location: string | null;
  start: EventTime;
  end: EventTime;
  startAt: string;
  endAt: string;
  allDay: boolean;
  rrule: string | null;
  occurrence: string | null;
  myStatus: Rsvp | "needs_action" | null;
  meetingId: string | null;
  version: number;
  createdBy: string | null;
};
export type EventDetail = Entry & {
  description: string | null;
  reminders: { minutesBefore: number }[];
  attendees: {
    principalId: string | null;
    email: string | null;
    role: string;
    status: string;
    comment: string | null;
  }[];
};

const PATH = "v1/collaboration/calendar/events";

/** Occurrences between two times. */
export function readEntries(from: Date, to: Date, roomId: string | undefined): Promise<Entry[]> {
  return listAll<Entry>(PATH, {
    from: from.toISOString(),
    to: to.toISOString(),
    expand: true,
    roomId,
  });
}

export function eventPath(id: string): string {
  return `${PATH}/${encodeURIComponent(id)}`;
}

/** The first day of the week of a day. */
export function weekOf(day: Date): Date {
  const first = new Date(day);
  first.setHours(0, 0, 0, 0);
  first.setDate(first.getDate() - (first.getDay() - preferences.firstDay + 7) % 7);
  return first;
}

/** Days of the weeks that a month is in. */
export function daysOfMonth(day: Date): Date[] {
  const first = weekOf(new Date(day.getFullYear(), day.getMonth(), 1));
  const days: Date[] = [];
  for (let next = first; days.length === 0 || next.getMonth() === day.getMonth() || days.length % 7 > 0;) {
    days.push(next);
    next = addDays(next, 1);
  }
  return days;
}

/** Whether some of an event is on a day. */
export function isOn({ startAt, endAt, allDay, start, end }: Entry, day: Date): boolean {
  if (allDay && "date" in start && "date" in end) {
    const key = dateText(day);
    return start.date <= key && (key < end.date || start.date === key);
  }
  const next = addDays(day, 1);
  return Date.parse(startAt) < next.getTime() && Date.parse(endAt) > day.getTime();
}

/** What is shown of one whose title the caller may not see. */
export function titleOf({ title }: Entry): string {
  return title ?? "Busy";
}

export function mayEdit({ busyOnly, createdBy, roomId }: Entry): boolean {
  const room = rooms.value.get(roomId ?? "");
  return !busyOnly && (createdBy === myId() || isAdmin() || room !== undefined && canModerate(room));
}

/** The classes of an event: its color, and what the caller has responded. */
export function classesOf({ roomId, myStatus }: Entry): string {
  return classes(
    "event",
    colorOf(roomId ?? "own"),
    myStatus === "declined" && "declined",
    myStatus === "needs_action" && "open-invitation",
  );
}

export function addDays(day: Date, days: number): Date {
  const next = new Date(day);
  next.setDate(next.getDate() + days);
  return next;
}
