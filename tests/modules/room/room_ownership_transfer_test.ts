// Ownership transfer: a room whose last enabled owner is disabled gets another owner.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { pause } from "../../wait.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";

type Role = "observer" | "member" | "moderator" | "owner";

async function createTenantOwner(gateway: Harness): Promise<Caller> {
  const caller = await createCaller(gateway, "boss", { role: "owner" });
  return caller;
}

async function disable(gateway: Harness, ...ids: string[]): Promise<void> {
  const admin = await createTenantOwner(gateway);
  for (const id of ids) ok(await admin.delete(`/v1/collaboration/principals/${id}`));
  await gateway.runJobs();
}

async function enable(gateway: Harness, id: string): Promise<void> {
  ok(await (await createTenantOwner(gateway)).patch(`/v1/collaboration/principals/${id}`, { disabled: false }));
  await gateway.runJobs();
}

/** Adds members one after the other, so that the first has been there longest. */
async function addMembers(owner: Caller, roomId: string, ...members: [string, Role][]): Promise<void> {
  for (const [id, role] of members) ok(await owner.put(`/v1/rooms/${roomId}/members/${id}`, { role }));
}

async function rolesIn(gateway: Harness, roomId: string): Promise<Record<string, string>> {
  const rows = await gateway.app.store.db.selectFrom("member").select(["principal_id", "role"])
    .where("tenant_id", "=", "default").where("room_id", "=", roomId).execute();
  return Object.fromEntries(rows.map((row) => [row.principal_id, row.role]));
}

async function ownersOf(gateway: Harness, roomId: string): Promise<string[]> {
  const roles = Object.entries(await rolesIn(gateway, roomId));
  return roles.flatMap(([id, role]) => role === "owner" ? [id] : []).sort();
}

async function assertTransfersOwnership(environment: Record<string, string>): Promise<void> {
  await using gateway = await openGateway(environment);
  const { alice, mia } = await createCallers(gateway, "alice", "bob", "mia", "max");
  const roomId = await createRoom(alice, []);
  await addMembers(alice, roomId, ["bob", "member"], ["mia", "moderator"], ["max", "moderator"]);
  await disable(gateway, "alice");
  assert.deepEqual(await rolesIn(gateway, roomId), { alice: "member", bob: "member", mia: "owner", max: "moderator" });
  const updated = (await readRoomEvents(mia, roomId)).filter(({ type, data }) =>
    type === "member.updated" && data.disabled === undefined
  );
  assert.deepEqual(updated.map(({ data }) => [data.principalId, data.role, data.memberCount]), [
    ["mia", "owner", 4],
    ["alice", "member", 4],
  ]);
  const own = await gateway.app.store.log.read("default", "principal:mia", 0, 100);
  assert.equal(own.filter(({ type }) => type === "member.updated").length, 1);
  assert.equal(ok(await mia.get(`/v1/rooms/${roomId}`)).myRole, "owner");
  ok(await mia.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  // What has passed stays where it is.
  await enable(gateway, "alice");
  assert.deepEqual(await ownersOf(gateway, roomId), ["mia"]);
}

testOnEngines(
  "a room whose only owner is disabled is transferred to the moderator who joined first",
  assertTransfersOwnership,
);

testOnEngines(
  "ownership is transferred to people who may write in the room, guests last, and never to an agent",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice", "bob", "olga", "carl");
    await createCaller(gateway, "gus", { role: "guest" });
    await createCaller(gateway, "sam", { kind: "service" });
    await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
    const roomId = await createRoom(alice, []);
    await addMembers(alice, roomId, ["olga", "observer"], ["gus", "moderator"], ["sam", "moderator"]);
    await addMembers(alice, roomId, ["bob", "member"], ["robo", "moderator"], ["carl", "member"]);
    await disable(gateway, "alice");
    assert.deepEqual(await ownersOf(gateway, roomId), ["bob"]);
    await disable(gateway, "bob");
    assert.deepEqual(await ownersOf(gateway, roomId), ["carl"]);
    await disable(gateway, "carl");
    assert.deepEqual(await ownersOf(gateway, roomId), ["gus"]);
    await disable(gateway, "gus");
    assert.deepEqual(await ownersOf(gateway, roomId), ["gus"], "olga observes, and the rest are no people");
  },
);

