// The board: cards are dragged between columns, or moved with Alt and the arrow keys.
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { dateOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { Avatar } from "../part/avatar.ts";
import { roomName, rooms } from "../room/rooms.ts";
import { openTask } from "./detail.ts";
import { columnOf, type Status, STATUSES, type Task, updateTask } from "./tasks.ts";

type Place = { status: Status; before: string | undefined };

/** While tasks are selected, a click selects instead of opening. */
export function Board({ tasks, isEditable, hasRoom, selected, onSelect }: {
  tasks: readonly Task[];
  isEditable: boolean;
  /** Whether cards say in which room they are. */
  hasRoom: boolean;
  selected: ReadonlySet<string> | undefined;
  onSelect: (id: string) => void;
}): VNode {
  const [dragged, setDragged] = useState<string>();
  const [place, setPlace] = useState<Place>();
  const board = useRef<HTMLDivElement>(null);
  // Where there are more columns than the screen shows, it begins with the first that has a task.
  useLayoutEffect(() => {
    board.current?.querySelector(".column:has(.task-card)")?.scrollIntoView({ inline: "start", block: "nearest" });
  }, []);

  function drop(): void {
    const task = tasks.find(({ id }) => id === dragged);
    if (task !== undefined && place !== undefined) moveTo(task, columnOf(tasks, place.status), place);
    setDragged(undefined);
    setPlace(undefined);
  }

  /** Alt and an arrow moves the card with the focus; the focus stays on it. */
  function onKey(event: KeyboardEvent, task: Task): void {
    if (!event.altKey || !isEditable || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const column = columnOf(tasks, task.status);
    const at = column.findIndex(({ id }) => id === task.id);
    const status = STATUSES.findIndex(([one]) => one === task.status);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
    const [next] = STATUSES[status + step] ?? [];
    if (step !== 0 && next !== undefined) moveTo(task, columnOf(tasks, next), { status: next, before: undefined });
    else if (event.key === "ArrowUp" && at > 0) {
      moveTo(task, column, { status: task.status, before: column[at - 1]?.id });
    } else if (event.key === "ArrowDown" && at < column.length - 1) {
      moveTo(task, column, { status: task.status, before: column[at + 2]?.id });
    }
    setTimeout(() => board.current?.querySelector<HTMLElement>(`[data-task="${task.id}"]`)?.focus());
  }

  return html`
    <div class="board" ref=${board} onDragEnd=${() => setDragged(undefined)}>
      ${STATUSES.map(([status, title]) => {
        const column = columnOf(tasks, status);
        return html`
          <section key=${status} class=${classes(
            "column",
            dragged !== undefined && place?.status === status && "over",
          )} aria-label=${title}
            onDragOver=${(event: DragEvent) => {
              if (dragged === undefined) return;
              event.preventDefault();
              setPlace({ status, before: cardBelow(event) });
            }} onDrop=${drop}>
            <h2>${title} <span class="dim">${column.length}</span></h2>
            ${column.map((task) =>
              html`
                <${Card} key=${task.id} task=${task} hasRoom=${hasRoom} isDragged=${task.id === dragged}
                  isSelected=${selected?.has(task.id)} onOpen=${() =>
                    selected === undefined ? openTask(task.id) : onSelect(task.id)}
                  isTarget=${dragged !== undefined && place?.before === task.id} isEditable=${isEditable}
                  onDragStart=${() => setDragged(task.id)} onKeyDown=${(event: KeyboardEvent) => onKey(event, task)} />
              `
            )}
          </section>
        `;
      })}
    </div>
  `;
}

function Card({ task, hasRoom, isSelected, isDragged, isTarget, isEditable, onOpen, onDragStart, onKeyDown }: {
  task: Task;
  hasRoom: boolean;
  /** `undefined`: nothing is being selected. */
  isSelected: boolean | undefined;
  isDragged: boolean;
  isTarget: boolean;
  isEditable: boolean;
  onOpen: () => void;
  onDragStart: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}): VNode {
  const isLate = task.dueAt !== null && task.status !== "done" && Date.parse(task.dueAt) < Date.now();
  const room = hasRoom ? rooms.value.get(task.roomId) : undefined;
  return html`
    <button type="button" data-task=${task.id} draggable=${isEditable} aria-pressed=${isSelected} class=${classes(
      "task-card",
      isDragged && "dragged",
      isTarget && "target",
    )}
      onDragStart=${onDragStart} onKeyDown=${onKeyDown} onClick=${onOpen}>
      <span class="task-title" dir="auto">${task.title}</span>
      <span class="task-facts">
        <small class="dim">${task.key}</small>
        ${room === undefined ? null : html`<small class="dim clip" dir="auto">${roomName(room)}</small>`}
        ${task.priority === "none"
          ? null
          : html`<small class=${`tag priority-${task.priority}`}>${task.priority}</small>`}
        ${task.labels.map((label) => html`<small class="tag" key=${label}>${label}</small>`)}
        ${task.dueAt === null
          ? null
          : html`<small class=${isLate ? "danger-text" : "dim"}>due ${dateOf(task.dueAt)}</small>`}
        <span class="assignees" title=${task.assigneeIds.map(nameOf).join(", ")}>${task.assigneeIds.slice(0, 3).map((
          id,
        ) => html`<${Avatar} key=${id} id=${id} isSmall />`)}</span>
      </span>
    </button>
  `;
}

/** The card that the dragged one would be above; `undefined`: the end of the column. */
function cardBelow(event: DragEvent): string | undefined {
  const column = event.currentTarget as HTMLElement;
  const below = [...column.querySelectorAll<HTMLElement>("[data-task]")].find((card) => {
    const { top, height } = card.getBoundingClientRect();
    return event.clientY < top + height / 2;
  });
  return below?.dataset["task"];
}

function moveTo(task: Task, column: readonly Task[], { status, before }: Place): void {
  const others = column.filter(({ id }) => id !== task.id);
  const next = others.find(({ id }) => id === before);
  const previous = next === undefined ? others.at(-1) : others[others.indexOf(next) - 1];
  const position = next !== undefined
    ? { before: next.id }
    : previous !== undefined
    ? { after: previous.id }
    : undefined;
  // Shown between its neighbours until the gateway has chosen its position.
  const shown = { status, position: between(previous?.position, next?.position) };
  void attempt(() => updateTask(task, { status, ...position === undefined ? {} : { position } }, shown));
}

function between(previous = "", next?: string): string {
  return next !== undefined && previous === "" ? next.slice(0, -1) : `${previous}~`;
}
