// Access to files, from the upload to the deletion.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { HOUR_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { download, FILES, listFiles, pngHeader, upload } from "./file_harness.ts";
import {
  assertProblem,
  createCaller,
  createCallers,
  createRoom,
  ok,
  readRoomEvents,
  sendMessage,
} from "../fixtures.ts";

async function uploadFile(gateway: Harness, who: Caller, more: Record<string, string> = {}): Promise<string> {
  return ok(await upload(gateway, who, { name: "plan.txt", ...more }, "the plan")).id;
}

async function assertReads(gateway: Harness, who: Caller, id: string, status: number): Promise<void> {
  assert.equal((await who.get(`${FILES}/${id}`)).status, status);
  const content = await download(gateway, who, id);
  assert.equal(content.status, status);
  if (status === 200) assert.equal(new TextDecoder().decode(content.bytes), "the plan");
}

Deno.test("a file is visible to its uploader only, until a message shows it in a room", async () => {
  await using gateway = await openGateway();
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const id = await uploadFile(gateway, alice);
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
  assertProblem(await stranger.delete(`${FILES}/${id}`), 404, "not_found");
  assert.equal(ok(await bob.get(`${FILES}/${id}`)).state, "linked");
  assert.deepEqual(ok(await bob.get(`${FILES}?roomId=${roomId}`)).items.map((file: { id: string }) => file.id), [id]);
  assert.deepEqual(ok(await bob.get(FILES)).items, []);
  assertProblem(await eve.get(`${FILES}?roomId=${roomId}`), 404, "not_found");
  const created = (await readRoomEvents(bob, roomId)).find((event) => event.type === "message.created");
  assert.deepEqual(created?.data.message.files, message.files);
});

Deno.test("a member who left cannot read the room's files, and can again after joining", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const id = await uploadFile(gateway, alice);
  await sendMessage(alice, roomId, "look", { fileIds: [id] });
  await assertReads(gateway, bob, id, 200);
  await alice.delete(`/v1/rooms/${roomId}/members/bob`);
  await assertReads(gateway, bob, id, 404);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await assertReads(gateway, bob, id, 200);
  assert.equal((await alice.delete(`/v1/rooms/${roomId}`)).status, 204);
  await assertReads(gateway, bob, id, 404);
});

Deno.test("file.delete of a member who left refuses files that the room or its documents show, but not those of scheduled messages", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const own = await createRoom(bob, []);
  const id = await uploadFile(gateway, bob);
  const later = await uploadFile(gateway, bob);
  const named = await uploadFile(gateway, bob);
  ok(await bob.post("/v1/collaboration/documents", { roomId, title: "Plan", text: `${FILES}/${named}/content` }));
  for (const place of [roomId, own]) await sendMessage(bob, place, "look", { fileIds: [id] });
  ok(await bob.post("/v1/messages", { roomId, fileIds: [later], sendAt: "2026-03-01T18:00:00Z" }));
  await alice.delete(`/v1/rooms/${roomId}/members/bob`);
  for (const shown of [id, named]) {
    assertProblem(await bob.delete(`${FILES}/${shown}`), 403, "forbidden");
    await assertReads(gateway, alice, shown, 200);
  }
  assert.equal((await bob.delete(`${FILES}/${later}`)).status, 204);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  for (const shown of [id, named]) assert.equal((await bob.delete(`${FILES}/${shown}`)).status, 204);
  await assertReads(gateway, alice, id, 410);
});

Deno.test("files of hidden history are hidden", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, [], { historyVisibility: "joined" });
  const [early, late] = [await uploadFile(gateway, alice), await uploadFile(gateway, alice)];
  await sendMessage(alice, roomId, "before", { fileIds: [early] });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  await sendMessage(alice, roomId, "after", { fileIds: [late] });
  await assertReads(gateway, bob, early, 404);
  await assertReads(gateway, bob, late, 200);
  assert.deepEqual(ok(await bob.get(`${FILES}?roomId=${roomId}`)).items.map((file: { id: string }) => file.id), [late]);
  await sendMessage(alice, roomId, "again", { fileIds: [early] });
  await assertReads(gateway, bob, early, 200);
});

