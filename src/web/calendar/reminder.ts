// When the attendees of an event are reminded of it.
import type { VNode } from "preact";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";

export type Reminders = readonly { minutesBefore: number }[];

const NONE = "no reminder";
/** A day begins at midnight: these are at nine o'clock on the day before, and a week before. */
const OF_DAYS = [[900, "on the day before"], [9540, "a week before"]] as const;
const OF_TIMES = [
  [0, "when it begins"],
  [5, "5 minutes before"],
  [10, "10 minutes before"],
  [30, "30 minutes before"],
  [60, "an hour before"],
  [1440, "a day before"],
] as const;

/** A choice of one; an event may have others, which stay as they are unless another one is chosen. */
export function ReminderField({ isAllDay, reminders }: { isAllDay: boolean; reminders: Reminders }): VNode {
  const known: readonly (readonly [number, string])[] = isAllDay ? OF_DAYS : OF_TIMES;
  const value = valueOf(reminders);
  const options: (readonly [string, string])[] = [["", NONE], ...known.map(([n, label]) => [`${n}`, label] as const)];
  if (!options.some(([one]) => one === value)) options.unshift([value, remindersInWords(reminders, isAllDay)]);
  return html`
    <label>Reminder <input type="hidden" name="remindersBefore" value=${value} /><select name="reminders">${options
      .map(([one, label]) =>
        html`<option key=${one} value=${one} selected=${one === value}>${label}</option>`
      )}</select></label>
  `;
}

/** Those that a form has, if they are other ones than before, or those of a new event. */
export function remindersOf(fields: FormData, isNew: boolean): { reminders?: Reminders } {
  const value = fields.get("reminders");
  if (typeof value !== "string" || !isNew && value === fields.get("remindersBefore")) return {};
  return { reminders: value === "" ? [] : value.split(" ").map((minutes) => ({ minutesBefore: Number(minutes) })) };
}

export function remindersInWords(reminders: Reminders, isAllDay: boolean): string {
  const known = new Map<number, string>(isAllDay ? OF_DAYS : OF_TIMES);
  return reminders.map(({ minutesBefore: n }) => known.get(n) ?? `${count(n, "minute")} before`).join(" and ") || NONE;
}

function valueOf(reminders: Reminders): string {
  return reminders.map(({ minutesBefore }) => minutesBefore).join(" ");
}
