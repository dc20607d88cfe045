// Tasks in archives: how they are exported, and what imports them.
import type { ArchiveSection, ExportContext } from "@/core/archive/section.ts";
import type { Clock } from "@/core/time/clock.ts";
import { paginate } from "@/core/page.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { taskFileOwner } from "../files.ts";
import { presentActivity, presentTask, seriesOf } from "../presenter.ts";
import type { ActivityRow, RelationRow, TaskRow, TaskTables } from "../tables.ts";
import { importedRelation, importedTask, TaskImporter } from "./import.ts";
import { TaskArchiveStore } from "./store.ts";
import { ImportedTaskWriter } from "./writer.ts";

const BATCH = 200;

type Deps = {
  store: Store<TaskTables>;
  clock: Clock;
  files: NamedFiles;
  /** Absent = tasks are not found by search. */
  index: Pick<SearchIndex, "put"> | undefined;
};

export function taskArchive({ store, clock, files, index }: Deps): ArchiveSection<Transaction<TaskTables>> {
  const writer = new ImportedTaskWriter({ clock, files, index });
  return {
    description: {
      exported: "tasks of a room: its board (`task_board`), each task after its parent (`task`), activity " +
        "(`task_activity`, newest first) and relations (`task_relation`; in the export of a room, only those within the " +
        "room)",
      imported: "Tasks keep their key and board position if these are free; existing tasks are not changed, but get " +
        "missing relations.",
    },
    counts: { tasks: "Tasks", activities: "Activity of tasks", relations: "Relations of tasks, each counted once" },
    skipCodes: {
      unknown_task: "each_run",
      too_many_tasks: "each_run",
      too_many_relations: "each_run",
      prefix_taken: "each_run",
      parent_missing: "once",
      key_taken: "once",
      position_taken: "once",
    },
    exportRoom: (context, roomId) => exportTasks(new TaskArchiveStore(store.db), context, roomId),
    createImporter: (context) => new TaskImporter(context, writer),
  };
}

async function* exportTasks(
  store: TaskArchiveStore,
  context: ExportContext,
  roomId: string,
): AsyncGenerator<unknown[]> {
  const { tenantId, isRoomOnly } = context;
  const board = await store.board(tenantId, roomId);
  if (board === undefined || board.prefix === null) return;
  yield [{ type: "task_board", roomId, prefix: board.prefix, lastNumber: Number(board.last_number) }];
  yield* exportChildren(store, context, roomId, null);
  const read = (last?: RelationRow) => store.relations(tenantId, roomId, isRoomOnly, last, BATCH);
  for await (const rows of paginate(BATCH, read)) {
    yield await context.principalRecords(rows.map((row) => row.created_by));
    const relations = rows.map((row) => ({
      taskId: row.task_id,
      kind: row.kind,
      otherId: row.other_id,
      createdBy: row.created_by,
      createdAt: row.created_at,
    }));
    context.recordExported(relations.map((relation) => importedRelation(roomId, relation)));
    context.count("relations", rows.length);
    yield relations.map((relation) => ({ type: "task_relation", roomId, ...relation }));
  }
}

/** Tasks without deleted ones: a page of the children of these parents (null: of none), their descendants, then the next. */
async function* exportChildren(
  store: TaskArchiveStore,
  context: ExportContext,
  roomId: string,
  parentIds: readonly string[] | null,
): AsyncGenerator<unknown[]> {
  const { tenantId } = context;
  const read = (last?: TaskRow) => store.tasksUnder(tenantId, roomId, parentIds, last?.id ?? "", BATCH);
  for await (const rows of paginate(BATCH, read)) {
    const ids = rows.map(({ id }) => id);
    const tasks = rows.map(taskRecord);
    yield await context.principalRecords(tasks.flatMap(({ createdBy, assigneeIds }) => [createdBy, ...assigneeIds]));
    context.count("tasks", tasks.length);
    context.recordExported(ids.map((id) => importedTask(roomId, id)));
    yield* context.fileRecords(...ids.map(taskFileOwner));
    yield tasks;
    yield* exportActivity(store, context, roomId, ids);
    yield* exportChildren(store, context, roomId, ids);
  }
}

async function* exportActivity(
  store: TaskArchiveStore,
  context: ExportContext,
  roomId: string,
  taskIds: readonly string[],
): AsyncGenerator<unknown[]> {
  const read = (last?: ActivityRow) => store.activity(context.tenantId, taskIds, last, BATCH);
  for await (const rows of paginate(BATCH, read)) {
    yield await context.principalRecords(rows.map((row) => row.actor_id));
    context.count("activities", rows.length);
    yield rows.map((row) => {
      const { type: kind, ...rest } = presentActivity(row);
      return { type: "task_activity", roomId, kind, taskId: row.task_id, ...rest };
    });
  }
}

function taskRecord(row: TaskRow) {
  const { recurrence: _recurrence, claim: _claim, deletedAt: _deletedAt, ...task } = presentTask(row, 0);
  return { type: "task", ...task, recurrence: seriesOf(row) };
}
