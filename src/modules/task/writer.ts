// Loads tasks for reading and for update, and writes every change: row, activity, events and jobs in one transaction.
import { type Clock, HOUR_MS, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalStream, roomEvent, roomStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import { type Holds, holdSubjectOf } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import { changesBetween, shorten } from "@/core/event/event_data.ts";
import { type NamedFiles, uploadedBy } from "@/modules/file/mod.ts";
import type { NotificationDraft, Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess, RoomGrant } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { attachNamedFiles } from "./files.ts";
import { resolveTask } from "./key.ts";
import type { TaskAssignees } from "./assignees.ts";
import { assigneesOf, presentTask } from "./presenter.ts";
import { type ActivityType, LONG_FIELDS, OPEN_MAX, type Task } from "./schema.ts";
import { SEARCH_KIND, searchEntryOf } from "./searchable.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";

export const DUE_JOB = "task.due";
/** Assignees are reminded this long before the due date. */
const REMINDER_LEAD_MS = HOUR_MS;
/** Fields that follow from others and are not listed as changes. */
const DERIVED: ReadonlySet<string> = new Set(["version", "updatedAt", "completedAt", "nextTaskId"]);
/** A stream without events: its lock serializes changes of relations, which span rooms, so that no two close a cycle. */
const RELATIONS_LOCK = "task:relations";

type Deps = {
  store: Store<TaskTables>;
  clock: Clock;
  roomAccess: RoomAccess;
  assignees: TaskAssignees;
  notify: Notify;
  files: NamedFiles;
  holds: Holds;
  /** Absent if search is off. */
  index?: Pick<SearchIndex, "put" | "remove"> | undefined;
};

/** A task read under the lock of its room: until the commit, no other transaction changes tasks of the room. */
export type LockedTask = { tx: Transaction<TaskTables>; tasks: TaskStore; row: TaskRow; grant: RoomGrant };

export class TaskWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Finds a task by id or key; throws unless the caller has the access that the operation requires in its room. */
  async require(
    context: Context,
    ref: string,
    which: "live" | "deleted" = "live",
    tx?: Transaction<TaskTables>,
  ): Promise<{ row: TaskRow; grant: RoomGrant }> {
    const { roomAccess, store } = this.#deps;
    const { db } = tx ?? store;
    const row = await resolveTask(new TaskStore(db), context.actor, ref);
    if (row === undefined) throw notVisible("task");
    const grant = await roomAccess.require(context, row.room_id, { tx, resource: { noun: "task" } });
    if (row.deleted_at !== null && which === "live") throw notVisible("task");
    return { row, grant };
  }

  /** Locks the room of a task and checks access again under the lock. */
  async requireForUpdate(
    tx: Transaction<TaskTables>,
    context: Context,
    ref: string,
    which: "live" | "deleted" = "live",
  ): Promise<LockedTask> {
    const { row: { id, room_id: roomId } } = await this.require(context, ref, which, tx);
    await lockRoom(tx, context.actor.tenantId, roomId);
    return { tx, tasks: new TaskStore(tx.db), ...await this.require(context, id, which, tx) };
  }

  /** Adds a task; `original` is the one that it is a copy of. */
  async add(tx: Transaction<TaskTables>, { actor }: Context, row: TaskRow, original?: TaskRow): Promise<void> {
    const tasks = new TaskStore(tx.db);
    if (row.is_open === 1) await assertMayOpen(tasks, row);
    await tasks.add(row);
    await attachNamedFiles(tx, this.#deps.files, row, uploadedBy(actor.principalId), original);
    await this.#record(tx, row, "created", actor.principalId, []);
    const { value: task, omitted } = shorten(this.present(row), LONG_FIELDS);
    await tx.emit(event(actor, row, "task.created", { task, omitted }));
    await this.#notifyAssignees(tx, actor, row, assigneesOf(row), []);
    await this.#scheduleReminder(tx, row);
    await this.#index(row);
  }

  /** Writes the difference between two states of a task; returns `before` if there is none. */
  async save(
    tx: Transaction<TaskTables>,
    { actor }: Context,
    before: TaskRow,
    changed: TaskRow,
    type: ActivityType = "updated",
    extra: readonly string[] = [],
  ): Promise<TaskRow> {
    const [was, is] = [this.present(before), this.present(changed)];
    const changes = diffTasks(was, is);
    if (changes.length === 0 && extra.length === 0) return before;
    const row: TaskRow = { ...changed, version: before.version + 1, updated_at: iso(this.#deps.clock.now()) };
    const tasks = new TaskStore(tx.db);
    if (row.is_open === 1 && before.is_open === 0) await assertMayOpen(tasks, row);
    await this.#deps.holds.keepState(tx.db, {
      tenantId: row.tenant_id,
      subject: holdSubjectOf(before),
      type: "task",
      id: row.id,
      version: before.version,
      stateOf: () => was,
      replacedBy: actor.principalId,
    });
    await tasks.put(before, row);
    if (row.description !== before.description) {
      await attachNamedFiles(tx, this.#deps.files, row, uploadedBy(actor.principalId), before);
    }
    const isCompleted = is.status === "done" && was.status !== "done";
    await this.#record(tx, row, type === "updated" && isCompleted ? "completed" : type, actor.principalId, changes);
    const ids = { taskId: row.id, roomId: row.room_id };
    const { changes: published, omitted } = changesBetween(was, this.present(row));
    await tx.emit(
      type === "deleted"
        ? event(actor, row, "task.deleted", { ...ids, key: row.key })
        : event(actor, row, isCompleted ? "task.completed" : "task.updated", {
          ...ids,
          changes: published,
          omitted: [...omitted, ...extra],
        }),
    );
    const added = is.assigneeIds.filter((id) => !was.assigneeIds.includes(id));
    await this.#notifyAssignees(tx, actor, row, added, was.assigneeIds.filter((id) => !is.assigneeIds.includes(id)));
    if (row.due_at !== before.due_at || row.is_open > before.is_open) await this.#scheduleReminder(tx, row);
    await this.#index(row);
    return row;
  }

  /** Reminds the assignees of an open task whose due date is unchanged, once for each due date. */
  async notifyDue(tenantId: string, taskId: string, dueAt: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const row = await new TaskStore(tx.db).find(tenantId, taskId);
      if (row === undefined || row.due_at !== dueAt || row.is_open === 0) return;
      const principalIds = await this.#deps.assignees.notifiable(tx, tenantId, assigneesOf(row), row.room_id);
      await this.#deps.notify({
        ...notificationOf(row),
        kind: "task_due",
        principalIds,
        // The job may run more than once; there is one notification for each source.
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
      changes_json: JSON.stringify(
        changes.map((change) =>
          (LONG_FIELDS as readonly string[]).includes(change.field) ? { field: change.field } : change
        ),
      ),
      at: row.updated_at,
    });
  }

  /**
   * Publishes a change of assignees, also on their own streams: to new ones unless the room mutes them, to former ones if they
   * still see the room.
   */
  async #notifyAssignees(
    tx: Transaction<TaskTables>,
    actor: Context["actor"],
    row: TaskRow,
    added: readonly string[],
    removed: readonly string[],
  ): Promise<void> {
    if (added.length === 0 && removed.length === 0) return;
    const assigned = event(actor, row, "task.assigned", {
      taskId: row.id,
      key: row.key,
      roomId: row.room_id,
      added,
      removed,
    });
    const formerViewers = await this.#deps.assignees.filterViewers(tx, row.tenant_id, removed, row.room_id);
    const notifiable = await this.#deps.assignees.notifiable(tx, row.tenant_id, added, row.room_id);
    await tx.emit(
      assigned,
      ...[...notifiable, ...formerViewers].map((id) => ({ ...assigned, stream: principalStream(id) })),
    );
    const others = notifiable.filter((id) => id !== actor.principalId);
    if (others.length > 0) {
      await this.#deps.notify({ ...notificationOf(row), kind: "task_assigned", principalIds: others, actor });
    }
  }

  async #scheduleReminder(tx: Transaction<TaskTables>, row: TaskRow): Promise<void> {
    const now = this.#deps.clock.now();
    const job = reminderOf(row);
    if (job === undefined || Date.parse(job.payload.dueAt) <= now) return;
    await tx.enqueue({ ...job, runAt: Math.max(now, job.runAt) });
  }

  async #index(row: TaskRow): Promise<void> {
    if (row.deleted_at === null) await this.#deps.index?.put(searchEntryOf(row));
    else await this.#deps.index?.remove(row.tenant_id, SEARCH_KIND, [row.id]);
  }
}

