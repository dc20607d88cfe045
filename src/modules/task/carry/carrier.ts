// Tasks on their way out of a gateway and into one: a room's board with its numbering, trees, relations and what happened.
import { type Clock, isTimeZone } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { byPages } from "@/core/page.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { lockRelations, lockRoom } from "../lock.ts";
import { presentActivity, presentTask, seriesOf } from "../presenter.ts";
import { INVERSE } from "../relations.ts";
import { OPEN_MAX, PRIORITIES, RELATIONS_MAX, type Task, type TaskActivity } from "../schema.ts";
import { entryOf } from "../searchable.ts";
import { nextDates, type Series } from "../series.ts";
import { isOpen } from "../status.ts";
import { TaskStore } from "../store.ts";
import type { ActivityRow, RelationRow, TaskRow, TaskTables } from "../tables.ts";
import { REMINDER_LEAD_MS } from "../writer.ts";
import { isPosition, Keys, openBoard, Positions } from "./numbering.ts";
import { TaskCarryStore } from "./store.ts";
import { Trees } from "./tree.ts";

const BATCH = 200;

/** A task as it goes from gateway to gateway: who works on it right now means nothing elsewhere. */
export type CarriedTask = Omit<Task, "recurrence" | "claim" | "deletedAt"> & { recurrence: Series | null };
export type CarriedActivity = TaskActivity & { taskId: string };
export type CarriedRelation = {
  taskId: string;
  kind: RelationRow["kind"];
  otherId: string;
  createdBy: string;
  createdAt: string;
};
/** Tasks some at a time, parents first, or what happened to them, the last of each first. */
export type TaskPage = { tasks: CarriedTask[] } | { activity: CarriedActivity[] };

/** What of a task could not be as it was. */
export type TaskLoss = "parent_missing" | "key_taken" | "position_taken";
export type Put = { task: Task; losses: TaskLoss[] } | "too_many_tasks";
export type Related = "added" | "present" | "deleted" | "unknown_task" | "cycle" | "too_many_relations";

type Tx = Transaction<TaskTables>;
type Deps = {
  store: Store<TaskTables>;
  clock: Clock;
  /** Absent = tasks are not found by search. */
  index?: Pick<SearchIndex, "put"> | undefined;
};