Deno.test("message.send refuses files of others, unknown files, files for other rooms, and too many files", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const [roomId, otherId] = [await createRoom(alice, ["bob"]), await createRoom(alice, [])];
  const [mine, theirs] = [await uploadFile(gateway, alice), await uploadFile(gateway, bob)];
  const bound = await uploadFile(gateway, alice, { roomId: otherId });
  assertProblem(await upload(gateway, bob, { name: "x", roomId: otherId }, "x"), 404, "not_found");
  for (const fileId of [theirs, bound, "file_none"]) {
    const answer = await alice.post("/v1/messages", { roomId, text: "x", fileIds: [mine, fileId] });
    assertProblem(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].pointer, "/fileIds/1");
  }
  const many = await Promise.all(Array.from({ length: 11 }, () => uploadFile(gateway, alice)));
  for (
    const body of [{ fileIds: many }, { fileIds: [mine, mine] }, { fileIds: [] }, {}, { text: "" }, {
      type: "file",
      text: "no file",
    }]
  ) {
    assertProblem(await alice.post("/v1/messages", { roomId, ...body }), 422, "validation_failed");
  }
  assert.equal(ok(await alice.get(`${FILES}/${mine}`)).state, "unlinked");
  // The empty text is what the document gives as the default, and there are clients that send defaults.
  const sent = ok(await alice.post("/v1/messages", { roomId, text: "", fileIds: many.slice(0, 10) }));
  assert.deepEqual([sent.files.length, sent.type], [10, "file"]);
  assertProblem(await alice.patch(`/v1/messages/${sent.id}`, { text: "" }), 422, "validation_failed");
  await sendMessage(alice, otherId, "bound", { fileIds: [bound] });
});

Deno.test("a repeated send with the same files returns one message, with other files a conflict", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const [one, two] = [await uploadFile(gateway, alice), await uploadFile(gateway, alice)];
  const send = (fileId: string) => alice.post("/v1/messages", { roomId, fileIds: [fileId], clientMessageId: "c" });
  const [first, again] = await Promise.all([send(one), send(one)]);
  assert.equal(ok(first).id, ok(again).id);
  assertProblem(await send(two), 409, "client_message_id_conflict");
});

Deno.test("a file is deleted with the last message that shows it", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const id = await uploadFile(gateway, alice);
  const first = await sendMessage(alice, roomId, "one", { fileIds: [id] });
  const second = await sendMessage(alice, roomId, "two", { fileIds: [id] });
  assert.equal((await alice.delete(`/v1/messages/${first.id}`)).status, 204);
  await assertReads(gateway, bob, id, 200);
  assert.equal((await alice.delete(`/v1/messages/${second.id}`)).status, 204);
  await assertReads(gateway, bob, id, 404);
  await assertReads(gateway, alice, id, 404);
  await gateway.runJobs();
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("file.delete deletes the content: 410 where a message shows it, 404 elsewhere", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const admin = await gateway.as("root", { role: "admin" });
  const roomId = await createRoom(alice, ["bob"]);
  const [shown, loose] = [await uploadFile(gateway, alice), await uploadFile(gateway, alice)];
  const message = await sendMessage(alice, roomId, "look", { fileIds: [shown] });
  assertProblem(await bob.delete(`${FILES}/${shown}`), 403, "forbidden");
  assertProblem(await admin.delete(`${FILES}/${shown}`), 404, "not_found");
  for (const id of [shown, loose]) assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  for (const id of [shown, loose]) assertProblem(await alice.delete(`${FILES}/${id}`), 404, "not_found");
  await assertReads(gateway, bob, shown, 410);
  await assertReads(gateway, alice, loose, 404);
  assert.equal(ok(await bob.get(`/v1/messages/${message.id}`)).files[0].name, "plan.txt");
  assert.deepEqual((await readRoomEvents(bob, roomId)).at(-1)?.data, { fileId: shown });
  assert.deepEqual(ok(await bob.get(`${FILES}?roomId=${roomId}`)).items, []);
  assertProblem(await alice.post("/v1/messages", { roomId, fileIds: [shown] }), 422, "validation_failed");
  await gateway.runJobs();
  assert.deepEqual(await listFiles(gateway.folder), []);
  assert.equal((await alice.delete(`/v1/messages/${message.id}`)).status, 204);
  await assertReads(gateway, bob, shown, 404);
});

