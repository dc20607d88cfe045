// Updates of a task: the effect of a patch on its row, moves on the board, and completion.
import { type Clock, iso } from "@/core/time/clock.ts";
import { hasScope } from "@/core/actor.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion, jsonOf, patchedOr } from "@/core/patch.ts";
import { requireTimeZone } from "@/core/time/time_zone.ts";
import type { Message } from "@/modules/message/mod.ts";
import type { AnyTransaction, Transaction } from "@/ports/store.ts";
import { positionBeside } from "./board.ts";
import { assertLease, withoutClaim } from "./claims.ts";
import { resolveTaskInRoom } from "./key.ts";
import type { TaskAssignees } from "./assignees.ts";
import { assigneesOf, isOpen, seriesOf } from "./presenter.ts";
import type { RecurringTasks } from "./recurring_tasks.ts";
import { type Position, PRIORITIES, type Recurrence, type TaskUpdate } from "./schema.ts";
import { startSeries } from "./series.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import { requireParent } from "./tree.ts";
import type { LockedTask, TaskWriter } from "./writer.ts";

type Patch = Omit<TaskUpdate, "id" | "position" | "leaseToken" | "version">;

/** Reads a message with the rights of the context; throws `not_found` if the caller does not see it. */
export type ReadMessage = (tx: AnyTransaction, context: Context, id: string) => Promise<LinkedMessage>;

/** The fields of a message that tasks use. */
type LinkedMessage = Pick<Message, "id" | "roomId" | "threadId">;

type Deps = {
  clock: Clock;
  writer: TaskWriter;
  assignees: TaskAssignees;
  recurringTasks: RecurringTasks;
  readMessage: ReadMessage;
};

export class TaskUpdater {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Applies an update to a locked task. */
  async update(
    context: Context,
    locked: LockedTask,
    { version, leaseToken, position, ...patch }: Omit<TaskUpdate, "id">,
  ): Promise<TaskRow> {
    const { clock, writer, recurringTasks } = this.#deps;
    const { tx, row, grant } = locked;
    assertVersion("task", row.version, version);
    if (leaseToken !== undefined) assertLease(row, leaseToken, clock.now());
    let changed = await this.applyPatch(tx, context, grant.room, row, patch);
    if (position !== undefined) changed = { ...changed, position: await this.#move(context, locked, position) };
    if (changed.status === "done" && row.status !== "done") {
      changed = { ...changed, next_task_id: await recurringTasks.createNext(context, locked, changed) };
    }
    return await writer.save(tx, context, row, changed);
  }

  /** The row after a patch, with all fields checked against each other. */
  async applyPatch(
    tx: Transaction<TaskTables>,
    context: Context,
    room: { tenant_id: string; id: string },
    row: TaskRow,
    patch: Patch,
    isNew = false,
  ): Promise<TaskRow> {
    const { assignees, clock } = this.#deps;
    const { actor } = context;
    const { title, description, priority, labels, metadata, status } = patch;
    let after: TaskRow = {
      ...row,
      title: title ?? row.title,
      description: patchedOr(description === "" ? null : description, row.description),
      priority: priority === undefined ? row.priority : PRIORITIES.indexOf(priority),
      labels_json: labels === undefined ? row.labels_json : JSON.stringify([...new Set(labels)]),
      metadata_json: jsonOf(metadata) ?? row.metadata_json,
      start_at: patchedOr(patch.startAt, row.start_at),
      due_at: patchedOr(patch.dueAt, row.due_at),
      timezone: patch.timeZone === undefined ? row.timezone : requireTimeZone(patch.timeZone, "/timeZone"),
    };
    if (after.start_at !== null && after.due_at !== null && after.start_at > after.due_at) {
      throw invalidField("/startAt", "must not be after dueAt");
    }
    if (status !== undefined && status !== row.status) after = withStatus(after, status, clock.now());
    if (patch.assigneeIds !== undefined) {
      const ids = await assignees.resolveAssignees(tx, actor, room.id, patch.assigneeIds, assigneesOf(row));
      after.assignee_ids_json = JSON.stringify(ids);
    }
    if (patch.parentId !== undefined) {
      const parent = patch.parentId === null
        ? null
        : await requireParent(new TaskStore(tx.db), room, patch.parentId, isNew ? undefined : row);
      after.parent_id = parent?.id ?? null;
    }
    if (patch.threadId !== undefined && patch.threadId !== row.thread_id) {
      const thread = await this.readLinkedMessage(tx, context, patch.threadId);
      if (thread !== undefined && thread.roomId !== room.id) {
        throw invalidField("/threadId", "the thread is not in the room of the task");
      }
      after.thread_id = thread === undefined ? null : thread.threadId ?? thread.id;
    }
    after.recurrence_json = this.#recurrence(row, after, patch.recurrence);
    return after;
  }

  /** The message to link a task with, which the caller must be allowed to read. */
  async readLinkedMessage(tx: AnyTransaction, context: Context, id: string | null): Promise<LinkedMessage | undefined> {
    if (id === null) return undefined;
    if (!hasScope(context.actor, "message.read")) {
      throw new Fault("scope_missing", "Linking a message to a task requires the scope message.read");
    }
    const reading: Context = { ...context, access: { scope: "message.read", room: "observer" }, isReadOnly: true };
    return await this.#deps.readMessage(tx, reading, id);
  }

  /** A new rule or a new date restarts the series at this task; the same rule continues the count of instances. */
  #recurrence(row: TaskRow, after: TaskRow, requested: Recurrence | null | undefined): string | null {
    const series = seriesOf(row);
    const recurrence = patchedOr(requested, series);
    if (recurrence === null) return null;
    const isMoved = after.due_at !== row.due_at || after.timezone !== row.timezone;
    if (requested === undefined && !isMoved) return row.recurrence_json;
    const isNewRule = series === null || series.rrule !== recurrence.rrule;
    return JSON.stringify(startSeries(recurrence, after, isNewRule ? 1 : series.instance, this.#deps.clock.now()));
  }

  async #move(context: Context, { tx, tasks, row }: LockedTask, position: Position): Promise<string> {
    const side = "after" in position ? "after" : "before";
    const ref = "after" in position ? position.after : position.before;
    const anchor = await resolveTaskInRoom(tasks, { tenant_id: row.tenant_id, id: row.room_id }, ref);
    if (anchor === undefined || anchor.deleted_at !== null || anchor.id === row.id) {
      throw invalidField(`/position/${side}`, `${ref} is not another task of the room`);
    }
    const placement = await positionBeside(tasks, anchor, side, row.id);
    for (const shift of placement.shifted) {
      if (shift.row.deleted_at !== null) {
        await tasks.update(row.tenant_id, shift.row.id, { position: shift.position });
      } else await this.#deps.writer.save(tx, context, shift.row, { ...shift.row, position: shift.position });
    }
    return placement.position;
  }
}

/** Closing a task releases its claim. */
function withStatus(row: TaskRow, status: TaskRow["status"], now: number): TaskRow {
  return {
    ...(isOpen(status) ? row : withoutClaim(row)),
    status,
    is_open: isOpen(status) ? 1 : 0,
    completed_at: status === "done" ? iso(now) : null,
  };
}
