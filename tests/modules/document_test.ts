// Documents over REST: made, moved, locked, deleted; who may do what; and what others hear of it.
import assert from "node:assert/strict";
import { DocumentWorld, PATH } from "./document_world.ts";
import { refused } from "./team.ts";

const DAY_MS = 86_400_000;

Deno.test("document.create makes a document at revision 1 that its room can read", async () => {
  await using world = await DocumentWorld.open();
  const document = await world.make("# Hello\n", { metadata: { kind: "note" } });
  assert.equal(document.revision, 1);
  assert.match(document.generation, /^gen_/);
  assert.equal(await world.text(document.id), "# Hello\n");
  const read = await world.as("observer").get(`${PATH}/${document.id}`);
  assert.deepEqual(read.body, document);
  refused(await world.as("outsider").get(`${PATH}/${document.id}`), 404, "not_found");
  const events = await world.events();
  assert.deepEqual(events.map(({ type }) => type), ["document.created"]);
  assert.equal(events[0].data.document.id, document.id);
});

Deno.test("document.create refuses what is too long, and titles of more than 200", async () => {
  await using world = await DocumentWorld.open();
  const member = world.as("member");
  const tooLong = { roomId: world.roomId, title: "x", text: "ä".repeat(524_289) };
  refused(await member.post(PATH, tooLong), 413, "payload_too_large");
  assert.equal((await member.post(PATH, { ...tooLong, text: "ä".repeat(524_288) })).status, 201);
  refused(await member.post(PATH, { roomId: world.roomId, title: "x".repeat(201) }), 422, "validation_failed");
});

Deno.test("document.list filters by room, parent, title and state, and pages", async () => {
  await using world = await DocumentWorld.open();
  const parent = await world.make("", { title: "Alpha" });
  await world.make("", { title: "Beta", parentId: parent.id });
  await world.make("", { title: "Gamma_1" });
  const titles = async (query: string): Promise<string[]> => {
    const { body } = await world.as("observer").get(`${PATH}?${query}`);
    return body.items.map((one: { title: string }) => one.title);
  };
  assert.deepEqual(await titles("sort=title"), ["Alpha", "Beta", "Gamma_1"]);
  assert.deepEqual(await titles(`roomId=${world.roomId}&parentId=root&sort=title`), ["Alpha", "Gamma_1"]);
  assert.deepEqual(await titles(`parentId=${parent.id}`), ["Beta"]);
  assert.deepEqual(await titles("q=a_1"), ["Gamma_1"]);
  await world.as("member").patch(`${PATH}/${parent.id}`, { state: "archived" });
  assert.deepEqual(await titles("state=archived"), ["Alpha"]);
  const first = await world.as("observer").get(`${PATH}?limit=1&sort=title`);
  assert.deepEqual(await titles(`limit=1&sort=title&cursor=${first.body.nextCursor}`), ["Gamma_1"]);
  assert.deepEqual((await world.as("outsider").get(PATH)).body.items, []);
  refused(await world.as("outsider").get(`${PATH}?roomId=${world.roomId}`), 404, "not_found");
});

Deno.test("document.update moves documents without ever closing a circle", async () => {
  await using world = await DocumentWorld.open();
  const a = await world.make("", { title: "a" });
  const b = await world.make("", { title: "b", parentId: a.id });
  const c = await world.make("", { title: "c", parentId: b.id });
  const move = (id: string, parentId: string | null) => world.as("member").patch(`${PATH}/${id}`, { parentId });
  refused(await move(a.id, c.id), 409, "cycle");
  refused(await move(a.id, a.id), 409, "cycle");
  assert.equal((await move(c.id, null)).body.parentId, null);
  const [left, right] = await Promise.all([move(a.id, c.id), move(c.id, b.id)]);
  assert.deepEqual([left.status, right.status].sort(), [200, 409], "one of two moves that close a circle together");
});

Deno.test("document.update refuses an old version and tells what changed", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("");
  const member = world.as("member");
  const renamed = await member.patch(`${PATH}/${id}`, { title: "New" }, { "if-match": '"1"' });
  assert.deepEqual([renamed.status, renamed.body.title, renamed.body.version], [200, "New", 2]);
  refused(await member.patch(`${PATH}/${id}`, { title: "x" }, { "if-match": '"1"' }), 412, "version_mismatch");
  refused(await world.as("observer").patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  const { data } = (await world.events()).at(-1);
  assert.deepEqual([data.changed, data.principalIds], [["title"], ["member"]]);
});