Deno.test("unattached files are deleted after a day, except for avatars and files of scheduled messages", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const [loose, shown, later] = [
    await uploadFile(gateway, alice),
    await uploadFile(gateway, alice),
    await uploadFile(gateway, alice),
  ];
  await sendMessage(alice, roomId, "look", { fileIds: [shown] });
  const sendAt = new Date(gateway.clock.now() + 48 * HOUR_MS).toISOString();
  const scheduled = await alice.post("/v1/messages", { roomId, fileIds: [later], sendAt });
  assert.equal(scheduled.status, 202, JSON.stringify(scheduled.body));
  assert.deepEqual(scheduled.body.message.fileIds, [later]);
  const avatar = ok(await upload(gateway, alice, { name: "me.png" }, pngHeader(64, 64))).id;
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
  assert.equal((await listFiles(gateway.folder)).length, 3);
});

testOnEngines(
  "a file that a document names stays, and its readers may read it, until the document is purged",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
    const roomId = await createRoom(alice, ["bob"]);
    const documents = "/v1/collaboration/documents";
    const [image, linked, own, secret, hidden] = [
      await uploadFile(gateway, alice),
      await uploadFile(gateway, bob),
      await uploadFile(gateway, alice),
      await uploadFile(gateway, carol),
      await uploadFile(gateway, alice),
    ];
    await sendMessage(alice, await createRoom(alice, []), "x", { fileIds: [hidden] });
    const text = (id: string): string => `![plan](${FILES}/${id}/content)`;
    const rich = ok(await alice.post(documents, { roomId, title: "Rich", kind: "rich", text: text(image) }));
    const plain = ok(await alice.post(documents, { roomId, title: "Plain", text: "" }));
    // Live edits, which are committed together later. Bob has not uploaded the other files that he names.
    const edit = async (who: Caller, text: string): Promise<void> => {
      const doc = new Y.Doc();
      doc.getText("content").insert(0, text);
      ok(await who.post(`${documents}/${plain.id}/yjs`, Y.encodeStateAsUpdate(doc)));
    };
    await edit(alice, "by Alice");
    await edit(bob, `${text(linked)} ${text(secret)} ${text(hidden)}`);
    const mine = ok(await alice.post(documents, { title: "Mine", text: text(own) }));
    ok(await alice.put(`${documents}/${mine.id}/access/bob`, { role: "reader" }));
    for (const hours of [1, 25]) {
      gateway.clock.advance(hours * HOUR_MS);
      await gateway.runJobs();
    }
    const [alice2, bob2, carol2] = [await gateway.as("alice"), await gateway.as("bob"), await gateway.as("carol")];
    for (const id of [image, linked, own]) {
      await assertReads(gateway, alice2, id, 200);
      await assertReads(gateway, bob2, id, 200);
      await assertReads(gateway, carol2, id, 404);
    }
    await assertReads(gateway, alice2, secret, 404);
    await assertReads(gateway, alice2, hidden, 200);
    await assertReads(gateway, bob2, hidden, 404);
    // One image becomes another, whose id has a common beginning. What others named before is shown for nobody.
    const next = await uploadFile(gateway, alice2);
    const before = ok(await alice2.get(`${documents}/${plain.id}/content`));
    ok(
      await alice2.put(`${documents}/${plain.id}/content`, {
        text: before.text.replace(secret, next),
        revision: before.revision,
      }),
    );
    await assertReads(gateway, bob2, next, 200);
    await assertReads(gateway, bob2, hidden, 404);
    assert.equal((await alice2.delete(`${documents}/${mine.id}/access/bob`)).status, 204);
    await assertReads(gateway, bob2, own, 404);
    // What it named before is in its revisions.
    const { revision } = ok(await bob2.get(`${documents}/${rich.id}/content`));
    ok(await bob2.put(`${documents}/${rich.id}/content`, { text: "none", revision }));
    await assertReads(gateway, bob2, image, 200);
    assert.equal((await alice2.delete(`${FILES}/${image}`)).status, 204);
    await assertReads(gateway, bob2, image, 410);
    await assertReads(gateway, carol2, image, 404);
    assert.equal((await alice2.delete(`${documents}/${plain.id}`)).status, 204);
    gateway.clock.advance(31 * 24 * HOUR_MS);
    await gateway.runJobs();
    await assertReads(gateway, await gateway.as("bob"), linked, 404);
    assert.equal((await listFiles(gateway.folder)).length, 2, "those of the private document and of the message");
  },
);