testOnEngines(
  "a room that was left without anybody who could own it is that of the first who is enabled",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob", "carl");
    const roomId = await createRoom(alice, ["carl"]);
    await addMembers(alice, roomId, ["bob", "member"]);
    await disable(gateway, "carl", "bob", "alice");
    assert.deepEqual(await rolesIn(gateway, roomId), { alice: "owner", bob: "member", carl: "member" });
    await enable(gateway, "bob");
    assert.deepEqual(await rolesIn(gateway, roomId), { alice: "member", bob: "owner", carl: "member" });
    ok(await bob.patch(`/v1/rooms/${roomId}`, { name: "Plans" }));
    await enable(gateway, "carl");
    assert.deepEqual(await ownersOf(gateway, roomId), ["bob"]);
  },
);

Deno.test("a room with another enabled owner is not transferred; a disabled owner does not count", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "carl");
  const roomId = await createRoom(alice, ["carl"]);
  await addMembers(alice, roomId, ["bob", "owner"]);
  await disable(gateway, "alice");
  assert.deepEqual(await rolesIn(gateway, roomId), { alice: "owner", bob: "owner", carl: "member" });
  assertProblem(await bob.delete(`/v1/rooms/${roomId}/members/me`), 409, "last_owner");
  await disable(gateway, "bob");
  assert.deepEqual(await rolesIn(gateway, roomId), { alice: "owner", bob: "member", carl: "owner" });
});

Deno.test("an agent that is owner beside its disabled owner does not prevent the transfer", async () => {
  await using gateway = await openGateway();
  await createCallers(gateway, "bob", "carl");
  const robo = await gateway.as("robo", { kind: "agent", owner: "bob" });
  const { id } = ok(await robo.post("/v1/rooms", { name: "Reports", memberIds: ["carl"] }));
  await disable(gateway, "bob");
  assert.deepEqual(await rolesIn(gateway, id), { bob: "member", robo: "owner", carl: "owner" });
});

Deno.test("disabling by PATCH transfers rooms as well, and another change does not", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const admin = await createTenantOwner(gateway);
  ok(await admin.patch("/v1/collaboration/principals/alice", { displayName: "Alice", disabled: false }));
  await gateway.runJobs();
  assert.deepEqual(await ownersOf(gateway, roomId), ["alice"]);
  ok(await admin.patch("/v1/collaboration/principals/alice", { disabled: true }));
  await gateway.runJobs();
  assert.deepEqual(await ownersOf(gateway, roomId), ["bob"]);
});

testOnEngines("all rooms of an owner of many are transferred", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomIds: string[] = [];
  // Some at a time, so that none of the requests waits for very many others.
  while (roomIds.length < 230) {
    roomIds.push(...await Promise.all(Array.from({ length: 23 }, () => createRoom(alice, ["bob"]))));
  }
  const deleted = roomIds.pop() ?? "";
  ok(await alice.delete(`/v1/rooms/${deleted}`));
  await disable(gateway, "alice");
  for (const roomId of roomIds) assert.deepEqual(await ownersOf(gateway, roomId), ["bob"]);
  assert.deepEqual(await ownersOf(gateway, deleted), ["alice"], "a deleted room is on its way out");
});

