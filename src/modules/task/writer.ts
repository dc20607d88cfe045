// Every change of a task goes through here: rights, the room's lock, then row, activity, events and jobs in one transaction.
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { NotificationDraft, Notify } from "@/modules/notification/mod.ts";
import type { Entry, RoomGate } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { resolve } from "./key.ts";
import { lockRoom } from "./lock.ts";
import type { TaskPeople } from "./people.ts";
import { assigneesOf, presentTask } from "./presenter.ts";
import { type ActivityType, OPEN_MAX, type Task } from "./schema.ts";
import { entryOf, SEARCH_KIND } from "./searchable.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";

/** How long before the due date its assignees are reminded. */
export const REMINDER_LEAD_MS = 3_600_000;
/** Fields of a task that are consequences, not changes of their own. */
const DERIVED: ReadonlySet<string> = new Set(["version", "updatedAt", "completedAt", "nextTaskId"]);
/** Texts too long to be kept in the activity. */
const LONG: ReadonlySet<string> = new Set(["description", "metadata"]);

type Deps = {
  store: Store<TaskTables>;
  clock: Clock;
  gate: RoomGate;
  people: TaskPeople;
  notify: Notify;
  /** Absent = tasks are not found by search. */
  index?: Pick<SearchIndex, "put" | "remove"> | undefined;
};

/** A task held for a change: nobody else changes tasks of its room until the transaction ends. */
export type Grip = { tx: Transaction<TaskTables>; tasks: TaskStore; row: TaskRow; entry: Entry };

