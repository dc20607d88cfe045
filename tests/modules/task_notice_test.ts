// Who is notified of tasks: new assignees at once, all assignees before the due date.
import assert from "node:assert/strict";
import type { Caller } from "../harness.ts";
import { openTaskWorld, PATH } from "./task_world.ts";

async function notices(caller: Caller): Promise<[string, string][]> {
  const { body } = await caller.get("/v1/collaboration/notifications?kinds=task_assigned,task_due");
  return body.items.map(({ kind, title }: { kind: string; title: string }) => [kind, title]);
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
  assert.deepEqual(await notices(await gateway.as("observer")), [["task_assigned", "OPS-1 Fix it"]]);
  await member.patch(`${PATH}/${id}`, { status: "done" });
  await member.patch(`${PATH}/${id}`, { status: "todo" });
  await gateway.runJobs();
  assert.equal((await notices(member)).length, 1);
});
