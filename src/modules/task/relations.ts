// Relations between tasks. Both sides are written together. Cycles are refused as far as the caller sees their tasks.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { readerOf } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type RelationKind, RELATIONS_MAX, type Task, type TaskRelate } from "./schema.ts";
import { TaskStore } from "./store.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import { lockRelations, lockRoom, type TaskWriter } from "./writer.ts";

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

  /** Relates two tasks; an existing relation stays as it is. */
  add(context: Context, { id, kind, otherId }: TaskRelate): Promise<Task> {
    const { actor } = context;
    return this.#withBothLocked(context, id, otherId, async (tasks, task, other) => {
      if (task.id === other.id) throw new Fault("cycle", `${task.key} cannot be related to itself`);
      if (kind !== "related" && await tasks.leadsTo(actor.tenantId, kind, other.id, task.id, readerOf(actor))) {
        throw new Fault("cycle", `${other.key} already ${kind} ${task.key}, directly or through others`);
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
          throw new Fault("limit_reached", `${key} already has ${RELATIONS_MAX} relations`);
        }
      }
      return isNew;
    }, "related");
  }

  async remove(context: Context, { id, kind, otherId }: TaskRelate): Promise<void> {
    await this.#withBothLocked(context, id, otherId, async (tasks, task, other) => {
      const { tenantId } = context.actor;
      if (!await tasks.removeRelation(tenantId, task.id, kind, other.id)) {
        throw new Fault("not_found", `${task.key} has no relation ${kind} to ${other.key}`);
      }
      await tasks.removeRelation(tenantId, other.id, INVERSE[kind], task.id);
      return true;
    }, "unrelated");
  }

  /** Runs `work` with both tasks locked, in one global order, and publishes to both rooms if it changed something. */
  #withBothLocked(
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
      const find = (ref: string) => writer.require(context, ref, "live", tx);
      const [one, two] = [await find(ref), await find(otherRef)];
      await lockRelations(tx, tenantId);
      for (const roomId of [...new Set([one.row.room_id, two.row.room_id])].sort()) {
        await lockRoom(tx, tenantId, roomId);
      }
      const { row: task } = await find(one.row.id);
      const { row: other } = await find(two.row.id);
      if (!await work(tasks, task, other)) return writer.present(task);
      const saved = await writer.save(tx, context, task, task, type, ["relations"]);
      await writer.save(tx, context, other, other, type, ["relations"]);
      return writer.present(saved);
    });
  }
}