export class TaskWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A task the caller may meet with the rights of the running operation; a deleted one only when that is asked for. */
  async find(
    context: Context,
    ref: string,
    which: "live" | "deleted" = "live",
  ): Promise<{ row: TaskRow; entry: Entry }> {
    const row = await resolve(new TaskStore(this.#deps.store.db), context.actor.tenantId, ref);
    const absent = new Fault("not_found", "No such task, or not visible to the caller");
    if (row === undefined || await this.#deps.gate.look(context.actor, row.room_id) === undefined) throw absent;
    const entry = await this.#deps.gate.enter(context, row.room_id);
    if (row.deleted_at !== null && which === "live") throw absent;
    return { row, entry };
  }

  /** Runs `work` with a task held. */
  hold<Result>(
    context: Context,
    ref: string,
    work: (grip: Grip) => Promise<Result>,
    which: "live" | "deleted" = "live",
  ): Promise<Result> {
    return this.#deps.store.write(async (tx) => {
      const tasks = new TaskStore(tx.db);
      const seen = await this.find(context, ref, which);
      await lockRoom(tx, context.actor.tenantId, seen.row.room_id);
      const { row, entry } = await this.find(context, seen.row.id, which);
      return await work({ tx, tasks, row, entry });
    });
  }

  async add({ actor }: Context, tx: Transaction<TaskTables>, row: TaskRow): Promise<void> {
    const tasks = new TaskStore(tx.db);
    if (row.is_open === 1 && await tasks.openCount(row.tenant_id, row.room_id) >= OPEN_MAX) {
      throw new Fault("limit_reached", `A room has at most ${OPEN_MAX} open tasks`);
    }
    await tasks.add(row);
    await this.#record(tx, row, "created", actor.principalId, []);
    const task = this.present(row);
    await tx.emit(event(actor, row, "task.created", { task }));
    await this.#tellAssignees(tx, actor, row, task, assigneesOf(row), []);
    await this.#remind(tx, row);
    await this.#index(row);
  }

  /** Writes what changed between two states of a task; the same row comes back when nothing did. */
  async save(
    { actor }: Context,
    tx: Transaction<TaskTables>,
    before: TaskRow,
    changed: TaskRow,
    type: ActivityType = "updated",
    extra: readonly string[] = [],
  ): Promise<TaskRow> {
    const [was, is] = [this.present(before), this.present(changed)];
    const changes = changesBetween(was, is);
    const fields = [...changes.map(({ field }) => field), ...extra];
    if (fields.length === 0) return before;
    const row: TaskRow = { ...changed, version: before.version + 1, updated_at: iso(this.#deps.clock.now()) };
    const tasks = new TaskStore(tx.db);
    if (row.is_open === 1 && before.is_open === 0 && await tasks.openCount(row.tenant_id, row.room_id) >= OPEN_MAX) {
      throw new Fault("limit_reached", `A room has at most ${OPEN_MAX} open tasks`);
    }
    await tasks.put(before, row);
    const isCompleted = is.status === "done" && was.status !== "done";
    await this.#record(tx, row, type === "updated" && isCompleted ? "completed" : type, actor.principalId, changes);
    const task = this.present(row);
    await tx.emit(
      type === "deleted"
        ? event(actor, row, "task.deleted", { taskId: row.id, key: row.key, roomId: row.room_id })
        : event(actor, row, isCompleted ? "task.completed" : "task.updated", { task, changed: fields }),
    );
    const added = is.assigneeIds.filter((id) => !was.assigneeIds.includes(id));
    await this.#tellAssignees(
      tx,
      actor,
      row,
      task,
      added,
      was.assigneeIds.filter((id) => !is.assigneeIds.includes(id)),
    );
    if (row.due_at !== before.due_at || row.is_open > before.is_open) await this.#remind(tx, row);
    await this.#index(row);
    return row;
  }

  /** Reminds the assignees of a task that is still due then, once for each due date. */
  async announceDue(tenantId: string, taskId: string, dueAt: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const row = await new TaskStore(tx.db).find(tenantId, taskId);
      if (row === undefined || row.due_at !== dueAt || row.is_open === 0) return;
      const principalIds = await this.#deps.people.addressed(tenantId, assigneesOf(row), row.room_id);
      await this.#deps.notify({
        ...noticeOf(row),
        kind: "task_due",
        principalIds,
        // The job may run more than once; a notification of the same source is made once.
        source: `task.due:${taskId}:${dueAt}`,
      });
    });
  }

  present(row: TaskRow): Task {
    return presentTask(row, this.#deps.clock.now());
  }

  async #record(
    tx: Transaction<TaskTables>,
    row: TaskRow,
    type: ActivityType,
    actorId: string,
    changes: readonly Change[],
  ): Promise<void> {
    await new TaskStore(tx.db).addActivity({
      tenant_id: row.tenant_id,
      task_id: row.id,
      version: row.version,
      id: newId("act"),
      type,
      actor_id: actorId,
      changes_json: JSON.stringify(changes.map((change) => LONG.has(change.field) ? { field: change.field } : change)),
      at: row.updated_at,
    });
  }

  /** Those who came or went hear it on their own stream: who came unless the room mutes them, who went if they see it still. */
  async #tellAssignees(
    tx: Transaction<TaskTables>,
    actor: Context["actor"],
    row: TaskRow,
    task: Task,
    added: readonly string[],
    removed: readonly string[],
  ): Promise<void> {
    if (added.length === 0 && removed.length === 0) return;
    const assigned = event(actor, row, "task.assigned", { task, added, removed });
    const stillThere = await this.#deps.people.seeing(row.tenant_id, removed, row.room_id);
    const addressed = await this.#deps.people.addressed(row.tenant_id, added, row.room_id);
    await tx.emit(
      assigned,
      ...[...addressed, ...stillThere].map((id) => ({ ...assigned, stream: principalStream(id) })),
    );
    const others = addressed.filter((id) => id !== actor.principalId);
    if (others.length > 0) {
      await this.#deps.notify({ ...noticeOf(row), kind: "task_assigned", principalIds: others, actor });
    }
  }

  async #remind(tx: Transaction<TaskTables>, row: TaskRow): Promise<void> {
    const now = this.#deps.clock.now();
    if (row.is_open === 0 || row.due_at === null) return;
    const dueAt = Date.parse(row.due_at);
    if (dueAt <= now) return;
    await tx.enqueue({
      tenantId: row.tenant_id,
      kind: "task.due",
      payload: { taskId: row.id, dueAt: row.due_at },
      key: row.id,
      runAt: Math.max(now, dueAt - REMINDER_LEAD_MS),
    });
  }

  async #index(row: TaskRow): Promise<void> {
    if (row.deleted_at === null) await this.#deps.index?.put(entryOf(row));
    else await this.#deps.index?.remove(row.tenant_id, SEARCH_KIND, [row.id]);
  }
}

type Change = { field: string; from?: unknown; to?: unknown };

function changesBetween(was: Task, is: Task): Change[] {
  const after: Readonly<Record<string, unknown>> = is;
  return Object.entries(was).flatMap(([field, from]) => {
    const to = after[field];
    return DERIVED.has(field) || JSON.stringify(from) === JSON.stringify(to) ? [] : [{ field, from, to }];
  });
}

function event(actor: Context["actor"], row: TaskRow, type: string, data: unknown): EventDraft {
  return { tenantId: row.tenant_id, stream: roomStream(row.room_id), type, actor, data };
}

function noticeOf(row: TaskRow): Omit<NotificationDraft, "kind" | "principalIds"> {
  return {
    tenantId: row.tenant_id,
    roomId: row.room_id,
    resource: { type: "task", id: row.id },
    title: `${row.key} ${row.title}`,
    data: { key: row.key, dueAt: row.due_at },
  };
}