export class TaskCarrier {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** How the tasks of a room are numbered; `undefined` before it has any. */
  async board(tenantId: string, roomId: string): Promise<{ prefix: string; lastNumber: number } | undefined> {
    const board = await new TaskCarryStore(this.#deps.store.db).board(tenantId, roomId);
    if (board === undefined || board.prefix === null) return undefined;
    return { prefix: board.prefix, lastNumber: Number(board.last_number) };
  }

  /** Tasks of a room, without deleted ones: a page under none, all that lies under it, then the next. */
  async *tasks(tenantId: string, roomId: string, parentIds: readonly string[] | null = null): AsyncGenerator<TaskPage> {
    const carry = new TaskCarryStore(this.#deps.store.db);
    const read = (last?: TaskRow) => carry.under(tenantId, roomId, parentIds, last?.id ?? "", BATCH);
    for await (const rows of byPages(BATCH, read)) {
      const ids = rows.map(({ id }) => id);
      yield { tasks: rows.map(carried) };
      yield* this.#activity(carry, tenantId, ids);
      yield* this.tasks(tenantId, roomId, ids);
    }
  }

  /** Relations of a room's tasks, each once: those within it, and unless `isAlone` those with rooms before it by id. */
  async *relations(tenantId: string, roomId: string, isAlone: boolean): AsyncGenerator<CarriedRelation[]> {
    const carry = new TaskCarryStore(this.#deps.store.db);
    const read = (last?: RelationRow) => carry.relations(tenantId, roomId, isAlone, last, BATCH);
    for await (const rows of byPages(BATCH, read)) {
      yield rows.map((row) => ({
        taskId: row.task_id,
        kind: row.kind,
        otherId: row.other_id,
        createdBy: row.created_by,
        createdAt: row.created_at,
      }));
    }
  }

  /** What is wrong with a task from elsewhere; `undefined` when it could have been made here. */
  faultOf(task: Omit<CarriedTask, "key" | "id">): string | undefined {
    const { timezone, position, recurrence, startAt, dueAt } = task;
    // Offsets know no change of clocks.
    if (!isTimeZone(timezone)) return `${timezone} is no time zone`;
    if (!isPosition(position)) return "The position is none of a board";
    if (startAt !== null && dueAt !== null && startAt > dueAt) return "It starts after it is due";
    if (recurrence === null) return undefined;
    if (recurrence.anchor === "due" && dueAt === null) return "It recurs by its due date, and has none";
    try {
      // The next date is worked out now, so that a rule that costs too much does not come in.
      nextDates(recurrence, { start_at: startAt, due_at: dueAt, timezone }, this.#deps.clock.now());
    } catch (error) {
      if (error instanceof Fault || error instanceof RangeError) return error.message;
      throw error;
    }
    return undefined;
  }

  /** Takes a board up to add to it, held until the transaction ends; a room without tasks gets this prefix if it is free. */
  async hold(tx: Tx, tenantId: string, roomId: string, prefix: string): Promise<string> {
    await lockRoom(tx, tenantId, roomId);
    const board = await openBoard(new TaskStore(tx.db), new TaskCarryStore(tx.db), { tenantId, roomId }, prefix);
    return board.prefix ?? "";
  }

  /** Numbers of a held board up to this one are not given again. */
  async raise(tx: Tx, tenantId: string, roomId: string, number: number): Promise<void> {
    await new TaskCarryStore(tx.db).raise(tenantId, roomId, number);
  }

  /**
   * Adds tasks, whose ids are free, to a held board, and tells of them. Each gets its key, its place and its parent where
   * those are to be had; nobody is notified of what was given to them elsewhere, and reminded only of what is to come.
   */
  async put(tx: Tx, tenantId: string, roomId: string, drafts: readonly CarriedTask[]): Promise<Put[]> {
    const { clock, index } = this.#deps;
    const now = clock.now();
    const tasks = new TaskStore(tx.db);
    const carry = new TaskCarryStore(tx.db);
    const room = { tenantId, roomId };
    const board = await carry.board(tenantId, roomId);
    if (board === undefined) throw new TypeError("The board is not held");
    const keys = new Keys(tasks, carry, room, board);
    const positions = new Positions(tasks, carry, room);
    await keys.look(drafts.map(({ key }) => key));
    await positions.look(drafts.map(({ position }) => position));
    const known = await carry.some(tenantId, [...new Set(drafts.flatMap(({ parentId }) => parentId ?? []))]);
    const trees = new Trees(tasks);
    let openCount = await tasks.openCount(tenantId, roomId);
    const rows: TaskRow[] = [];
    const results: Put[] = [];
    for (const draft of drafts) {
      if (isOpen(draft.status) && ++openCount > OPEN_MAX) {
        results.push("too_many_tasks");
        continue;
      }
      const above = known.get(draft.parentId ?? "");
      const parent = above?.room_id === roomId && above.deleted_at === null ? above : undefined;
      const isUnder = parent !== undefined && await trees.hang(draft.id, parent);
      if (!isUnder) trees.plant(draft.id);
      const key = await keys.give(draft.key);
      const position = positions.give(draft.position);
      const parentId = isUnder ? draft.parentId : null;
      const row = rowOf(tenantId, { ...draft, roomId, parentId, key: key.value, position: position.value });
      known.set(row.id, row);
      rows.push(row);
      const losses: TaskLoss[] = [];
      if (draft.parentId !== null && !isUnder) losses.push("parent_missing");
      if (!key.isOwn) losses.push("key_taken");
      if (!position.isOwn) losses.push("position_taken");
      results.push({ task: presentTask(row, now), losses });
    }
    if (rows.length === 0) return results;
    await this.#write(tx, rows);
    await tx.emit(...rows.map((row) => ({
      tenantId,
      stream: roomStream(roomId),
      type: "task.created",
      data: { task: presentTask(row, now) },
    })));
    await index?.put(...rows.map(entryOf));
    await tx.enqueue(...rows.flatMap((row) => reminderOf(row, now)));
    return results;
  }

  /**
   * Adds what happened to tasks of a held board, given the last first: what is older than anything their activity tells of.
   * From there on they have their own. Resolves to how much was added, and which tasks are none of the room.
   */
  async addActivity(
    tx: Tx,
    tenantId: string,
    roomId: string,
    entries: readonly CarriedActivity[],
  ): Promise<{ added: number; unknownIds: Set<string> }> {
    const carry = new TaskCarryStore(tx.db);
    const ids = [...new Set(entries.map(({ taskId }) => taskId))];
    const rows = await carry.some(tenantId, ids);
    const oldest = await carry.oldest(tenantId, ids);
    const unknownIds = new Set(ids.filter((id) => rows.get(id)?.room_id !== roomId));
    const fresh = entries.filter(({ taskId, version }) => {
      if (unknownIds.has(taskId)) return false;
      if (version >= (oldest.get(taskId) ?? Number(rows.get(taskId)?.version) + 1)) return false;
      oldest.set(taskId, version);
      return true;
    });
    if (fresh.length > 0) {
      await tx.insertMany(
        "task_activity",
        fresh.map(({ taskId, id, type, actorId, at, version, changes }) => ({
          tenant_id: tenantId,
          task_id: taskId,
          version,
          id,
          type,
          actor_id: actorId,
          changes_json: JSON.stringify(changes),
          at,
        })),
      );
    }
    return { added: fresh.length, unknownIds };
  }

  /** Adds relations as far as they may be, and tells of them: what became of each. */
  async relate(tx: Tx, tenantId: string, relations: readonly CarriedRelation[]): Promise<Related[]> {
    const now = this.#deps.clock.now();
    const tasks = new TaskStore(tx.db);
    const ids = [...new Set(relations.flatMap(({ taskId, otherId }) => [taskId, otherId]))];
    const seen = await new TaskCarryStore(tx.db).some(tenantId, ids);
    await lockRelations(tx, tenantId);
    for (const roomId of [...new Set([...seen.values()].map(({ room_id }) => room_id))].sort()) {
      await lockRoom(tx, tenantId, roomId);
    }
    const rows = await new TaskCarryStore(tx.db).some(tenantId, ids);
    const results: Related[] = [];
    const changed = new Set<TaskRow>();
    for (const relation of relations) {
      const [task, other] = [rows.get(relation.taskId), rows.get(relation.otherId)];
      const result = task === undefined || other === undefined
        ? "unknown_task"
        : await this.#relate(tasks, relation, task, other);
      if (result === "added" && task !== undefined && other !== undefined) changed.add(task).add(other);
      results.push(result);
    }
    await tx.emit(...[...changed].map((row) => ({
      tenantId,
      stream: roomStream(row.room_id),
      type: "task.updated",
      data: { task: presentTask(row, now), changed: ["relations"] },
    })));
    return results;
  }

  async #relate(tasks: TaskStore, relation: CarriedRelation, task: TaskRow, other: TaskRow): Promise<Related> {
    const { kind, createdBy, createdAt } = relation;
    const { tenant_id: tenantId } = task;
    if (task.deleted_at !== null || other.deleted_at !== null) return "deleted";
    if (task.id === other.id) return "cycle";
    if (await tasks.isRelated(tenantId, task.id, kind, other.id)) return "present";
    if (kind !== "related" && await tasks.leadsTo(tenantId, kind, other.id, task.id)) return "cycle";
    for (const { id } of [task, other]) {
      if (await tasks.relationCount(tenantId, id) >= RELATIONS_MAX) return "too_many_relations";
    }
    const shared = { tenant_id: tenantId, created_by: createdBy, created_at: createdAt };
    await tasks.addRelation([
      { ...shared, task_id: task.id, kind, other_id: other.id },
      { ...shared, task_id: other.id, kind: INVERSE[kind], other_id: task.id },
    ]);
    return "added";
  }

  async #write(tx: Tx, rows: readonly TaskRow[]): Promise<void> {
    await tx.insertMany("task", rows);
    const people = rows.flatMap(({ tenant_id, id, assignee_ids_json }) =>
      JSON.parse(assignee_ids_json).map((one: string) => ({ tenant_id, task_id: id, principal_id: one }))
    );
    if (people.length > 0) await tx.insertMany("task_assignee", people);
    const labels = rows.flatMap(({ tenant_id, id, labels_json }) =>
      JSON.parse(labels_json).map((label: string) => ({ tenant_id, task_id: id, label }))
    );
    if (labels.length > 0) await tx.insertMany("task_label", labels);
  }

  async *#activity(carry: TaskCarryStore, tenantId: string, taskIds: readonly string[]): AsyncGenerator<TaskPage> {
    for await (const rows of byPages<ActivityRow>(BATCH, (last) => carry.activity(tenantId, taskIds, last, BATCH))) {
      yield { activity: rows.map((row) => ({ taskId: row.task_id, ...presentActivity(row) })) };
    }
  }
}

function carried(row: TaskRow): CarriedTask {
  const { recurrence: _recurrence, claim: _claim, deletedAt: _deletedAt, ...task } = presentTask(row, 0);
  return { ...task, recurrence: seriesOf(row) };
}

function rowOf(tenantId: string, task: CarriedTask): TaskRow {
  return {
    tenant_id: tenantId,
    id: task.id,
    room_id: task.roomId,
    key: task.key,
    title: task.title,
    description: task.description,
    status: task.status,
    is_open: isOpen(task.status) ? 1 : 0,
    priority: PRIORITIES.indexOf(task.priority),
    assignee_ids_json: JSON.stringify(task.assigneeIds),
    labels_json: JSON.stringify(task.labels),
    parent_id: task.parentId,
    start_at: task.startAt,
    due_at: task.dueAt,
    timezone: task.timezone,
    recurrence_json: task.recurrence === null ? null : JSON.stringify(task.recurrence),
    next_task_id: task.nextTaskId,
    source_message_id: task.sourceMessageId,
    thread_id: task.threadId,
    position: task.position,
    metadata_json: JSON.stringify(task.metadata),
    claimed_by: null,
    lease_hash: null,
    lease_expires_at: null,
    completed_at: task.status === "done" ? task.completedAt : null,
    version: task.version,
    created_by: task.createdBy,
    created_at: task.createdAt,
    updated_at: task.updatedAt,
    deleted_at: null,
    deleted_with: null,
  };
}

/** The reminder that is still to come; one whose time has passed was sent where the task comes from. */
function reminderOf(row: TaskRow, now: number) {
  const runAt = row.due_at === null ? 0 : Date.parse(row.due_at) - REMINDER_LEAD_MS;
  if (row.is_open === 0 || row.due_at === null || runAt <= now) return [];
  const { tenant_id: tenantId, id: taskId, due_at: dueAt } = row;
  return [{ tenantId, kind: "task.due", payload: { taskId, dueAt }, key: taskId, runAt }];
}
