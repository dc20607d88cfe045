// One task: its fields, its activity, and what it came from.
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { REPEATS, ruleInWords } from "../calendar/rule.ts";
import { ApiError, get, listAll } from "../core/api.ts";
import { fullTimeOf, localInputOf, shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { nameOf, readMembers } from "../core/people.ts";
import type { Member } from "../core/resources.ts";
import { markdown } from "../message/markdown.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, confirmThen, Heading, openDialog } from "../part/dialog.ts";
import { LineForm } from "../part/line_form.ts";
import { Placeholder } from "../part/place.ts";
import { SavedField } from "../part/saved_field.ts";
import { canWriteIn, roomName, rooms } from "../room/rooms.ts";
import { Claim, Relations } from "./relations.ts";
import {
  createTask,
  deleteTask,
  PRIORITIES,
  STATUSES,
  statusText,
  type Task,
  type TaskDetail as Detail,
  updateTask,
} from "./tasks.ts";

type Activity = { id: string; type: string; actorId: string; at: string; changes: Change[] };
type Change = { field: string; to?: unknown };

const ACTIVITY_WORDS: Readonly<Record<string, string>> = {
  created: "created this task",
  completed: "completed it",
  deleted: "deleted it",
  restored: "restored it",
  updated: "changed",
  related: "added a relation",
  unrelated: "removed a relation",
};

export function openTask(id: string): void {
  openDialog(() =>
    html`
      <div class="wide-dialog">
        <${TaskDetail} key=${id} id=${id} />
      </div>
    `
  );
}

function TaskDetail({ id }: { id: string }): VNode {
  const [task, setTask] = useState<Detail>();
  const [activity, setActivity] = useState<readonly Activity[]>([]);
  const [subtasks, setSubtasks] = useState<readonly Task[]>([]);
  const read = useLatest(() => readTask(id), ([task, activity, subtasks]) => {
    setTask(task);
    setActivity(activity);
    setSubtasks(subtasks);
  });
  useLive(
    read,
    ({ type, data }) => type.startsWith("task.") && (data.taskId === id || data.task?.parentId === id),
    [id],
  );
  if (task === undefined) return html`<${Placeholder} read=${read} />`;

  const room = rooms.value.get(task.roomId);
  const isEditable = canWriteIn(room);
  const save = (change: Record<string, unknown>): Promise<boolean> =>
    attempt(async () => setTask({ ...task, ...await updateTask(task, change, {}) }));
  return html`
    <${Heading} title=${task.key} onClose=${closeDialog}>
      ${isEditable
        ? html`<button type="button" class="danger-text" onClick=${() =>
          confirmThen("Delete this task?", task.title, "Delete", () => deleteTask(task))}>Delete</button>`
        : null}
      <//>
      <fieldset class="task-detail" disabled=${!isEditable}>
        <div class="fields">
          <${SavedField} className="title-input" label="Title" rows=${1} isRequired maxlength=${255} value=${task.title}
            onSave=${(
              title: string,
            ) => save({ title })} />
          <${Description} text=${task.description ?? ""} isEditable=${isEditable} onSave=${(description: string) =>
            save({ description })} />
          <${Subtasks} task=${task} subtasks=${subtasks} onChange=${read} />
          <${Relations} task=${task} isEditable=${isEditable} onOpen=${openTask} />
          <h3>Activity</h3>
          <ul class="activity">${activity.map((one) =>
            html`<li key=${one.id}><b dir="auto">${nameOf(one.actorId)}</b> ${ACTIVITY_WORDS[one.type] ?? one.type}${
              one.type === "updated" ? ` ${one.changes.map(textOf).join(", ")}` : ""
            } <time title=${fullTimeOf(one.at)}>${shortTimeOf(one.at)}</time></li>`
          )}</ul>
        </div>
        <${Side} task=${task} onSave=${save} onRead=${read} />
      </fieldset>
  `;
}

/** Shown as messages are, and its Markdown while it is edited, or empty. */
function Description({ text, isEditable, onSave }: {
  text: string;
  isEditable: boolean;
  onSave: (text: string) => Promise<boolean>;
}): VNode {
  const [isEdited, setEdited] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const nodes = useMemo(() => markdown(text), [text]);
  useEffect(() => {
    if (isEdited) box.current?.querySelector("textarea")?.focus();
  }, [isEdited]);
  const save = async (typed: string): Promise<boolean> => {
    const isSaved = await onSave(typed);
    // What could not be saved can still be edited.
    if (isSaved && !box.current?.contains(document.activeElement)) setEdited(false);
    return isSaved;
  };
  const leave = ({ target }: FocusEvent): void => {
    if ((target as HTMLTextAreaElement).value === text) setEdited(false);
  };
  if (!isEdited && (text !== "" || !isEditable)) {
    return html`
      <div class="text" dir="auto">${nodes}</div>
      ${isEditable
        ? html`<button type="button" class="link" aria-label="Edit description" onClick=${() =>
          setEdited(true)}>Edit</button>`
        : null}
    `;
  }
  return html`
    <div ref=${box} onFocusIn=${() => setEdited(true)} onFocusOut=${leave}>
      <${SavedField} label="Description" rows=${6} placeholder="Description, in Markdown" value=${text}
        onSave=${save} />
    </div>
  `;
}

async function readTask(id: string): Promise<[Detail, Activity[], Task[]]> {
  const path = `v1/collaboration/tasks/${encodeURIComponent(id)}`;
  const task = get<Detail>(path).catch((error) => {
    // A dialog without a task has nothing to offer.
    if (!(error instanceof ApiError && error.isTemporary)) closeDialog();
    throw error;
  });
  const activity = get<{ items: Activity[] }>(`${path}/activity`, { limit: 20 }).then(({ items }) => items);
  return await Promise.all([task, activity, listAll<Task>("v1/collaboration/tasks", { parentId: id })]);
}

/** A change in words. The values of long fields are not known. */
function textOf({ field, to }: Change): string {
  const name = field.replace(/(?:Ids?|At)$/, "");
  if (to === undefined || field === "parentId") return name;
  if (to === null || Array.isArray(to) && to.length === 0) return `${name} to nothing`;
  if (Array.isArray(to)) return `${name} to ${to.map((one) => field === "assigneeIds" ? nameOf(one) : one).join(", ")}`;
  if (field === "status") return `status to ${statusText(String(to))}`;
  return typeof to === "string" ? `${name} to ${field.endsWith("At") ? fullTimeOf(to) : to}` : name;
}

function Side({ task, onSave, onRead }: {
  task: Detail;
  onSave: (change: Record<string, unknown>) => Promise<boolean>;
  onRead: () => void;
}): VNode {
  const [members, setMembers] = useState<readonly Member[]>([]);
  useEffect(() => {
    void attempt(async () => setMembers(await readMembers(task.roomId)));
  }, [task.roomId]);
  const room = rooms.value.get(task.roomId);
  return html`
    <div class="fields side">
      <label>Status <select value=${task.status} onChange=${(event: Event) =>
        void onSave({ status: (event.target as HTMLSelectElement).value })}>
      ${STATUSES.map(([value, title]) =>
        html`<option key=${value} value=${value}>${title}</option>`
      )}<option value="cancelled">Cancelled</option></select></label>
      <label>Priority <select value=${task.priority} onChange=${(event: Event) =>
        void onSave({ priority: (event.target as HTMLSelectElement).value })}>
      ${PRIORITIES.map((value) => html`<option key=${value}>${value}</option>`)}</select></label>
      <${TimeField} label="Start" value=${task.startAt} onSave=${(startAt: string | null) =>
        void onSave({ startAt })} />
      <${TimeField} label="Due" value=${task.dueAt} onSave=${(dueAt: string | null) => void onSave({ dueAt })} />
      <${Repeats} task=${task} onSave=${onSave} />
      <label>Labels <${SavedField} label="Labels" value=${task.labels.join(", ")} placeholder="bug, design" onSave=${(
        text: string,
      ) => onSave({ labels: text.split(",").map((one) => one.trim()).filter((one) => one !== "") })} /></label>
      <${Assignees} task=${task} members=${members} onChange=${(assigneeIds: string[]) =>
        void onSave({ assigneeIds })} />
      <${Claim} task=${task} onRelease=${onRead} />
      ${task.parentId === null ? null : html`<p class="dim">A subtask of <button type="button" class="link"
        onClick=${() => openTask(task.parentId ?? "")}>another task</button></p>`}
      <p class="dim">In <a href=${`#/rooms/${task.roomId}/tasks`} onClick=${closeDialog}>${room === undefined
        ? "a room"
        : roomName(room)}</a>${task.sourceMessageId === null
        ? null
        : html`, from <a href=${`#/rooms/${task.roomId}?message=${task.sourceMessageId}`} onClick=${closeDialog}>a message</a>`}</p>
    </div>
  `;
}

function TimeField({ label, value, onSave }: {
  label: string;
  value: string | null;
  onSave: (at: string | null) => void;
}): VNode {
  return html`
    <label>${label} <input type="datetime-local" value=${value === null ? "" : localInputOf(new Date(value))}
      onChange=${(event: Event) => {
        const { value } = event.target as HTMLInputElement;
        onSave(value === "" ? null : new Date(value).toISOString());
      }} /></label>
  `;
}

/** Another task follows once this one is done. */
function Repeats({ task, onSave }: {
  task: Task;
  onSave: (change: Record<string, unknown>) => Promise<boolean>;
}): VNode {
  const rule = task.recurrence?.rrule ?? "";
  const isKnown = REPEATS.some(([one]) => one === rule);
  const choose = ({ target }: Event): void => {
    const rrule = (target as HTMLSelectElement).value;
    const anchor = task.dueAt === null ? "completion" : "due";
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    void onSave(rrule === "" ? { recurrence: null } : { recurrence: { rrule, anchor }, timeZone });
  };
  return html`
    <label>Repeats <select value=${rule} onChange=${choose}>${(isKnown
      ? REPEATS
      : [[rule, ruleInWords(rule)] as const, ...REPEATS]).map(([one, label]) =>
        html`<option key=${one} value=${one}>${label}</option>`
      )}</select></label>
  `;
}

function Assignees({ task, members, onChange }: {
  task: Task;
  members: readonly Member[];
  onChange: (ids: string[]) => void;
}): VNode {
  const others = members.filter(({ principalId }) => !task.assigneeIds.includes(principalId));
  return html`
    <div class="fields"><span class="label dim">Assignees</span>
      ${task.assigneeIds.map((id) =>
        html`<span class="row" key=${id}><${Avatar} id=${id} isSmall /> <span dir="auto">${nameOf(id)}</span>
        <button type="button" class="link" aria-label=${`Remove ${nameOf(id)}`} onClick=${() =>
          onChange(task.assigneeIds.filter((one) => one !== id))}>remove</button></span>`
      )}
      <select aria-label="Add an assignee" value="" onChange=${(event: Event) => {
        const { value } = event.target as HTMLSelectElement;
        if (value !== "") onChange([...task.assigneeIds, value]);
      }}><option value="">Add…</option>${others.map(({ principalId, displayName }) =>
        html`<option key=${principalId} value=${principalId}>${displayName}</option>`
      )}</select>
    </div>
  `;
}

function Subtasks(
  { task, subtasks, onChange }: { task: Task; subtasks: readonly Task[]; onChange: () => void },
): VNode {
  const done = (one: Task): void =>
    void attempt(async () => {
      await updateTask(one, { status: one.status === "done" ? "todo" : "done" });
      onChange();
    });
  return html`
    <h3>Subtasks</h3>
    ${subtasks.map((one) =>
      html`
        <span class="row check"
          key=${one
            .id}><input type="checkbox" aria-label=${`${one.title} is done`} checked=${one.status ===
            "done"} onChange=${() => done(one)} />
              <button type="button" class="link" onClick=${() => openTask(one.id)}><bdi>${one
                .title}</bdi></button></span>
      `
    )}
    <${LineForm} draft=${`task ${task.id}`} label="Add a subtask" maxlength=${255} onSend=${async (title: string) => {
      await createTask({ roomId: task.roomId, parentId: task.id, title });
      onChange();
    }} />
  `;
}
