// Creates, lists, reads, updates, deletes and restores tasks.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { nextSlice } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import { readerOf, RESTORE_WINDOW_MS, type RoomAccess } from "@/modules/room/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { nextPosition } from "./board.ts";
import { RelationStore } from "./relation_store.ts";
import type { TaskUpdater } from "./updater.ts";
import { taskFileOwner } from "./files.ts";
import { nextKey, resolveTask } from "./key.ts";
import { isOpen, presentActivity, presentRelation } from "./presenter.ts";
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
import { sortKey } from "./order_store.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import { assertTreeFits, descendants } from "./tree.ts";
import type { LockedTask, TaskWriter } from "./writer.ts";

export const PURGE_JOB = "task.purge";
const PURGE_BATCH = 500;
/** No task has this parent: an unknown parent matches nothing by the same query as one that is not visible. */
const MATCH_NOTHING = "";

type Deps = {
  store: Store<TaskTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  writer: TaskWriter;
  updater: TaskUpdater;
  files: NamedFiles;
  holds: Holds;
};

export class TaskService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The ids of tasks in rooms visible to the actor. */
  async filterReadable(
    actor: Actor,
    ids: readonly string[],
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<ReadonlySet<string>> {
    const rows = await new TaskStore(db).findUndeleted(actor.tenantId, { ids });
    const rooms = await this.#deps.roomAccess.findMany(actor, rows.map((row) => row.room_id), db);
    return new Set(rows.filter((row) => rooms.has(row.room_id)).map(({ id }) => id));
  }

  create(context: Context, { roomId, sourceMessageId, ...input }: TaskCreate): Promise<Task> {
    const { actor } = context;
    const { store, clock, roomAccess, writer, updater } = this.#deps;
    return store.write(async (tx) => {
      const { room } = await roomAccess.requireForUpdate(tx, context, roomId);
      const tasks = new TaskStore(tx.db);
      const source = await updater.readLinkedMessage(tx, context, sourceMessageId);
      const key = await nextKey(tasks, actor, room);
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
        timezone: input.timeZone,
        recurrence_json: null,
        next_task_id: null,
        source_message_id: sourceMessageId,
        thread_id: source?.roomId === roomId ? source.threadId ?? source.id : null,
        position: await nextPosition(tasks, actor.tenantId, roomId),
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
        deletion_root_id: null,
      };
      const { threadId, ...rest } = input;
      const patch = threadId === null ? rest : input;
      const row = await updater.applyPatch(tx, context, room, blank, patch, true);
      await writer.add(tx, context, row);
      return writer.present(row);
    });
  }

  async list({ actor }: Context, { limit, cursor, sort, ...filter }: TaskList): Promise<Page<Task>> {
    const { store, cursors, writer } = this.#deps;
    const tasks = new TaskStore(store.db);
    const bind = ["task.list", actor.tenantId, actor.principalId, sort, filter];
    const after = cursors.decode(cursor, bind);
    const parent = filter.parentId === undefined ? undefined : await resolveTask(tasks, actor, filter.parentId);
    const rows = await tasks.list(
      actor.tenantId,
      readerOf(actor),
      {
        ...filter,
        roomId: nonEmpty(filter.roomId),
        status: nonEmpty(filter.status),
        label: nonEmpty(filter.label),
        priority: nonEmpty(filter.priority)?.map((name) => PRIORITIES.indexOf(name)),
        assigneeId: nonEmpty(filter.assigneeId)?.map((ref) => resolvePrincipalId(actor, ref)),
        createdBy: nonEmpty(filter.createdBy)?.map((ref) => resolvePrincipalId(actor, ref)),
        parentId: filter.parentId && (parent?.id ?? MATCH_NOTHING),
      },
      sort,
      after,
      limit + 1,
    );
    return cursors.page(rows, limit, bind, (row) => sortKey(sort, row), (row) => writer.present(row));
  }

  /** A task with its relations to tasks in rooms visible to the caller. */
  async read(context: Context, ref: string): Promise<TaskDetail> {
    const { store, roomAccess, writer } = this.#deps;
    const { row } = await writer.require(context, ref);
    const [related, children] = await Promise.all([
      new RelationStore(store.db).list(row.tenant_id, row.id),
      new TaskStore(store.db).children(row.tenant_id, [row.id]),
    ]);
    const visible = await roomAccess.findMany(context.actor, related.map(({ other }) => other.room_id));
    return {
      ...writer.present(row),
      relations: related.filter(({ other }) => visible.has(other.room_id))
        .map(({ kind, other }) => presentRelation(kind, other)),
      subtaskCount: children.length,
    };
  }

  update(context: Context, { id, ...input }: TaskUpdate): Promise<Task> {
    const { store, writer, updater } = this.#deps;
    return store.write(async (tx) => {
      const locked = await writer.requireForUpdate(tx, context, id);
      return writer.present(await updater.update(context, locked, input));
    });
  }

  /** Applies one patch to many tasks, each in a transaction of its own, so that a failure affects one task only. */
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

  /** Deletes a task with its subtasks; for the creator of all of them, and for moderators. */
  async delete(context: Context, ref: string): Promise<void> {
    const { store, writer, clock } = this.#deps;
    await store.write(async (tx) => {
      const locked = await writer.requireForUpdate(tx, context, ref);
      const { tasks, row, grant } = locked;
      const now = clock.now();
      const branch = [row, ...(await descendants(tasks, row)).rows];
      // Anyone may make the task of another a subtask of theirs.
      for (const one of branch) assertCanDelete(context.actor, { row: one, grant });
      for (const one of branch) {
        const deleted = { ...one, deleted_at: iso(now), deletion_root_id: row.id, is_open: 0 };
        await writer.save(tx, context, one, deleted, "deleted");
      }
      await tx.enqueue({ ...purgeJob(row), runAt: now + RESTORE_WINDOW_MS });
    });
  }

  /** Restores a task with the subtasks that were deleted with it. */
  restore(context: Context, ref: string): Promise<Task> {
    const { store, writer, clock } = this.#deps;
    return store.write(async (tx) => {
      const locked = await writer.requireForUpdate(tx, context, ref, "deleted");
      const { tasks, row } = locked;
      assertCanDelete(context.actor, locked);
      if (row.deleted_at === null) throw new Fault("conflict", `${row.key} is not deleted`);
      if (row.deletion_root_id !== row.id) {
        throw new Fault("conflict", `${row.key} was deleted with its parent; restore the parent`);
      }
      if (Date.parse(row.deleted_at) + RESTORE_WINDOW_MS <= clock.now()) {
        throw new Fault("gone", `${row.key} was purged`);
      }
      const parent = row.parent_id === null ? undefined : await tasks.find(row.tenant_id, row.parent_id);
      if (parent !== undefined && parent.deleted_at !== null) {
        throw new Fault(
          "conflict",
          `${row.key} is a subtask of ${parent.key}, which is deleted; restore the parent first`,
        );
      }
      let restored = row;
      for (const one of await tasks.deletedWith(row.tenant_id, row.id)) {
        const undeleted = { ...one, deleted_at: null, deletion_root_id: null, is_open: isOpen(one.status) ? 1 : 0 };
        const saved = await writer.save(tx, context, one, undeleted, "restored");
        if (saved.id === row.id) restored = saved;
      }
      await assertTreeFits(tasks, restored);
      return writer.present(restored);
    });
  }

  async activity(
    context: Context,
    { id, limit, cursor }: { id: string; limit: number; cursor?: string | undefined },
  ): Promise<Page<TaskActivity>> {
    const { store, cursors, writer } = this.#deps;
    const { row } = await writer.require(context, id);
    const bind = ["task.activity", row.tenant_id, context.actor.principalId, row.id];
    const before = cursors.decode(cursor, bind)?.[0];
    const rows = await new TaskStore(store.db).activity(
      row.tenant_id,
      row.id,
      before === undefined ? undefined : Number(before),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, ({ version }) => [version], presentActivity);
  }

  /** Permanently deletes a deleted task, unless it was restored or deleted again in the meantime; not under legal hold. */
  async purge(tenantId: string, taskId: string): Promise<void> {
    const purgeSome = () =>
      this.#deps.store.write(async (tx): Promise<boolean> => {
        const tasks = new TaskStore(tx.db);
        const row = await tasks.find(tenantId, taskId);
        if (row === undefined || row.deleted_at === null || row.deletion_root_id !== row.id) return false;
        if (Date.parse(row.deleted_at) + RESTORE_WINDOW_MS > this.#deps.clock.now()) return false;
        if (await this.#deps.holds.postpones(tx, purgeJob(row), { roomId: row.room_id })) return false;
        // The task itself last: a purge that is interrupted begins with it again.
        const below = await tasks.idsDeletedWith(tenantId, taskId, PURGE_BATCH);
        const ids = below.length > 0 ? below : [taskId];
        if (!await tasks.removeActivity(tenantId, ids)) await this.#purge(tx, tenantId, ids);
        return true;
      });
    while (await purgeSome());
  }

  /** Permanently deletes the tasks of a purged room in batches, and finally their numbering. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    for (let ids = [""]; ids.length > 0;) {
      ids = await this.#deps.store.write(async (tx) => {
        const tasks = new TaskStore(tx.db);
        const found = await tasks.idsIn(tenantId, roomId, PURGE_BATCH);
        if (await tasks.removeActivity(tenantId, found)) return found;
        await this.#purge(tx, tenantId, found);
        if (found.length === 0) await tasks.removeRoom(tenantId, roomId);
        return found;
      });
      await nextSlice();
    }
  }

  async #purge(tx: Transaction<TaskTables>, tenantId: string, ids: readonly string[]): Promise<void> {
    await new TaskStore(tx.db).purge(tenantId, ids);
    await this.#deps.files.detach(tx, tenantId, ...ids.map(taskFileOwner));
  }
}

function assertCanDelete(actor: Actor, { row, grant }: Pick<LockedTask, "row" | "grant">): void {
  if (row.created_by === actor.principalId || isAtLeast(ROOM_ROLES, grant.role ?? "observer", "moderator")) return;
  throw new Fault("forbidden", `${row.key} is of another: deleting and restoring it requires a moderator of the room`);
}

/** `in ()` is not valid SQL, and a filter without values matches everything. */
function nonEmpty<Item>(values: readonly Item[] | undefined): readonly Item[] | undefined {
  return values === undefined || values.length === 0 ? undefined : values;
}

function purgeJob({ tenant_id: tenantId, id }: TaskRow): JobDraft {
  return { tenantId, kind: PURGE_JOB, payload: { taskId: id }, key: id };
}