testOnEngines(
  "a file that a task, an event or a comment names stays, for its readers, until that is deleted",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    const [tasks, events] = ["/v1/collaboration/tasks", "/v1/collaboration/calendar/events"];
    const ids = await Promise.all(Array.from({ length: 8 }, () => uploadFile(gateway, alice)));
    const [first = "", added = "", ofEvent = "", ofOccurrence = "", ofComment = "", edited = "", ...others] = ids;
    const [secret = "", personal = ""] = others;
    const text = (id: string): string => `![plan](${FILES}/${id}/content)`;
    const recurrence = { rrule: "FREQ=DAILY", anchor: "due" };
    const dueAt = "2026-03-02T12:00:00Z";
    const task = ok(await alice.post(tasks, { roomId, title: "T", description: text(first), dueAt, recurrence }));
    ok(await alice.patch(`${tasks}/${task.id}`, { description: `${text(first)} ${text(added)}` }));
    // Naming a file is no right to show it.
    const named = ok(await bob.post(tasks, { roomId, title: "T", description: text(secret), dueAt, recurrence }));
    const start = { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" };
    const bobs = { roomId, title: "E", start, rrule: "FREQ=DAILY;COUNT=4", description: text(secret) };
    const { id: meetup } = ok(await bob.post(events, bobs));
    const series = { title: "E", start, durationMinutes: 30, rrule: "FREQ=DAILY;COUNT=4" };
    const event = ok(await alice.post(events, { ...series, roomId, description: text(ofEvent) }));
    const occurrence = { scope: "this", occurrence: "2026-03-03T09:00:00" };
    ok(await alice.patch(`${events}/${event.id}`, { ...occurrence, description: text(ofOccurrence) }));
    const own = ok(
      await alice.post(events, { title: "Mine", start, durationMinutes: 30, description: text(personal) }),
    );
    const document = ok(await alice.post("/v1/collaboration/documents", { roomId, title: "D", text: "x" }));
    const comments = `/v1/collaboration/documents/${document.id}/comments`;
    const comment = ok(await alice.post(comments, { text: text(ofComment) }));
    ok(await alice.patch(`${comments}/${comment.id}`, { text: `${text(ofComment)} ${text(edited)}` }));
    // Nor is changing what somebody else has named it in, for who has that right.
    ok(await alice.patch(`${tasks}/${named.id}`, { description: `${text(secret)}!` }));
    ok(await alice.patch(`${tasks}/${named.id}`, { status: "done" }));
    ok(await alice.patch(`${events}/${meetup}`, { title: "Meetup" }));
    ok(
      await alice.patch(`${events}/${meetup}`, {
        scope: "following",
        occurrence: "2026-03-04T09:00:00",
        title: "Late",
      }),
    );
    const put = async (text: string, revision: number): Promise<number> =>
      ok(await bob.put(`/v1/collaboration/documents/${document.id}/content`, { text, revision })).revision;
    const written = await put(text(secret), document.revision);
    await put("x", written);
    ok(await alice.post(`/v1/collaboration/documents/${document.id}/revisions/${written}/restore`));
    await assertReads(gateway, bob, secret, 404);
    // Others complete the task and split the series: what they continue still shows the files.
    ok(await bob.patch(`${tasks}/${task.id}`, { status: "done" }));
    const split = { scope: "following", occurrence: "2026-03-04T09:00:00", title: "Later" };
    ok(await bob.patch(`${events}/${event.id}`, split));
    for (const hours of [1, 25]) {
      gateway.clock.advance(hours * HOUR_MS);
      await gateway.runJobs();
    }
    const [alice2, bob2, carol2] = [await gateway.as("alice"), await gateway.as("bob"), await gateway.as("carol")];
    for (const id of [first, added, ofEvent, ofOccurrence, ofComment, edited]) {
      await assertReads(gateway, alice2, id, 200);
      await assertReads(gateway, bob2, id, 200);
      await assertReads(gateway, carol2, id, 404);
    }
    await assertReads(gateway, alice2, secret, 404);
    await assertReads(gateway, alice2, personal, 200);
    await assertReads(gateway, bob2, personal, 404);

    assert.equal((await alice2.delete(`${FILES}/${ofComment}`)).status, 204);
    await assertReads(gateway, bob2, ofComment, 410);
    assert.equal((await alice2.delete(`${events}/${own.id}`)).status, 204);
    await assertReads(gateway, alice2, personal, 404);
    // The series is deleted, and its split part still shows the file.
    assert.equal((await alice2.delete(`${events}/${event.id}`)).status, 204);
    await assertReads(gateway, bob2, ofEvent, 200);
    await assertReads(gateway, bob2, ofOccurrence, 404);
    // The next task of the series shows them on.
    assert.equal((await alice2.delete(`${tasks}/${task.id}`)).status, 204);
    gateway.clock.advance(31 * 24 * HOUR_MS);
    await gateway.runJobs();
    const bob3 = await gateway.as("bob");
    for (const id of [first, added]) await assertReads(gateway, bob3, id, 200);
    const owner = await gateway.as("alice", { role: "owner" });
    assert.equal((await owner.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
    await gateway.runJobs();
    for (const id of ids) await assertReads(gateway, owner, id, 404);
    assert.deepEqual(await listFiles(gateway.folder), []);
  },
);

Deno.test("cancelling a scheduled message deletes its files", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const id = await uploadFile(gateway, alice);
  const sendAt = new Date(gateway.clock.now() + HOUR_MS).toISOString();
  const scheduled = ok(await alice.post("/v1/messages", { roomId, text: "x", fileIds: [id], sendAt }));
  assert.equal((await alice.delete(`/v1/messages/scheduled/${scheduled.id}`)).status, 204);
  await assertReads(gateway, alice, id, 404);
  await gateway.runJobs();
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("purging a room deletes its files, except for those shown elsewhere", async () => {
  await using gateway = await openGateway();
  const { bob } = await createCallers(gateway, "bob");
  const admin = await gateway.as("root", { role: "admin" });
  await admin.get("/v1/collaboration/me");
  const [roomId, otherId] = [await createRoom(admin, ["bob"]), await createRoom(admin, ["bob"])];
  const [here, both, meant] = [
    await uploadFile(gateway, bob),
    await uploadFile(gateway, bob),
    await uploadFile(gateway, bob, { roomId }),
  ];
  const gone = await sendMessage(bob, roomId, "x", { fileIds: [here] });
  assert.equal((await bob.delete(`/v1/messages/${gone.id}`)).status, 204);
  await sendMessage(bob, roomId, "x", { fileIds: [both] });
  await sendMessage(bob, otherId, "y", { fileIds: [both] });
  assert.equal((await admin.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
  await gateway.runJobs();
  for (const id of [here, meant]) await assertReads(gateway, bob, id, 404);
  await assertReads(gateway, admin, both, 200);
  assert.equal((await listFiles(gateway.folder)).length, 1);
});

Deno.test("an archived room shows its files and accepts no new ones", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const id = await uploadFile(gateway, alice);
  await sendMessage(alice, roomId, "x", { fileIds: [id] });
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  await assertReads(gateway, bob, id, 200);
  assertProblem(await upload(gateway, bob, { name: "x", roomId }, "x"), 409, "room_archived");
});

Deno.test("an agent can read the files of a room only while its owner can", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const agent = await createCaller(gateway, "bot", { kind: "agent", owner: "bob" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bot`));
  const id = await uploadFile(gateway, alice);
  await sendMessage(alice, roomId, "x", { fileIds: [id] });
  await assertReads(gateway, agent, id, 200);
  assert.equal((await bob.delete(`/v1/rooms/${roomId}/members/me`)).status, 204);
  await assertReads(gateway, agent, id, 404);
});
