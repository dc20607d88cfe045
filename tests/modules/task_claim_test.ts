// Claims: one worker at a time, by time and not by job.
import assert from "node:assert/strict";
import { openTaskWorld, PATH } from "./task_world.ts";
import { refused } from "./team.ts";

Deno.test("of many workers who claim a task at once, one gets it", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => world.member.post(`${PATH}/${id}/claim`, { leaseSeconds: 60 })),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)]);
  for (const answer of answers.filter(({ status }) => status === 409)) refused(answer, 409, "already_claimed");
  const { claim } = await world.read(id);
  assert.deepEqual(claim, { principalId: "member", expiresAt: "2026-03-01T12:01:00.000Z" });
});

Deno.test("a lease is prolonged by its token and ends by time", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const claim = (body: Record<string, unknown>, caller = world.member) => caller.post(`${PATH}/${id}/claim`, body);
  const { body: lease } = await claim({ leaseSeconds: 60 });
  world.gateway.clock.advance(50_000);
  const { status, body: longer } = await claim({ leaseSeconds: 60, leaseToken: lease.leaseToken });
  assert.equal(status, 200);
  assert.deepEqual([longer.leaseToken, longer.expiresAt], [lease.leaseToken, "2026-03-01T12:01:50.000Z"]);
  world.gateway.clock.advance(59_999);
  refused(await claim({}, world.owner), 409, "already_claimed");
  world.gateway.clock.advance(1);
  assert.equal((await world.read(id)).claim, null);
  const { body: taken } = await claim({}, world.owner);
  assert.equal(taken.task.claim.principalId, "owner");
  // The first worker finds out before it does harm.
  refused(await claim({ leaseToken: lease.leaseToken }), 409, "already_claimed");
  refused(
    await world.member.patch(`${PATH}/${id}`, { status: "done", leaseToken: lease.leaseToken }),
    409,
    "already_claimed",
  );
  assert.equal(
    (await world.owner.patch(`${PATH}/${id}`, { status: "done", leaseToken: taken.leaseToken })).status,
    200,
  );
  assert.equal((await world.read(id)).claim, null);
  refused(await claim({}), 409, "conflict");
  for (const leaseSeconds of [29, 3601]) refused(await claim({ leaseSeconds }), 422, "validation_failed");
});

Deno.test("a task is let go by its token, by a moderator, and by nobody else", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const { body: lease } = await world.member.post(`${PATH}/${id}/claim`);
  const release = (caller = world.member, body = {}) => caller.post(`${PATH}/${id}/release`, body);
  refused(await release(), 409, "already_claimed");
  refused(await release(world.moderator, { leaseToken: "wrong" }), 409, "already_claimed");
  assert.equal((await release(world.member, { leaseToken: lease.leaseToken })).body.claim, null);
  assert.equal((await release()).status, 200);
  await world.member.post(`${PATH}/${id}/claim`);
  assert.equal((await release(world.moderator)).body.claim, null);
});

Deno.test("the token of a lease is in no other answer and no event", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const { body: lease } = await world.member.post(`${PATH}/${id}/claim`);
  const { body: activity } = await world.member.get(`${PATH}/${id}/activity`);
  const all = JSON.stringify([await world.read(id), await world.events(), activity]);
  assert.ok(!all.includes(lease.leaseToken));
});
