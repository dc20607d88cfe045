// Documents over REST: creation, moves, locks, deletion, access and events.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem, completeSearch } from "../fixtures.ts";

Deno.test("document.create creates a document at revision 1 that its room can read", async () => {
  await using fixture = await DocumentFixture.open();
  const document = await fixture.create("# Hello\n", { metadata: { kind: "note" } });
  assert.equal(document.revision, 1);
  assert.match(document.generation, /^gen_/);
  assert.equal(await fixture.readText(document.id), "# Hello\n");
  const read = await fixture.as("observer").get(`${PATH}/${document.id}`);
  assert.deepEqual(read.body, document);
  assertProblem(await fixture.as("outsider").get(`${PATH}/${document.id}`), 404, "not_found");
  const events = await fixture.readEvents();
  assert.deepEqual(events.map(({ type }) => type), ["document.created"]);
  assert.equal(events[0].data.document.id, document.id);
});

Deno.test("document.create refuses texts that are too long and titles of more than 200 characters", async () => {
  await using fixture = await DocumentFixture.open();
  const member = fixture.as("member");
  const tooLong = { roomId: fixture.roomId, title: "x", text: "ä".repeat(524_289) };
  assertProblem(await member.post(PATH, tooLong), 413, "payload_too_large");
  assert.equal((await member.post(PATH, { ...tooLong, text: "ä".repeat(524_288) })).status, 201);
  assertProblem(await member.post(PATH, { roomId: fixture.roomId, title: "x".repeat(201) }), 422, "validation_failed");
});

Deno.test("document.list filters by room, parent, title and state, and paginates", async () => {
  await using fixture = await DocumentFixture.open();
  const parent = await fixture.create("", { title: "Alpha" });
  await fixture.create("", { title: "Beta", parentId: parent.id });
  await fixture.create("", { title: "Gamma_1" });
  const titles = async (query: string): Promise<string[]> => {
    const { body } = await fixture.as("observer").get(`${PATH}?${query}`);
    return body.items.map((one: { title: string }) => one.title);
  };
  assert.deepEqual(await titles("sort=title"), ["Alpha", "Beta", "Gamma_1"]);
  assert.deepEqual(await titles(`roomId=${fixture.roomId}&parentId=root&sort=title`), ["Alpha", "Gamma_1"]);
  assert.deepEqual(await titles(`parentId=${parent.id}`), ["Beta"]);
  assert.deepEqual(await titles("q=a_1"), ["Gamma_1"]);
  await fixture.as("member").patch(`${PATH}/${parent.id}`, { state: "archived" });
  assert.deepEqual(await titles("state=archived"), ["Alpha"]);
  const first = await fixture.as("observer").get(`${PATH}?limit=1&sort=title`);
  assert.deepEqual(await titles(`limit=1&sort=title&cursor=${first.body.nextCursor}`), ["Gamma_1"]);
  assert.deepEqual((await fixture.as("outsider").get(PATH)).body.items, []);
  assertProblem(await fixture.as("outsider").get(`${PATH}?roomId=${fixture.roomId}`), 404, "not_found");
});

Deno.test("document.update moves documents and refuses cycles", async () => {
  await using fixture = await DocumentFixture.open();
  const a = await fixture.create("", { title: "a" });
  const b = await fixture.create("", { title: "b", parentId: a.id });
  const c = await fixture.create("", { title: "c", parentId: b.id });
  const move = (id: string, parentId: string | null) => fixture.as("member").patch(`${PATH}/${id}`, { parentId });
  assertProblem(await move(a.id, c.id), 409, "cycle");
  assertProblem(await move(a.id, a.id), 409, "cycle");
  assert.equal((await move(c.id, null)).body.parentId, null);
  const [left, right] = await Promise.all([move(a.id, c.id), move(c.id, b.id)]);
  assert.deepEqual([left.status, right.status].sort(), [200, 409], "one of two moves that close a circle together");
});

Deno.test("document.update refuses an old version and publishes the changes", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("");
  const member = fixture.as("member");
  const renamed = await member.patch(`${PATH}/${id}`, { title: "New" }, { "if-match": '"1"' });
  assert.deepEqual([renamed.status, renamed.body.title, renamed.body.version], [200, "New", 2]);
  assertProblem(await member.patch(`${PATH}/${id}`, { title: "x" }, { "if-match": '"1"' }), 412, "version_mismatch");
  assertProblem(await fixture.as("observer").patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  const { data } = (await fixture.readEvents()).at(-1);
  assert.deepEqual([data.changes.title, data.omitted, data.principalIds], ["New", [], ["member"]]);
});

