// Who is notified of tasks: new assignees at once, all assignees before the due date.
import assert from "node:assert/strict";
import type { Caller } from "../harness.ts";
import { openTaskWorld, PATH } from "./task_world.ts";

async function notices(caller: Caller): Promise<[string, string | null][]> {
  const { body } = await caller.get("/v1/collaboration/notifications?kinds=task_assigned,task_due");
  return body.items.map(({ kind, title }: { kind: string; title: string | null }) => [kind, title]);
}

Deno.test("an assignee is notified, whoever assigns themselves is not", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("Fix it", { assigneeIds: ["me", "owner"] });
  assert.deepEqual(await notices(world.owner), [["task_assigned", "OPS-1 Fix it"]]);
  assert.deepEqual(await notices(world.member), []);
  await world.patch(id, { assigneeIds: ["owner", "moderator"] });
  assert.equal((await notices(world.owner)).length, 1);
  assert.equal((await notices(world.moderator)).length, 1);
});

Deno.test("assignees are reminded once, an hour before the due date that stands then", async () => {
  await using world = await openTaskWorld();
  const { gateway } = world;
  const { id } = await world.make("Fix it", { assigneeIds: ["me", "observer"], dueAt: "2026-03-01T14:00:00Z" });
  await world.make("Not mine", { dueAt: "2026-03-01T14:00:00Z" });
  const done = await world.make("Done before", { assigneeIds: ["me"], dueAt: "2026-03-01T14:00:00Z" });
  await world.patch(done.id, { status: "done" });
  await world.owner.delete(`/v1/rooms/${world.roomId}/members/observer`);
  gateway.clock.advance(59 * 60_000);
  await gateway.runJobs();
  assert.deepEqual(await notices(world.member), []);
  await world.patch(id, { dueAt: "2026-03-01T15:00:00Z" });
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.deepEqual(await notices(await gateway.as("member")), []);
  gateway.clock.advance(3_600_000);
  await gateway.runJobs();
  const member = await gateway.as("member");
  assert.deepEqual(await notices(member), [["task_due", "OPS-1 Fix it"]]);
  // Who is in the room no more is not told again, and is not shown what the task is called.
  assert.deepEqual(await notices(await gateway.as("observer")), [["task_assigned", null]]);
  await member.patch(`${PATH}/${id}`, { status: "done" });
  await member.patch(`${PATH}/${id}`, { status: "todo" });
  await gateway.runJobs();
  assert.equal((await notices(member)).length, 1);
});

Deno.test("a notification keeps no words of a task that was deleted or whose room was left", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("Fix it", { assigneeIds: ["owner", "moderator"] });
  const path = "/v1/collaboration/notifications";
  const [notice] = (await world.moderator.get(`${path}?kinds=task_assigned`)).body.items;
  assert.deepEqual([notice.title, notice.data.key], ["OPS-1 Fix it", "OPS-1"]);
  assert.equal((await world.owner.delete(`/v1/rooms/${world.roomId}/members/moderator`)).status, 204);
  const { body } = await world.moderator.patch(`${path}/${notice.id}`, { readAt: "2026-03-01T12:00:00Z" });
  assert.deepEqual([body.title, body.data, body.resource.id, body.readAt === null], [null, {}, id, false]);
  assert.deepEqual(await notices(world.moderator), [["task_assigned", null]]);
  assert.deepEqual(await notices(world.owner), [["task_assigned", "OPS-1 Fix it"]]);
  assert.equal((await world.owner.delete(`${PATH}/${id}`)).status, 204);
  assert.deepEqual(await notices(world.owner), [["task_assigned", null]]);
});
