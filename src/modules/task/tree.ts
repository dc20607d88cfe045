// Trees of tasks: how deep, how large, and never in a circle.
import { Fault } from "@/core/fault.ts";
import { resolve } from "./key.ts";
import { DEPTH_MAX, TREE_MAX } from "./schema.ts";
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";

/** The parent somebody named for a task of a room; throws when it does not fit. `child` is absent for a task being made. */
export async function checkParent(
  tasks: TaskStore,
  room: { tenant_id: string; id: string },
  ref: string,
  child?: TaskRow,
): Promise<TaskRow> {
  const parent = await resolve(tasks, room.tenant_id, ref);
  if (parent === undefined || parent.room_id !== room.id || parent.deleted_at !== null) {
    throw new Fault("validation_failed", `/parentId: no task ${ref} in the room`, {
      errors: [{ pointer: "/parentId", code: "not_found", detail: `No task ${ref} in the room` }],
    });
  }
  const above = await ancestors(tasks, parent);
  if (child !== undefined && [parent, ...above].some(({ id }) => id === child.id)) {
    throw new Fault("cycle", `/parentId: ${parent.key} is ${child.key} itself or one of its subtasks`);
  }
  const below = child === undefined ? { rows: [], depth: 1 } : await descendants(tasks, child);
  if (above.length + 1 + below.depth > DEPTH_MAX) {
    throw new Fault("validation_failed", `/parentId: subtasks go ${DEPTH_MAX} levels deep at most`);
  }
  const whole = await descendants(tasks, above.at(-1) ?? parent);
  if (whole.rows.length + 1 + below.rows.length + 1 > TREE_MAX) {
    throw tooLarge();
  }
  return parent;
}

/** Throws when a tree has become deeper or larger than trees may be, as by subtasks that came back. */
export async function checkTree(tasks: TaskStore, row: TaskRow): Promise<void> {
  const above = await ancestors(tasks, row);
  const { depth } = await descendants(tasks, row);
  if (above.length + depth > DEPTH_MAX) {
    throw new Fault("limit_reached", `Subtasks go ${DEPTH_MAX} levels deep at most`);
  }
  const whole = await descendants(tasks, above.at(-1) ?? row);
  if (whole.rows.length + 1 > TREE_MAX) throw tooLarge();
}

/** All subtasks at every level, parents before children, and how many levels there are, the task's own included. */
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
  return new Fault("limit_reached", `A task has at most ${TREE_MAX} tasks in its tree`);
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
