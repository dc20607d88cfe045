// Tasks on the screen: read once, then changed by events.
import { type Signal, signal } from "@preact/signals";
import { call, listAll, post } from "../core/api.ts";
import { onEvent } from "../core/live.ts";

export type Status = "backlog" | "todo" | "in_progress" | "blocked" | "done" | "cancelled";
export type Priority = "none" | "low" | "medium" | "high" | "urgent";
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
  dueAt: string | null;
  sourceMessageId: string | null;
  position: string;
  version: number;
  createdBy: string;
  createdAt: string;
};

export const STATUSES: readonly (readonly [Status, string])[] = [
  ["backlog", "Backlog"],
  ["todo", "To do"],
  ["in_progress", "In progress"],
  ["blocked", "Blocked"],
  ["done", "Done"],
];
export const PRIORITIES: readonly Priority[] = ["none", "low", "medium", "high", "urgent"];

/** Which tasks are shown: those of a room, or the caller's own. */
export type Scope = { roomId: string } | { assigneeId: "me" };

const PATH = "v1/collaboration/tasks";
const lists = new Set<{ scope: Scope; tasks: Signal<readonly Task[] | undefined> }>();

/** The tasks of a scope; `close` ends their updates. */
export function openTasks(
  scope: Scope,
): { tasks: Signal<readonly Task[] | undefined>; read(): Promise<void>; close(): void } {
  const list = { scope, tasks: signal<readonly Task[] | undefined>(undefined) };
  lists.add(list);
  return {
    tasks: list.tasks,
    async read() {
      const query = "roomId" in scope ? { roomId: [scope.roomId], topLevel: true } : { assigneeId: ["me"] };
      list.tasks.value = await listAll<Task>(PATH, { ...query, sort: "position" }, 2000);
    },
    close: () => void lists.delete(list),
  };
}

export async function createTask(fields: Partial<Task> & { roomId: string; title: string }): Promise<Task> {
  const task = await post<Task>(PATH, fields);
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
    const changed = await call<Task>("PATCH", `${PATH}/${task.id}`, change);
    put(changed);
    return changed;
  } catch (error) {
    put(task);
    throw error;
  }
}

export async function deleteTask({ id }: Task): Promise<void> {
  await call("DELETE", `${PATH}/${id}`);
  remove(id);
}

/** Tasks of a column, in the order of the board. */
export function columnOf(tasks: readonly Task[], status: Status): Task[] {
  return tasks.filter((task) => task.status === status)
    .toSorted((a, b) => a.position < b.position ? -1 : a.position > b.position ? 1 : 0);
}

function put(task: Task): void {
  for (const { scope, tasks } of lists) {
    const known = tasks.value;
    if (known === undefined) continue;
    const belongs = "roomId" in scope
      ? task.roomId === scope.roomId && task.parentId === null
      : known.some(({ id }) => id === task.id);
    if (!belongs) continue;
    tasks.value = known.some(({ id }) => id === task.id)
      ? known.map((one) => one.id === task.id ? { ...one, ...task } : one)
      : [...known, task];
  }
}

function remove(id: string): void {
  for (const { tasks } of lists) tasks.value = tasks.value?.filter((one) => one.id !== id);
}

onEvent(({ type, data }) => {
  if (type === "task.created") put(data.task);
  else if (type === "task.updated" || type === "task.completed") {
    for (const { tasks } of lists) {
      const known = tasks.value?.find(({ id }) => id === data.taskId);
      if (known !== undefined && (data.changes.version ?? 0) >= known.version) put({ ...known, ...data.changes });
    }
  } else if (type === "task.deleted") remove(data.taskId);
});
