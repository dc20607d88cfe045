// Relations between tasks. Both sides are written together. Cycles are refused as far as the caller sees their tasks.
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { readerOf } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { RelationStore } from "./relation_store.ts";
import { RELATIONS_MAX, type Task, type TaskRelate } from "./schema.ts";
import type { TaskRow, TaskTables } from "./tables.ts";
import { lockRelations, lockRoom, type TaskWriter } from "./writer.ts";

type Deps = { store: Store<TaskTables>; clock: Clock; writer: TaskWriter };

export class TaskRelations {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Relates two tasks; an existing relation stays as it is. */
  add(context: Context, { id, kind, otherId }: TaskRelate): Promise<Task> {
    const { actor } = context;
    return this.#withBothLocked(context, id, otherId, async (relations, task, other) => {
      if (task.id === other.id) throw new Fault("cycle", `${task.key} cannot be related to itself`);
      if (kind !== "related" && await relations.leadsTo(actor.tenantId, kind, other.id, task.id, readerOf(actor))) {
        throw new Fault("cycle", `${other.key} already ${kind} ${task.key}, directly or through others`);
      }
      const isNew = await relations.add(
        { tenantId: actor.tenantId, taskId: task.id, kind, otherId: other.id },
        { created_by: actor.principalId, created_at: iso(this.#deps.clock.now()) },
      );
      for (const { id, key } of isNew ? [task, other] : []) {
        if (await relations.count(actor.tenantId, id) > RELATIONS_MAX) {
          throw new Fault("limit_reached", `${key} already has ${RELATIONS_MAX} relations`);
        }
      }
      return isNew;
    }, "related");
  }

  async remove(context: Context, { id, kind, otherId }: TaskRelate): Promise<void> {
    await this.#withBothLocked(context, id, otherId, async (relations, task, other) => {
      if (!await relations.remove({ tenantId: task.tenant_id, taskId: task.id, kind, otherId: other.id })) {
        throw new Fault("not_found", `${task.key} has no relation ${kind} to ${other.key}`);
      }
      return true;
    }, "unrelated");
  }

  /** Runs `work` with both tasks locked, in one global order, and publishes to both rooms if it changed something. */
  #withBothLocked(
    context: Context,
    ref: string,
    otherRef: string,
    work: (relations: RelationStore, task: TaskRow, other: TaskRow) => Promise<boolean>,
    type: "related" | "unrelated",
  ): Promise<Task> {
    const { store, writer } = this.#deps;
    const { tenantId } = context.actor;
    return store.write(async (tx) => {
      const find = (ref: string) => writer.require(context, ref, "live", tx);
      const [one, two] = [await find(ref), await find(otherRef)];
      await lockRelations(tx, tenantId);
      for (const roomId of [...new Set([one.row.room_id, two.row.room_id])].sort()) {
        await lockRoom(tx, tenantId, roomId);
      }
      const { row: task } = await find(one.row.id);
      const { row: other } = await find(two.row.id);
      if (!await work(new RelationStore(tx.db), task, other)) return writer.present(task);
      const saved = await writer.save(tx, context, task, task, type, ["relations"]);
      await writer.save(tx, context, other, other, type, ["relations"]);
      return writer.present(saved);
    });
  }
}
