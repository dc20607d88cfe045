// SQL of tasks on their way out of a gateway and into one: a room's board page by page, and what of it is there already.
import type { Kysely } from "kysely";
import { equalsUnindexed, inList, orderedAfter, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { ActivityRow, RelationRow, TaskRoomRow, TaskRow, TaskTables } from "../tables.ts";

type Db = Kysely<TaskTables>;

export class TaskArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** How the tasks of a room are numbered; `undefined` before it has any. */
  board(tenantId: string, roomId: string): Promise<TaskRoomRow | undefined> {
    return this.#db.selectFrom("task_room").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .executeTakeFirst();
  }

  /** Numbers up to this one are taken. */
  async raiseLastNumber(tenantId: string, roomId: string, number: number): Promise<void> {
    await this.#db.updateTable("task_room").set({ last_number: number }).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("last_number", "<", number).execute();
  }

  /** Tasks of a room by id, without deleted ones: those right under some, or (null) those under none. */
  tasksUnder(
    tenantId: string,
    roomId: string,
    parentIds: readonly string[] | null,
    after: string,
    limit: number,
  ): Promise<TaskRow[]> {
    const query = this.#db.selectFrom("task").selectAll().where("tenant_id", "=", tenantId)
      .where("deleted_at", "is", null).where("id", ">", after).orderBy("id").limit(limit);
    if (parentIds === null) return query.where("room_id", "=", roomId).where("parent_id", "is", null).execute();
    // Found by parent through an index, not among all tasks of the room.
    return query.where("parent_id", "in", parentIds).where(equalsUnindexed("room_id", roomId)).execute();
  }

  /** What happened to these tasks, task by task, the last first. */
  activity(
    tenantId: string,
    taskIds: readonly string[],
    after: Pick<ActivityRow, "task_id" | "version"> | undefined,
    limit: number,
  ): Promise<ActivityRow[]> {
    let query = this.#db.selectFrom("task_activity").selectAll().where("tenant_id", "=", tenantId)
      .where(inList(this.#db, "task_id", taskIds));
    if (after !== undefined) {
      query = query.where(({ eb, and, or }) =>
        or([
          eb("task_id", ">", after.task_id),
          and([eb("task_id", "=", after.task_id), eb("version", "<", after.version)]),
        ])
      );
    }
    return query.orderBy("task_id").orderBy("version", "desc").limit(limit).execute();
  }

  /**
   * Relations of a room's tasks, each once: those within it, and unless `isAlone` those with tasks of rooms that come before
   * it by id. None of deleted tasks or rooms.
   */
  relations(
    tenantId: string,
    roomId: string,
    isAlone: boolean,
    after: Pick<RelationRow, "task_id" | "kind" | "other_id"> | undefined,
    limit: number,
  ): Promise<RelationRow[]> {
    const related = this.#db.selectFrom("task_relation")
      .innerJoin("task", (join) => join.onRef("task.id", "=", "task_relation.task_id"))
      .innerJoin("task as other", (join) => join.onRef("other.id", "=", "task_relation.other_id"))
      .innerJoin("room", (join) => join.onRef("room.id", "=", "other.room_id"))
      .selectAll("task_relation").where("task_relation.tenant_id", "=", tenantId)
      .where("task.tenant_id", "=", tenantId).where("task.room_id", "=", roomId).where("task.deleted_at", "is", null)
      .where("other.deleted_at", "is", null).where("room.state", "<>", "deleted")
      .where(({ eb, ref, and, or }) => {
        const isOwn = and([
          eb("other.room_id", "=", roomId),
          // Each relation appears twice, once from each side.
          or([
            eb("task_relation.kind", "in", ["blocks", "duplicates"]),
            and([
              eb("task_relation.kind", "=", "related"),
              eb("task_relation.task_id", "<", ref("task_relation.other_id")),
            ]),
          ]),
        ]);
        return isAlone ? isOwn : or([isOwn, eb("other.room_id", "<", roomId)]);
      });
    const order = ["task_relation.task_id", "task_relation.kind", "task_relation.other_id"];
    const position = after && [after.task_id, after.kind, after.other_id];
    return orderedAfter(related, order, position).limit(limit).execute();
  }

  /** Tasks among these ids, deleted ones too. */
  async findMany(tenantId: string, ids: readonly string[]): Promise<Map<string, TaskRow>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom("task").selectAll().where(tenantIsUnindexed(tenantId)).where("id", "in", ids)
      .execute();
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** Which of these keys are some task's of the room. */
  async existingKeys(tenantId: string, roomId: string, keys: readonly string[]): Promise<Set<string>> {
    if (keys.length === 0) return new Set();
    const rows = await this.#db.selectFrom("task").select("key").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("key", "in", keys).execute();
    return new Set(rows.map((row) => row.key));
  }

  /** Which of these positions on the board of a room are some task's, deleted ones too. */
  async occupiedPositions(tenantId: string, roomId: string, positions: readonly string[]): Promise<Set<string>> {
    if (positions.length === 0) return new Set();
    const rows = await this.#db.selectFrom("task").select("position").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("position", "in", positions).execute();
    return new Set(rows.map((row) => row.position));
  }

  /** The oldest version of each of these tasks that its activity names. */
  async oldestVersions(tenantId: string, taskIds: readonly string[]): Promise<Map<string, number>> {
    if (taskIds.length === 0) return new Map();
    const rows = await this.#db.selectFrom("task_activity")
      .select(({ fn }) => ["task_id", fn.min("version").as("version")]).where("tenant_id", "=", tenantId)
      .where("task_id", "in", taskIds).groupBy("task_id").execute();
    return new Map(rows.map((row) => [row.task_id, Number(row.version)]));
  }
}
