// Tasks: made, listed, read, changed one by one or many at once, deleted and restored.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { idOf } from "@/modules/identity/mod.ts";
import { readerOf, type RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { lastPlace } from "./board.ts";
import type { TaskEditor } from "./editor.ts";
import { nextKey, resolve } from "./key.ts";
import { presentActivity, presentRelation } from "./presenter.ts";
import {
  PRIORITIES,
  type Task,
  type TaskActivity,
  type TaskBulk,
  type TaskBulkResults,
  type TaskCreate,
  type TaskDetail,
  type TaskList,
  type TaskUpdate,
} from "./schema.ts";
import { sortKey } from "./sort.ts";
import { isOpen } from "./status.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import { checkTree, descendants } from "./tree.ts";
import type { Grip, TaskWriter } from "./writer.ts";

/** How long a deleted task can be restored. */
const UNDO_MS = 30 * 86_400_000;
const PURGE_BATCH = 500;
/** What lies under it: nothing, found in the same way as nothing that the caller may see. */
const NO_TASK = "";

type Deps = {
  store: Store<TaskTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  writer: TaskWriter;
  editor: TaskEditor;
};

export class TaskService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  create(context: Context, { roomId, sourceMessageId, ...input }: TaskCreate): Promise<Task> {
    const { actor } = context;
    const { store, clock, gate, writer, editor } = this.#deps;
    return store.write(async (tx) => {
      const { room } = await gate.enterToChange(tx, context, roomId);
      const tasks = new TaskStore(tx.db);
      const source = await editor.message(context, sourceMessageId);
      const key = await nextKey(tasks, room);
      const now = iso(clock.now());
      const blank: TaskRow = {
        tenant_id: actor.tenantId,
        id: newId("task"),
        room_id: roomId,
        key,
        title: input.title,
        description: null,
        status: "todo",
        is_open: 1,
        priority: 0,
        assignee_ids_json: "[]",
        labels_json: "[]",
        parent_id: null,
        start_at: null,
        due_at: null,
        timezone: input.timezone,
        recurrence_json: null,
        next_task_id: null,
        source_message_id: sourceMessageId,
        thread_id: source?.roomId === roomId ? source.threadId ?? source.id : null,
        position: await lastPlace(tasks, actor.tenantId, roomId),
        metadata_json: "{}",
        claimed_by: null,
        lease_hash: null,
        lease_expires_at: null,
        completed_at: null,
        version: 1,
        created_by: actor.principalId,
        created_at: now,
        updated_at: now,
        deleted_at: null,
        deleted_with: null,
      };
      const { threadId, ...rest } = input;
      const patch = threadId === null ? rest : input;
      const row = await editor.patched(context, tasks, room, blank, patch, true);
      await writer.add(context, tx, row);
      return writer.present(row);
    });
  }

  async list({ actor }: Context, { limit, cursor, sort, ...filter }: TaskList): Promise<Page<Task>> {
    const { store, cursors, writer } = this.#deps;
    const tasks = new TaskStore(store.db);
    const bind = ["task.list", actor.tenantId, actor.principalId, sort, filter];
    const after = cursors.open(cursor, bind);
    const parent = filter.parentId === undefined ? undefined : await resolve(tasks, actor.tenantId, filter.parentId);
    const rows = await tasks.list(
      actor.tenantId,
      readerOf(actor),
      {
        ...filter,
        roomId: nonEmpty(filter.roomId),
        status: nonEmpty(filter.status),
        label: nonEmpty(filter.label),
        priority: nonEmpty(filter.priority)?.map((name) => PRIORITIES.indexOf(name)),
        assigneeId: nonEmpty(filter.assigneeId)?.map((ref) => idOf(actor, ref)),
        createdBy: nonEmpty(filter.createdBy)?.map((ref) => idOf(actor, ref)),
        parentId: filter.parentId && (parent?.id ?? NO_TASK),
        dueBefore: normal(filter.dueBefore),
        dueAfter: normal(filter.dueAfter),
        updatedSince: normal(filter.updatedSince),
      },
      sort,
      after,
      limit + 1,
    );
    return cursors.page(rows, limit, bind, (row) => sortKey(sort, row), (row) => writer.present(row));
  }

  /** A task with its relations; those to tasks in rooms that the caller does not see are left out. */
  async read(context: Context, ref: string): Promise<TaskDetail> {
    const { store, gate, writer } = this.#deps;
    const { row } = await writer.find(context, ref);
    const tasks = new TaskStore(store.db);
    const related = await tasks.relations(row.tenant_id, row.id);
    const visible = await gate.lookAll(context.actor, related.map(({ other }) => other.room_id));
    return {
      ...writer.present(row),
      relations: related.filter(({ other }) => visible.has(other.room_id))
        .map(({ kind, other }) => presentRelation(kind, other)),
      subtaskCount: (await tasks.children(row.tenant_id, [row.id])).length,
    };
  }

  update(context: Context, { id, ...input }: TaskUpdate): Promise<Task> {
    const { writer, editor } = this.#deps;
    return writer.hold(context, id, async (grip) => writer.present(await editor.edit(context, grip, input)));
  }

  /** Changes many tasks by one patch, each in a transaction of its own; what fails fails alone. */
  async bulk(context: Context, { ids, patch }: TaskBulk): Promise<TaskBulkResults> {
    const results: TaskBulkResults["results"] = [];
    for (const id of ids) {
      try {
        results.push({ id, task: await this.update(context, { id, ...patch }), error: null });
      } catch (thrown) {
        if (!(thrown instanceof Fault)) throw thrown;
        results.push({ id, task: null, error: { code: thrown.code, detail: thrown.message } });
      }
    }
    return { results };
  }

  /** Deletes a task with its subtasks; for who made it, and for moderators. */
  async delete(context: Context, ref: string): Promise<void> {
    const { writer, clock } = this.#deps;
    await writer.hold(context, ref, async (grip) => {
      checkMayDelete(context.actor, grip);
      const { tx, tasks, row } = grip;
      const now = clock.now();
      const { rows } = await descendants(tasks, row);
      for (const one of [row, ...rows]) {
        const gone = { ...one, deleted_at: iso(now), deleted_with: row.id, is_open: 0 };
        await writer.save(context, tx, one, gone, "deleted");
      }
      await tx.enqueue({
        tenantId: row.tenant_id,
        kind: "task.purge",
        payload: { taskId: row.id },
        key: row.id,
        runAt: now + UNDO_MS,
      });
    });
  }

  /** Brings a task back with the subtasks that went with it. */
  restore(context: Context, ref: string): Promise<Task> {
    const { writer, clock } = this.#deps;
    return writer.hold(context, ref, async (grip) => {
      const { tx, tasks, row } = grip;
      checkMayDelete(context.actor, grip);
      if (row.deleted_at === null) throw new Fault("conflict", `${row.key} is not deleted`);
      if (row.deleted_with !== row.id) throw new Fault("conflict", `${row.key} went with its parent; restore that one`);
      if (Date.parse(row.deleted_at) + UNDO_MS <= clock.now()) throw new Fault("gone", `${row.key} was purged`);
      const parent = row.parent_id === null ? undefined : await tasks.find(row.tenant_id, row.parent_id);
      if (parent !== undefined && parent.deleted_at !== null) {
        throw new Fault(
          "conflict",
          `${row.key} is a subtask of ${parent.key}, which is deleted; restore that one first`,
        );
      }
      let restored = row;
      for (const one of await tasks.deletedWith(row.tenant_id, row.id)) {
        const back = { ...one, deleted_at: null, deleted_with: null, is_open: isOpen(one.status) ? 1 : 0 };
        const saved = await writer.save(context, tx, one, back, "restored");
        if (saved.id === row.id) restored = saved;
      }
      await checkTree(tasks, restored);
      return writer.present(restored);
    }, "deleted");
  }

  async activity(
    context: Context,
    { id, limit, cursor }: { id: string; limit: number; cursor?: string | undefined },
  ): Promise<Page<TaskActivity>> {
    const { store, cursors, writer } = this.#deps;
    const { row } = await writer.find(context, id);
    const bind = ["task.activity", row.tenant_id, context.actor.principalId, row.id];
    const before = cursors.open(cursor, bind)?.[0];
    const rows = await new TaskStore(store.db).activity(
      row.tenant_id,
      row.id,
      before === undefined ? undefined : Number(before),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, ({ version }) => [version], presentActivity);
  }

  /** Removes a deleted task for good, unless it was restored or deleted anew meanwhile. */
  async purge(tenantId: string, taskId: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      const tasks = new TaskStore(tx.db);
      const row = await tasks.find(tenantId, taskId);
      if (row === undefined || row.deleted_at === null || row.deleted_with !== row.id) return;
      if (Date.parse(row.deleted_at) + UNDO_MS > this.#deps.clock.now()) return;
      await tasks.purge(tenantId, (await tasks.deletedWith(tenantId, taskId)).map(({ id }) => id));
    });
  }

  /** Removes the tasks of a purged room, batch by batch; its prefix and numbers stay taken. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    for (let ids = [""]; ids.length > 0;) {
      ids = await this.#deps.store.write(async (tx) => {
        const tasks = new TaskStore(tx.db);
        const found = await tasks.idsIn(tenantId, roomId, PURGE_BATCH);
        await tasks.purge(tenantId, found);
        return found;
      });
    }
  }
}

function checkMayDelete(actor: Actor, { row, entry }: Grip): void {
  if (row.created_by === actor.principalId || isAtLeast(ROOM_ROLES, entry.role ?? "observer", "moderator")) return;
  throw new Fault("forbidden", "Tasks of others are deleted and restored by moderators of the room");
}

/** `in ()` is no SQL, and a filter with no values filters nothing. */
function nonEmpty<Item>(values: readonly Item[] | undefined): readonly Item[] | undefined {
  return values === undefined || values.length === 0 ? undefined : values;
}

function normal(time: string | undefined): string | undefined {
  return time === undefined ? undefined : iso(Date.parse(time));
}