Deno.test("a document moves to another room with everything under it, and leaves the first", async () => {
  await using world = await DocumentWorld.open();
  const parent = await world.make("top", { title: "top" });
  const child = await world.make("sub", { title: "sub", parentId: parent.id });
  const { body: other } = await world.as("member").post("/v1/rooms", { name: "Other" });
  const { body: foreign } = await world.as("owner").post("/v1/rooms", { name: "Foreign" });
  const move = (roomId: string) => world.as("member").patch(`${PATH}/${parent.id}`, { roomId });
  refused(await move(foreign.id), 404, "not_found");
  assert.equal((await move(other.id)).body.roomId, other.id);
  for (const { id } of [parent, child]) {
    refused(await world.as("observer").get(`${PATH}/${id}`), 404, "not_found");
    assert.equal((await world.as("member").get(`${PATH}/${id}`)).body.roomId, other.id);
  }
  const gone = (await world.events()).filter(({ type }) => type === "document.deleted");
  assert.deepEqual(gone.map(({ data }) => [data.documentId, data.reason]), [[parent.id, "moved"], [child.id, "moved"]]);
});

Deno.test("a locked document is changed by moderators only, an archived one by nobody", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("text");
  const [member, moderator] = [world.as("member"), world.as("moderator")];
  refused(await member.patch(`${PATH}/${id}`, { locked: true }), 403, "forbidden");
  assert.equal((await moderator.patch(`${PATH}/${id}`, { locked: true })).body.locked, true);
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  refused(await member.patch(`${PATH}/${id}/content`, edit), 403, "forbidden");
  refused(await member.patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  refused(await member.delete(`${PATH}/${id}`), 403, "forbidden");
  assert.equal((await moderator.delete(`${PATH}/${id}`)).status, 204);
  refused(await member.post(`${PATH}/${id}/restore`), 403, "forbidden");
  assert.equal((await moderator.post(`${PATH}/${id}/restore`)).status, 200);
  assert.equal((await moderator.patch(`${PATH}/${id}/content`, edit)).status, 200);
  await moderator.patch(`${PATH}/${id}`, { state: "archived" });
  refused(await moderator.patch(`${PATH}/${id}/content`, { ...edit, baseRevision: 2 }), 409, "conflict");
  refused(await moderator.patch(`${PATH}/${id}`, { title: "x" }), 409, "conflict");
  assert.equal((await moderator.patch(`${PATH}/${id}`, { state: "active", title: "x" })).status, 200);
});

Deno.test("documents of an archived room are read and not written", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("text");
  await world.as("owner").patch(`/v1/rooms/${world.roomId}`, { state: "archived" });
  assert.equal(await world.text(id), "text");
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  refused(await world.as("member").patch(`${PATH}/${id}/content`, edit), 409, "room_archived");
});

Deno.test("document.delete takes what is under it along, document.restore brings it back for 30 days", async () => {
  await using world = await DocumentWorld.open();
  const parent = await world.make("one");
  const child = await world.make("two", { parentId: parent.id });
  const member = world.as("member");
  const theirs = await world.as("owner").post(PATH, { roomId: world.roomId, title: "Theirs" });
  refused(await member.delete(`${PATH}/${theirs.body.id}`), 403, "forbidden");
  assert.equal((await member.delete(`${PATH}/${parent.id}`)).status, 204);
  refused(await member.delete(`${PATH}/${parent.id}`), 404, "not_found");
  for (const { id } of [parent, child]) refused(await member.get(`${PATH}/${id}`), 404, "not_found");
  const { body: deleted } = await member.get(`${PATH}?state=deleted`);
  assert.equal(deleted.items.length, 2);
  refused(await member.post(`${PATH}/${child.id}/restore`), 409, "conflict");
  assert.equal((await member.post(`${PATH}/${parent.id}/restore`)).status, 200);
  assert.equal(await world.text(child.id), "two");

  await member.delete(`${PATH}/${parent.id}`);
  world.gateway.clock.advance(30 * DAY_MS + 1000);
  await world.gateway.runJobs();
  const later = await world.gateway.as("member");
  refused(await later.post(`${PATH}/${parent.id}/restore`), 404, "not_found");
  assert.deepEqual((await later.get(`${PATH}?state=deleted`)).body.items, []);
});

