// Relations between tasks: both sides are written together, and what would lead in a circle is refused.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Store } from "@/ports/store.ts";
import { lockRelations, lockRoom } from "./lock.ts";
import { type RelationKind, RELATIONS_MAX, type Task, type TaskRelate } from "./schema.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import type { TaskWriter } from "./writer.ts";

/** The same relation from the other side. */
export const INVERSE: Readonly<Record<RelationKind, RelationKind>> = {
  blocks: "blocked_by",
  blocked_by: "blocks",
  duplicates: "duplicated_by",
  duplicated_by: "duplicates",
  related: "related",
};

type Deps = { store: Store<TaskTables>; clock: Clock; writer: TaskWriter };

export class TaskRelations {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Relates two tasks; a relation that is there stays as it is. */
  add(context: Context, { id, kind, otherId }: TaskRelate): Promise<Task> {
    const { actor } = context;
    return this.#both(context, id, otherId, async (tasks, task, other) => {
      if (task.id === other.id) throw new Fault("cycle", `${task.key} cannot be related to itself`);
      if (kind !== "related" && await tasks.leadsTo(actor.tenantId, kind, other.id, task.id)) {
        throw new Fault("cycle", `${other.key} ${kind} ${task.key} already, directly or through others`);
      }
      const shared = {
        tenant_id: actor.tenantId,
        created_by: actor.principalId,
        created_at: iso(this.#deps.clock.now()),
      };
      const isNew = await tasks.addRelation([
        { ...shared, task_id: task.id, kind, other_id: other.id },
        { ...shared, task_id: other.id, kind: INVERSE[kind], other_id: task.id },
      ]);
      for (const { id, key } of isNew ? [task, other] : []) {
        if (await tasks.relationCount(actor.tenantId, id) > RELATIONS_MAX) {
          throw new Fault("limit_reached", `${key} has ${RELATIONS_MAX} relations already`);
        }
      }
      return isNew;
    }, "related");
  }

  async remove(context: Context, { id, kind, otherId }: TaskRelate): Promise<void> {
    await this.#both(context, id, otherId, async (tasks, task, other) => {
      const { tenantId } = context.actor;
      if (!await tasks.removeRelation(tenantId, task.id, kind, other.id)) {
        throw new Fault("not_found", `${task.key} does not stand in the relation ${kind} to ${other.key}`);
      }
      await tasks.removeRelation(tenantId, other.id, INVERSE[kind], task.id);
      return true;
    }, "unrelated");
  }

  /** Holds both tasks, in an order that is the same for everybody, and tells both rooms when `work` changed something. */
  #both(
    context: Context,
    ref: string,
    otherRef: string,
    work: (tasks: TaskStore, task: TaskRow, other: TaskRow) => Promise<boolean>,
    type: "related" | "unrelated",
  ): Promise<Task> {
    const { store, writer } = this.#deps;
    const { tenantId } = context.actor;
    return store.write(async (tx) => {
      const tasks = new TaskStore(tx.db);
      const seen = [await writer.find(context, ref), await writer.find(context, otherRef)];
      await lockRelations(tx, tenantId);
      for (const roomId of [...new Set(seen.map(({ row }) => row.room_id))].sort()) {
        await lockRoom(tx, tenantId, roomId);
      }
      const { row: task } = await writer.find(context, ref);
      const { row: other } = await writer.find(context, otherRef);
      if (!await work(tasks, task, other)) return writer.present(task);
      const saved = await writer.save(context, tx, task, task, type, ["relations"]);
      await writer.save(context, tx, other, other, type, ["relations"]);
      return writer.present(saved);
    });
  }
}
