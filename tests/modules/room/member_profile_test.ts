// A new name, handle or picture is published in the rooms of a principal, so that clients need not poll.
import assert from "node:assert/strict";
import { ProfileStore } from "@/modules/room/profile_store.ts";
import { testOnEngines } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { replace } from "../../replace.ts";
import { uploadPicture } from "../file/file_harness.ts";
import { createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const ME = "/v1/collaboration/me";

/** The names of members published in a room since they joined. */
async function readProfileEvents(gateway: Harness, roomId: string): Promise<string[]> {
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

testOnEngines(
  "a new name, handle and picture are published in every room, and appear in the list of members",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    const [before] = ok(await alice.get(`/v1/rooms/${roomId}/members`)).items.slice(1);
    assert.deepEqual([before.displayName, before.handle, before.avatarFileId], ["bob", null, null]);
    const { seq } = (await readRoomEvents(alice, roomId)).at(-1) ?? assert.fail();
    const avatarFileId = await uploadPicture(gateway, bob);
    ok(await bob.patch(ME, { displayName: "Bobby", handle: "bobby", avatarFileId }));
    await gateway.runJobs();
    const [event, ...more] = await readRoomEvents(alice, roomId, seq);
    assert.deepEqual(more, []);
    const { type, actor, data } = { actor: undefined, ...event };
    assert.deepEqual([type, actor], ["member.updated", null]);
    assert.deepEqual(data, {
      roomId,
      principalId: "bob",
      role: "member",
      memberCount: 2,
      kind: "human",
      handle: "bobby",
      displayName: "Bobby",
      avatarFileId,
      status: null,
      disabled: false,
    });
    const [after] = ok(await alice.get(`/v1/rooms/${roomId}/members`)).items.slice(1);
    const { principalId: _id, roomId: _room, memberCount: _count, ...shown } = data;
    assert.deepEqual(after, { ...before, ...shown });
    assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}?include=members`)).members[1], after);
    // Bob's devices have the news on his own line already, once and not once a room.
    const own = await gateway.app.store.log.read("default", "principal:bob", 0, 100);
    assert.deepEqual(own.map((one) => one.type).slice(-1), ["principal.updated"]);
    // Later members are published with their current profile.
    const later = await createRoom(bob, ["alice"]);
    const joined = (await readRoomEvents(alice, later)).filter((one) => one.type === "member.joined");
    assert.deepEqual(
      joined.map((one) => [one.data.displayName, one.data.avatarFileId]),
      [["Bobby", avatarFileId], ["alice", null]],
    );
  },
);

testOnEngines("that a member is disabled or enabled is published in every room", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice", "bob");
  const admin = await gateway.as("root", { role: "admin" });
  const roomId = await createRoom(alice, ["bob"]);
  for (const disabled of [true, false]) {
    const { seq } = (await readRoomEvents(alice, roomId)).at(-1) ?? assert.fail();
    ok(await admin.patch("/v1/collaboration/principals/bob", { disabled }));
    await gateway.runJobs();
    const events = await readRoomEvents(alice, roomId, seq);
    assert.deepEqual(events.map(({ type, data }) => [type, data.principalId, data.disabled]), [
      ["member.updated", "bob", disabled],
    ]);
    assert.equal(ok(await alice.get(`/v1/rooms/${roomId}/members`)).items[1].disabled, disabled);
  }
});

testOnEngines("private and unchanged fields are not published", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const admin = await gateway.as("root", { role: "admin" });
  const roomId = await createRoom(alice, ["bob"]);
  ok(await bob.patch(ME, { timeZone: "Europe/Vienna", locale: "de-AT", notificationPrefs: { mentions: false } }));
  ok(await bob.patch(ME, { displayName: "bob" }));
  await gateway.runJobs();
  assert.deepEqual(await readProfileEvents(gateway, roomId), []);
  ok(await admin.patch("/v1/collaboration/principals/bob", { displayName: "Robert" }));
  await gateway.runJobs();
  assert.deepEqual(await readProfileEvents(gateway, roomId), ["Robert"]);
  ok(await admin.patch("/v1/collaboration/principals/bob", { handle: "rob" }));
  await gateway.runJobs();
  assert.deepEqual(await readProfileEvents(gateway, roomId), ["Robert", "Robert"]);
});

testOnEngines(
  "of several changes the last is published; not in rooms that were left, deleted or already notified",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const [stays, left, deleted, archived] = [
      await createRoom(alice, ["bob"]),
      await createRoom(alice, ["bob"]),
      await createRoom(alice, ["bob"]),
      await createRoom(alice, ["bob"]),
    ];
    ok(await alice.patch(`/v1/rooms/${archived}`, { state: "archived" }));
    const joined: string[] = [];
    await beforeJobs(gateway, async () => {
      for (const displayName of ["One", "Two", "Three"]) ok(await bob.patch(ME, { displayName }));
      ok(await bob.delete(`/v1/rooms/${left}/members/me`));
      for (const roomId of [await createRoom(alice, []), await createRoom(alice, ["bob"])]) {
        ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
        joined.push(roomId);
      }
      ok(await alice.delete(`/v1/rooms/${deleted}`));
    });
    for (const roomId of [stays, archived]) assert.deepEqual(await readProfileEvents(gateway, roomId), ["Three"]);
    // Members who joined meanwhile have the new name already.
    for (const roomId of [left, deleted, ...joined]) assert.deepEqual(await readProfileEvents(gateway, roomId), []);
    const job = gateway.app.modules.flatMap((module) => module.jobs ?? []).find(({ kind }) => kind === "room.profile");
    const again = () => job?.run({ tenantId: "default", payload: { principalId: "bob" }, attempt: 2 });
    await Promise.all([again(), again()]);
    assert.deepEqual(await readProfileEvents(gateway, stays), ["Three"]);
    // Two concurrent runs notify each room once, with the newest profile.
    await beforeJobs(gateway, async () => {
      ok(await bob.patch(ME, { displayName: "Four" }));
      await Promise.all([again(), again(), bob.patch(ME, { displayName: "Five" })]);
    });
    assert.deepEqual((await readProfileEvents(gateway, stays)).at(-1), "Five");
    assert.ok([2, 3].includes((await readProfileEvents(gateway, stays)).length));
  },
);

testOnEngines(
  "a member of many rooms is updated in each of them, without blocking other writers",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const rooms: string[] = [];
    for (let count = 0; count < 110; count++) rooms.push(await createRoom(alice, ["bob"]));
    const { db } = gateway.app.store;
    const published = async (): Promise<number> =>
      (await db.selectFrom("event").select("seq").where("tenant_id", "=", "default")
        .where("type", "=", "member.updated").execute()).length;
    let updated = NaN;
    const { pendingRooms } = ProfileStore.prototype;
    using _replaced = replace(ProfileStore.prototype, "pendingRooms", async function (this: ProfileStore, ...page) {
      // Between the first page of rooms and the second.
      if (page[2] !== "" && Number.isNaN(updated)) {
        updated = await published();
        await sendMessage(alice, rooms[0] ?? "", "meanwhile");
      }
      return await pendingRooms.apply(this, page);
    });
    ok(await bob.patch(ME, { displayName: "Known everywhere" }));
    await gateway.runJobs();
    assert.ok(updated > 0 && updated < rooms.length, `${updated} rooms were updated first`);
    for (const roomId of rooms) assert.deepEqual(await readProfileEvents(gateway, roomId), ["Known everywhere"]);
  },
);
