// Notifications of tasks: new assignees at once, all assignees before the due date.
import assert from "node:assert/strict";
import type { Caller } from "../../harness.ts";
import { openTaskFixture, PATH } from "./task_fixture.ts";

async function readNotifications(caller: Caller): Promise<[string, string | null][]> {
  const { body } = await caller.get("/v1/collaboration/notifications?kind=task_assigned,task_due");
  return body.items.map(({ kind, title }: { kind: string; title: string | null }) => [kind, title]);
}

Deno.test("assignees are notified unless they assign themselves", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("Fix it", { assigneeIds: ["me", "owner"] });
  assert.deepEqual(await readNotifications(fixture.owner), [["task_assigned", "OPS-1 Fix it"]]);
  assert.deepEqual(await readNotifications(fixture.member), []);
  await fixture.update(id, { assigneeIds: ["owner", "moderator"] });
  assert.equal((await readNotifications(fixture.owner)).length, 1);
  assert.equal((await readNotifications(fixture.moderator)).length, 1);
});

Deno.test("assignees are reminded once, an hour before the current due date", async () => {
  await using fixture = await openTaskFixture();
  const { gateway } = fixture;
  const { id } = await fixture.create("Fix it", { assigneeIds: ["me", "observer"], dueAt: "2026-03-01T14:00:00Z" });
  await fixture.create("Not mine", { dueAt: "2026-03-01T14:00:00Z" });
  const done = await fixture.create("Done before", { assigneeIds: ["me"], dueAt: "2026-03-01T14:00:00Z" });
  await fixture.update(done.id, { status: "done" });
  await fixture.owner.delete(`/v1/rooms/${fixture.roomId}/members/observer`);
  gateway.clock.advance(59 * 60_000);
  await gateway.runJobs();
  assert.deepEqual(await readNotifications(fixture.member), []);
  await fixture.update(id, { dueAt: "2026-03-01T15:00:00Z" });
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.deepEqual(await readNotifications(await gateway.as("member")), []);
  gateway.clock.advance(3_600_000);
  await gateway.runJobs();
  const member = await gateway.as("member");
  assert.deepEqual(await readNotifications(member), [["task_due", "OPS-1 Fix it"]]);
  // A former member is not reminded, and the title is redacted.
  assert.deepEqual(await readNotifications(await gateway.as("observer")), [["task_assigned", null]]);
  await member.patch(`${PATH}/${id}`, { status: "done" });
  await member.patch(`${PATH}/${id}`, { status: "todo" });
  await gateway.runJobs();
  assert.equal((await readNotifications(member)).length, 1);
});

Deno.test("notifications are redacted when the task is deleted or the recipient leaves the room", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("Fix it", { assigneeIds: ["owner", "moderator"] });
  const path = "/v1/collaboration/notifications";
  const [notice] = (await fixture.moderator.get(`${path}?kind=task_assigned`)).body.items;
  assert.deepEqual([notice.title, notice.data.key], ["OPS-1 Fix it", "OPS-1"]);
  assert.equal((await fixture.owner.delete(`/v1/rooms/${fixture.roomId}/members/moderator`)).status, 204);
  const { body } = await fixture.moderator.patch(`${path}/${notice.id}`, { readAt: "2026-03-01T12:00:00Z" });
  assert.deepEqual([body.title, body.data, body.resource.id, body.readAt === null], [null, {}, id, false]);
  assert.deepEqual(await readNotifications(fixture.moderator), [["task_assigned", null]]);
  assert.deepEqual(await readNotifications(fixture.owner), [["task_assigned", "OPS-1 Fix it"]]);
  assert.equal((await fixture.owner.delete(`${PATH}/${id}`)).status, 204);
  assert.deepEqual(await readNotifications(fixture.owner), [["task_assigned", null]]);
});
