// The grid of a week: a column a day, events beside each other where they overlap.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { colorOf, dateText, hourOf, MINUTE_MS, timeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { locale } from "../core/preferences.ts";
import { route } from "../core/route.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { addDays, classesOf, type Entry, isOn, mayEdit, titleOf } from "./events.ts";

/** Resolves to whether the event is there now. */
type OnDrop = (entry: Entry, start: Date) => Promise<boolean>;
/** How far a box was moved, and its column with it. */
type Move = { days: number; minutes: number; x: number };
type Placed = { entry: Entry; top: number; height: number; lane: number; lanes: number };

const HOUR_PX = 46;
const HEAD_PX = 38;
const LINE_PX = 17;
const ALL_DAY_PX = 24;
const FIRST_HOUR_SHOWN = 7;
const MINUTES_MIN = 30;
const DAY_MINUTES = 24 * 60;
const STEP_MINUTES = 15;
/** A shorter way is a click. */
const DRAG_PX = 5;
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const dayName = new Intl.DateTimeFormat(locale, { weekday: "short", day: "numeric" });

export function Week({ first, wanted, entries, onOpen, onDrop, onCreate }: {
  first: Date;
  /** The day that was asked for. */
  wanted: Date;
  entries: readonly Entry[];
  onOpen: (entry: Entry) => void;
  onDrop: OnDrop;
  onCreate: (start: Date) => void;
}): VNode {
  const grid = useRef<HTMLDivElement>(null);
  const days = Array.from({ length: 7 }, (_, at) => addDays(first, at));
  // Before it is seen: what is under the pointer must not move.
  useLayoutEffect(() => {
    if (grid.current !== null) grid.current.scrollTop = FIRST_HOUR_SHOWN * HOUR_PX;
  }, []);
  useLayoutEffect(() => {
    const { current } = grid;
    if (current === null) return;
    const { scrollTop } = current;
    // Where the week is wider than the screen, it begins with that day.
    const column = current.querySelectorAll(".day-column")[days.map(dateText).indexOf(dateText(wanted))];
    column?.scrollIntoView({ inline: "start", block: "nearest" });
    current.scrollTop = scrollTop;
  }, [route.value]);
  const now = useNow();
  const today = dateText(now);
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
                html`<button type="button" key=${`${entry.id} ${entry.startAt}`} class=${
                  classes("event all-day", colorOf(entry.roomId ?? "own"))
                } onClick=${() => onOpen(entry)}>${titleOf(entry)}</button>`,
            )}</div>
            <div class="day-grid" style=${{ height: `${24 * HOUR_PX}px` }} onDblClick=${(event: MouseEvent) => {
              if (event.target !== event.currentTarget) return;
              const start = new Date(day);
              start.setMinutes(Math.floor(event.offsetY / HOUR_PX * 2) * 30);
              onCreate(start);
            }}>${key === today
              ? html`<i class="now" style=${{ top: `${pixelsOf(minutesOf(now, day))}px` }}></i>`
              : null}
            ${place(own.filter(({ allDay }) => !allDay), day).map((placed) =>
              html`<${EventBox} key=${`${placed.entry.id} ${placed.entry.startAt}`} placed=${placed} onOpen=${onOpen} onDrop=${onDrop} />`
            )}</div>
          </section>
        `;
      })}
    </div>
  `;
}

function EventBox(
  { placed, onOpen, onDrop }: { placed: Placed; onOpen: (entry: Entry) => void; onDrop: OnDrop },
): VNode {
  const { entry, top, height, lane, lanes } = placed;
  const { move, handlers } = useDrag(entry, onOpen, onDrop);
  const room = entry.roomId === null ? undefined : rooms.value.get(entry.roomId);
  const width = 100 / lanes;
  return html`
    <button type="button" class=${classes(classesOf(entry), move !== undefined && "moved")} ...${handlers}
      style=${{
        top: `${top}px`,
        height: `${height}px`,
        insetInlineStart: `${lane * width}%`,
        width: `calc(${width}% - 3px)`,
        translate: move === undefined ? "" : `${move.x}px ${pixelsOf(move.minutes)}px`,
      }}
      title=${titleOf(entry)}>
      <b dir="auto" style=${{ WebkitLineClamp: String(Math.max(1, Math.floor((height - 4) / LINE_PX))) }}>${titleOf(
        entry,
      )}</b><span>${timeOf(entry.startAt)}${room === undefined ? "" : ` · ${roomName(room)}`}</span>
    </button>
  `;
}

