// What completing a recurring task makes: the next task of the series, with its subtasks.
import { type Clock, iso } from "@/core/clock.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import { lastPlace } from "./board.ts";
import { unclaimed } from "./claims.ts";
import { nextKey } from "./key.ts";
import type { TaskPeople } from "./people.ts";
import { assigneesOf, seriesOf } from "./presenter.ts";
import { nextDates, shiftWall, wallBetween, zoned } from "./series.ts";
import type { TaskRow } from "./tables.ts";
import { descendants } from "./tree.ts";
import type { Grip, TaskWriter } from "./writer.ts";

type Deps = { clock: Clock; writer: TaskWriter; people: TaskPeople };

export class TaskRepeater {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Makes the task that follows `row`, unless the series ends or that task was made before; returns its id. */
  async follow(context: Context, grip: Grip, row: TaskRow): Promise<string | null> {
    const series = seriesOf(row);
    if (series === null || row.next_task_id !== null) return row.next_task_id;
    const next = nextDates(series, row, this.#deps.clock.now());
    if (next === undefined || next.due_at === null) return null;
    const { rows } = await descendants(grip.tasks, row);
    // Who left the room meanwhile gets no new tasks of it.
    const assigned = new Set([row, ...rows].flatMap(assigneesOf));
    const present = await this.#deps.people.seeing(row.tenant_id, [...assigned], row.room_id);
    const dates = { start_at: next.start_at, due_at: next.due_at, recurrence_json: JSON.stringify(next.series) };
    // What is done makes place for what follows, also where there are as many open tasks as there may be.
    await grip.tasks.update(row.tenant_id, row.id, { is_open: 0 });
    const root = await this.#copy(context, grip, row, present, { ...dates, parent_id: row.parent_id });
    const by = row.due_at === null
      ? undefined
      : wallBetween(row.due_at, zoned(next.due_at, row.timezone), row.timezone);
    const copies = new Map([[row.id, root.id]]);
    for (const child of rows) {
      const parentId = copies.get(child.parent_id ?? "");
      // A subtask that recurs by itself has its successor in the tree; what hangs on the old one goes with it.
      if (parentId === undefined || child.next_task_id !== null) continue;
      const moved = (at: string | null, latest: string | null): string | null =>
        at === null || by === undefined ? null : shiftWall(at, child.timezone, by, latest);
      const due_at = moved(child.due_at, null);
      const copy = await this.#copy(context, grip, child, present, {
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
    { tx, tasks, entry }: Grip,
    row: TaskRow,
    present: ReadonlySet<string>,
    set: Partial<TaskRow>,
  ): Promise<TaskRow> {
    const now = iso(this.#deps.clock.now());
    const copy: TaskRow = {
      ...unclaimed(row),
      id: newId("task"),
      key: await nextKey(tasks, entry.room),
      position: await lastPlace(tasks, row.tenant_id, row.room_id),
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
    await this.#deps.writer.add(context, tx, copy);
    return copy;
  }
}
