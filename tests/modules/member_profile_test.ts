// A new name or picture of somebody reaches those who share a room with them, so that nobody has to ask again and again.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import { type Harness, openGateway } from "../harness.ts";
import { eventsOf, ok, people, roomOf, say } from "./team.ts";

const ME = "/v1/collaboration/me";

/** The names that a room was told of its members since they joined. */
async function toldIn(gateway: Harness, roomId: string): Promise<string[]> {
  const events = await gateway.app.store.log.read("default", `room:${roomId}`, 0, 1000);
  return events.filter(({ type }) => type === "member.updated").map(({ json }) => JSON.parse(json).data.displayName);
}

/** Does something before any job runs that it asks for. */
async function beforeJobs(gateway: Harness, work: () => Promise<unknown>): Promise<void> {
  const { jobs } = gateway.app;
  await gateway.runJobs();
  await jobs.stop();
  await work();
  jobs.start();
  await gateway.runJobs();
}

onEngines("a new name and picture are told in every room, as its members are listed", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const [before] = ok(await alice.get(`/v1/rooms/${roomId}/members`)).items.slice(1);
  assert.deepEqual([before.displayName, before.avatarFileId], ["bob", null]);
  const { seq } = (await eventsOf(alice, roomId)).at(-1) ?? assert.fail();
  ok(await bob.patch(ME, { displayName: "Bobby", avatarFileId: "file_1" }));
  await gateway.runJobs();
  const [event, ...more] = await eventsOf(alice, roomId, seq);
  assert.deepEqual(more, []);
  const { type, actor, data } = { actor: undefined, ...event };
  assert.deepEqual([type, actor], ["member.updated", null]);
  assert.deepEqual(data, {
    roomId,
    principalId: "bob",
    role: "member",
    memberCount: 2,
    kind: "human",
    displayName: "Bobby",
    avatarFileId: "file_1",
  });
  const [after] = ok(await alice.get(`/v1/rooms/${roomId}/members`)).items.slice(1);
  const { principalId: _id, roomId: _room, memberCount: _count, ...shown } = data;
  assert.deepEqual(after, { ...before, ...shown });
  assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}?include=members`)).members[1], after);
  // Bob's devices have the news on his own line already, once and not once a room.
  const own = await gateway.app.store.log.read("default", "principal:bob", 0, 100);
  assert.deepEqual(own.map((one) => one.type).slice(-1), ["principal.updated"]);
  // Whoever comes later is told of as they look by then.
  const later = await roomOf(bob, ["alice"]);
  const joined = (await eventsOf(alice, later)).filter((one) => one.type === "member.joined");
  assert.deepEqual(
    joined.map((one) => [one.data.displayName, one.data.avatarFileId]),
    [["Bobby", "file_1"], ["alice", null]],
  );
});

onEngines("what others do not see is not told, nor what stays as it was", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await people(gateway, "alice", "bob");
  const admin = await gateway.as("root", { role: "admin" });
  const roomId = await roomOf(alice, ["bob"]);
  ok(await bob.patch(ME, { timezone: "Europe/Vienna", locale: "de-AT", notificationPrefs: { mentions: false } }));
  ok(await bob.patch(ME, { displayName: "bob" }));
  ok(await admin.patch("/v1/collaboration/principals/bob", { handle: "bob" }));
  await gateway.runJobs();
  assert.deepEqual(await toldIn(gateway, roomId), []);
  ok(await admin.patch("/v1/collaboration/principals/bob", { displayName: "Robert" }));
  await gateway.runJobs();
  assert.deepEqual(await toldIn(gateway, roomId), ["Robert"]);
});

onEngines(
  "of several changes in a row the last is told; not in rooms that are left, deleted or told",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await people(gateway, "alice", "bob");
    const [stays, left, deleted, archived] = [
      await roomOf(alice, ["bob"]),
      await roomOf(alice, ["bob"]),
      await roomOf(alice, ["bob"]),
      await roomOf(alice, ["bob"]),
    ];
    ok(await alice.patch(`/v1/rooms/${archived}`, { state: "archived" }));
    const joined: string[] = [];
    await beforeJobs(gateway, async () => {
      for (const displayName of ["One", "Two", "Three"]) ok(await bob.patch(ME, { displayName }));
      ok(await bob.delete(`/v1/rooms/${left}/members/me`));
      for (const roomId of [await roomOf(alice, []), await roomOf(alice, ["bob"])]) {
        ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
        joined.push(roomId);
      }
      ok(await alice.delete(`/v1/rooms/${deleted}`));
    });
    for (const roomId of [stays, archived]) assert.deepEqual(await toldIn(gateway, roomId), ["Three"]);
    // Whoever joined meanwhile did so under the new name.
    for (const roomId of [left, deleted, ...joined]) assert.deepEqual(await toldIn(gateway, roomId), []);
    const job = gateway.app.modules.flatMap((module) => module.jobs ?? []).find(({ kind }) => kind === "room.profile");
    const again = () => job?.run({ tenantId: "default", payload: { principalId: "bob" }, attempt: 2 });
    await Promise.all([again(), again()]);
    assert.deepEqual(await toldIn(gateway, stays), ["Three"]);
    // Two runs that meet tell each room once, and of the newest.
    await beforeJobs(gateway, async () => {
      ok(await bob.patch(ME, { displayName: "Four" }));
      await Promise.all([again(), again(), bob.patch(ME, { displayName: "Five" })]);
    });
    assert.deepEqual((await toldIn(gateway, stays)).at(-1), "Five");
    assert.ok([2, 3].includes((await toldIn(gateway, stays)).length));
  },
);

onEngines(
  "a member of many rooms is told of in each of them, and nobody waits for all of that",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await people(gateway, "alice", "bob");
    const rooms: string[] = [];
    for (let count = 0; count < 110; count++) rooms.push(await roomOf(alice, ["bob"]));
    ok(await bob.patch(ME, { displayName: "Known everywhere" }));
    await say(alice, rooms[0] ?? "", "meanwhile");
    const told = await gateway.app.store.db.selectFrom("event").select("seq").where("tenant_id", "=", "default")
      .where("type", "=", "member.updated").execute();
    assert.ok(told.length < rooms.length, `${told.length} rooms had to be told first`);
    await gateway.runJobs();
    for (const roomId of rooms) assert.deepEqual(await toldIn(gateway, roomId), ["Known everywhere"]);
  },
);
