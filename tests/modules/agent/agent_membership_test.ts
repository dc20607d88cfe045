// An agent is a member of a room only as long as its owner is.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { type FakeSocket, openPeer } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";

type AgentFixture = { gateway: Harness; alice: Caller; bob: Caller; robo: Caller; roomId: string };

/** A room of alice with bob, his agents robo and zeta, and ada's agent, whose owner is alice. */
async function openFixture(
  environment: Record<string, string>,
  more: Record<string, unknown> = {},
): Promise<AgentFixture> {
  const gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const agents = { robo: "bob", zeta: "bob", ada: "alice" };
  for (const [name, owner] of Object.entries(agents)) {
    await createCaller(gateway, name, { kind: "agent", owner });
  }
  const roomId = await createRoom(alice, ["bob", ...Object.keys(agents)], more);
  return { gateway, alice, bob, robo: await gateway.as("robo", { kind: "agent", owner: "bob" }), roomId };
}

async function memberIds(who: Caller, roomId: string): Promise<string[]> {
  const { items } = ok(await who.get(`/v1/rooms/${roomId}/members`));
  return items.map((member: { principalId: string }) => member.principalId).sort();
}

async function leftIn(who: Caller, roomId: string): Promise<unknown[]> {
  const events = (await readRoomEvents(who, roomId)).filter(({ type }) => type === "member.left");
  return events.map(({ data }) => [data.principalId, data.reason, data.memberCount]);
}

async function subscribed(gateway: Harness, who: Caller, roomId: string): Promise<FakeSocket> {
  return (await openPeer(gateway, who, `room:${roomId}`)).socket;
}

testOnEngines("agents leave a room with their owner, each with an event of its own", async (environment) => {
  const { gateway, alice, bob, robo, roomId } = await openFixture(environment);
  await using _ = gateway;
  const socket = await subscribed(gateway, robo, roomId);
  const adas = await subscribed(gateway, await gateway.as("ada", { kind: "agent", owner: "alice" }), roomId);
  ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
  assert.deepEqual(await memberIds(alice, roomId), ["ada", "alice"]);
  assert.equal(ok(await alice.get(`/v1/rooms/${roomId}`)).memberCount, 2);
  const left = await leftIn(alice, roomId);
  assert.deepEqual(left[0], ["bob", "left", 4]);
  assert.deepEqual(left.slice(1).map((event) => Array.isArray(event) && event[0]).sort(), ["robo", "zeta"]);
  assert.deepEqual(left.slice(1).map((event) => Array.isArray(event) && event.slice(1)), [["left", 3], ["left", 2]]);
  await until(
    () => socket.messages.some((line) => line.push?.unsubscribe !== undefined),
    "the end of robo's subscription",
  );
  const own = socket.messages.filter((line) => line.push?.channel === "principal:robo" && line.push.pub !== undefined);
  assert.deepEqual(own.map((line) => line.push.pub.data.type), ["member.left"]);
  assert.ok(!adas.messages.some((line) => line.push?.unsubscribe !== undefined));
  // Joining again does not add the agents.
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  assert.deepEqual(await memberIds(alice, roomId), ["ada", "alice", "bob"]);
  assertProblem(await robo.get(`/v1/rooms/${roomId}`), 404, "not_found");
});

testOnEngines("a ban removes the agents of the banned principal, without banning them", async (environment) => {
  const { gateway, alice, roomId } = await openFixture(environment);
  await using _ = gateway;
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob?ban=true`));
  assert.deepEqual(await memberIds(alice, roomId), ["ada", "alice"]);
  const left = await leftIn(alice, roomId);
  assert.deepEqual(left.map((event) => Array.isArray(event) && event[1]), ["banned", "removed", "removed"]);
  const { items } = ok(await alice.get(`/v1/rooms/${roomId}/bans`));
  assert.deepEqual(items.map((ban: { principalId: string }) => ban.principalId), ["bob"]);
});

Deno.test("agents leave a public room as well: they cannot browse it, though their owner still can", async () => {
  const { gateway, alice, bob, robo, roomId } = await openFixture({}, { visibility: "public" });
  await using _ = gateway;
  const socket = await subscribed(gateway, robo, roomId);
  ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
  assert.equal(ok(await bob.get(`/v1/rooms/${roomId}`)).myRole, null);
  assertProblem(await robo.get(`/v1/rooms/${roomId}`), 404, "not_found");
  assert.deepEqual(await memberIds(alice, roomId), ["ada", "alice"]);
  await until(
    () => socket.messages.some((line) => line.push?.unsubscribe !== undefined),
    "the end of robo's subscription",
  );
});

Deno.test("removing an agent does not remove its owner", async () => {
  const { gateway, alice, roomId } = await openFixture({});
  await using _ = gateway;
  ok(await alice.delete(`/v1/rooms/${roomId}/members/robo`));
  assert.deepEqual(await memberIds(alice, roomId), ["ada", "alice", "bob", "zeta"]);
});

Deno.test("an agent does not count as remaining owner when its owner leaves", async () => {
  const { gateway, alice, roomId } = await openFixture({});
  await using _ = gateway;
  ok(await alice.put(`/v1/rooms/${roomId}/members/ada`, { role: "owner" }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, { role: "owner" }));
  assertProblem(await alice.delete(`/v1/rooms/${roomId}/members/me`), 409, "last_owner");
  assertProblem(await alice.put(`/v1/rooms/${roomId}/members/me`, { role: "member" }), 409, "last_owner");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/me`));
});
