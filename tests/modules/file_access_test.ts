// Who may read a file, from its upload over the messages that show it to its end.
import assert from "node:assert/strict";
import type { Caller, Harness } from "../harness.ts";
import { download, FILES, filesIn, openFileGateway, png, upload } from "./file_rig.ts";
import { eventsOf, ok, people, refused, roomOf, say } from "./team.ts";

const HOUR_MS = 3_600_000;

async function uploaded(gateway: Harness, who: Caller, more: Record<string, string> = {}): Promise<string> {
  return ok(await upload(gateway, who, { name: "plan.txt", ...more }, "the plan")).id;
}

async function assertReads(gateway: Harness, who: Caller, id: string, status: number): Promise<void> {
  assert.equal((await who.get(`${FILES}/${id}`)).status, status);
  const content = await download(gateway, who, id);
  assert.equal(content.status, status);
  if (status === 200) assert.equal(new TextDecoder().decode(content.bytes), "the plan");
}

Deno.test("a file is its uploader's alone until a message shows it to the members of a room", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob, eve } = await people(gateway, "alice", "bob", "eve");
  const roomId = await roomOf(alice, ["bob"]);
  const id = await uploaded(gateway, alice);
  await assertReads(gateway, alice, id, 200);
  for (const who of [bob, eve]) await assertReads(gateway, who, id, 404);
  const message = ok(await alice.post("/v1/messages", { roomId, fileIds: [id] }));
  assert.deepEqual([message.type, message.text], ["file", ""]);
  assert.deepEqual(message.files, [
    { id, name: "plan.txt", contentType: "text/plain", size: 8, width: null, height: null },
  ]);
  await assertReads(gateway, bob, id, 200);
  await assertReads(gateway, eve, id, 404);
  const stranger = await gateway.as("alice", { tenant: "elsewhere", role: "owner" });
  await assertReads(gateway, stranger, id, 404);
  refused(await stranger.delete(`${FILES}/${id}`), 404, "not_found");
  assert.equal(ok(await bob.get(`${FILES}/${id}`)).state, "linked");
  assert.deepEqual(ok(await bob.get(`${FILES}?roomId=${roomId}`)).items.map((file: { id: string }) => file.id), [id]);
  assert.deepEqual(ok(await bob.get(FILES)).items, []);
  refused(await eve.get(`${FILES}?roomId=${roomId}`), 404, "not_found");
  const created = (await eventsOf(bob, roomId)).find((event) => event.type === "message.created");
  assert.deepEqual(created?.data.message.files, message.files);
});

Deno.test("who has left the room no longer reads its files, and reads them again when back", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const id = await uploaded(gateway, alice);
  await say(alice, roomId, "look", { fileIds: [id] });
  await assertReads(gateway, bob, id, 200);
  await alice.delete(`/v1/rooms/${roomId}/members/bob`);
  await assertReads(gateway, bob, id, 404);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await assertReads(gateway, bob, id, 200);
  assert.equal((await alice.delete(`/v1/rooms/${roomId}`)).status, 204);
  await assertReads(gateway, bob, id, 404);
});

Deno.test("who has left a room deletes nothing that it shows, but what only a message for later holds", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const own = await roomOf(bob, []);
  const id = await uploaded(gateway, bob);
  const later = await uploaded(gateway, bob);
  for (const place of [roomId, own]) await say(bob, place, "look", { fileIds: [id] });
  ok(await bob.post("/v1/messages", { roomId, fileIds: [later], sendAt: "2026-03-01T18:00:00Z" }));
  await alice.delete(`/v1/rooms/${roomId}/members/bob`);
  refused(await bob.delete(`${FILES}/${id}`), 403, "forbidden");
  await assertReads(gateway, alice, id, 200);
  assert.equal((await bob.delete(`${FILES}/${later}`)).status, 204);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  assert.equal((await bob.delete(`${FILES}/${id}`)).status, 204);
  await assertReads(gateway, alice, id, 410);
});

Deno.test("files from before one joined stay hidden where history does", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, [], { historyVisibility: "joined" });
  const [early, late] = [await uploaded(gateway, alice), await uploaded(gateway, alice)];
  await say(alice, roomId, "before", { fileIds: [early] });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await say(alice, roomId, "after", { fileIds: [late] });
  await assertReads(gateway, bob, early, 404);
  await assertReads(gateway, bob, late, 200);
  assert.deepEqual(ok(await bob.get(`${FILES}?roomId=${roomId}`)).items.map((file: { id: string }) => file.id), [late]);
  await say(alice, roomId, "again", { fileIds: [early] });
  await assertReads(gateway, bob, early, 200);
});

