// The grid of a week: a column a day, events beside each other where they overlap.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { colorOf, hourOf, timeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { route } from "../core/route.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { addDays, classesOf, dateText, type Entry, isOn, titleOf } from "./events.ts";

type Placed = { entry: Entry; top: number; height: number; lane: number; lanes: number };

const HOUR_PX = 46;
const HEAD_PX = 38;
const ALL_DAY_PX = 24;
const FIRST_HOUR_SHOWN = 7;
const MINUTES_MIN = 30;
const DAY_MINUTES = 24 * 60;
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const dayName = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });

export function Week({ monday, wanted, entries, onOpen, onCreate }: {
  monday: Date;
  /** The day that was asked for. */
  wanted: Date;
  entries: readonly Entry[];
  onOpen: (entry: Entry) => void;
  onCreate: (start: Date) => void;
}): VNode {
  const grid = useRef<HTMLDivElement>(null);
  const days = Array.from({ length: 7 }, (_, at) => addDays(monday, at));
  useEffect(() => {
    if (grid.current !== null) grid.current.scrollTop = FIRST_HOUR_SHOWN * HOUR_PX;
  }, []);
  useEffect(() => {
    const { current } = grid;
    if (current === null) return;
    const { scrollTop } = current;
    // Where the week is wider than the screen, it begins with that day.
    const column = current.querySelectorAll(".day-column")[days.map(dateText).indexOf(dateText(wanted))];
    column?.scrollIntoView({ inline: "start", block: "nearest" });
    current.scrollTop = scrollTop;
  }, [route.value]);
  const today = dateText(new Date());
  // Heads are equally high, or the hours of a day would not be beside those of the next.
  const allDayMax = Math.max(0, ...days.map((day) => entries.filter((one) => one.allDay && isOn(one, day)).length));
  const head = { minHeight: `${HEAD_PX + allDayMax * ALL_DAY_PX}px` };
  return html`
    <div class="week" ref=${grid} tabindex="0" aria-label="Week">
      <div class="hours" aria-hidden="true"><div class="day-head" style=${head}></div>${HOURS.map((hour) =>
        html`<span key=${hour} style=${{ height: `${HOUR_PX}px` }}>${hour === 0 ? "" : hourOf(hour)}</span>`
      )}</div>
      ${days.map((day) => {
        const key = dateText(day);
        const own = entries.filter((entry) => isOn(entry, day));
        return html`
          <section key=${key} class=${classes("day-column", key === today && "today")} aria-label=${dayName.format(
            day,
          )}>
            <div class="day-head" style=${head}><h3>${dayName.format(day)}</h3>${own.filter(({ allDay }) => allDay).map(
              (entry) =>
                html`<button type="button" key=${entry.id} class=${
                  classes("event all-day", colorOf(entry.roomId ?? "own"))
                } onClick=${() => onOpen(entry)}>${titleOf(entry)}</button>`,
            )}</div>
            <div class="day-grid" style=${{ height: `${24 * HOUR_PX}px` }} onDblClick=${(event: MouseEvent) => {
              if (event.target !== event.currentTarget) return;
              const start = new Date(day);
              start.setMinutes(Math.floor(event.offsetY / HOUR_PX * 2) * 30);
              onCreate(start);
            }}>${place(own.filter(({ allDay }) => !allDay), day).map((placed) =>
              html`<${EventBox} key=${`${placed.entry.id} ${placed.entry.startAt}`} placed=${placed} onOpen=${onOpen} />`
            )}</div>
          </section>
        `;
      })}
    </div>
  `;
}

function EventBox({ placed, onOpen }: { placed: Placed; onOpen: (entry: Entry) => void }): VNode {
  const { entry, top, height, lane, lanes } = placed;
  const room = entry.roomId === null ? undefined : rooms.value.get(entry.roomId);
  const width = 100 / lanes;
  return html`
    <button type="button" class=${classesOf(entry)}
      style=${{
        top: `${top}px`,
        height: `${height}px`,
        insetInlineStart: `${lane * width}%`,
        width: `calc(${width}% - 3px)`,
      }}
      onClick=${() => onOpen(entry)} title=${titleOf(entry)}>
      <b dir="auto">${titleOf(entry)}</b><span>${timeOf(entry.startAt)}${room === undefined
        ? ""
        : ` · ${roomName(room)}`}</span>
    </button>
  `;
}

/** Minutes of a day on its clock, which is not how many have passed when clocks change. */
function minutesOf(time: string, day: Date): number {
  const at = new Date(time);
  if (at <= day) return 0;
  return at >= addDays(day, 1) ? DAY_MINUTES : at.getHours() * 60 + at.getMinutes();
}

/** Events that overlap share the width of the day. */
function place(entries: readonly Entry[], day: Date): Placed[] {
  const sorted = entries.map((entry) => {
    const from = minutesOf(entry.startAt, day);
    return { entry, from, to: Math.min(DAY_MINUTES, Math.max(minutesOf(entry.endAt, day), from + MINUTES_MIN)) };
  }).toSorted((a, b) => a.from - b.from || b.to - a.to);
  const placed: Placed[] = [];
  let group: { to: number; lane: number }[] = [];
  let members: Placed[] = [];
  for (const { entry, from, to } of sorted) {
    if (group.every((one) => one.to <= from)) {
      group = [];
      members = [];
    }
    let lane = 0;
    while (group.some((one) => one.lane === lane && one.to > from)) lane++;
    group.push({ to, lane });
    const box = { entry, top: from / 60 * HOUR_PX, height: (to - from) / 60 * HOUR_PX - 2, lane, lanes: 1 };
    members.push(box);
    placed.push(box);
    const lanes = Math.max(...group.map((one) => one.lane)) + 1;
    for (const one of members) one.lanes = lanes;
  }
  return placed;
}
