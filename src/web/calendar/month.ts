// A month of the calendar: what is on each day, in short.
import type { VNode } from "preact";
import { dateText, fullDayOf, timeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { locale } from "../core/preferences.ts";
import { classesOf, type Entry, isOn, titleOf } from "./events.ts";

/** How many events a day shows; the week has the others. */
const SHOWN_MAX = 3;
const NEW_AT_HOUR = 9;
const weekday = new Intl.DateTimeFormat(locale, { weekday: "short" });

export function Month({ days, wanted, entries, onOpen, onCreate, onWeek }: {
  days: readonly Date[];
  /** A day of the month. */
  wanted: Date;
  entries: readonly Entry[];
  onOpen: (entry: Entry) => void;
  onCreate: (start: Date) => void;
  onWeek: (day: Date) => void;
}): VNode {
  const today = dateText(new Date());
  return html`
    <div class="month" tabindex="0" aria-label="Month">
      ${days.slice(0, 7).map((day) => html`<span class="dim" aria-hidden="true">${weekday.format(day)}</span>`)}
      ${days.map((day) => {
        const own = entries.filter((entry) => isOn(entry, day));
        const isWhole = own.length <= SHOWN_MAX;
        return html`
          <section key=${dateText(day)} aria-label=${fullDayOf(day)} class=${classes(
            day.getMonth() !== wanted.getMonth() && "other-month",
            dateText(day) === today && "today",
          )} onDblClick=${({ target, currentTarget }: MouseEvent) => {
            if (target === currentTarget) onCreate(new Date(new Date(day).setHours(NEW_AT_HOUR)));
          }}>
            <button type="button" class="plain" aria-label=${`Week of ${fullDayOf(day)}`} onClick=${() =>
              onWeek(day)}>${day.getDate()}</button>
            ${own.slice(0, isWhole ? SHOWN_MAX : SHOWN_MAX - 1).map((entry) =>
              html`<${Line} key=${`${entry.id} ${entry.startAt}`} entry=${entry} day=${day} onOpen=${onOpen} />`
            )}
            ${isWhole
              ? null
              : html`<button type="button" class="link" onClick=${() => onWeek(day)}>${
                own.length - SHOWN_MAX + 1
              } more</button>`}
          </section>
        `;
      })}
    </div>
  `;
}

function Line({ entry, day, onOpen }: { entry: Entry; day: Date; onOpen: (entry: Entry) => void }): VNode {
  const title = titleOf(entry);
  const hasTime = !entry.allDay && Date.parse(entry.startAt) >= day.getTime();
  return html`
    <button type="button" class=${classesOf(entry)} title=${title}
      onClick=${() => onOpen(entry)}><span>${hasTime
        ? html`
          <time>${timeOf(entry.startAt)}</time>
        `
        : null}<bdi>${title}</bdi></span></button>
  `;
}
