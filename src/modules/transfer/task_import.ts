// Tasks of an archive: those that are missing come in, some at a time, under the ids that are free for them.
import type { z } from "@zod/zod";
import { nextTurn } from "@/core/clock.ts";
import type { CarriedActivity, CarriedTask, TaskCarrier } from "@/modules/task/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { Brought, partOf } from "./brought.ts";
import { CarriedStore } from "./carried/store.ts";
import type { Ref, Refs } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { hereOf, idsOf } from "./places.ts";
import { type Here, readAs, type Section } from "./section.ts";
import { TransferStore, type TransferTables } from "./store.ts";
import { ActivityLine, BoardLine, RelationLine, TaskLine } from "./task_line.ts";

const BATCH = 100;
/** Longer texts do not wait for others. */
const WAITING_MAX_UNITS = 1024 * 1024;

type Tx = Transaction<TransferTables>;
type Task = { where: string; line: z.output<typeof TaskLine> };
type Activity = { where: string; line: z.output<typeof ActivityLine> };
type Relation = { where: string; line: z.output<typeof RelationLine> };

export class TaskImport implements Section {
  readonly types = ["task_board", "task", "task_activity", "task_relation"];
  readonly #importer: Importer;
  readonly #refs: Refs;
  readonly #carrier: TaskCarrier;
  readonly #tenantId: string;
  #roomId = "";
  #tasks: Task[] = [];
  #activity: Activity[] = [];
  #relations: Relation[] = [];
  #units = 0;

  constructor(importer: Importer, refs: Refs, carrier: TaskCarrier, tenantId: string) {
    this.#importer = importer;
    this.#refs = refs;
    this.#carrier = carrier;
    this.#tenantId = tenantId;
  }