Deno.test("a private document is for those it is shared with, each as their role says", async () => {
  await using world = await DocumentWorld.open();
  const [owner, reader, other] = [world.as("owner"), world.as("member"), world.as("outsider")];
  const { body: { id, roomId } } = await owner.post(PATH, { title: "Diary", text: "secret" });
  assert.equal(roomId, null);
  refused(await reader.get(`${PATH}/${id}`), 404, "not_found");
  const share = (role: string) => owner.put(`${PATH}/${id}/access/member`, { role });
  assert.deepEqual((await share("reader")).body, { principalId: "member", role: "reader" });
  assert.equal((await reader.get(`${PATH}/${id}/content`)).body.text, "secret");
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  refused(await reader.patch(`${PATH}/${id}/content`, edit), 403, "forbidden");
  refused(await reader.put(`${PATH}/${id}/access/outsider`, { role: "reader" }), 403, "forbidden");
  await share("editor");
  assert.equal((await reader.patch(`${PATH}/${id}/content`, edit)).status, 200);
  refused(await reader.patch(`${PATH}/${id}`, { locked: true }), 403, "forbidden");
  refused(await other.get(`${PATH}/${id}`), 404, "not_found");
  assert.deepEqual((await reader.get(PATH)).body.items.map((one: { id: string }) => one.id), [id]);

  refused(await owner.delete(`${PATH}/${id}/access/me`), 409, "conflict");
  assert.equal((await reader.delete(`${PATH}/${id}/access/me`)).status, 204);
  refused(await reader.get(`${PATH}/${id}`), 404, "not_found");
  assert.equal((await owner.get(`${PATH}/${id}/access`)).body.items.length, 1);
  const heard = await world.gateway.app.store.log.read("default", "principal:member", 0, 100);
  const last = heard.findLast(({ type }) => type.startsWith("document."));
  assert.deepEqual(JSON.parse(last?.json ?? "{}").data, { documentId: id, roomId: null, reason: "unshared" });
});

Deno.test("a private document keeps an owner who is no agent: without theirs, agents own nothing", async () => {
  await using world = await DocumentWorld.open();
  const agent = await world.gateway.as("robot", { kind: "agent", owner: "member" });
  const { body: { id } } = await agent.post(PATH, { title: "Plan", text: "x" });
  const [member, other] = [world.as("member"), world.as("owner")];
  refused(await member.delete(`${PATH}/${id}/access/me`), 409, "conflict");
  refused(await member.put(`${PATH}/${id}/access/me`, { role: "reader" }), 409, "conflict");
  assert.equal((await member.put(`${PATH}/${id}/access/owner`, { role: "owner" })).status, 200);
  assert.equal((await member.delete(`${PATH}/${id}/access/me`)).status, 204);
  refused(await agent.get(`${PATH}/${id}`), 404, "not_found");
  assert.equal((await other.get(`${PATH}/${id}`)).status, 200);
});

Deno.test("an agent never sees a private document that its owner does not see", async () => {
  await using world = await DocumentWorld.open();
  const agent = await world.gateway.as("robot", { kind: "agent", owner: "member" });
  await agent.get("/v1/collaboration/me");
  const { body: { id } } = await world.as("owner").post(PATH, { title: "Plan", text: "x" });
  await world.as("owner").put(`${PATH}/${id}/access/robot`, { role: "editor" });
  refused(await agent.get(`${PATH}/${id}`), 404, "not_found");
  assert.deepEqual((await agent.get(PATH)).body.items, []);
  await world.as("owner").put(`${PATH}/${id}/access/member`, { role: "reader" });
  assert.equal((await agent.get(`${PATH}/${id}`)).status, 200);
  const edit = { baseRevision: 1, edits: [{ op: "append", text: "!" }] };
  refused(await agent.patch(`${PATH}/${id}/content`, edit), 403, "forbidden");
});

Deno.test("documents are found by title and text, by those who may read them", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("the zebra crossing");
  const { body: diary } = await world.as("owner").post(PATH, { title: "zebra", text: "mine" });
  const find = async (who: string, q: string): Promise<string[]> => {
    const { body } = await world.as(who).get(`/v1/search?q=${q}&types=document`);
    return body.results?.map((hit: { document: { id: string } }) => hit.document.id) ??
      body.items.map((hit: { document: { id: string } }) => hit.document.id);
  };
  assert.deepEqual(await find("observer", "zebra"), [id]);
  assert.deepEqual(await find("outsider", "zebra"), []);
  assert.deepEqual((await find("owner", "zebra")).sort(), [id, diary.id].sort());
  await world.edit(id, { op: "replace", find: "zebra", with: "giraffe" });
  assert.deepEqual(await find("observer", "zebra"), []);
  assert.deepEqual(await find("observer", "giraffe"), [id]);
  await world.as("member").delete(`${PATH}/${id}`);
  assert.deepEqual(await find("observer", "giraffe"), []);
});
