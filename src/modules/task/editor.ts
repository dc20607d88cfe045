// Edits of a task: what a patch means for its row, where it goes on the board, and what follows when it is done.
import { type Clock, iso } from "@/core/clock.ts";
import { hasScope } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { checkVersion } from "@/core/patch.ts";
import type { Message } from "@/modules/message/mod.ts";
import { placeBeside } from "./board.ts";
import { checkLease, unclaimed } from "./claims.ts";
import { resolve } from "./key.ts";
import type { TaskPeople } from "./people.ts";
import { assigneesOf, seriesOf } from "./presenter.ts";
import type { TaskRepeater } from "./repeater.ts";
import { type Position, PRIORITIES, type Recurrence, type TaskUpdate } from "./schema.ts";
import { startSeries } from "./series.ts";
import { isOpen } from "./status.ts";
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";
import { checkParent } from "./tree.ts";
import type { Grip, TaskWriter } from "./writer.ts";

type Patch = Omit<TaskUpdate, "id" | "position" | "leaseToken" | "version">;

/** Reads a message with the rights of the context; throws `not_found` for one the caller does not see. */
export type ReadMessage = (context: Context, id: string) => Promise<LinkedMessage>;

/** What a task needs to know of a message. */
type LinkedMessage = Pick<Message, "id" | "roomId" | "threadId">;

type Deps = {
  clock: Clock;
  writer: TaskWriter;
  people: TaskPeople;
  repeater: TaskRepeater;
  readMessage: ReadMessage;
};

export class TaskEditor {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Applies an update to a task that is held. */
  async edit(
    context: Context,
    grip: Grip,
    { version, leaseToken, position, ...patch }: Omit<TaskUpdate, "id">,
  ): Promise<TaskRow> {
    const { clock, writer, repeater } = this.#deps;
    const { tx, tasks, row, entry } = grip;
    checkVersion("task", row.version, version);
    if (leaseToken !== undefined) checkLease(row, leaseToken, clock.now());
    let changed = await this.patched(context, tasks, entry.room, row, patch);
    if (position !== undefined) changed = { ...changed, position: await this.#move(context, grip, position) };
    if (changed.status === "done" && row.status !== "done") {
      changed = { ...changed, next_task_id: await repeater.follow(context, grip, changed) };
    }
    return await writer.save(context, tx, row, changed);
  }

  /** The row after a patch; everything in the patch is checked against everything else in the row. */
  async patched(
    context: Context,
    tasks: TaskStore,
    room: { tenant_id: string; id: string },
    row: TaskRow,
    patch: Patch,
    isNew = false,
  ): Promise<TaskRow> {
    const { people, clock } = this.#deps;
    const { actor } = context;
    const { title, description, priority, labels, metadata, status } = patch;
    let after: TaskRow = {
      ...row,
      ...(title === undefined ? {} : { title }),
      ...(description === undefined ? {} : { description: description === "" ? null : description }),
      ...(priority === undefined ? {} : { priority: PRIORITIES.indexOf(priority) }),
      ...(labels === undefined ? {} : { labels_json: JSON.stringify([...new Set(labels)]) }),
      ...(metadata === undefined ? {} : { metadata_json: JSON.stringify(metadata) }),
      ...(patch.startAt === undefined ? {} : { start_at: normal(patch.startAt) }),
      ...(patch.dueAt === undefined ? {} : { due_at: normal(patch.dueAt) }),
      ...(patch.timezone === undefined ? {} : { timezone: zoneOf(patch.timezone) }),
    };
    if (after.start_at !== null && after.due_at !== null && after.start_at > after.due_at) {
      throw new Fault("validation_failed", "/startAt: a task starts before it is due");
    }
    if (status !== undefined && status !== row.status) after = withStatus(after, status, clock.now());
    if (patch.assigneeIds !== undefined) {
      const ids = await people.assignees(actor, room.id, patch.assigneeIds, assigneesOf(row));
      after.assignee_ids_json = JSON.stringify(ids);
    }
    if (patch.parentId !== undefined) {
      const parent = patch.parentId === null
        ? null
        : await checkParent(tasks, room, patch.parentId, isNew ? undefined : row);
      after.parent_id = parent?.id ?? null;
    }
    if (patch.threadId !== undefined && patch.threadId !== row.thread_id) {
      const thread = await this.message(context, patch.threadId);
      if (thread !== undefined && thread.roomId !== room.id) {
        throw new Fault("validation_failed", "/threadId: the thread is not in the room of the task");
      }
      after.thread_id = thread === undefined ? null : thread.threadId ?? thread.id;
    }
    after.recurrence_json = this.#recurrence(row, after, patch.recurrence);
    return after;
  }

  /** A message the caller may read, to link a task with. */
  async message(context: Context, id: string | null): Promise<LinkedMessage | undefined> {
    if (id === null) return undefined;
    if (!hasScope(context.actor, "message.read")) {
      throw new Fault("scope_missing", "Linking a task with a message needs the scope message.read");
    }
    const reading: Context = { ...context, access: { scope: "message.read", room: "observer" }, isRead: true };
    return await this.#deps.readMessage(reading, id);
  }

  /** A new rule, or new dates for it, start the series from this task on; its instance is counted on. */
  #recurrence(row: TaskRow, after: TaskRow, given: Recurrence | null | undefined): string | null {
    const series = seriesOf(row);
    const recurrence = given === undefined ? series : given;
    if (recurrence === null) return null;
    const isMoved = after.due_at !== row.due_at || after.timezone !== row.timezone;
    if (given === undefined && !isMoved) return row.recurrence_json;
    const isOther = series === null || series.rrule !== recurrence.rrule;
    return JSON.stringify(startSeries(recurrence, after, isOther ? 1 : series.instance, this.#deps.clock.now()));
  }

  async #move(context: Context, { tx, tasks, row }: Grip, position: Position): Promise<string> {
    const side = "after" in position ? "after" : "before";
    const ref = "after" in position ? position.after : position.before;
    const anchor = await resolve(tasks, row.tenant_id, ref);
    if (anchor === undefined || anchor.room_id !== row.room_id || anchor.deleted_at !== null || anchor.id === row.id) {
      throw new Fault("validation_failed", `/position/${side}: ${ref} is not another task of the room`);
    }
    const place = await placeBeside(tasks, anchor, side, row.id);
    for (const shift of place.shifted) {
      if (shift.row.deleted_at !== null) {
        await tasks.update(row.tenant_id, shift.row.id, { position: shift.position });
      } else await this.#deps.writer.save(context, tx, shift.row, { ...shift.row, position: shift.position });
    }
    return place.position;
  }
}

/** A closed task is nobody's work any more. */
function withStatus(row: TaskRow, status: TaskRow["status"], now: number): TaskRow {
  return {
    ...(isOpen(status) ? row : unclaimed(row)),
    status,
    is_open: isOpen(status) ? 1 : 0,
    completed_at: status === "done" ? iso(now) : null,
  };
}

function zoneOf(name: string): string {
  try {
    // Temporal takes offsets as well, which know no change of clocks.
    if (!/^[A-Za-z]/.test(name)) throw new RangeError("An offset is no zone");
    return Temporal.Now.zonedDateTimeISO(name).timeZoneId;
  } catch (cause) {
    throw new Fault("invalid_time_zone", `/timezone: ${name} is not an IANA time zone`, { cause });
  }
}

function normal(time: string | null): string | null {
  return time === null ? null : iso(Date.parse(time));
}