/** Moves the box of an event with the mouse, to another day or time; a finger scrolls. A click opens the event. */
function useDrag(entry: Entry, onOpen: (entry: Entry) => void, onDrop: OnDrop): {
  move: Move | undefined;
  handlers: Record<string, (event: PointerEvent) => void>;
} {
  const [move, setMove] = useState<Move>();
  /** Where it was pressed; from the top of the day, which may be scrolled meanwhile. */
  const pressed = useRef<{ x: number; y: number } | undefined>(undefined);
  const isMoved = useRef(false);
  const dayOf = ({ currentTarget }: Event): Element => {
    const box = currentTarget as Element;
    return box.closest(".day-grid") ?? box;
  };
  function onPointerDown(event: PointerEvent): void {
    isMoved.current = false;
    if (event.button !== 0 || event.pointerType === "touch" || move !== undefined || !mayEdit(entry)) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    pressed.current = { x: event.clientX, y: event.clientY - dayOf(event).getBoundingClientRect().top };
  }
  function onPointerMove(event: PointerEvent): void {
    if (pressed.current === undefined) return;
    const day = dayOf(event);
    const { left, top } = day.getBoundingClientRect();
    const y = event.clientY - top - pressed.current.y;
    isMoved.current ||= Math.hypot(event.clientX - pressed.current.x, y) >= DRAG_PX;
    if (!isMoved.current) return;
    const days = [...day.closest(".week")?.querySelectorAll(".day-grid") ?? []];
    const over = days.find((one) => {
      const { left, right } = one.getBoundingClientRect();
      return left <= event.clientX && event.clientX < right;
    }) ?? day;
    setMove({
      days: days.indexOf(over) - days.indexOf(day),
      minutes: Math.round(y / HOUR_PX * 60 / STEP_MINUTES) * STEP_MINUTES,
      x: over.getBoundingClientRect().left - left,
    });
  }
  function onPointerUp(): void {
    if (pressed.current === undefined) return;
    pressed.current = undefined;
    if (move === undefined || move.days === 0 && move.minutes === 0) return setMove(undefined);
    const start = addDays(new Date(entry.startAt), move.days);
    start.setMinutes(start.getMinutes() + move.minutes);
    // Until it is read from the gateway, it stays where it was dropped.
    void onDrop(entry, start).then((isThere) => isThere || setMove(undefined));
  }
  function onPointerCancel(): void {
    pressed.current = undefined;
    setMove(undefined);
  }
  /** A key has no detail. */
  const onClick = ({ detail }: MouseEvent): void => isMoved.current && detail > 0 ? undefined : onOpen(entry);
  return { move, handlers: { onPointerDown, onPointerMove, onPointerUp, onPointerCancel, onClick } };
}

/** The present time, once a minute. */
function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** How high so much time is. */
function pixelsOf(minutes: number): number {
  return minutes / 60 * HOUR_PX;
}

/** Minutes of a day on its clock, which is not how many have passed when clocks change. */
function minutesOf(time: string | Date, day: Date): number {
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
    const box = { entry, top: pixelsOf(from), height: pixelsOf(to - from) - 2, lane, lanes: 1 };
    members.push(box);
    placed.push(box);
    const lanes = Math.max(...group.map((one) => one.lane)) + 1;
    for (const one of members) one.lanes = lanes;
  }
  return placed;
}
