// SQL of tasks, their relations and activity, and of the numbering of rooms.
import { type Kysely, sql } from "kysely";
import { areFew, isOfTenant, picked, type Which } from "@/ports/list.ts";
import type { CursorKey } from "@/core/page.ts";
import { contains } from "@/ports/like.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import { isInSeenRoom, type Reader, roomsInReach } from "@/modules/room/mod.ts";
import type { RelationKind, Sort } from "./schema.ts";
import { NEVER } from "./sort.ts";
import type { ActivityRow, RelationRow, TaskRoomRow, TaskRow, TaskTables } from "./tables.ts";

export type TaskFilter = {
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

/** What tasks are ordered by when by due date; word for word as in their index. */
const dueOrder = sql<string>`coalesce(task.due_at, ${sql.lit(NEVER)})`;

/** Filters with few tasks each, which an index of their own finds. */
const NARROW = ["roomId", "assigneeId", "parentId", "sourceMessageId"] as const;

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("task").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const byKey = prepared((db: Db, value: Param<{ tenantId: string; key: string }>) =>
  db.selectFrom("task").selectAll().where("tenant_id", "=", value("tenantId")).where("key", "=", value("key"))
);

export class TaskStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<TaskRow | undefined> {
    return byId.first(this.#db, { tenantId, id });
  }

  findByKey(tenantId: string, key: string): Promise<TaskRow | undefined> {
    return byKey.first(this.#db, { tenantId, key });
  }

  /** Takes the next number of a room; `undefined` while the room has no prefix. */
  takeNumber(tenantId: string, roomId: string): Promise<TaskRoomRow | undefined> {
    return this.#db.updateTable("task_room").set(({ eb }) => ({ last_number: eb("last_number", "+", 1) }))
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).returningAll().executeTakeFirst();
  }

  /** Prefixes of rooms that begin so. */
  async prefixes(tenantId: string, stem: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("task_room").select("prefix").where("tenant_id", "=", tenantId)
      .where("prefix", "like", `${stem}%`).execute();
    return rows.flatMap(({ prefix }) => prefix ?? []);
  }

  /** Gives a room its prefix; false when the prefix is taken or the room has one. */
  async addRoom(row: TaskRoomRow): Promise<boolean> {
    const added = await this.#db.insertInto("task_room").values(row).onConflict((conflict) => conflict.doNothing())
      .returning("room_id").execute();
    return added.length > 0;
  }

  async add(row: TaskRow): Promise<void> {
    await this.#db.insertInto("task").values(row).execute();
    await this.#addTags(row);
  }

  /** Writes the whole row; labels and assignees follow when they changed. */
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
    let query = this.#db.selectFrom("task").selectAll("task").where("task.tenant_id", "=", tenantId)
      .where(isInSeenRoom(this.#db, tenantId, "task.room_id", reader))
      .where("task.deleted_at", filter.deleted ? "is not" : "is", null);
    if (filter.roomId !== undefined) query = query.where("task.room_id", "in", filter.roomId);
    if (filter.status !== undefined) query = query.where("task.status", "in", filter.status);
    if (filter.priority !== undefined) query = query.where("task.priority", "in", filter.priority);
    if (filter.dueBefore !== undefined) query = query.where(dueOrder, "<", filter.dueBefore);
    if (filter.dueAfter !== undefined) {
      query = query.where(dueOrder, ">=", filter.dueAfter).where("task.due_at", "is not", null);
    }
    if (filter.createdBy !== undefined) query = query.where("task.created_by", "in", filter.createdBy);
    if (filter.unassigned !== undefined) {
      // Said in the query itself: as a value to come it would not show that the index of such tasks serves.
      query = query.where("task.assignee_ids_json", filter.unassigned ? "=" : "<>", sql.lit("[]"));
    }
    if (filter.parentId !== undefined) query = query.where("task.parent_id", "=", filter.parentId);
    if (filter.topLevel !== undefined) query = query.where("task.parent_id", filter.topLevel ? "is" : "is not", null);
    if (filter.sourceMessageId !== undefined) {
      query = query.where("task.source_message_id", "=", filter.sourceMessageId);
    }
    if (filter.updatedSince !== undefined) query = query.where("task.updated_at", ">=", filter.updatedSince);
    const { assigneeId, label, q } = filter;
    if (assigneeId !== undefined) {
      query = query.where(
        "task.id",
        "in",
        this.#db.selectFrom("task_assignee").select("task_id").where("tenant_id", "=", tenantId)
          .where("principal_id", "in", assigneeId),
      );
    }
    if (label !== undefined) {
      const labelled = this.#db.selectFrom("task_label").select("task_label.task_id")
        .where("task_label.tenant_id", "=", tenantId).where("task_label.label", "in", label);
      query = await areFew(labelled)
        ? query.where("task.id", "in", labelled)
        : query.where(({ exists, ref }) => exists(labelled.where("task_label.task_id", "=", ref("task.id"))));
    }
    // In order, whoever sees little of the tenant would pass by nearly all of its tasks.
    const isWide = NARROW.every((name) => filter[name] === undefined);
    if (isWide) {
      const near = this.#db.selectFrom(roomsInReach(this.#db, tenantId, reader).as("reach"))
        .innerJoin("task as near", "near.room_id", "reach.id").select("near.id").where("near.tenant_id", "=", tenantId);
      if (await areFew(near)) query = query.where("task.id", "in", near);
    }
    if (q !== undefined) {
      query = query.where(({ or }) => or(["title", "description", "key"].map((name) => contains(`task.${name}`, q))));
    }
    const direction = sort.startsWith("-") ? "desc" : "asc";
    const columns = sortColumns(sort);
    if (after !== undefined) {
      const comparison = sql.raw(direction === "desc" ? "<" : ">");
      query = query.where(sql<boolean>`(${sql.join(columns)}) ${comparison} (${sql.join(after)})`);
      // SQLite finds the place in an index by columns, but not by an expression that is compared with others at once.
      if (isWide && columns[0] === dueOrder) query = query.where(sql<boolean>`${dueOrder} ${comparison}= ${after[0]}`);
    }
    for (const column of columns) query = query.orderBy(column, direction);
    return await query.limit(limit).execute();
  }

  /** Tasks that are not deleted. */
  async live(tenantId: string, which: Which): Promise<TaskRow[]> {
    const query = this.#db.selectFrom("task").selectAll().where("deleted_at", "is", null);
    return await picked(query, tenantId, which);
  }

  /** Tasks next to a position of the board, nearest first; deleted ones count, for they may come back. */
  neighbours(
    tenantId: string,
    roomId: string,
    side: "<" | ">",
    position: string,
    besides: string,
    limit: number,
  ): Promise<TaskRow[]> {
    return this.#db.selectFrom("task").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("position", side, position).where("id", "<>", besides)
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

  /** The tasks that went when `id` was deleted, itself included. */
  deletedWith(tenantId: string, id: string): Promise<TaskRow[]> {
    return this.#db.selectFrom("task").selectAll().where("tenant_id", "=", tenantId).where("deleted_with", "=", id)
      .orderBy("id").execute();
  }

  relations(tenantId: string, taskId: string): Promise<{ kind: RelationKind; other: TaskRow }[]> {
    return this.#db.selectFrom("task_relation")
      .innerJoin(
        "task",
        (join) =>
          join.onRef("task.id", "=", "task_relation.other_id").onRef("task.tenant_id", "=", "task_relation.tenant_id"),
      )
      .selectAll("task").select("task_relation.kind as kind").where("task_relation.tenant_id", "=", tenantId)
      .where("task_relation.task_id", "=", taskId).where("task.deleted_at", "is", null)
      .orderBy("task_relation.kind").orderBy("task_relation.other_id").execute()
      .then((rows) => rows.map(({ kind, ...other }) => ({ kind, other })));
  }

  async isRelated(tenantId: string, taskId: string, kind: RelationKind, otherId: string): Promise<boolean> {
    const row = await this.#db.selectFrom("task_relation").select("task_id").where("tenant_id", "=", tenantId)
      .where("task_id", "=", taskId).where("kind", "=", kind).where("other_id", "=", otherId).executeTakeFirst();
    return row !== undefined;
  }

  async relationCount(tenantId: string, taskId: string): Promise<number> {
    const row = await this.#db.selectFrom("task_relation").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("task_id", "=", taskId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Adds both sides of a relation; false when it was there. */
  async addRelation(rows: readonly RelationRow[]): Promise<boolean> {
    const added = await this.#db.insertInto("task_relation").values(rows)
      .onConflict((conflict) => conflict.doNothing()).returning("task_id").execute();
    return added.length > 0;
  }

  async removeRelation(tenantId: string, taskId: string, kind: RelationKind, otherId: string): Promise<boolean> {
    const removed = await this.#db.deleteFrom("task_relation").where("tenant_id", "=", tenantId)
      .where("task_id", "=", taskId).where("kind", "=", kind).where("other_id", "=", otherId).returning("task_id")
      .execute();
    return removed.length > 0;
  }

  /** Whether `to` can be reached from `from` along relations of one kind; those of deleted tasks count. */
  async leadsTo(tenantId: string, kind: RelationKind, from: string, to: string): Promise<boolean> {
    const found = await this.#db.withRecursive(
      "reached(id)",
      (db) =>
        db.selectFrom("task_relation").select("other_id as id").where("tenant_id", "=", tenantId)
          .where("task_id", "=", from).where("kind", "=", kind)
          .union(
            db.selectFrom("task_relation").innerJoin("reached", "reached.id", "task_relation.task_id")
              .select("task_relation.other_id as id").where("task_relation.tenant_id", "=", tenantId)
              .where("task_relation.kind", "=", kind),
          ),
    ).selectFrom("reached").select("id").where("id", "=", to).limit(1).executeTakeFirst();
    return found !== undefined;
  }

  async addActivity(row: ActivityRow): Promise<void> {
    await this.#db.insertInto("task_activity").values(row).execute();
  }

  activity(tenantId: string, taskId: string, before: number | undefined, limit: number): Promise<ActivityRow[]> {
    const query = this.#db.selectFrom("task_activity").selectAll().where("tenant_id", "=", tenantId)
      .where("task_id", "=", taskId).orderBy("version", "desc").limit(limit);
    return (before === undefined ? query : query.where("version", "<", before)).execute();
  }

  /** Removes tasks for good with all that hangs on them; subtasks that are left stand alone. */
  async purge(tenantId: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#removeTags(tenantId, ids);
    await this.#db.deleteFrom("task_relation").where("tenant_id", "=", tenantId)
      .where(({ or, eb }) => or([eb("task_id", "in", ids), eb("other_id", "in", ids)])).execute();
    await this.#db.deleteFrom("task_activity").where("tenant_id", "=", tenantId).where("task_id", "in", ids).execute();
    await this.#db.updateTable("task").set({ parent_id: null }).where("tenant_id", "=", tenantId)
      .where("parent_id", "in", ids).where("id", "not in", ids).execute();
    await this.#db.deleteFrom("task").where(isOfTenant(tenantId)).where("id", "in", ids).execute();
  }

  async idsIn(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("task").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  async #addTags(row: TaskRow): Promise<void> {
    const of = { tenant_id: row.tenant_id, task_id: row.id };
    const people: string[] = JSON.parse(row.assignee_ids_json);
    const labels: string[] = JSON.parse(row.labels_json);
    if (people.length > 0) {
      await this.#db.insertInto("task_assignee").values(people.map((id) => ({ ...of, principal_id: id }))).execute();
    }
    if (labels.length > 0) {
      await this.#db.insertInto("task_label").values(labels.map((label) => ({ ...of, label }))).execute();
    }
  }

  async #removeTags(tenantId: string, ids: readonly string[]): Promise<void> {
    for (const table of ["task_assignee", "task_label"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("task_id", "in", ids).execute();
    }
  }
}

function sortColumns(sort: Sort) {
  const id = sql.ref("task.id");
  switch (sort) {
    case "position":
      return [sql.ref("task.room_id"), sql.ref("task.position"), id];
    case "dueAt":
    case "-dueAt":
      return [dueOrder, id];
    case "priority":
    case "-priority":
      return [sql.ref("task.priority"), id];
    case "createdAt":
    case "-createdAt":
      return [sql.ref("task.created_at"), id];
    default:
      return [sql.ref("task.updated_at"), id];
  }
}
