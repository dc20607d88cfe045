// A guest of the tenant knows itself, what belongs to it, and whom it meets in rooms: nobody else is there for it.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import { type Answer, type Caller, openGateway } from "../harness.ts";
import { ask, FakeSocket } from "../transport/ws_rig.ts";
import { until } from "../wait.ts";
import { ok, people, refused, roomOf, say } from "./team.ts";

const BASE = "/v1/collaboration";
const NAME = "Carola of the Cellar";

/**
 * Alice has a public room with the guest Gus, who moderates it. Carol is in the tenant and in rooms with Alice, not with Gus.
 * Gus has an agent, robo.
 */
async function openHouse(environment: Record<string, string>) {
  const gateway = await openGateway(environment);
  const { alice, bob } = await people(gateway, "alice", "bob");
  const carol = await gateway.as("carol", { name: NAME, role: "member" });
  const gus = await gateway.as("gus", { role: "guest" });
  const robo = await gateway.as("robo", { kind: "agent", owner: "gus" });
  for (const caller of [carol, gus, robo]) ok(await caller.get(`${BASE}/me`));
  const roomId = await roomOf(alice, ["gus"], { visibility: "public" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/gus`, { role: "moderator" }));
  await roomOf(alice, ["carol"]);
  return { gateway, alice, bob, carol, gus, robo, roomId, [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose]() };
}

const read = (who: Caller, id: string): Promise<Answer> => who.get(`${BASE}/principals/${id}`);

/** Asserts whom of these somebody can read; the others are as if they were not. */
async function assertReads(who: Caller, can: readonly string[], cannot: readonly string[]): Promise<void> {
  for (const id of can) assert.equal(ok(await read(who, id)).id, id);
  for (const id of cannot) {
    const answer = await read(who, id);
    refused(answer, 404, "not_found");
    assert.equal(said(answer, id), said(await read(who, "ghost"), "ghost"));
  }
}

/** An answer without the id that was asked about, and what differs each time. */
function said({ status, body }: Answer, id: string): string {
  const text = JSON.stringify(body, (name, value) => ["requestId", "tookMs"].includes(name) ? null : value);
  return `${status} ${text.replaceAll(id, "<id>")}`;
}

onEngines("principal.read shows a guest itself, its agents, and whom it meets in a room", async (environment) => {
  await using house = await openHouse(environment);
  const { gateway, alice, carol, gus, robo, roomId } = house;
  await assertReads(gus, ["gus", "robo", "alice"], ["carol", "bob"]);
  assert.equal(ok(await read(gus, "me")).id, "gus");
  await assertReads(alice, ["gus", "robo", "carol", "bob"], []);
  // The agent knows its owner, but meets nobody in a room that only its owner is in.
  await assertReads(robo, ["robo", "gus"], ["alice", "carol"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, {}));
  await assertReads(robo, ["alice"], ["carol"]);

  // Whoever only looks into a public room is no member of it.
  ok(await carol.get(`/v1/rooms/${roomId}`));
  await assertReads(gus, [], ["carol"]);
  ok(await carol.put(`/v1/rooms/${roomId}/members/me`, {}));
  await assertReads(gus, ["carol"], []);
  await assertReads(robo, ["carol"], []);
  await say(carol, roomId, "Bye");
  ok(await carol.delete(`/v1/rooms/${roomId}/members/me`));
  await assertReads(gus, ["alice"], ["carol"]);

  // One who is disabled is a member as before; a room that is deleted brings nobody together.
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.delete(`${BASE}/principals/alice`));
  assert.equal(ok(await read(gus, "alice")).disabled, true);
  ok(await boss.patch(`${BASE}/principals/alice`, { disabled: false }));
  // It has gone to the guest meanwhile.
  await gateway.runJobs();
  ok(await gus.delete(`/v1/rooms/${roomId}`));
  await assertReads(gus, ["gus", "robo"], ["alice", "carol"]);
});

onEngines("a guest who is lowered, leaves or comes by a lesser token knows only whom it meets", async (environment) => {
  await using house = await openHouse(environment);
  const { gateway, alice, carol, roomId } = house;
  const boss = await gateway.as("boss", { role: "owner" });
  const gus = await gateway.as("gus");
  await assertReads(carol, ["alice", "bob", "gus"], []);
  const lesser = await gateway.as("carol", { role: "guest", iat: gateway.clock.now() / 1000 - 60 });
  await assertReads(lesser, ["alice", "carol"], ["gus", "bob"]);
  ok(await boss.patch(`${BASE}/principals/gus`, { role: "member" }));
  await assertReads(gus, ["carol", "bob"], []);
  ok(await boss.patch(`${BASE}/principals/gus`, { role: "guest" }));
  await assertReads(gus, ["alice"], ["carol", "bob"]);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/gus`));
  await assertReads(gus, ["gus"], ["alice", "carol"]);
  ok(await gus.get(`${BASE}/sync`));
});

Deno.test("a guest's socket welcomes it, and answers as HTTP does", async () => {
  await using house = await openHouse({});
  const socket = new FakeSocket();
  const connection = house.gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: house.gus.token } }));
  await until(() => socket.lines.length > 0);
  assert.equal(socket.lines[0].connect.data.principal.id, "gus");
  const answer = (id: number, data: unknown) =>
    ask({ socket, connection }, id, { rpc: { method: "principal.read", data } });
  assert.equal((await answer(2, { id: "alice" })).rpc.data.displayName, "alice");
  const hidden = await answer(3, { id: "carol" });
  assert.equal(hidden.error.code, 404);
  assert.deepEqual(
    JSON.stringify(hidden.error).replaceAll("carol", "ghost"),
    JSON.stringify((await answer(4, { id: "ghost" })).error),
  );
});
