// The tasks of a room as a board, or the caller's own.
import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { replaceRoute, route } from "../core/route.ts";
import type { Room } from "../core/resources.ts";
import { LineForm } from "../part/line_form.ts";
import { PlaceHead, Placeholder } from "../part/place.ts";
import { openTrash } from "../part/trash.ts";
import type { ViewProps } from "../part/lazy.ts";
import { canWrite, canWriteIn } from "../room/rooms.ts";
import { Board } from "./board.ts";
import { BulkBar } from "./bulk.ts";
import { openTask } from "./detail.ts";
import { createTask, openTasks, readTasks, type Scope, TASKS } from "./tasks.ts";

export default function TasksPage({ room }: ViewProps): VNode {
  const opened = room === undefined ? route.value.path[1] : route.value.query.get("task") ?? undefined;
  useEffect(() => {
    if (opened === undefined) return;
    replaceRoute(room === undefined ? ["tasks"] : ["rooms", room.id, "tasks"]);
    openTask(opened);
  }, [opened]);
  if (room !== undefined) return html`<${TaskBoard} room=${room} scope=${{ roomId: room.id }} />`;
  return html`
    <${PlaceHead} title="My tasks" />
    <${TaskBoard} scope=${{ assigneeId: "me" }} />
  `;
}

function TaskBoard({ room, scope }: { room?: Room; scope: Scope }): VNode {
  const list = useMemo(() => openTasks(scope), [room?.id]);
  const [label, setLabel] = useState("");
  const [assignee, setAssignee] = useState("");
  const [selected, setSelected] = useState<ReadonlySet<string>>();
  useEffect(() => list.close, [list]);
  // Events change the list by themselves.
  const read = useLatest(() => list.read(), () => {});
  useLive(read, () => false, [list]);
  const tasks = list.tasks.value;
  // With those that are chosen, although no task may have them now.
  const labels = valuesOf([label, ...(tasks ?? []).flatMap((task) => task.labels)]).toSorted();
  const assignees = valuesOf([assignee, ...(tasks ?? []).flatMap(({ assigneeIds }) => assigneeIds)]);
  const shown = (tasks ?? []).filter((task) =>
    (label === "" || task.labels.includes(label)) && (assignee === "" || task.assigneeIds.includes(assignee))
  );
  const toggle = (id: string): void => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    setSelected(next);
  };
  return html`
    <div class="board-page">
      <div class="board-bar">
        ${room !== undefined && canWrite(room)
          ? html`
            <${LineForm} draft=${`task ${room.id}`} className="new-task" label="New task" action="Add" isPrimary maxlength=${255}
              onSend=${(title: string) => createTask({ roomId: room.id, title, status: "todo" })} />
          `
          : html`<span></span>`}
        ${labels.length === 0 ? null : html`
          <select aria-label="Label" value=${label}
            onChange=${(event: Event) => setLabel((event.target as HTMLSelectElement).value)}>
                    <option value="">All labels</option>${labels.map((one) =>
                      html`<option key=${one}>${one}</option>`
                    )}</select>
        `}
        ${room === undefined || assignees.length === 0 ? null : html`
          <select aria-label="Assignee" value=${assignee}
            onChange=${(event: Event) => setAssignee((event.target as HTMLSelectElement).value)}>
            <option value="">Everybody</option>${assignees.map((id) =>
              html`<option key=${id} value=${id}>${nameOf(id)}</option>`
            )}</select>
        `}
        ${canWriteIn(room) ? html`<button type="button" onClick=${() => openDeleted(scope)}>Deleted</button>` : null}
        ${canWriteIn(room) && shown.length > 1
          ? html`<button type="button" aria-pressed=${selected !== undefined} onClick=${() =>
            setSelected(selected === undefined ? new Set() : undefined)}>Select</button>`
          : null}
      </div>
      ${selected === undefined ? null : html`
        <${BulkBar} roomId=${room?.id} all=${shown} selected=${selected}
          onSelect=${(ids: readonly string[]) => setSelected(new Set(ids))} onClose=${() => setSelected(undefined)} />
      `}
      <${Placeholder} items=${tasks} read=${read} text=${room === undefined
        ? "No task is assigned to you."
        : "No tasks yet. Write the first one above."} />
      ${tasks === undefined || tasks.length === 0 ? null : html`
        <${Board} tasks=${shown} isEditable=${canWriteIn(room)} hasRoom=${room === undefined} selected=${selected}
          onSelect=${toggle} />
      `}
    </div>
  `;
}

function openDeleted(scope: Scope): void {
  const load = async () =>
    (await readTasks(scope, { deleted: true })).map(({ title, ...task }) => ({ ...task, name: title }));
  openTrash({ title: "Deleted tasks", path: TASKS, load });
}

function valuesOf(all: readonly string[]): string[] {
  return [...new Set(all)].filter((one) => one !== "");
}