Deno.test("message.send refuses files that are not the sender's, not there, not for the room, or too many", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const [roomId, otherId] = [await roomOf(alice, ["bob"]), await roomOf(alice, [])];
  const [mine, theirs] = [await uploaded(gateway, alice), await uploaded(gateway, bob)];
  const bound = await uploaded(gateway, alice, { roomId: otherId });
  refused(await upload(gateway, bob, { name: "x", roomId: otherId }, "x"), 404, "not_found");
  for (const fileId of [theirs, bound, "file_none"]) {
    const answer = await alice.post("/v1/messages", { roomId, text: "x", fileIds: [mine, fileId] });
    refused(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].pointer, "/fileIds/1");
  }
  const many = await Promise.all(Array.from({ length: 11 }, () => uploaded(gateway, alice)));
  for (
    const body of [{ fileIds: many }, { fileIds: [mine, mine] }, { fileIds: [] }, {}, { text: "" }, {
      type: "file",
      text: "no file",
    }]
  ) {
    refused(await alice.post("/v1/messages", { roomId, ...body }), 422, "validation_failed");
  }
  assert.equal(ok(await alice.get(`${FILES}/${mine}`)).state, "unlinked");
  // The empty text is what the document gives as the default, and there are clients that send defaults.
  const sent = ok(await alice.post("/v1/messages", { roomId, text: "", fileIds: many.slice(0, 10) }));
  assert.deepEqual([sent.files.length, sent.type], [10, "file"]);
  refused(await alice.patch(`/v1/messages/${sent.id}`, { text: "" }), 422, "validation_failed");
  await say(alice, otherId, "bound", { fileIds: [bound] });
});

Deno.test("a repeated send with the same files is one message, with other files a conflict", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const roomId = await roomOf(alice, []);
  const [one, two] = [await uploaded(gateway, alice), await uploaded(gateway, alice)];
  const send = (fileId: string) => alice.post("/v1/messages", { roomId, fileIds: [fileId], clientMessageId: "c" });
  const [first, again] = await Promise.all([send(one), send(one)]);
  assert.equal(ok(first).id, ok(again).id);
  refused(await send(two), 409, "client_message_id_conflict");
});

Deno.test("a file goes with the last message that shows it", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const id = await uploaded(gateway, alice);
  const first = await say(alice, roomId, "one", { fileIds: [id] });
  const second = await say(alice, roomId, "two", { fileIds: [id] });
  assert.equal((await alice.delete(`/v1/messages/${first.id}`)).status, 204);
  await assertReads(gateway, bob, id, 200);
  assert.equal((await alice.delete(`/v1/messages/${second.id}`)).status, 204);
  await assertReads(gateway, bob, id, 404);
  await assertReads(gateway, alice, id, 404);
  await gateway.runJobs();
  assert.deepEqual(await filesIn(folder), []);
});

Deno.test("file.delete ends the content for everybody: 410 where it is shown, 404 where it is not", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const admin = await gateway.as("root", { role: "admin" });
  const roomId = await roomOf(alice, ["bob"]);
  const [shown, loose] = [await uploaded(gateway, alice), await uploaded(gateway, alice)];
  const message = await say(alice, roomId, "look", { fileIds: [shown] });
  refused(await bob.delete(`${FILES}/${shown}`), 403, "forbidden");
  refused(await admin.delete(`${FILES}/${shown}`), 404, "not_found");
  for (const id of [shown, loose]) assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  for (const id of [shown, loose]) refused(await alice.delete(`${FILES}/${id}`), 404, "not_found");
  await assertReads(gateway, bob, shown, 410);
  await assertReads(gateway, alice, loose, 404);
  assert.equal(ok(await bob.get(`/v1/messages/${message.id}`)).files[0].name, "plan.txt");
  assert.deepEqual((await eventsOf(bob, roomId)).at(-1)?.data, { fileId: shown });
  assert.deepEqual(ok(await bob.get(`${FILES}?roomId=${roomId}`)).items, []);
  refused(await alice.post("/v1/messages", { roomId, fileIds: [shown] }), 422, "validation_failed");
  await gateway.runJobs();
  assert.deepEqual(await filesIn(folder), []);
  assert.equal((await alice.delete(`/v1/messages/${message.id}`)).status, 204);
  await assertReads(gateway, bob, shown, 404);
});

