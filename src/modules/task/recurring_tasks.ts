// Completing a recurring task creates the next task of the series with its subtasks.
import { type Clock, iso } from "@/core/time/clock.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { nextPosition } from "./board.ts";
import { withoutClaim } from "./claims.ts";
import { nextKey } from "./key.ts";
import type { TaskAssignees } from "./assignees.ts";
import { assigneesOf, seriesOf } from "./presenter.ts";
import { nextDates, shiftWall, wallBetween, zoned } from "./series.ts";
import type { TaskRow } from "./tables.ts";
import { descendants } from "./tree.ts";
import type { LockedTask, TaskWriter } from "./writer.ts";

type Deps = { clock: Clock; writer: TaskWriter; assignees: TaskAssignees };

export class RecurringTasks {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates the task after `row`, unless the series ends or that task exists; returns its id. */
  async createNext(context: Context, locked: LockedTask, row: TaskRow): Promise<string | null> {
    const series = seriesOf(row);
    if (series === null || row.next_task_id !== null) return row.next_task_id;
    const next = nextDates(series, row, this.#deps.clock.now());
    if (next === undefined || next.due_at === null) return null;
    const { rows } = await descendants(locked.tasks, row);
    // Principals who have left the room are not assigned to new tasks.
    const assigned = new Set([row, ...rows].flatMap(assigneesOf));
    const present = await this.#deps.assignees.filterViewers(locked.tx, row.tenant_id, [...assigned], row.room_id);
    const dates = { start_at: next.start_at, due_at: next.due_at, recurrence_json: JSON.stringify(next.series) };
    // Closes the completed task first, so that the limit of open tasks leaves room for the next one.
    await locked.tasks.update(row.tenant_id, row.id, { is_open: 0 });
    const root = await this.#copy(context, locked, row, present, { ...dates, parent_id: row.parent_id });
    const by = row.due_at === null
      ? undefined
      : wallBetween(row.due_at, zoned(next.due_at, row.timezone), row.timezone);
    const copies = new Map([[row.id, root.id]]);
    for (const child of rows) {
      const parentId = copies.get(child.parent_id ?? "");
      // A recurring subtask already has its next task in the tree; the subtasks of the old one are not copied.
      if (parentId === undefined || child.next_task_id !== null) continue;
      const moved = (at: string | null, latest: string | null): string | null =>
        at === null || by === undefined ? null : shiftWall(at, child.timezone, by, latest);
      const due_at = moved(child.due_at, null);
      const copy = await this.#copy(context, locked, child, present, {
        parent_id: parentId,
        start_at: moved(child.start_at, due_at),
        due_at,
        recurrence_json: by === undefined ? null : child.recurrence_json,
      });
      copies.set(child.id, copy.id);
    }
    return root.id;
  }

  async #copy(
    context: Context,
    { tx, tasks, grant }: LockedTask,
    row: TaskRow,
    present: ReadonlySet<string>,
    set: Partial<TaskRow>,
  ): Promise<TaskRow> {
    const now = iso(this.#deps.clock.now());
    const copy: TaskRow = {
      ...withoutClaim(row),
      id: newId("task"),
      key: await nextKey(tasks, context.actor, grant.room),
      position: await nextPosition(tasks, row.tenant_id, row.room_id),
      status: "todo",
      is_open: 1,
      assignee_ids_json: JSON.stringify(assigneesOf(row).filter((id) => present.has(id))),
      next_task_id: null,
      completed_at: null,
      version: 1,
      created_at: now,
      updated_at: now,
      ...set,
    };
    await this.#deps.writer.add(tx, context, copy, row);
    return copy;
  }
}