Deno.test("document.update moves a document with its descendants to another room", async () => {
  await using fixture = await DocumentFixture.open();
  const parent = await fixture.create("top", { title: "top" });
  const child = await fixture.create("sub", { title: "sub", parentId: parent.id });
  const { body: other } = await fixture.as("member").post("/v1/rooms", { name: "Other" });
  const { body: foreign } = await fixture.as("owner").post("/v1/rooms", { name: "Foreign" });
  const move = (roomId: string) => fixture.as("member").patch(`${PATH}/${parent.id}`, { roomId });
  assertProblem(await move(foreign.id), 404, "not_found");
  assert.equal((await move(other.id)).body.roomId, other.id);
  for (const { id } of [parent, child]) {
    assertProblem(await fixture.as("observer").get(`${PATH}/${id}`), 404, "not_found");
    assert.equal((await fixture.as("member").get(`${PATH}/${id}`)).body.roomId, other.id);
  }
  const deletions = (await fixture.readEvents()).filter(({ type }) => type === "document.deleted");
  assert.deepEqual(deletions.map(({ data }) => [data.documentId, data.reason]), [[parent.id, "moved"], [
    child.id,
    "moved",
  ]]);
});

Deno.test("a locked document is changed by moderators only, and an archived one is read-only", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const [member, moderator] = [fixture.as("member"), fixture.as("moderator")];
  assertProblem(await member.patch(`${PATH}/${id}`, { locked: true }), 403, "forbidden");
  assert.equal((await moderator.patch(`${PATH}/${id}`, { locked: true })).body.locked, true);
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  assertProblem(await member.patch(`${PATH}/${id}/content`, edit), 403, "forbidden");
  assertProblem(await member.patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  assertProblem(await member.delete(`${PATH}/${id}`), 403, "forbidden");
  assert.equal((await moderator.delete(`${PATH}/${id}`)).status, 204);
  assertProblem(await member.post(`${PATH}/${id}/restore`), 403, "forbidden");
  assert.equal((await moderator.post(`${PATH}/${id}/restore`)).status, 200);
  assert.equal((await moderator.patch(`${PATH}/${id}/content`, edit)).status, 200);
  await moderator.patch(`${PATH}/${id}`, { state: "archived" });
  assertProblem(await moderator.patch(`${PATH}/${id}/content`, { ...edit, baseRevision: 2 }), 409, "conflict");
  assertProblem(await moderator.patch(`${PATH}/${id}`, { title: "x" }), 409, "conflict");
  assert.equal((await moderator.patch(`${PATH}/${id}`, { state: "active", title: "x" })).status, 200);
});

Deno.test("documents of an archived room are read-only", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  await fixture.as("owner").patch(`/v1/rooms/${fixture.roomId}`, { state: "archived" });
  assert.equal(await fixture.readText(id), "text");
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  assertProblem(await fixture.as("member").patch(`${PATH}/${id}/content`, edit), 409, "room_archived");
});

Deno.test("document.delete deletes descendants as well, document.restore restores them for 30 days", async () => {
  await using fixture = await DocumentFixture.open();
  const parent = await fixture.create("one");
  const child = await fixture.create("two", { parentId: parent.id });
  const member = fixture.as("member");
  const theirs = await fixture.as("owner").post(PATH, { roomId: fixture.roomId, title: "Theirs" });
  assertProblem(await member.delete(`${PATH}/${theirs.body.id}`), 403, "forbidden");
  assert.equal((await member.delete(`${PATH}/${parent.id}`)).status, 204);
  assertProblem(await member.delete(`${PATH}/${parent.id}`), 404, "not_found");
  for (const { id } of [parent, child]) assertProblem(await member.get(`${PATH}/${id}`), 404, "not_found");
  const { body: deleted } = await member.get(`${PATH}?state=deleted`);
  assert.equal(deleted.items.length, 2);
  assertProblem(await member.post(`${PATH}/${child.id}/restore`), 409, "conflict");
  assert.equal((await member.post(`${PATH}/${parent.id}/restore`)).status, 200);
  assert.equal(await fixture.readText(child.id), "two");

  await member.delete(`${PATH}/${parent.id}`);
  fixture.gateway.clock.advance(30 * DAY_MS + 1000);
  await fixture.gateway.runJobs();
  const later = await fixture.gateway.as("member");
  assertProblem(await later.post(`${PATH}/${parent.id}/restore`), 404, "not_found");
  assert.deepEqual((await later.get(`${PATH}?state=deleted`)).body.items, []);
});