Deno.test("what nothing shows is purged after a day; pictures of principals and messages for later are not", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const [loose, shown, later] = [
    await uploaded(gateway, alice),
    await uploaded(gateway, alice),
    await uploaded(gateway, alice),
  ];
  await say(alice, roomId, "look", { fileIds: [shown] });
  const sendAt = new Date(gateway.clock.now() + 48 * HOUR_MS).toISOString();
  const scheduled = await alice.post("/v1/messages", { roomId, fileIds: [later], sendAt });
  assert.equal(scheduled.status, 202, JSON.stringify(scheduled.body));
  assert.deepEqual(scheduled.body.message.fileIds, [later]);
  const avatar = ok(await upload(gateway, alice, { name: "me.png" }, png(64, 64))).id;
  ok(await alice.patch("/v1/collaboration/me", { avatarFileId: avatar }));
  await gateway.runJobs();
  gateway.clock.advance(23 * HOUR_MS);
  await gateway.runJobs();
  const fresh = await gateway.as("alice", {});
  await assertReads(gateway, fresh, loose, 200);
  gateway.clock.advance(3 * HOUR_MS);
  await gateway.runJobs();
  const [alice2, bob2] = [await gateway.as("alice"), await gateway.as("bob")];
  await assertReads(gateway, alice2, loose, 404);
  await assertReads(gateway, bob2, shown, 200);
  await assertReads(gateway, bob2, later, 404);
  assert.equal((await bob2.get(`${FILES}/${avatar}`)).status, 200);
  gateway.clock.advance(30 * HOUR_MS);
  await gateway.runJobs();
  await assertReads(gateway, await gateway.as("bob"), later, 200);
  assert.equal((await filesIn(folder)).length, 3);
});

Deno.test("cancelling a message for later takes its files with it", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { alice } = await people(gateway, "alice");
  const roomId = await roomOf(alice, []);
  const id = await uploaded(gateway, alice);
  const sendAt = new Date(gateway.clock.now() + HOUR_MS).toISOString();
  const scheduled = ok(await alice.post("/v1/messages", { roomId, text: "x", fileIds: [id], sendAt }));
  assert.equal((await alice.delete(`/v1/messages/scheduled/${scheduled.id}`)).status, 204);
  await assertReads(gateway, alice, id, 404);
  await gateway.runJobs();
  assert.deepEqual(await filesIn(folder), []);
});

Deno.test("naming another's file as one's picture gives nobody a right to it", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, eve } = await people(gateway, "alice", "eve");
  const id = await uploaded(gateway, alice);
  await eve.patch("/v1/collaboration/me", { avatarFileId: id });
  await assertReads(gateway, eve, id, 404);
});

Deno.test("a purged room takes its files with it, but not those shown elsewhere", async () => {
  await using rig = await openFileGateway();
  const { gateway, folder } = rig;
  const { bob } = await people(gateway, "bob");
  const admin = await gateway.as("root", { role: "admin" });
  await admin.get("/v1/collaboration/me");
  const [roomId, otherId] = [await roomOf(admin, ["bob"]), await roomOf(admin, ["bob"])];
  const [here, both, meant] = [
    await uploaded(gateway, bob),
    await uploaded(gateway, bob),
    await uploaded(gateway, bob, { roomId }),
  ];
  const gone = await say(bob, roomId, "x", { fileIds: [here] });
  assert.equal((await bob.delete(`/v1/messages/${gone.id}`)).status, 204);
  await say(bob, roomId, "x", { fileIds: [both] });
  await say(bob, otherId, "y", { fileIds: [both] });
  assert.equal((await admin.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
  await gateway.runJobs();
  for (const id of [here, meant]) await assertReads(gateway, bob, id, 404);
  await assertReads(gateway, admin, both, 200);
  assert.equal((await filesIn(folder)).length, 1);
});

Deno.test("an archived room shows its files and takes no new ones", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const id = await uploaded(gateway, alice);
  await say(alice, roomId, "x", { fileIds: [id] });
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  await assertReads(gateway, bob, id, 200);
  refused(await upload(gateway, bob, { name: "x", roomId }, "x"), 409, "room_archived");
});

Deno.test("an agent reads the files of a room only as long as its owner does", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const agent = await gateway.as("bot", { kind: "agent", owner: "bob" });
  ok(await agent.get("/v1/collaboration/me"));
  ok(await alice.put(`/v1/rooms/${roomId}/members/bot`));
  const id = await uploaded(gateway, alice);
  await say(alice, roomId, "x", { fileIds: [id] });
  await assertReads(gateway, agent, id, 200);
  assert.equal((await bob.delete(`/v1/rooms/${roomId}/members/me`)).status, 204);
  await assertReads(gateway, agent, id, 404);
});
