// Trees of tasks: bounded in depth and size, and without cycles.
import { Fault, invalidField } from "@/core/fault.ts";
import { resolveTaskInRoom } from "./key.ts";
import { DEPTH_MAX, TREE_MAX } from "./schema.ts";
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";

/** Resolves the parent for a task of a room, and throws unless it is allowed. `child` is absent for a new task. */
export async function requireParent(
  tasks: TaskStore,
  room: { tenant_id: string; id: string },
  ref: string,
  child?: TaskRow,
): Promise<TaskRow> {
  const parent = await resolveTaskInRoom(tasks, room, ref);
  if (parent === undefined || parent.deleted_at !== null) {
    throw Fault.forField("/parentId", "not_found", `no task ${ref} in the room`);
  }
  const above = await ancestors(tasks, parent);
  if (child !== undefined && [parent, ...above].some(({ id }) => id === child.id)) {
    throw new Fault("cycle", `/parentId: ${parent.key} is ${child.key} itself or one of its subtasks`);
  }
  const below = child === undefined ? { rows: [], depth: 1 } : await descendants(tasks, child);
  if (above.length + 1 + below.depth > DEPTH_MAX) {
    throw invalidField("/parentId", `subtasks can be nested at most ${DEPTH_MAX} levels deep`);
  }
  const whole = await descendants(tasks, above.at(-1) ?? parent);
  if (whole.rows.length + 1 + below.rows.length + 1 > TREE_MAX) throw tooLarge();
  return parent;
}

/** Throws if the tree of a task exceeds the limits, as after subtasks were restored. */
export async function assertTreeFits(tasks: TaskStore, row: TaskRow): Promise<void> {
  const above = await ancestors(tasks, row);
  const { depth } = await descendants(tasks, row);
  if (above.length + depth > DEPTH_MAX) {
    throw new Fault("limit_reached", `Subtasks can be nested at most ${DEPTH_MAX} levels deep`);
  }
  const whole = await descendants(tasks, above.at(-1) ?? row);
  if (whole.rows.length + 1 > TREE_MAX) throw tooLarge();
}

/** Subtasks of all levels, parents before children, and the number of levels including that of the task itself. */
export async function descendants(tasks: TaskStore, root: TaskRow): Promise<{ rows: TaskRow[]; depth: number }> {
  const rows: TaskRow[] = [];
  let level = await tasks.children(root.tenant_id, [root.id]);
  let depth = 1;
  for (; level.length > 0; depth++) {
    rows.push(...level);
    level = await tasks.children(root.tenant_id, level.map((row) => row.id));
  }
  return { rows, depth };
}

function tooLarge(): Fault {
  return new Fault("limit_reached", `A task tree has at most ${TREE_MAX} tasks`);
}

async function ancestors(tasks: TaskStore, row: TaskRow): Promise<TaskRow[]> {
  const above: TaskRow[] = [];
  for (let id = row.parent_id; id !== null && above.length < DEPTH_MAX;) {
    const next = await tasks.find(row.tenant_id, id);
    if (next === undefined) break;
    above.push(next);
    id = next.parent_id;
  }
  return above;
}