  async take(type: string, value: unknown, where: string, here: Here | undefined): Promise<void> {
    const { report } = this.#importer;
    if (type === "task_board") {
      const line = readAs(BoardLine, value, where, report);
      if (line !== undefined && this.#enter(line.roomId, where, here)) await this.#board(line, where);
    } else if (type === "task") {
      const line = readAs(TaskLine, value, where, report);
      if (line !== undefined && this.#enter(line.roomId, where, here)) await this.#task(line, where);
    } else if (type === "task_activity") {
      const line = readAs(ActivityLine, value, where, report);
      if (line !== undefined && this.#enter(line.roomId, where, here)) {
        this.#activity.push({ where, line });
        await this.#grow(JSON.stringify(line.changes).length);
      }
    } else if (type === "task_relation") {
      const line = readAs(RelationLine, value, where, report);
      if (line !== undefined && this.#enter(line.roomId, where, here)) {
        this.#relations.push({ where, line });
        await this.#grow(0);
      }
    }
  }

  async flush(): Promise<void> {
    const [tasks, activity, relations] = [this.#tasks, this.#activity, this.#relations];
    this.#tasks = [];
    this.#activity = [];
    this.#relations = [];
    this.#units = 0;
    if (tasks.length > 0) await this.#importer.write((tx) => this.#putTasks(tx, tasks));
    if (activity.length > 0) await this.#importer.write((tx) => this.#putActivity(tx, activity));
    if (relations.length > 0) await this.#importer.write((tx) => this.#putRelations(tx, relations));
    // Readers and writers of others get their turn between batches.
    if (tasks.length + activity.length + relations.length > 0) await nextTurn();
  }

  /** Whether the line is of the room that it stands in, and that is there. */
  #enter(sourceId: string, where: string, here: Here | undefined): boolean {
    if (here?.sourceId !== sourceId) this.#importer.report.skip("unknown_room", where);
    else if (here.open !== undefined) {
      this.#roomId = here.open.id;
      return true;
    }
    return false;
  }

  async #board({ prefix, lastNumber }: z.output<typeof BoardLine>, where: string): Promise<void> {
    await this.#importer.write(async (tx) => {
      const board = await this.#carrier.hold(tx, this.#tenantId, this.#roomId, prefix);
      if (board === prefix) await this.#carrier.raise(tx, this.#tenantId, this.#roomId, lastNumber);
      else this.#importer.report.skip("prefix_taken", `${where}: ${prefix}, ${board} here`);
    });
  }

  async #task(line: z.output<typeof TaskLine>, where: string): Promise<void> {
    const fault = this.#carrier.faultOf(line);
    // Rules cost time, and others wait for theirs.
    if (line.recurrence !== null) await nextTurn();
    if (fault !== undefined) return this.#importer.report.skip("invalid_record", `${where}: ${fault}`);
    this.#tasks.push({ where, line });
    await this.#grow((line.description?.length ?? 0) + JSON.stringify(line.metadata).length);
  }

  async #grow(units: number): Promise<void> {
    this.#units += units;
    const count = this.#tasks.length + this.#activity.length + this.#relations.length;
    if (count >= BATCH || this.#units >= WAITING_MAX_UNITS) await this.flush();
  }

  async #putTasks(tx: Tx, tasks: readonly Task[]): Promise<void> {
    const { report, people, now } = this.#importer;
    const drafts = await this.#missing(tx, tasks);
    if (drafts.length === 0) return;
    await people.standIn(tx, drafts.flatMap(({ draft }) => [draft.createdBy, ...draft.assigneeIds]), now);
    const [first] = drafts;
    await this.#carrier.hold(tx, this.#tenantId, this.#roomId, first?.draft.key.split("-")[0] ?? "");
    const results = await this.#carrier.put(tx, this.#tenantId, this.#roomId, drafts.map(({ draft }) => draft));
    const added = drafts.filter((_, at) => typeof results[at] === "object");
    await new Brought(tx, this.#tenantId).note(added.map(({ draft }) => partOf.task(this.#roomId, draft.id)));
    for (const [at, { where, draft }] of drafts.entries()) {
      const result = results[at];
      if (typeof result === "string") report.skip(result, `${where}: ${draft.key}`);
      if (result === undefined || typeof result === "string") continue;
      report.added.tasks++;
      for (const loss of result.losses) report.skip(loss, `${where}: ${draft.key}`);
    }
  }

  /** Tasks that are not there, with the ids of what they name here. */
  async #missing(tx: Tx, given: readonly Task[]): Promise<{ where: string; draft: CarriedTask }[]> {
    const { report } = this.#importer;
    const tasks = await new Brought(tx, this.#tenantId).fresh(
      given,
      ({ line }) => idsOf(this.#refs.task(line.id)).map((id) => partOf.task(this.#roomId, id)),
    );
    const taskRef = (id: string): Ref => this.#refs.task(id);
    const messageRef = (id: string): Ref => this.#refs.message(id, id);
    const taskIds = tasks.flatMap(({ line: { id, parentId, nextTaskId } }) => [id, parentId, nextTaskId])
      .filter((id) => id !== null);
    const messageIds = tasks.flatMap(({ line: { sourceMessageId, threadId } }) => [sourceMessageId, threadId])
      .filter((id) => id !== null);
    const store = new TransferStore(tx.db);
    const there = await new CarriedStore(tx.db).tasks(this.#tenantId, [
      ...new Set(taskIds.map(taskRef).flatMap(idsOf)),
    ]);
    const elsewhere = await store.takenElsewhere(this.#tenantId, "task", [...new Set(taskIds)]);
    const found = await store.messages(this.#tenantId, [...new Set(messageIds.map(messageRef).flatMap(idsOf))]);
    const messages = new Map(found.map((row) => [row.id, row]));
    const messagesElsewhere = await store.takenElsewhere(this.#tenantId, "message", [...new Set(messageIds)]);
    const idOf = (ref: Ref, isThere: (id: string) => boolean, taken: ReadonlySet<string>): string =>
      idsOf(ref).find(isThere) ?? (ref.own !== null && !taken.has(ref.own) ? ref.own : ref.derived);
    const taskIdOf = (id: string): string => idOf(taskRef(id), (one) => there.has(one), elsewhere);
    const missing: { where: string; draft: CarriedTask }[] = [];
    for (const { where, line } of tasks) {
      const id = taskIdOf(line.id);
      if (there.has(id)) continue;
      there.add(id);
      const root = line.threadId === null
        ? undefined
        : idsOf(messageRef(line.threadId)).map((one) => messages.get(one)).find((row) => row !== undefined);
      const isOfRoom = root?.room_id === this.#roomId && root.thread_id === null;
      if (line.threadId !== null && !isOfRoom) report.skip("thread_root_missing", `${where}: ${line.key}`);
      missing.push({
        where,
        draft: {
          ...line,
          id,
          roomId: this.#roomId,
          parentId: line.parentId === null ? null : taskIdOf(line.parentId),
          // What it names may be of a room that comes later, or be gone.
          nextTaskId: line.nextTaskId === null ? null : taskIdOf(line.nextTaskId),
          sourceMessageId: line.sourceMessageId === null
            ? null
            : idOf(messageRef(line.sourceMessageId), (one) => messages.has(one), messagesElsewhere),
          threadId: isOfRoom ? root.id : null,
          metadata: report.fitMetadata(line.metadata, `${where}: ${line.key}`),
        },
      });
    }
    return missing;
  }

  async #putActivity(tx: Tx, activity: readonly Activity[]): Promise<void> {
    const { report, people, now } = this.#importer;
    await people.standIn(tx, activity.map(({ line }) => line.actorId), now);
    const ids = await this.#here(tx, activity.map(({ line }) => line.taskId));
    const entries = activity.map(({ line: { kind: type, roomId: _roomId, taskId, ...rest } }): CarriedActivity => ({
      ...rest,
      type,
      taskId: ids.get(taskId) ?? taskId,
    }));
    const { added, unknownIds } = await this.#carrier.addActivity(tx, this.#tenantId, this.#roomId, entries);
    report.added.activities += added;
    for (const [at, { where }] of activity.entries()) {
      if (unknownIds.has(entries[at]?.taskId ?? "")) report.skip("unknown_task", where);
    }
  }

  async #putRelations(tx: Tx, relations: readonly Relation[]): Promise<void> {
    const { report, people, now } = this.#importer;
    await people.standIn(tx, relations.map(({ line }) => line.createdBy), now);
    const ids = await this.#here(tx, relations.flatMap(({ line: { taskId, otherId } }) => [taskId, otherId]));
    const here = (id: string): string => ids.get(id) ?? id;
    const all = relations.map(({ where, line }) => ({
      where,
      line: { ...line, taskId: here(line.taskId), otherId: here(line.otherId) },
    }));
    const brought = new Brought(tx, this.#tenantId);
    const part = ({ line }: Relation) => partOf.relation(this.#roomId, line);
    const fresh = await brought.fresh(all, (one) => [part(one)]);
    const results = await this.#carrier.relate(tx, this.#tenantId, fresh.map(({ line }) => line));
    await brought.note(fresh.filter((_, at) => results[at] === "added").map(part));
    for (const [at, { where }] of fresh.entries()) {
      const result = results[at];
      if (result === "added") report.added.relations++;
      else if (result === "cycle") report.skip("invalid_record", `${where}: It would lead in a circle`);
      else if (result === "unknown_task" || result === "too_many_relations") report.skip(result, where);
    }
  }

  /** Ids that tasks of the archive have here, by those that they have there. */
  async #here(tx: Tx, sourceIds: readonly string[]): Promise<Map<string, string>> {
    const refs = [...new Set(sourceIds)].map((id) => this.#refs.task(id));
    const there = await new CarriedStore(tx.db).tasks(this.#tenantId, refs.flatMap(idsOf));
    return hereOf(refs, (id) => there.has(id));
  }
}
