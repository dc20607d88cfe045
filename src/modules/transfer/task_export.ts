// Lines of a room's tasks: how they are numbered, each after the one it lies under, what happened to them, how they relate.
import type { TaskCarrier } from "@/modules/task/mod.ts";
import { partOf } from "./brought.ts";
import type { Telling } from "./section.ts";

/** The tasks of a room; with `isAlone` nothing of other rooms is named. */
export async function* taskLines(
  carrier: TaskCarrier,
  { tenantId, people, remember, counts }: Telling,
  roomId: string,
  isAlone: boolean,
): AsyncGenerator<unknown[]> {
  const board = await carrier.board(tenantId, roomId);
  if (board === undefined) return;
  yield [{ type: "task_board", roomId, ...board }];
  for await (const page of carrier.tasks(tenantId, roomId)) {
    if ("tasks" in page) {
      yield await people(page.tasks.flatMap(({ createdBy, assigneeIds }) => [createdBy, ...assigneeIds]));
      counts.tasks += page.tasks.length;
      remember(page.tasks.map(({ id }) => partOf.task(roomId, id)));
      yield page.tasks.map((task) => ({ type: "task", ...task }));
    } else {
      yield await people(page.activity.map(({ actorId }) => actorId));
      counts.activities += page.activity.length;
      yield page.activity.map(({ type: kind, ...rest }) => ({ type: "task_activity", roomId, kind, ...rest }));
    }
  }
  for await (const relations of carrier.relations(tenantId, roomId, isAlone)) {
    yield await people(relations.map(({ createdBy }) => createdBy));
    remember(relations.map((relation) => partOf.relation(roomId, relation)));
    counts.relations += relations.length;
    yield relations.map((relation) => ({ type: "task_relation", roomId, ...relation }));
  }
}