testOnEngines("a principal disabled during a transfer to it ends up with none of the rooms", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await createTenantOwner(gateway);
  await createCallers(gateway, "last");
  for (let round = 0; round < 8; round++) {
    const [first, heir] = [`a${round}`, `b${round}`];
    const { [first]: owner } = await createCallers(gateway, first, heir);
    assert.ok(owner !== undefined);
    const roomIds = await Promise.all(Array.from({ length: 6 }, async () => {
      const roomId = await createRoom(owner, []);
      await addMembers(owner, roomId, [heir, "moderator"], ["last", "member"]);
      return roomId;
    }));
    ok(await admin.delete(`/v1/collaboration/principals/${first}`));
    // The first rooms are passing on by now.
    await pause(round * 2);
    ok(await admin.delete(`/v1/collaboration/principals/${heir}`));
    await gateway.runJobs();
    for (const roomId of roomIds) assert.deepEqual(await ownersOf(gateway, roomId), ["last"]);
  }
});

testOnEngines("an owner does not leave while the only other owner is being disabled", async (environment) => {
  await using gateway = await openGateway(environment);
  const admin = await createTenantOwner(gateway);
  for (let round = 0; round < 8; round++) {
    const owners = await createCallers(gateway, `a${round}`, `b${round}`, "last");
    const [a, b] = [owners[`a${round}`], owners[`b${round}`]];
    assert.ok(a !== undefined && b !== undefined);
    const roomId = await createRoom(a, ["last"]);
    await addMembers(a, roomId, [`b${round}`, "owner"]);
    await Promise.all([
      admin.delete(`/v1/collaboration/principals/a${round}`),
      b.delete(`/v1/rooms/${roomId}/members/me`),
    ]);
    await gateway.runJobs();
    const roles = await rolesIn(gateway, roomId);
    const keeper = roles[`b${round}`] === undefined ? "last" : `b${round}`;
    assert.equal(roles[keeper], "owner", JSON.stringify(roles));
  }
});

Deno.test("an abandoned room can be purged by an admin of the tenant, and no other room", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "olga");
  const abandoned = await createRoom(alice, []);
  await addMembers(alice, abandoned, ["olga", "observer"]);
  const managed = await createRoom(bob, []);
  const admin = await createTenantOwner(gateway);
  assertProblem(await admin.delete(`/v1/rooms/${abandoned}?purge=true`), 404, "not_found");
  await disable(gateway, "alice");
  assertProblem(await admin.delete(`/v1/rooms/${managed}?purge=true`), 404, "not_found");
  assertProblem(await admin.delete(`/v1/rooms/${abandoned}`), 404, "not_found");
  assertProblem(await admin.delete("/v1/rooms/room_none?purge=true"), 404, "not_found");
  assertProblem(await bob.delete(`/v1/rooms/${abandoned}?purge=true`), 403, "forbidden");
  const stranger = await gateway.as("stranger", { tenant: "other", role: "owner" });
  assertProblem(await stranger.delete(`/v1/rooms/${abandoned}?purge=true`), 404, "not_found");
  ok(await admin.delete(`/v1/rooms/${abandoned}?purge=true`));
  await gateway.runJobs();
  assert.deepEqual(await rolesIn(gateway, abandoned), {});
  assertProblem(await admin.delete(`/v1/rooms/${abandoned}?purge=true`), 404, "not_found");
});

testOnEngines(
  "who joins a room, or gets a role in it, whose owners are all disabled becomes its owner",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob", "olga");
    const joined = await createRoom(alice, [], { visibility: "public" });
    const raised = await createRoom(alice, []);
    const robot = await createCaller(gateway, "robot", { kind: "service" });
    await addMembers(alice, raised, ["olga", "observer"], ["robot", "moderator"]);
    await disable(gateway, "alice");
    assert.deepEqual(await ownersOf(gateway, raised), ["alice"]);
    ok(await bob.put(`/v1/rooms/${joined}/members/me`));
    ok(await robot.put(`/v1/rooms/${raised}/members/olga`, { role: "member" }));
    await gateway.runJobs();
    assert.deepEqual(await ownersOf(gateway, joined), ["bob"]);
    assert.deepEqual(await ownersOf(gateway, raised), ["olga"]);
  },
);
