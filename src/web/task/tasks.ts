// Tasks on the screen: read once, then changed by events.
import { type Signal, signal } from "@preact/signals";
import { call, get, listAll, post } from "../core/api.ts";
import { capitalized } from "../core/format.ts";
import { onEvent, readAmidEvents } from "../core/live.ts";
import type { LiveEvent } from "../core/resources.ts";
import { myId } from "../core/session.ts";

export type Status = "backlog" | "todo" | "in_progress" | "blocked" | "done" | "cancelled";
type Priority = "none" | "low" | "medium" | "high" | "urgent";
export type Task = {
  id: string;
  key: string;
  roomId: string;
  title: string;
  description: string | null;
  status: Status;
  priority: Priority;
  assigneeIds: string[];
  labels: string[];
  parentId: string | null;
  startAt: string | null;
  dueAt: string | null;
  recurrence: { rrule: string } | null;
  sourceMessageId: string | null;
  position: string;
  version: number;
  createdBy: string;
  createdAt: string;
  deletedAt: string | null;
  claim: { principalId: string; expiresAt: string } | null;
};
export type RelationKind = "blocks" | "blocked_by" | "duplicates" | "duplicated_by" | "related";
/** A task by itself, with what it is related to. */
export type TaskDetail = Task & {
  relations: { kind: RelationKind; taskId: string; key: string; title: string; status: Status }[];
};

export const STATUSES: readonly (readonly [Status, string])[] = [
  ["backlog", "Backlog"],
  ["todo", "To do"],
  ["in_progress", "In progress"],
  ["blocked", "Blocked"],
  ["done", "Done"],
];
/** The name of a status, also of those that have no column. */
export function statusText(status: string): string {
  return STATUSES.find(([value]) => value === status)?.[1] ?? capitalized(status);
}

export const PRIORITIES: readonly Priority[] = ["none", "low", "medium", "high", "urgent"];

/** Which tasks are shown: those of a room, or the caller's own. */
export type Scope = { roomId: string } | { assigneeId: "me" };

export const TASKS = "v1/collaboration/tasks";
/** As many as a board shows. */
const TASKS_MAX = 2000;
/** As many as the gateway changes by one call. */
const BULK_MAX = 100;
type Tasks = readonly Task[];
type Change = (tasks: Tasks) => Tasks;
/** `missed` has what changed while the tasks are read, which may or may not be in what is read. */
type List = { scope: Scope; tasks: Signal<Tasks | undefined>; missed: Change[] | undefined };
const lists = new Set<List>();

/** The tasks of a scope; `close` ends their updates. */
export function openTasks(scope: Scope): { tasks: List["tasks"]; read(): Promise<void>; close(): void } {
  const list: List = { scope, tasks: signal<Tasks | undefined>(undefined), missed: undefined };
  lists.add(list);
  return {
    tasks: list.tasks,
    async read() {
      const missed: Change[] = list.missed = [];
      const tasks = await readTasks(scope, { sort: "position" });
      // Unless it is read again meanwhile.
      if (list.missed !== missed) return;
      list.missed = undefined;
      list.tasks.value = missed.reduce((all, change) => change(all), tasks as Tasks);
    },
    close: () => void lists.delete(list),
  };
}

export function readTasks(scope: Scope, query: Readonly<Record<string, string | boolean>>): Promise<Task[]> {
  const within = "roomId" in scope ? { roomId: [scope.roomId], topLevel: true } : { assigneeId: ["me"] };
  return listAll<Task>(TASKS, { ...within, ...query }, TASKS_MAX);
}

export async function createTask(fields: Partial<Task> & { roomId: string; title: string }): Promise<Task> {
  const task = await post<Task>(TASKS, fields);
  put(task);
  return task;
}

/** Changes a task at once on the screen; a refused change is undone. */
export async function updateTask(
  task: Task,
  change: Record<string, unknown>,
  shown: Partial<Task> = change,
): Promise<Task> {
  put({ ...task, ...shown });
  try {
    const changed = await call<Task>("PATCH", `${TASKS}/${task.id}`, change);
    put(changed);
    return changed;
  } catch (error) {
    put(task);
    throw error;
  }
}

/** Changes several; returns why some of them failed. */
export async function updateTasks(tasks: Tasks, patch: Record<string, unknown>): Promise<string[]> {
  const failed: string[] = [];
  for (let at = 0; at < tasks.length; at += BULK_MAX) {
    const part = tasks.slice(at, at + BULK_MAX);
    const { results } = await post<{ results: { id: string; task: Task | null; error: { detail: string } | null }[] }>(
      `${TASKS}/bulk`,
      { ids: part.map(({ id }) => id), patch },
    );
    for (const { id, task, error } of results) {
      if (task !== null) put(task);
      else failed.push(`${part.find((one) => one.id === id)?.key ?? id}: ${error?.detail ?? ""}`);
    }
  }
  return failed;
}

export async function deleteTask({ id }: Task): Promise<void> {
  await call("DELETE", `${TASKS}/${id}`);
  remove(id);
}

/** Tasks of a column, in the order of the board. */
export function columnOf(tasks: readonly Task[], status: Status): Task[] {
  return tasks.filter((task) => task.status === status)
    .toSorted((a, b) => a.position < b.position ? -1 : a.position > b.position ? 1 : 0);
}

function changeLists(changeOf: (scope: Scope) => Change): void {
  for (const { scope, tasks, missed } of lists) {
    const change = changeOf(scope);
    missed?.push(change);
    if (tasks.value !== undefined) tasks.value = change(tasks.value);
  }
}

function put(task: Task): void {
  changeLists((scope) => (tasks) => {
    const known = tasks.find(({ id }) => id === task.id);
    if (known !== undefined) {
      return known.version > task.version ? tasks : tasks.map((one) => one === known ? { ...one, ...task } : one);
    }
    const isWithin = "roomId" in scope
      ? task.roomId === scope.roomId && task.parentId === null
      : task.assigneeIds.includes(myId());
    return isWithin ? [...tasks, task] : tasks;
  });
}

function remove(id: string): void {
  changeLists(() => (tasks) => tasks.filter((one) => one.id !== id));
}

/** Reads a task that may belong in a list only now, and takes over what happened to it meanwhile. */
async function add(id: string): Promise<void> {
  const [task, missed] = await readAmidEvents(() => get<Task>(`${TASKS}/${id}`));
  put(task);
  for (const [event] of missed) receive(event);
}

function receive({ type, data }: LiveEvent): void {
  if (type === "task.created") put(data.task);
  else if (type === "task.updated" || type === "task.completed") {
    changeLists(() => (tasks) =>
      tasks.map((one) =>
        one.id === data.taskId && (data.changes.version ?? 0) >= one.version ? { ...one, ...data.changes } : one
      )
    );
    if (data.changes.deletedAt === null || data.changes.assigneeIds?.includes(myId())) {
      // Without a connection, lists are read again with the next one.
      add(data.taskId).catch(() => undefined);
    }
  } else if (type === "task.deleted") remove(data.taskId);
}

onEvent(receive);
