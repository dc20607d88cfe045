// Claims: exclusive leases of tasks.
import assert from "node:assert/strict";
import { openTaskFixture, PATH } from "./task_fixture.ts";
import { assertProblem } from "../fixtures.ts";

Deno.test("task.claim succeeds for one of many concurrent workers", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const responses = await Promise.all(
    Array.from({ length: 8 }, () => fixture.member.post(`${PATH}/${id}/claim`, { leaseSeconds: 60 })),
  );
  assert.deepEqual(responses.map(({ status }) => status).sort(), [200, ...Array(7).fill(409)]);
  for (const response of responses.filter(({ status }) => status === 409)) {
    assertProblem(response, 409, "already_claimed");
  }
  const { claim } = await fixture.read(id);
  assert.deepEqual(claim, { principalId: "member", expiresAt: "2026-03-01T12:01:00.000Z" });
});

Deno.test("a lease is extended by its token and expires", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const claim = (body: Record<string, unknown>, caller = fixture.member) => caller.post(`${PATH}/${id}/claim`, body);
  const { body: lease } = await claim({ leaseSeconds: 60 });
  fixture.gateway.clock.advance(50_000);
  const { status, body: longer } = await claim({ leaseSeconds: 60, leaseToken: lease.leaseToken });
  assert.equal(status, 200);
  assert.deepEqual([longer.leaseToken, longer.expiresAt], [lease.leaseToken, "2026-03-01T12:01:50.000Z"]);
  fixture.gateway.clock.advance(59_999);
  assertProblem(await claim({}, fixture.owner), 409, "already_claimed");
  fixture.gateway.clock.advance(1);
  assert.equal((await fixture.read(id)).claim, null);
  const { body: taken } = await claim({}, fixture.owner);
  assert.equal(taken.task.claim.principalId, "owner");
  // The first worker is refused.
  assertProblem(await claim({ leaseToken: lease.leaseToken }), 409, "already_claimed");
  assertProblem(
    await fixture.member.patch(`${PATH}/${id}`, { status: "done", leaseToken: lease.leaseToken }),
    409,
    "already_claimed",
  );
  assert.equal(
    (await fixture.owner.patch(`${PATH}/${id}`, { status: "done", leaseToken: taken.leaseToken })).status,
    200,
  );
  assert.equal((await fixture.read(id)).claim, null);
  assertProblem(await claim({}), 409, "conflict");
  for (const leaseSeconds of [29, 3601]) assertProblem(await claim({ leaseSeconds }), 422, "validation_failed");
});

Deno.test("task.release requires the lease token or a moderator", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const { body: lease } = await fixture.member.post(`${PATH}/${id}/claim`);
  const release = (caller = fixture.member, body = {}) => caller.post(`${PATH}/${id}/release`, body);
  assertProblem(await release(), 409, "already_claimed");
  assertProblem(await release(fixture.moderator, { leaseToken: "wrong" }), 409, "already_claimed");
  assert.equal((await release(fixture.member, { leaseToken: lease.leaseToken })).body.claim, null);
  assert.equal((await release()).status, 200);
  await fixture.member.post(`${PATH}/${id}/claim`);
  assert.equal((await release(fixture.moderator)).body.claim, null);
});

Deno.test("a lease token is in no other response and no event", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const { body: lease } = await fixture.member.post(`${PATH}/${id}/claim`);
  const { body: activity } = await fixture.member.get(`${PATH}/${id}/activity`);
  const all = JSON.stringify([await fixture.read(id), await fixture.readEvents(), activity]);
  assert.ok(!all.includes(lease.leaseToken));
});
