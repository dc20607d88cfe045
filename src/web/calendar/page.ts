// A week of the calendar: of a room, or of all that the caller may see.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { classes, html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { useLatest } from "../core/notice.ts";
import { replaceRoute, route } from "../core/route.ts";
import { Icon } from "../part/icon.ts";
import type { ViewProps } from "../part/lazy.ts";
import { PlaceHead } from "../part/place.ts";
import { addDays, dateText, type Entry, readEntries, weekOf } from "./events.ts";
import { openEvent } from "./event.ts";
import { openNewEvent } from "./form.ts";
import { Week } from "./week.ts";

const range = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });

export default function CalendarPage({ room }: ViewProps): VNode {
  const at = route.value.query.get("at");
  const day = at === null ? new Date() : new Date(`${at}T12:00:00`);
  const monday = weekOf(day);
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const read = useLatest(() => readEntries(monday, addDays(monday, 7), room?.id), setEntries);
  useLive(read, ({ type }) => type.startsWith("calendar."), [monday.getTime(), room?.id]);

  const show = (day: Date): void => {
    const place = room === undefined ? ["calendar"] : ["rooms", room.id, "calendar"];
    replaceRoute(place, dateText(weekOf(day)) === dateText(weekOf(new Date())) ? {} : { at: dateText(day) });
  };
  const open = (entry: Entry): void =>
    openEvent(
      entry.id,
      entry.rrule === null && entry.occurrence === null ? undefined : entry.occurrence ?? undefined,
      read,
    );
  const content = html`
    <div class="calendar">
      <div class="calendar-bar">
        <button type="button" onClick=${() => show(new Date())}>Today</button>
        <button type="button" class="plain" aria-label="Previous week"
          onClick=${() => show(addDays(monday, -7))}><${Icon} name="back" /></button>
        <button type="button" class=${classes("plain", "flipped")} aria-label="Next week"
          onClick=${() => show(addDays(monday, 7))}><${Icon} name="back" /></button>
        <h2 aria-live="polite">${range.formatRange(monday, addDays(monday, 6))}</h2>
        <button type="button" class="primary" onClick=${() =>
          openNewEvent(room, undefined, read)}><${Icon} name="add" />New event</button>
      </div>
      <${Week} monday=${monday} wanted=${day} entries=${entries} onOpen=${open} onCreate=${(start: Date) =>
        openNewEvent(room, start, read)} />
    </div>
  `;
  return room === undefined ? html`<${PlaceHead} title="Calendar" />${content}` : content;
}
