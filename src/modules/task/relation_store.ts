// SQL of the relations of tasks. Each is stored from both sides.
import { type Kysely, sql } from "kysely";
import { isInVisibleRoom, type Reader } from "@/modules/room/mod.ts";
import type { RelationKind } from "./schema.ts";
import type { RelationRow, TaskRow, TaskTables } from "./tables.ts";

/** Between two tasks of a tenant, from the side of the first. */
type Relation = { tenantId: string; taskId: string; kind: RelationKind; otherId: string };

/** The same relation from the other side. */
const INVERSE: Readonly<Record<RelationKind, RelationKind>> = {
  blocks: "blocked_by",
  blocked_by: "blocks",
  duplicates: "duplicated_by",
  duplicated_by: "duplicates",
  related: "related",
};

export class RelationStore {
  readonly #db: Kysely<TaskTables>;

  constructor(db: Kysely<TaskTables>) {
    this.#db = db;
  }

  /** Those of a task to tasks that are not deleted. */
  async list(tenantId: string, taskId: string): Promise<{ kind: RelationKind; other: TaskRow }[]> {
    const rows = await this.#db.selectFrom("task_relation")
      .innerJoin(
        "task",
        (join) =>
          join.onRef("task.id", "=", "task_relation.other_id").onRef("task.tenant_id", "=", "task_relation.tenant_id"),
      )
      .selectAll("task").select("task_relation.kind as kind").where("task_relation.tenant_id", "=", tenantId)
      .where("task_relation.task_id", "=", taskId).where("task.deleted_at", "is", null)
      .orderBy("task_relation.kind").orderBy("task_relation.other_id").execute();
    return rows.map(({ kind, ...other }) => ({ kind, other }));
  }

  async has({ tenantId, taskId, kind, otherId }: Relation): Promise<boolean> {
    const row = await this.#db.selectFrom("task_relation").select("task_id").where("tenant_id", "=", tenantId)
      .where("task_id", "=", taskId).where("kind", "=", kind).where("other_id", "=", otherId).executeTakeFirst();
    return row !== undefined;
  }

  async count(tenantId: string, taskId: string): Promise<number> {
    const row = await this.#db.selectFrom("task_relation").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("task_id", "=", taskId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Adds a relation; false if it exists. */
  async add(relation: Relation, created: Pick<RelationRow, "created_by" | "created_at">): Promise<boolean> {
    const rows = sidesOf(relation).map(({ tenantId, taskId, kind, otherId }) => ({
      tenant_id: tenantId,
      task_id: taskId,
      kind,
      other_id: otherId,
      ...created,
    }));
    const added = await this.#db.insertInto("task_relation").values(rows)
      .onConflict((conflict) => conflict.doNothing()).returning("task_id").execute();
    return added.length > 0;
  }

  /** Removes a relation; false if there is none. */
  async remove(relation: Relation): Promise<boolean> {
    let isRemoved = false;
    for (const { tenantId, taskId, kind, otherId } of sidesOf(relation)) {
      const removed = await this.#db.deleteFrom("task_relation").where("tenant_id", "=", tenantId)
        .where("task_id", "=", taskId).where("kind", "=", kind).where("other_id", "=", otherId).returning("task_id")
        .execute();
      isRemoved ||= removed.length > 0;
    }
    return isRemoved;
  }

  /**
   * Whether `to` can be reached from `from` along relations of one kind, including those of deleted tasks. With a `reader`,
   * only through tasks in rooms visible to it, because a refusal would disclose the others.
   */
  async leadsTo(tenantId: string, kind: RelationKind, from: string, to: string, reader?: Reader): Promise<boolean> {
    let steps = this.#db.selectFrom("task_relation").innerJoin("task", "task.id", "task_relation.other_id")
      .select("task_relation.other_id as id").where("task_relation.tenant_id", "=", tenantId)
      .where("task_relation.kind", "=", kind);
    if (reader !== undefined) steps = steps.where(isInVisibleRoom(this.#db, tenantId, "task.room_id", reader));
    const found = await this.#db.withRecursive(
      "reached(id)",
      () =>
        steps.where("task_relation.task_id", "=", from)
          .union(steps.innerJoin(sql<{ id: string }>`reached`.as("reached"), "reached.id", "task_relation.task_id")),
    ).selectFrom("reached").select("id").where("id", "=", to).limit(1).executeTakeFirst();
    return found !== undefined;
  }
}

function sidesOf({ tenantId, taskId, kind, otherId }: Relation): [Relation, Relation] {
  return [{ tenantId, taskId, kind, otherId }, { tenantId, taskId: otherId, kind: INVERSE[kind], otherId: taskId }];
}
