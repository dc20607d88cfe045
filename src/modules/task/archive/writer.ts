// Writes imported tasks: with the key, position and parent they had, as far as those are free, then activity and relations.
import type { Clock } from "@/core/time/clock.ts";
import { roomEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { shorten } from "@/core/event/event_data.ts";
import { findTimeZone } from "@/core/time/time_zone.ts";
import type { MayShow, NamedFiles } from "@/modules/file/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { attachNamedFiles } from "../files.ts";
import { isOpen, presentTask } from "../presenter.ts";
import { RelationStore } from "../relation_store.ts";
import { LONG_FIELDS, OPEN_MAX, PRIORITIES, RELATIONS_MAX } from "../schema.ts";
import { searchEntryOf } from "../searchable.ts";
import { nextDates } from "../series.ts";
import { TaskStore } from "../store.ts";
import type { TaskRow, TaskTables } from "../tables.ts";
import { lockRelations, lockRoom, reminderOf } from "../writer.ts";
import { ensureBoard, isPosition, KeyAllocator, PositionAllocator } from "./numbering.ts";
import { TaskArchiveStore } from "./store.ts";
import type { ArchivedActivity, ArchivedRelation, ArchivedTask } from "./records.ts";
import { ImportedTrees } from "./tree.ts";

/** What a task lost. */
type TaskLoss = "parent_missing" | "key_taken" | "position_taken";
type TaskResult = TaskLoss[] | "too_many_tasks";
type RelationResult = "added" | "present" | "deleted" | "unknown_task" | "cycle" | "too_many_relations";

type Tx = Transaction<TaskTables>;
type Deps = {
  clock: Clock;
  files: NamedFiles;
  /** Absent = tasks are not found by search. */
  index?: Pick<SearchIndex, "put"> | undefined;
};

export class ImportedTaskWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Why a task could not have been created here, if so. */
  findProblem(task: Omit<ArchivedTask, "key" | "id">): string | undefined {
    const { timeZone, position, recurrence, startAt, dueAt } = task;
    // An offset does not know about daylight saving time.
    if (findTimeZone(timeZone) === undefined) return `${timeZone} is not a time zone`;
    if (!isPosition(position)) return "The position is not a board position";
    if (startAt !== null && dueAt !== null && startAt > dueAt) return "The start is after the due date";
    if (recurrence === null) return undefined;
    if (recurrence.anchor === "due" && dueAt === null) return "It recurs by due date but has none";
    try {
      // Computed now, so that no rule is imported that costs too much.
      nextDates(recurrence, { start_at: startAt, due_at: dueAt, timezone: timeZone }, this.#deps.clock.now());
    } catch (thrown) {
      if (thrown instanceof Fault || thrown instanceof RangeError) return thrown.message;
      throw thrown;
    }
    return undefined;
  }

  /** Locks a board until the commit; a room without tasks gets this prefix. Resolves to the prefix of the room. */
  async lockBoard(tx: Tx, tenantId: string, roomId: string, prefix: string): Promise<string> {
    await lockRoom(tx, tenantId, roomId);
    const board = await ensureBoard(new TaskStore(tx.db), new TaskArchiveStore(tx.db), { tenantId, roomId }, prefix);
    return board.prefix ?? "";
  }

  /** Numbers of a locked board up to this one are not allocated again. */
  async raiseLastNumber(tx: Tx, tenantId: string, roomId: string, number: number): Promise<void> {
    await new TaskArchiveStore(tx.db).raiseLastNumber(tenantId, roomId, number);
  }

  /**
   * Adds tasks, whose ids are free, to a locked board, and publishes them. Each gets its key, position and parent if those are
   * free or exist. Assignees are not notified, and reminded only of due dates in the future.
   */
  async importTasks(
    tx: Tx,
    tenantId: string,
    roomId: string,
    drafts: readonly ArchivedTask[],
    mayShow: MayShow,
  ): Promise<TaskResult[]> {
    const { clock, files, index } = this.#deps;
    const now = clock.now();
    const tasks = new TaskStore(tx.db);
    const store = new TaskArchiveStore(tx.db);
    const room = { tenantId, roomId };
    const board = await store.board(tenantId, roomId);
    if (board === undefined) throw new TypeError("Expected a locked board");
    const keys = new KeyAllocator(tasks, store, room, board);
    const positions = new PositionAllocator(tasks, store, room);
    await keys.load(drafts.map(({ key }) => key));
    await positions.load(drafts.map(({ position }) => position));
    const known = await store.findMany(tenantId, [...new Set(drafts.flatMap(({ parentId }) => parentId ?? []))]);
    const trees = new ImportedTrees(tasks);
    let openCount = await tasks.openCount(tenantId, roomId);
    const rows: TaskRow[] = [];
    const results: TaskResult[] = [];
    for (const draft of drafts) {
      if (isOpen(draft.status) && ++openCount > OPEN_MAX) {
        results.push("too_many_tasks");
        continue;
      }
      const parentRow = known.get(draft.parentId ?? "");
      const parent = parentRow?.room_id === roomId && parentRow.deleted_at === null ? parentRow : undefined;
      const isUnder = parent !== undefined && await trees.tryAddUnder(draft.id, parent);
      if (!isUnder) trees.addRoot(draft.id);
      const key = await keys.allocate(draft.key);
      const position = positions.allocate(draft.position);
      const parentId = isUnder ? draft.parentId : null;
      const row = rowOf(tenantId, { ...draft, roomId, parentId, key: key.value, position: position.value });
      known.set(row.id, row);
      rows.push(row);
      const losses: TaskLoss[] = [];
      if (draft.parentId !== null && !isUnder) losses.push("parent_missing");
      if (!key.isOriginal) losses.push("key_taken");
      if (!position.isOriginal) losses.push("position_taken");
      results.push(losses);
    }
    if (rows.length === 0) return results;
    await this.#insert(tx, rows);
    for (const row of rows) await attachNamedFiles(tx, files, row, mayShow);
    await tx.emit(...rows.map((row) => roomEvent({ tenantId }, roomId, "task.created", newTaskData(row, now))));
    await index?.put(...rows.map(searchEntryOf));
    // A past one was sent by the gateway that exported the task.
    await tx.enqueue(...rows.flatMap((row) => reminderOf(row) ?? []).filter(({ runAt }) => runAt > now));
    return results;
  }

  /**
   * Adds activity, newest first, to tasks of a locked board, if it is older than all that they have: from there on they have
   * their own. Resolves to how much was added, and to which tasks are not in the room.
   */
  async importActivity(
    tx: Tx,
    tenantId: string,
    roomId: string,
    entries: readonly ArchivedActivity[],
  ): Promise<{ added: number; unknownIds: Set<string> }> {
    const store = new TaskArchiveStore(tx.db);
    const ids = [...new Set(entries.map(({ taskId }) => taskId))];
    const rows = await store.findMany(tenantId, ids);
    const oldest = await store.oldestVersions(tenantId, ids);
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

  /** Adds relations as far as they are allowed, and publishes the change; resolves to the result of each. */
  async importRelations(tx: Tx, tenantId: string, relations: readonly ArchivedRelation[]): Promise<RelationResult[]> {
    const stored = new RelationStore(tx.db);
    const ids = [...new Set(relations.flatMap(({ taskId, otherId }) => [taskId, otherId]))];
    const unlocked = await new TaskArchiveStore(tx.db).findMany(tenantId, ids);
    await lockRelations(tx, tenantId);
    for (const roomId of [...new Set([...unlocked.values()].map(({ room_id }) => room_id))].sort()) {
      await lockRoom(tx, tenantId, roomId);
    }
    const rows = await new TaskArchiveStore(tx.db).findMany(tenantId, ids);
    const results: RelationResult[] = [];
    const changed = new Set<TaskRow>();
    for (const relation of relations) {
      const [task, other] = [rows.get(relation.taskId), rows.get(relation.otherId)];
      const result = task === undefined || other === undefined
        ? "unknown_task"
        : await this.#importRelation(stored, relation, task, other);
      if (result === "added" && task !== undefined && other !== undefined) changed.add(task).add(other);
      results.push(result);
    }
    await tx.emit(
      ...[...changed].map((row) =>
        roomEvent({ tenantId }, row.room_id, "task.updated", {
          taskId: row.id,
          roomId: row.room_id,
          changes: {},
          omitted: ["relations"],
        })
      ),
    );
    return results;
  }

  async #importRelation(
    relations: RelationStore,
    imported: ArchivedRelation,
    task: TaskRow,
    other: TaskRow,
  ): Promise<RelationResult> {
    const { kind, createdBy, createdAt } = imported;
    const { tenant_id: tenantId } = task;
    const relation = { tenantId, taskId: task.id, kind, otherId: other.id };
    if (task.deleted_at !== null || other.deleted_at !== null) return "deleted";
    if (task.id === other.id) return "cycle";
    if (await relations.has(relation)) return "present";
    if (kind !== "related" && await relations.leadsTo(tenantId, kind, other.id, task.id)) return "cycle";
    for (const { id } of [task, other]) {
      if (await relations.count(tenantId, id) >= RELATIONS_MAX) return "too_many_relations";
    }
    await relations.add(relation, { created_by: createdBy, created_at: createdAt });
    return "added";
  }

  async #insert(tx: Tx, rows: readonly TaskRow[]): Promise<void> {
    await tx.insertMany("task", rows);
    const assignees = rows.flatMap(({ tenant_id, id, assignee_ids_json }) =>
      JSON.parse(assignee_ids_json).map((principalId: string) => ({
        tenant_id,
        task_id: id,
        principal_id: principalId,
      }))
    );
    if (assignees.length > 0) await tx.insertMany("task_assignee", assignees);
    const labels = rows.flatMap(({ tenant_id, id, labels_json }) =>
      JSON.parse(labels_json).map((label: string) => ({ tenant_id, task_id: id, label }))
    );
    if (labels.length > 0) await tx.insertMany("task_label", labels);
  }
}

function newTaskData(row: TaskRow, now: number) {
  const { value: task, omitted } = shorten(presentTask(row, now), LONG_FIELDS);
  return { task, omitted };
}

function rowOf(tenantId: string, task: ArchivedTask): TaskRow {
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
    timezone: task.timeZone,
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
    deletion_root_id: null,
  };
}
