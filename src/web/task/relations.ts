// Relations of a task to others, and who works on it now.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, get, post } from "../core/api.ts";
import { shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Page } from "../core/resources.ts";
import { useFound } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { canModerate, rooms } from "../room/rooms.ts";
import { type RelationKind, statusText, type Task, type TaskDetail, TASKS } from "./tasks.ts";

const KINDS: readonly (readonly [RelationKind, string])[] = [
  ["blocks", "Blocks"],
  ["blocked_by", "Is blocked by"],
  ["duplicates", "Duplicates"],
  ["duplicated_by", "Is duplicated by"],
  ["related", "Is related to"],
];
const FOUND_MAX = 6;

/** An event says when they have changed. */
export function Relations({ task, isEditable, onOpen }: {
  task: TaskDetail;
  isEditable: boolean;
  onOpen: (id: string) => void;
}): VNode | null {
  const [isAdding, setAdding] = useState(false);
  const pathOf = (kind: RelationKind, otherId: string): string => `${TASKS}/${task.id}/relations/${kind}/${otherId}`;
  const open = (event: Event, id: string): void => {
    event.preventDefault();
    onOpen(id);
  };
  const add = async (kind: RelationKind, otherId: string): Promise<void> => {
    if (await attempt(() => call("PUT", pathOf(kind, otherId)))) setAdding(false);
  };
  if (task.relations.length === 0 && !isEditable) return null;
  return html`
    <h3>Relations</h3>
    <ul class="rows">${KINDS.flatMap(([kind, label]) =>
      task.relations.filter((one) => one.kind === kind).map((one) =>
        html`
          <li key=${`${kind} ${one.taskId}`}>
            <div><a href=${`#/tasks/${one.taskId}`} onClick=${(event: Event) => open(event, one.taskId)}>
              <span dir="auto">${one.key} ${one.title}</span></a>
              <small class="dim">${label}, ${statusText(one.status).toLowerCase()}</small></div>
            ${isEditable
              ? html`<button type="button" class="link" aria-label=${`Remove the relation to ${one.key}`} onClick=${() =>
                void attempt(() => call("DELETE", pathOf(kind, one.taskId)))}>Remove</button>`
              : null}
          </li>
        `
      )
    )}</ul>
    ${!isEditable
      ? null
      : isAdding
      ? html`<${Finder} task=${task} onClose=${() => setAdding(false)} onChoose=${add} />`
      : html`<p><button type="button" onClick=${() => setAdding(true)}>Add a relation</button></p>`}
  `;
}

/** Finds the other task by its key or a part of its title, in all rooms of the caller. */
function Finder({ task, onChoose, onClose }: {
  task: Task;
  onChoose: (kind: RelationKind, otherId: string) => Promise<void>;
  onClose: () => void;
}): VNode {
  const [kind, setKind] = useState<RelationKind>("blocks");
  const [q, setQ] = useState("");
  // The task itself may be among them.
  const { page, read } = useFound(
    q.trim(),
    async (): Promise<Page<Task>> =>
      q.trim() === ""
        ? { items: [], nextCursor: null, hasMore: false }
        : await get(TASKS, { q: q.trim().slice(0, 100), limit: FOUND_MAX + 1 }),
  );
  const found = page?.items.filter(({ id }) => id !== task.id).slice(0, FOUND_MAX);
  const onKey = (event: KeyboardEvent): void => {
    const [first] = found ?? [];
    if (event.key === "Enter" && !event.isComposing && first !== undefined) void onChoose(kind, first.id);
  };
  return html`
    <div class="relation-finder">
      <select aria-label="Kind of relation" value=${kind} onChange=${(event: Event) =>
        setKind((event.target as HTMLSelectElement).value as RelationKind)}>${KINDS.map(([value, label]) =>
          html`<option key=${value} value=${value}>${label}</option>`
        )}</select>
      <input type="search" aria-label="Other task" placeholder="Key or part of the title" autocomplete="off"
        ref=${focusOnce} value=${q} onKeyDown=${onKey} onInput=${(event: InputEvent) =>
          setQ((event.target as HTMLInputElement).value)} />
      <button type="button" onClick=${onClose}>Cancel</button>
    </div>
    ${q.trim() === "" ? null : html`
      <div role="status">
        <${Placeholder} items=${found} read=${read} text="No task has this key or title." />
      </div>
      <ul class="rows">${(found ?? []).map((one) =>
        html`<li key=${one.id}><button type="button" class="plain wide" onClick=${() => void onChoose(kind, one.id)}>
          <span class="dim">${one.key}</span> <span class="clip" dir="auto">${one.title}</span></button></li>`
      )}</ul>
    `}
  `;
}

/** A field that has just been asked for. */
function focusOnce(field: HTMLElement | null): void {
  field?.focus();
}

/** Who claimed it; moderators can release it, as when a worker has crashed. */
export function Claim({ task, onRelease }: { task: TaskDetail; onRelease: () => void }): VNode | null {
  const { claim } = task;
  if (claim === null || Date.parse(claim.expiresAt) <= Date.now()) return null;
  const room = rooms.value.get(task.roomId);
  const release = (): void =>
    void attempt(async () => {
      await post(`${TASKS}/${task.id}/release`);
      onRelease();
    });
  return html`
    <div class="fields"><span class="label dim">Claimed by</span>
      <span class="row"><bdi>${nameOf(claim.principalId)}</bdi>
        <span class="dim">until ${shortTimeOf(claim.expiresAt)}</span>
        ${room !== undefined && canModerate(room)
          ? html`<button type="button" class="link" onClick=${release}>release</button>`
          : null}</span></div>
  `;
}