async function assertMayOpen(tasks: TaskStore, { tenant_id, room_id }: TaskRow): Promise<void> {
  if (await tasks.openCount(tenant_id, room_id) < OPEN_MAX) return;
  throw new Fault("limit_reached", `A room has at most ${OPEN_MAX} open tasks`);
}

/** Locks the tasks of a room until the commit. Their events need the lock of the room's stream anyway. */
export async function lockRoom(tx: Transaction<TaskTables>, tenantId: string, roomId: string): Promise<void> {
  await tx.lock(tenantId, roomStream(roomId));
}

/** Locks the relations of a tenant; to be acquired before rooms. */
export async function lockRelations(tx: Transaction<TaskTables>, tenantId: string): Promise<void> {
  await tx.lock(tenantId, RELATIONS_LOCK);
}

type Reminder = JobDraft & { payload: { taskId: string; dueAt: string }; runAt: number };

/** The reminder of an open task with a due date, a while before that. */
export function reminderOf({ tenant_id: tenantId, id: taskId, due_at: dueAt, is_open }: TaskRow): Reminder | undefined {
  if (is_open === 0 || dueAt === null) return undefined;
  const payload = { taskId, dueAt };
  return { tenantId, kind: DUE_JOB, payload, key: taskId, runAt: Date.parse(dueAt) - REMINDER_LEAD_MS };
}

type Change = { field: string; from?: unknown; to?: unknown };

function diffTasks(was: Task, is: Task): Change[] {
  const after: Readonly<Record<string, unknown>> = is;
  return Object.entries(was).flatMap(([field, from]) => {
    const to = after[field];
    return DERIVED.has(field) || JSON.stringify(from) === JSON.stringify(to) ? [] : [{ field, from, to }];
  });
}

function event(actor: Context["actor"], row: TaskRow, type: string, data: unknown): EventDraft {
  return roomEvent(actor, row.room_id, type, data);
}

function notificationOf(row: TaskRow): Omit<NotificationDraft, "kind" | "principalIds"> {
  return {
    tenantId: row.tenant_id,
    roomId: row.room_id,
    resource: { type: "task", id: row.id },
    title: `${row.key} ${row.title}`,
    data: { key: row.key, dueAt: row.due_at },
  };
}