Deno.test("a private document is accessible to its readers according to their roles", async () => {
  await using fixture = await DocumentFixture.open();
  const [owner, reader, other] = [fixture.as("owner"), fixture.as("member"), fixture.as("outsider")];
  const { body: { id, roomId } } = await owner.post(PATH, { title: "Diary", text: "secret" });
  assert.equal(roomId, null);
  assertProblem(await reader.get(`${PATH}/${id}`), 404, "not_found");
  const share = (role: string) => owner.put(`${PATH}/${id}/access/member`, { role });
  assert.deepEqual((await share("reader")).body, { principalId: "member", role: "reader" });
  assert.equal((await reader.get(`${PATH}/${id}/content`)).body.text, "secret");
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  assertProblem(await reader.patch(`${PATH}/${id}/content`, edit), 403, "forbidden");
  assertProblem(await reader.put(`${PATH}/${id}/access/outsider`, { role: "reader" }), 403, "forbidden");
  await share("editor");
  assert.equal((await reader.patch(`${PATH}/${id}/content`, edit)).status, 200);
  assertProblem(await reader.patch(`${PATH}/${id}`, { locked: true }), 403, "forbidden");
  assertProblem(await other.get(`${PATH}/${id}`), 404, "not_found");
  assert.deepEqual((await reader.get(PATH)).body.items.map((one: { id: string }) => one.id), [id]);

  assertProblem(await owner.delete(`${PATH}/${id}/access/me`), 409, "conflict");
  assert.equal((await reader.delete(`${PATH}/${id}/access/me`)).status, 204);
  assertProblem(await reader.get(`${PATH}/${id}`), 404, "not_found");
  assert.equal((await owner.get(`${PATH}/${id}/access`)).body.items.length, 1);
  const events = await fixture.gateway.app.store.log.read("default", "principal:member", 0, 100);
  const last = events.findLast(({ type }) => type.startsWith("document."));
  assert.deepEqual(JSON.parse(last?.json ?? "{}").data, { documentId: id, roomId: null, reason: "unshared" });
});

Deno.test("a private document keeps an owner who is not an agent", async () => {
  await using fixture = await DocumentFixture.open();
  const agent = await fixture.gateway.as("robot", { kind: "agent", owner: "member" });
  const { body: { id } } = await agent.post(PATH, { title: "Plan", text: "x" });
  const [member, other] = [fixture.as("member"), fixture.as("owner")];
  assertProblem(await member.delete(`${PATH}/${id}/access/me`), 409, "conflict");
  assertProblem(await member.put(`${PATH}/${id}/access/me`, { role: "reader" }), 409, "conflict");
  assert.equal((await member.put(`${PATH}/${id}/access/owner`, { role: "owner" })).status, 200);
  assert.equal((await member.delete(`${PATH}/${id}/access/me`)).status, 204);
  assertProblem(await agent.get(`${PATH}/${id}`), 404, "not_found");
  assert.equal((await other.get(`${PATH}/${id}`)).status, 200);
});

Deno.test("an agent never sees a private document that its owner does not see", async () => {
  await using fixture = await DocumentFixture.open();
  const agent = await fixture.gateway.as("robot", { kind: "agent", owner: "member" });
  await agent.get("/v1/collaboration/me");
  const { body: { id } } = await fixture.as("owner").post(PATH, { title: "Plan", text: "x" });
  await fixture.as("owner").put(`${PATH}/${id}/access/robot`, { role: "editor" });
  assertProblem(await agent.get(`${PATH}/${id}`), 404, "not_found");
  assert.deepEqual((await agent.get(PATH)).body.items, []);
  await fixture.as("owner").put(`${PATH}/${id}/access/member`, { role: "reader" });
  assert.equal((await agent.get(`${PATH}/${id}`)).status, 200);
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  assertProblem(await agent.patch(`${PATH}/${id}/content`, edit), 403, "forbidden");
});

Deno.test("search finds documents by title and text for those who may read them", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("the zebra crossing");
  const { body: diary } = await fixture.as("owner").post(PATH, { title: "zebra", text: "mine" });
  const find = async (who: string, q: string): Promise<string[]> => {
    const { items } = await completeSearch(() => fixture.as(who).get(`/v1/search?q=${q}&types=document`));
    return items.map((hit: { document: { id: string } }) => hit.document.id);
  };
  assert.deepEqual(await find("observer", "zebra"), [id]);
  assert.deepEqual(await find("outsider", "zebra"), []);
  assert.deepEqual((await find("owner", "zebra")).sort(), [id, diary.id].sort());
  await fixture.edit(id, { op: "replace", find: "zebra", with: "giraffe" });
  assert.deepEqual(await find("observer", "zebra"), []);
  assert.deepEqual(await find("observer", "giraffe"), [id]);
  await fixture.as("member").delete(`${PATH}/${id}`);
  assert.deepEqual(await find("observer", "giraffe"), []);
});
