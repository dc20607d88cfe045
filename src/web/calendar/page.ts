// A week or a month of the calendar: of a room, or of all that the caller may see.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { dateText } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { locale } from "../core/preferences.ts";
import { useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { replaceRoute, route } from "../core/route.ts";
import { Icon } from "../part/icon.ts";
import type { ViewProps } from "../part/lazy.ts";
import { Menu } from "../part/menu.ts";
import { PlaceHead, Placeholder } from "../part/place.ts";
import { addDays, daysOfMonth, type Entry, readEntries, weekOf } from "./events.ts";
import { openEvent } from "./event.ts";
import { openFeeds } from "./feeds.ts";
import { openImport } from "./import.ts";
import { moveEvent, openNewEvent } from "./form.ts";
import { Month } from "./month.ts";
import { Week } from "./week.ts";

const month = new Intl.DateTimeFormat(locale, { month: "long", year: "numeric" });
const range = new Intl.DateTimeFormat(locale, { day: "numeric", month: "long", year: "numeric" });

export default function CalendarPage({ room }: ViewProps): VNode {
  const at = route.value.query.get("at");
  const day = at === null ? new Date() : new Date(`${at}T12:00:00`);
  const first = weekOf(day);
  const isMonth = route.value.query.get("view") === "month";
  const days = isMonth ? daysOfMonth(day) : [];
  const [from, until] = [days[0] ?? first, addDays(days.at(-1) ?? addDays(first, 6), 1)];
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const read = useLatest(() => readEntries(from, until, room?.id), setEntries);
  useLive(read, ({ type }) => type.startsWith("calendar."), [from.getTime(), until.getTime(), room?.id]);

  const invited = route.value.query.get("event");
  useEffect(() => {
    if (invited === null) return;
    const { event: _opened, ...shown } = Object.fromEntries(route.value.query);
    replaceRoute(["calendar"], shown);
    openEvent(invited, undefined, read);
  }, [invited]);

  const show = (day: Date, asMonth = isMonth): void => {
    const place = room === undefined ? ["calendar"] : ["rooms", room.id, "calendar"];
    const nameOf = (day: Date): string => dateText(asMonth ? new Date(day.getFullYear(), day.getMonth()) : weekOf(day));
    replaceRoute(place, {
      ...nameOf(day) === nameOf(new Date()) ? {} : { at: dateText(day) },
      ...asMonth ? { view: "month" } : {},
    });
  };
  /** To the period before or after this one. */
  const move = (step: 1 | -1): void =>
    show(isMonth ? new Date(day.getFullYear(), day.getMonth() + step, 1) : addDays(first, 7 * step));
  const period = isMonth ? "month" : "week";
  const open = (entry: Entry): void =>
    openEvent(
      entry.id,
      entry.rrule === null && entry.occurrence === null ? undefined : entry.occurrence ?? undefined,
      read,
    );
  const drop = (entry: Entry, start: Date): Promise<boolean> =>
    attempt(async () => {
      await moveEvent(entry, start);
      read();
    });
  const create = (start?: Date): void =>
    openNewEvent(room, start, (day) => {
      read();
      // What is created is seen.
      if (day < from || day >= until) show(day);
    });
  const content = html`
    <div class="calendar">
      <div class="calendar-bar">
        <button type="button" onClick=${() => show(new Date())}>Today</button>
        <button type="button" class="plain" aria-label=${`Previous ${period}`}
          onClick=${() => move(-1)}><${Icon} name="back" /></button>
        <button type="button" class=${classes("plain", "flipped")} aria-label=${`Next ${period}`}
          onClick=${() => move(1)}><${Icon} name="back" /></button>
        <h2 aria-live="polite">${isMonth ? month.format(day) : range.formatRange(first, addDays(first, 6))}</h2>
        <button type="button" aria-pressed=${isMonth} onClick=${() => show(day, !isMonth)}>Month</button>
        <${Menu} label="Calendar menu" items=${[
          { label: "Feeds", icon: "link", onSelect: () => openFeeds(room) },
          { label: "Import a file", icon: "down", onSelect: () => openImport(room, read) },
        ]} />
        <button type="button" class="primary" onClick=${() => create()}><${Icon} name="add" />New event</button>
      </div>
      ${read.hasFailed.value ? html`<${Placeholder} read=${read} />` : null}
      ${isMonth
        ? html`
          <${Month} days=${days} wanted=${day} entries=${entries} onOpen=${open} onCreate=${create}
            onWeek=${(day: Date) => show(day, false)} />
        `
        : html`
          <${Week} first=${first} wanted=${day} entries=${entries} onOpen=${open} onDrop=${drop}
            onCreate=${create} />
        `}
    </div>
  `;
  return room === undefined ? html`<${PlaceHead} title="Calendar" />${content}` : content;
}
