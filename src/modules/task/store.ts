// SQL of tasks, their activity, and the numbering of rooms.
import { type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import { deleteSome } from "@/ports/sql/deletion.ts";
import {
  containsText,
  inList,
  inSubquery,
  isSmallResult,
  rowsAtOnce,
  selectRows,
  tenantIsUnindexed,
} from "@/ports/sql/filters.ts";
import { collectInSlices } from "@/core/caller.ts";
import type { CursorKey, RowSelection } from "@/core/page.ts";
import { dialectOf, type Param, prepared } from "@/ports/sql/prepared.ts";
import { isInVisibleRoom, type Reader, visibleRoomIds } from "@/modules/room/mod.ts";
import { dueOrder, ordered, sortColumns } from "./order_store.ts";
import type { Sort } from "./schema.ts";
import type { ActivityRow, TaskRoomRow, TaskRow, TaskTables } from "./tables.ts";

type TaskFilter = {
  roomId?: readonly string[] | undefined;
  assigneeId?: readonly string[] | undefined;
  unassigned?: boolean | undefined;
  createdBy?: readonly string[] | undefined;
  status?: readonly TaskRow["status"][] | undefined;
  priority?: readonly number[] | undefined;
  label?: readonly string[] | undefined;
  dueBefore?: string | undefined;
  dueAfter?: string | undefined;
  parentId?: string | undefined;
  topLevel?: boolean | undefined;
  sourceMessageId?: string | undefined;
  q?: string | undefined;
  updatedSince?: string | undefined;
  deleted: boolean;
};

type Db = Kysely<TaskTables>;

/** SQLite reads more of a room, or of what is assigned to somebody, in the order of the list: to sort all would keep others waiting. */
const SORTED_MAX = 5000;

/** Selective filters, each with an index of its own. */
const NARROW = ["roomId", "assigneeId", "parentId", "sourceMessageId"] as const;

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("task").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const byRoomAndKey = prepared((db: Db, value: Param<{ tenantId: string; roomId: string; key: string }>) =>
  db.selectFrom("task").selectAll().where("tenant_id", "=", value("tenantId")).where("key", "=", value("key"))
    .where("room_id", "=", value("roomId"))
);

export class TaskStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<TaskRow | undefined> {
    return byId.first(this.#db, { tenantId, id });
  }

  findInRoom(tenantId: string, roomId: string, key: string): Promise<TaskRow | undefined> {
    return byRoomAndKey.first(this.#db, { tenantId, roomId, key });
  }

  /** Tasks with a key in rooms visible to the reader, deleted ones last. */
  findByKey(tenantId: string, reader: Reader, key: string, limit: number): Promise<TaskRow[]> {
    return this.#db.selectFrom("task").selectAll("task").where("task.tenant_id", "=", tenantId)
      .where("task.key", "=", key).where(isInVisibleRoom(this.#db, tenantId, "task.room_id", reader))
      .orderBy(sql`task.deleted_at is not null`).limit(limit).execute();
  }

  /** Allocates the next task number of a room; `undefined` if the room has no prefix yet. */
  takeNumber(tenantId: string, roomId: string): Promise<TaskRoomRow | undefined> {
    return this.#db.updateTable("task_room").set(({ eb }) => ({ last_number: eb("last_number", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).returningAll().executeTakeFirst();
  }

  /** Prefixes starting with `stem`, of rooms visible to the reader. */
  async prefixes(tenantId: string, reader: Reader, stem: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("task_room").select("prefix").where("task_room.tenant_id", "=", tenantId)
      .where("prefix", "like", `${stem}%`).where(isInVisibleRoom(this.#db, tenantId, "task_room.room_id", reader))
      .execute();
    return rows.flatMap(({ prefix }) => prefix ?? []);
  }

  /** Stores the prefix of a room that has none. */
  async addRoom(row: TaskRoomRow): Promise<void> {
    await this.#db.insertInto("task_room").values(row).execute();
  }

  /** Deletes the numbering of a purged room. */
  async removeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#db.deleteFrom("task_room").where("tenant_id", "=", tenantId).where("room_id", "=", roomId).execute();
  }

  async add(row: TaskRow): Promise<void> {
    await this.#db.insertInto("task").values(row).execute();
    await this.#addTags(row);
  }

  /** Writes the whole row, and labels and assignees if they changed. */
  async put(before: TaskRow, row: TaskRow): Promise<void> {
    await this.#db.updateTable("task").set(row).where("tenant_id", "=", row.tenant_id).where("id", "=", row.id)
      .execute();
    if (row.labels_json === before.labels_json && row.assignee_ids_json === before.assignee_ids_json) return;
    await this.#removeTags(row.tenant_id, [row.id]);
    await this.#addTags(row);
  }

  async update(tenantId: string, id: string, set: Partial<TaskRow>): Promise<void> {
    await this.#db.updateTable("task").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async openCount(tenantId: string, roomId: string): Promise<number> {
    const row = await this.#db.selectFrom("task").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("is_open", "=", 1)
      .executeTakeFirstOrThrow();
    return Number(row.n);
  }

  async list(
    tenantId: string,
    reader: Reader,
    filter: TaskFilter,
    sort: Sort,
    after: CursorKey | undefined,
    limit: number,
  ): Promise<TaskRow[]> {
    const { query, isWide, isSmall, rooms } = await this.#matching(tenantId, reader, filter, sort);
    const isSqlite = dialectOf(this.#db) === "sqlite";
    if (isSmall || !isSqlite && (!isWide || filter.q === undefined)) {
      return await ordered(query, isWide, sort, after).limit(limit).execute();
    }
    // No index has parts of texts, or the filter: all tasks may be read for few.
    const all = this.#db.selectFrom("task").where("task.tenant_id", "=", tenantId)
      .select(sortColumns(sort).map((column, at) => sql<string | number>`${column}`.as(`sort_${at}`)))
      .$if(rooms !== undefined, (some) => some.where("task.room_id", "in", rooms ?? []));
    return await collectInSlices(after, limit, async (from: CursorKey | undefined, left) => {
      const last = await ordered(all, isWide, sort, from).offset(rowsAtOnce(this.#db) - 1).limit(1).executeTakeFirst();
      const next = last && Object.values(last);
      return { rows: await ordered(query, isWide, sort, from, next).limit(left).execute(), next };
    });
  }

  /**
   * Tasks of visible rooms that match. `isWide`: the filter leaves most of them; `isSmall`: it leaves few enough to sort them;
   * `rooms`: the index of these is used.
   */
  async #matching(tenantId: string, reader: Reader, filter: TaskFilter, sort: Sort) {
    const isLong = await this.#isLong(tenantId, filter);
    const rooms = isLong && sort !== "position" ? undefined : filter.roomId;
    let query = this.#db.selectFrom("task").selectAll("task").where("task.tenant_id", "=", tenantId)
      .where(isInVisibleRoom(this.#db, tenantId, "task.room_id", reader, rooms))
      .where("task.deleted_at", filter.deleted ? "is not" : "is", null);
    if (filter.roomId !== undefined) query = query.where(isOneOf("task.room_id", filter.roomId, rooms !== undefined));
    if (filter.q !== undefined) {
      const texts = ["title", "description", "key"].map((name) => containsText(`task.${name}`, filter.q ?? ""));
      query = query.where(({ or }) => or(texts));
    }
    if (filter.priority !== undefined) query = query.where("task.priority", "in", filter.priority);
    if (filter.dueBefore !== undefined) query = query.where(dueOrder, "<", filter.dueBefore);
    if (filter.dueAfter !== undefined) {
      query = query.where(dueOrder, ">=", filter.dueAfter).where("task.due_at", "is not", null);
    }
    if (filter.createdBy !== undefined) query = query.where("task.created_by", "in", filter.createdBy);
    if (filter.unassigned !== undefined) {
      // A literal: with a parameter, the planner cannot prove that the partial index applies.
      query = query.where("task.assignee_ids_json", filter.unassigned ? "=" : "<>", sql.lit("[]"));
    }
    if (filter.parentId !== undefined) query = query.where("task.parent_id", "=", filter.parentId);
    if (filter.topLevel !== undefined) query = query.where("task.parent_id", filter.topLevel ? "is" : "is not", null);
    if (filter.sourceMessageId !== undefined) {
      query = query.where("task.source_message_id", "=", filter.sourceMessageId);
    }
    if (filter.updatedSince !== undefined) query = query.where("task.updated_at", ">=", filter.updatedSince);
    const { assigneeId, label } = filter;
    if (assigneeId !== undefined) {
      const assigned = this.#assigned(tenantId, assigneeId);
      query = isLong
        ? query.where(({ exists, ref }) => exists(assigned.where("task_assignee.task_id", "=", ref("task.id"))))
        : query.where("task.id", "in", assigned);
    }
    const isNarrow = !isLong && NARROW.some((name) => filter[name] !== undefined);
    let isSmall = isNarrow;
    if (filter.status !== undefined) {
      const { condition, isRare } = await this.#ofStatus(tenantId, filter.status, filter);
      query = query.where(condition);
      isSmall ||= isRare;
    }
    if (label !== undefined) {
      const labelled = this.#db.selectFrom("task_label").select("task_label.task_id")
        .where("task_label.tenant_id", "=", tenantId).where("task_label.label", "in", label);
      const isRare = await isSmallResult(labelled);
      isSmall ||= isRare;
      query = isRare
        ? query.where("task.id", "in", labelled)
        : query.where(({ exists, ref }) => exists(labelled.where("task_label.task_id", "=", ref("task.id"))));
    }
    // For readers with few rooms, a scan in sort order would skip nearly all tasks of the tenant.
    if (!isSmall && !isLong) {
      const near = this.#db.selectFrom(visibleRoomIds(this.#db, tenantId, reader).as("reach"))
        .innerJoin("task as near", "near.room_id", "reach.id").select("near.id").where("near.tenant_id", "=", tenantId);
      const isNear = await isSmallResult(near);
      isSmall ||= isNear;
      if (isNear) query = query.where("task.id", "in", near);
    }
    return { query, isWide: !isNarrow, isSmall, rooms };
  }

  /** Whether the rooms and assignees that a filter names have more tasks than SQLite should sort. */
  async #isLong(tenantId: string, filter: TaskFilter): Promise<boolean> {
    const { roomId, assigneeId, parentId, sourceMessageId } = filter;
    const isNamed = (roomId ?? assigneeId) !== undefined && (parentId ?? sourceMessageId) === undefined;
    if (!isNamed || dialectOf(this.#db) !== "sqlite") return false;
    const inRooms = this.#db.selectFrom("task").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "in", roomId ?? []);
    return (roomId === undefined || !await isSmallResult(inRooms, SORTED_MAX)) &&
      (assigneeId === undefined || !await isSmallResult(this.#assigned(tenantId, assigneeId), SORTED_MAX));
  }

  /** The condition of a filter by status. `isRare`: few tasks may be anywhere in the order of a list, and are looked up. */
  async #ofStatus(tenantId: string, status: readonly TaskRow["status"][], filter: TaskFilter) {
    const { roomId, assigneeId, parentId, sourceMessageId } = filter;
    const tasks = this.#db.selectFrom("task as one").select("one.id").where("one.tenant_id", "=", tenantId)
      .where("one.status", "in", status)
      .$if(roomId !== undefined, (some) => some.where("one.room_id", "in", roomId ?? []));
    const isRare = (assigneeId ?? parentId ?? sourceMessageId) === undefined && await isSmallResult(tasks);
    if (isRare) return { isRare, condition: inSubquery(this.#db, "task.id", tasks) };
    // SQLite would sort all that the index has.
    return { isRare, condition: isOneOf("task.status", status, dialectOf(this.#db) !== "sqlite") };
  }

  #assigned(tenantId: string, assigneeIds: readonly string[]) {
    return this.#db.selectFrom("task_assignee").select("task_assignee.task_id")
      .where("task_assignee.tenant_id", "=", tenantId).where("task_assignee.principal_id", "in", assigneeIds);
  }

  async findUndeleted(tenantId: string, which: RowSelection): Promise<TaskRow[]> {
    const query = this.#db.selectFrom("task").selectAll().where("deleted_at", "is", null);
    return await selectRows(query, tenantId, which);
  }

  /** Tasks next to a position of the board, nearest first, including deleted ones, which may be restored. */
  neighbours(
    tenantId: string,
    roomId: string,
    side: "<" | ">",
    position: string,
    exceptId: string,
    limit: number,
  ): Promise<TaskRow[]> {
    return this.#db.selectFrom("task").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("position", side, position).where("id", "<>", exceptId)
      .orderBy("position", side === "<" ? "desc" : "asc").limit(limit).execute();
  }

  async lastPosition(tenantId: string, roomId: string): Promise<string | null> {
    const row = await this.#db.selectFrom("task").select("position").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).orderBy("position", "desc").limit(1).executeTakeFirst();
    return row?.position ?? null;
  }

  async children(tenantId: string, parentIds: readonly string[]): Promise<TaskRow[]> {
    if (parentIds.length === 0) return [];
    return await this.#db.selectFrom("task").selectAll().where("tenant_id", "=", tenantId)
      .where("parent_id", "in", parentIds).where("deleted_at", "is", null).orderBy("position").orderBy("id").execute();
  }

  /** The tasks that were deleted together with `id`, itself included. */
  deletedWith(tenantId: string, id: string): Promise<TaskRow[]> {
    return this.#db.selectFrom("task").selectAll().where("tenant_id", "=", tenantId).where("deletion_root_id", "=", id)
      .orderBy("id").execute();
  }

  /** Ids of some that were deleted with a task. */
  async idsDeletedWith(tenantId: string, id: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("task").select("id").where("tenant_id", "=", tenantId)
      .where("deletion_root_id", "=", id).where("id", "!=", id).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  async addActivity(row: ActivityRow): Promise<void> {
    await this.#db.insertInto("task_activity").values(row).execute();
  }

  activity(tenantId: string, taskId: string, before: number | undefined, limit: number): Promise<ActivityRow[]> {
    const query = this.#db.selectFrom("task_activity").selectAll().where("tenant_id", "=", tenantId)
      .where("task_id", "=", taskId).orderBy("version", "desc").limit(limit);
    return (before === undefined ? query : query.where("version", "<", before)).execute();
  }

  /** Deletes some of the activity of tasks; returns whether there may be more. */
  removeActivity(tenantId: string, ids: readonly string[]): Promise<boolean> {
    const ofThese = sql<SqlBool>`tenant_id = ${tenantId} and ${inList(this.#db, "task_id", ids)}`;
    return deleteSome(this.#db, "task_activity", ofThese);
  }

  /** Permanently deletes tasks with their dependents; remaining subtasks become top-level tasks. */
  async purge(tenantId: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#removeTags(tenantId, ids);
    const ofThese = inList(this.#db, "task_id", ids);
    // Each relation has a row for either side; that of the other side is found by its own task.
    const others = this.#db.selectFrom("task_relation").select("other_id").where("tenant_id", "=", tenantId)
      .where(ofThese);
    await this.#db.deleteFrom("task_relation").where("tenant_id", "=", tenantId)
      .where(inSubquery(this.#db, "task_id", others)).where(inList(this.#db, "other_id", ids)).execute();
    for (const table of ["task_relation", "task_activity"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where(ofThese).execute();
    }
    await this.#db.updateTable("task").set({ parent_id: null }).where("tenant_id", "=", tenantId)
      .where(inList(this.#db, "parent_id", ids)).where(({ not }) => not(inList(this.#db, "id", ids))).execute();
    await this.#db.deleteFrom("task").where(tenantIsUnindexed(tenantId)).where(inList(this.#db, "id", ids)).execute();
  }

  async idsIn(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("task").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  async #addTags(row: TaskRow): Promise<void> {
    const key = { tenant_id: row.tenant_id, task_id: row.id };
    const assignees: string[] = JSON.parse(row.assignee_ids_json);
    const labels: string[] = JSON.parse(row.labels_json);
    if (assignees.length > 0) {
      await this.#db.insertInto("task_assignee").values(assignees.map((id) => ({ ...key, principal_id: id })))
        .execute();
    }
    if (labels.length > 0) {
      await this.#db.insertInto("task_label").values(labels.map((label) => ({ ...key, label }))).execute();
    }
  }

  async #removeTags(tenantId: string, ids: readonly string[]): Promise<void> {
    for (const table of ["task_assignee", "task_label"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where(inList(this.#db, "task_id", ids))
        .execute();
    }
  }
}

/** Whether a column has one of these values, by its index or without. */
function isOneOf(column: string, values: readonly string[], isIndexed: boolean): RawBuilder<SqlBool> {
  return sql`${sql.raw(isIndexed ? column : `${column} || ''`)} in (${sql.join(values)})`;
}
