// Imports the tasks of an archive in batches: those that are missing, with free ids.
import type { z } from "@zod/zod";
import {
  handleRoomRecord,
  type ImportContext,
  type ImportedPart,
  PENDING_MAX_UNITS,
  type RecordHandler,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { candidateIds, mapExisting, type OriginalRef } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import { existingIds, loadLocalIds } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import type { TaskTables } from "../tables.ts";
import {
  ActivityRecord,
  type ArchivedActivity,
  type ArchivedRelation,
  type ArchivedTask,
  BoardRecord,
  RelationRecord,
  TaskRecord,
} from "./records.ts";
import type { ImportedTaskWriter } from "./writer.ts";

const BATCH = 100;

type Tx = Transaction<TaskTables>;
type PendingTask = { where: string; record: z.output<typeof TaskRecord> };
type PendingActivity = { where: string; record: z.output<typeof ActivityRecord> };
type PendingRelation = { where: string; record: z.output<typeof RelationRecord> };

/** A task in the history of imports. */
export function importedTask(roomId: string, id: string): ImportedPart {
  return { container: roomId, name: `task ${id}` };
}

/** A relation in the history of imports. */
export function importedRelation(
  roomId: string,
  { taskId, kind, otherId }: Pick<ArchivedRelation, "taskId" | "kind" | "otherId">,
): ImportedPart {
  return { container: roomId, name: `${taskId} ${kind} ${otherId}` };
}

export class TaskImporter implements SectionImporter {
  readonly records: Readonly<Record<string, RecordHandler>>;
  readonly #context: ImportContext<Tx>;
  readonly #writer: ImportedTaskWriter;
  #roomId = "";
  #tasks: PendingTask[] = [];
  #activity: PendingActivity[] = [];
  #relations: PendingRelation[] = [];
  #units = 0;

  constructor(context: ImportContext<Tx>, writer: ImportedTaskWriter) {
    this.#context = context;
    this.#writer = writer;
    this.records = {
      task_board: handleRoomRecord(context, BoardRecord, (record, where, roomId) => this.#board(record, where, roomId)),
      task: handleRoomRecord(context, TaskRecord, (record, where, roomId) => this.#task(record, where, roomId)),
      task_activity: handleRoomRecord(context, ActivityRecord, (record, where, roomId) => {
        this.#activity.push({ where, record });
        return this.#added(roomId, JSON.stringify(record.changes).length);
      }),
      task_relation: handleRoomRecord(context, RelationRecord, (record, where, roomId) => {
        this.#relations.push({ where, record });
        return this.#added(roomId, 0);
      }),
    };
  }

  async flush(): Promise<void> {
    const [tasks, activity, relations] = [this.#tasks, this.#activity, this.#relations];
    this.#tasks = [];
    this.#activity = [];
    this.#relations = [];
    this.#units = 0;
    if (tasks.length > 0) await this.#context.write((tx) => this.#importTasks(tx, tasks));
    if (activity.length > 0) await this.#context.write((tx) => this.#importActivity(tx, activity));
    if (relations.length > 0) await this.#context.write((tx) => this.#importRelations(tx, relations));
    // Other readers and writers run between batches.
    if (tasks.length + activity.length + relations.length > 0) await nextSlice();
  }

  async #board({ prefix, lastNumber }: z.output<typeof BoardRecord>, where: string, roomId: string): Promise<void> {
    const { tenantId, report } = this.#context;
    await this.#context.write(async (tx) => {
      const current = await this.#writer.lockBoard(tx, tenantId, roomId, prefix);
      if (current === prefix) await this.#writer.raiseLastNumber(tx, tenantId, roomId, lastNumber);
      else report.skip("prefix_taken", `${where}: ${prefix}, ${current} here`);
    });
  }

  async #task(record: z.output<typeof TaskRecord>, where: string, roomId: string): Promise<void> {
    const problem = this.#writer.findProblem(record);
    // Recurrence rules take CPU time.
    if (record.recurrence !== null) await nextSlice();
    if (problem !== undefined) return this.#context.report.skip("invalid_record", `${where}: ${problem}`);
    this.#tasks.push({ where, record });
    await this.#added(roomId, (record.description?.length ?? 0) + JSON.stringify(record.metadata).length);
  }

  async #added(roomId: string, units: number): Promise<void> {
    this.#roomId = roomId;
    this.#units += units;
    const count = this.#tasks.length + this.#activity.length + this.#relations.length;
    if (count >= BATCH || this.#units >= PENDING_MAX_UNITS) await this.flush();
  }

  async #importTasks(tx: Tx, tasks: readonly PendingTask[]): Promise<void> {
    const { tenantId, report } = this.#context;
    const drafts = await this.#missing(tx, tasks);
    if (drafts.length === 0) return;
    await this.#context.createPlaceholders(tx, drafts.flatMap(({ draft }) => [draft.createdBy, ...draft.assigneeIds]));
    const [first] = drafts;
    await this.#writer.lockBoard(tx, tenantId, this.#roomId, first?.draft.key.split("-")[0] ?? "");
    const results = await this.#writer.importTasks(
      tx,
      tenantId,
      this.#roomId,
      drafts.map(({ draft }) => draft),
      // Naming a file is no right to show it; having its content is.
      ({ id }) => this.#context.hasFile(id),
    );
    const added = drafts.filter((_, at) => typeof results[at] === "object");
    await this.#context.history(tx).record(added.map(({ draft }) => importedTask(this.#roomId, draft.id)));
    report.count("tasks", added.length);
    for (const [at, { where, draft }] of drafts.entries()) {
      for (const code of [results[at] ?? []].flat()) report.skip(code, `${where}: ${draft.key}`);
    }
  }

  /** Tasks that do not exist, with the ids that they and their references have here. */
  async #missing(tx: Tx, given: readonly PendingTask[]): Promise<{ where: string; draft: ArchivedTask }[]> {
    const { tenantId, report } = this.#context;
    const tasks = await this.#context.history(tx).filterNew(
      given,
      ({ record }) => candidateIds(this.#refOf(record.id)).map((id) => importedTask(this.#roomId, id)),
    );
    const taskIds = tasks.flatMap(({ record: { id, parentId, nextTaskId } }) => [id, parentId, nextTaskId])
      .filter((id) => id !== null);
    const ids = await loadLocalIds(tx.db, "task", tenantId, taskIds.map((id) => this.#refOf(id)));
    const messages = await this.#context.locateMessages(
      tx,
      tasks.flatMap(({ record: { sourceMessageId, threadId } }) => [sourceMessageId, threadId])
        .filter((id) => id !== null),
    );
    const localIdOf = (id: string | null): string | null => id === null ? null : ids.of(this.#refOf(id));
    const missing: { where: string; draft: ArchivedTask }[] = [];
    for (const { where, record } of tasks) {
      const id = ids.allocate(this.#refOf(record.id));
      if (id === undefined) continue;
      const root = messages.get(record.threadId ?? "");
      const isInRoom = root?.roomId === this.#roomId && root.threadId === null;
      if (record.threadId !== null && !isInRoom) report.skip("thread_root_missing", `${where}: ${record.key}`);
      missing.push({
        where,
        draft: {
          ...record,
          id,
          roomId: this.#roomId,
          parentId: localIdOf(record.parentId),
          // References may be to a room that follows, or to what was deleted.
          nextTaskId: localIdOf(record.nextTaskId),
          sourceMessageId: messages.get(record.sourceMessageId ?? "")?.id ?? null,
          threadId: isInRoom ? root.id : null,
          metadata: report.limitMetadata(record.metadata, `${where}: ${record.key}`),
        },
      });
    }
    return missing;
  }

  async #importActivity(tx: Tx, activity: readonly PendingActivity[]): Promise<void> {
    const { tenantId, report } = this.#context;
    await this.#context.createPlaceholders(tx, activity.map(({ record }) => record.actorId));
    const ids = await this.#mapTasks(tx, activity.map(({ record }) => record.taskId));
    const entries = activity.map(({ record: { kind: type, roomId: _roomId, taskId, ...rest } }): ArchivedActivity => ({
      ...rest,
      type,
      taskId: ids.get(taskId) ?? taskId,
    }));
    const { added, unknownIds } = await this.#writer.importActivity(tx, tenantId, this.#roomId, entries);
    report.count("activities", added);
    for (const [at, { where }] of activity.entries()) {
      if (unknownIds.has(entries[at]?.taskId ?? "")) report.skip("unknown_task", where);
    }
  }

  async #importRelations(tx: Tx, relations: readonly PendingRelation[]): Promise<void> {
    const { tenantId, report } = this.#context;
    await this.#context.createPlaceholders(tx, relations.map(({ record }) => record.createdBy));
    const ids = await this.#mapTasks(tx, relations.flatMap(({ record: { taskId, otherId } }) => [taskId, otherId]));
    const all = relations.map(({ where, record }) => ({
      where,
      record: {
        ...record,
        taskId: ids.get(record.taskId) ?? record.taskId,
        otherId: ids.get(record.otherId) ?? record.otherId,
      },
    }));
    const history = this.#context.history(tx);
    const partOf = ({ record }: PendingRelation) => importedRelation(this.#roomId, record);
    const fresh = await history.filterNew(all, (relation) => [partOf(relation)]);
    const results = await this.#writer.importRelations(tx, tenantId, fresh.map(({ record }) => record));
    const added = fresh.filter((_, at) => results[at] === "added");
    await history.record(added.map(partOf));
    report.count("relations", added.length);
    for (const [at, { where }] of fresh.entries()) {
      const result = results[at];
      if (result === "cycle") report.skip("invalid_record", `${where}: the relation would create a cycle`);
      else if (result === "unknown_task" || result === "too_many_relations") report.skip(result, where);
    }
  }

  /** Ids that tasks of the archive have here, by their ids in the archive. */
  async #mapTasks(tx: Tx, sourceIds: readonly string[]): Promise<Map<string, string>> {
    const refs = [...new Set(sourceIds)].map((id) => this.#refOf(id));
    const existing = await existingIds(tx.db, "task", this.#context.tenantId, refs.flatMap(candidateIds));
    return mapExisting(refs, (id) => existing.has(id));
  }

  #refOf(sourceId: string): OriginalRef {
    return this.#context.refOf("task", sourceId);
  }
}
