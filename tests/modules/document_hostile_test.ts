// Documents against those who wish them ill: updates no editor makes, edits that explode, documents of others, and listeners
// that should not hear.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { DocumentWorld, PATH } from "./document_world.ts";
import { refused } from "./team.ts";

/** Nothing here takes so long, unless it takes forever. */
const SOON_MS = 10_000;

async function soon<Result>(work: Promise<Result>): Promise<Result> {
  const startedAt = performance.now();
  const result = await work;
  assert.ok(performance.now() - startedAt < SOON_MS, `took ${Math.round(performance.now() - startedAt)} ms`);
  return result;
}

/** A document two editors have written: clients 7 and 9. */
async function written(world: DocumentWorld): Promise<{ id: string; text: string }> {
  const { id } = await world.make("");
  const one = new Y.Doc();
  one.clientID = 7;
  one.getText("content").insert(0, "hello world");
  one.getText("content").delete(3, 2);
  const two = new Y.Doc();
  two.clientID = 9;
  Y.applyUpdate(two, Y.encodeStateAsUpdate(one));
  two.getText("content").insert(4, "XY");
  const merged = await world.merge(id, Y.encodeStateAsUpdate(two));
  assert.equal(merged.status, 200, JSON.stringify(merged.body));
  return { id, text: two.getText("content").toString() };
}

Deno.test("document.write_yjs refuses updates after which a document would not open again", async () => {
  await using world = await DocumentWorld.open();
  const { id, text } = await written(world);
  const poison = [
    "0103070584090b04f09f98804106808080808020808080808020c4070a090404f09f988001090280808080802000808080808020808080808020",
    "0201050084070802c3a9010500810501ffffffffffffff0f00",
    "02010900040107636f6e74656e7404f09f988002070b84073202c3a90a0200",
    "0203070a84090003616263040107636f6e74656e74000a020105008407000001090205640364",
    "02010500840502016102050181050c8080808008040107636f6e74656e740002050101020900",
    "0102090084060104f09f9880840700016100",
    "010305000080808080802000ffffffffffffff0f840702016102090103640500",
  ];
  for (const hex of poison) {
    const { status } = await world.merge(id, Uint8Array.fromHex(hex));
    assert.ok(status === 422 || status === 409, `${hex}: ${status}`);
    assert.equal(await world.text(id), text);
  }
  const { body } = await world.as("member").get(`${PATH}/${id}/comments`);
  assert.deepEqual(body.items, []);
});

Deno.test("document.write_yjs refuses to delete the same text over and over", async () => {
  await using world = await DocumentWorld.open();
  const { id, text } = await written(world);
  const again = [0, 1, 7, 3, 0, 2, 0, 2, 0, 2];
  refused(await world.merge(id, Uint8Array.from(again)), 422, "validation_failed");
  assert.equal(await world.text(id), text);
  assert.equal((await world.merge(id, Uint8Array.from([0, 1, 7, 2, 0, 1, 1, 1]))).status, 200, "one after the other");
});

Deno.test("document.write_yjs refuses text next to, and deletions of, what nobody wrote", async () => {
  await using world = await DocumentWorld.open();
  const { id, text } = await written(world);
  const elsewhere = new Y.Doc();
  elsewhere.clientID = 11;
  elsewhere.getText("content").insert(0, "a word");
  const before = Y.encodeStateVector(elsewhere);
  const other = new Y.Doc();
  other.clientID = 12;
  Y.applyUpdate(other, Y.encodeStateAsUpdate(elsewhere));
  other.getText("content").insert(2, "in it ");
  refused(await world.merge(id, Y.encodeStateAsUpdate(other, before)), 409, "conflict");
  elsewhere.getText("content").delete(0, 2);
  refused(await world.merge(id, Y.encodeStateAsUpdate(elsewhere, before)), 409, "conflict");
  assert.equal(await world.text(id), text);
  assert.equal((await world.merge(id, Y.encodeStateAsUpdate(other))).status, 200, "whole, it fits");
});

Deno.test("document.import finds a title in the longest line", async () => {
  await using world = await DocumentWorld.open();
  const markdown = `# ${"#".repeat(200_000)} ${" #".repeat(200_000)} x`;
  const { status } = await soon(world.as("member").post(`${PATH}/import`, { roomId: world.roomId, markdown }));
  assert.equal(status, 201);
});

Deno.test("document.content does not answer with thirty times the text, nor export with as many blocks", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a\n\n".repeat(340_000));
  const member = world.as("member");
  refused(await soon(member.get(`${PATH}/${id}/content?format=json`)), 413, "payload_too_large");
  refused(await soon(member.get(`${PATH}/${id}/export?format=html`)), 413, "payload_too_large");
  assert.equal((await member.get(`${PATH}/${id}/export`)).status, 200);
  const { id: prose } = await world.make("[".repeat(1_000_000));
  const { body } = await soon(member.get(`${PATH}/${prose}/content?format=json`));
  assert.deepEqual(body.blocks.map((block: { type: string }) => block.type), ["paragraph"]);
});

Deno.test("document.content and export count the lines that the parser sees, whatever ends them", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a\r\r".repeat(340_000));
  const member = world.as("member");
  refused(await soon(member.get(`${PATH}/${id}/content?format=json`)), 413, "payload_too_large");
  refused(await soon(member.get(`${PATH}/${id}/export?format=html`)), 413, "payload_too_large");
});

Deno.test("document.export writes no reference out until it is ten thousand times the text", async () => {
  await using world = await DocumentWorld.open();
  const html = async (text: string) => {
    const { id } = await world.make(text);
    return await soon(world.as("member").get(`${PATH}/${id}/export?format=html`));
  };
  const address = `http://example.org/${"&".repeat(10_000)}`;
  refused(await html(`[x]: ${address}\n\n${"[x] ".repeat(10_000)}`), 413, "payload_too_large");
  refused(await html(`[x]: /y "${"&".repeat(10_000)}"\n\n${"![x] ".repeat(10_000)}`), 413, "payload_too_large");
  assert.equal((await html(`[x]: ${address}\n\n${"[x] ".repeat(100)}`)).status, 200);
  assert.equal((await html(`[x](/${"ä".repeat(500_000)})`)).status, 200, "all that stands in the text");
});

Deno.test("document.export and document.content leave others their turns, whatever the parser has to read", async () => {
  await using world = await DocumentWorld.open();
  const member = world.as("member");
  const { id } = await world.make("![".repeat(250_000));
  const { id: deep } = await world.make("- > - > - > - > - > a\n".repeat(20_000));
  for (const path of [`${id}/export?format=html`, `${deep}/content?format=json`]) {
    let isOver = false;
    const reading = member.get(`${PATH}/${path}`).finally(() => isOver = true);
    for (let calls = 0; calls < 20; calls++) assert.equal((await member.get("/v1/collaboration/me")).status, 200);
    assert.equal(isOver, false, path);
    assert.equal((await reading).status, 200, path);
  }
});

Deno.test("document.edit is refused when it would be made in too many places or grow the text without end", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a".repeat(300_000));
  const edit = (...edits: unknown[]) =>
    soon(world.as("member").patch(`${PATH}/${id}/content`, { baseRevision: 1, edits }));
  refused(await edit({ op: "replace", find: "a", with: "b", occurrence: "all" }), 409, "limit_reached");
  const { id: small } = await world.make("a".repeat(2000));
  const double = { op: "replace", find: "a", with: "a".repeat(100), occurrence: "all" };
  const grown = await soon(
    world.as("member").patch(`${PATH}/${small}/content`, {
      baseRevision: 1,
      edits: Array(100).fill(double),
    }),
  );
  assert.ok(grown.status === 413 || grown.body.code === "limit_reached", JSON.stringify(grown.body));
  const append = { op: "append", text: "x".repeat(20_000) };
  refused(await edit(...Array(100).fill(append)), 413, "payload_too_large");
});

Deno.test("document.edit and comment.create look for any text in time that grows with the texts only", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a".repeat(1_000_000));
  const find = `${"a".repeat(20_000)}b${"a".repeat(20_000)}`;
  const edits = Array(20).fill({ op: "replace", find, with: "", occurrence: "first" });
  const edited = await soon(world.as("member").patch(`${PATH}/${id}/content`, { baseRevision: 1, edits }));
  refused(edited, 422, "edit_not_matched");
  const anchor = { text: `${"a".repeat(499)}b${"a".repeat(500)}` };
  const commented = await soon(world.as("member").post(`${PATH}/${id}/comments`, { text: "?", anchor }));
  refused(commented, 422, "anchor_not_found");
});

Deno.test("an agent hears nothing of a private document that its owner does not see", async () => {
  await using world = await DocumentWorld.open();
  const agent = await world.gateway.as("robot", { kind: "agent", owner: "member" });
  await agent.get("/v1/collaboration/me");
  const owner = world.as("owner");
  const { body: { id } } = await owner.post(PATH, { title: "Secret plan", text: "hush" });
  await owner.put(`${PATH}/${id}/access/robot`, { role: "editor" });
  await owner.patch(`${PATH}/${id}`, { title: "Secret plan B" });
  await owner.post(`${PATH}/${id}/comments`, { text: "hush", anchor: { text: "hush" } });
  const heard = async () => {
    const rows = await world.gateway.app.store.log.read("default", "principal:robot", 0, 100);
    return rows.filter(({ type }) => type.startsWith("document.")).map(({ type }) => type);
  };
  assert.deepEqual(await heard(), []);
  await owner.put(`${PATH}/${id}/access/member`, { role: "reader" });
  await owner.patch(`${PATH}/${id}`, { title: "Plan" });
  assert.ok((await heard()).includes("document.updated"));
  await owner.delete(`${PATH}/${id}`);
  assert.equal((await heard()).at(-1), "document.deleted");
});

Deno.test("documents of others are neither deleted nor carried off by way of a parent or another room", async () => {
  await using world = await DocumentWorld.open();
  const { body: theirs } = await world.as("owner").post(PATH, { roomId: world.roomId, title: "Theirs", text: "x" });
  const mine = await world.make("mine");
  const member = world.as("member");
  const { body: lair } = await member.post("/v1/rooms", { name: "Lair" });
  refused(await member.patch(`${PATH}/${theirs.id}`, { roomId: lair.id }), 403, "forbidden");
  assert.equal((await member.patch(`${PATH}/${theirs.id}`, { parentId: mine.id })).status, 200);
  refused(await member.delete(`${PATH}/${mine.id}`), 403, "forbidden");
  refused(await member.patch(`${PATH}/${mine.id}`, { roomId: lair.id }), 403, "forbidden");
  assert.equal((await world.as("observer").get(`${PATH}/${theirs.id}`)).body.roomId, world.roomId);
  assert.equal((await world.as("moderator").delete(`${PATH}/${mine.id}`)).status, 204);
});

Deno.test("a private document of another that lies under one's own is neither shown to a room nor deleted with it", async () => {
  await using world = await DocumentWorld.open();
  const [alice, bob] = [world.as("owner"), world.as("member")];
  const { body: parent } = await alice.post(PATH, { title: "Shared" });
  await alice.put(`${PATH}/${parent.id}/access/member`, { role: "editor" });
  const { body: hidden } = await bob.post(PATH, { title: "Bob's own", parentId: parent.id, text: "for nobody" });
  refused(await alice.get(`${PATH}/${hidden.id}`), 404, "not_found");
  refused(await alice.patch(`${PATH}/${parent.id}`, { roomId: world.roomId }), 403, "forbidden");
  refused(await alice.delete(`${PATH}/${parent.id}`), 403, "forbidden");
  assert.equal((await bob.get(`${PATH}/${hidden.id}`)).body.roomId, null);
  refused(await world.as("observer").get(`${PATH}/${hidden.id}`), 404, "not_found");
  assert.equal((await bob.delete(`${PATH}/${hidden.id}`)).status, 204);
  assert.equal((await alice.delete(`${PATH}/${parent.id}`)).status, 204);
});

Deno.test("document.delete takes no more along than others can wait for", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("");
  const { store } = world.gateway.app;
  const row = await store.db.selectFrom("document").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  await store.write((tx) =>
    tx.insertMany(
      "document",
      Array.from({ length: 2000 }, (_, n) => ({ ...row, id: `doc_${n}`, parent_id: id })),
    )
  );
  refused(await soon(world.as("member").delete(`${PATH}/${id}`)), 409, "limit_reached");
});

Deno.test("live edits of a document that was deleted for a while become a revision all the same", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await written(world);
  const member = world.as("member");
  await member.delete(`${PATH}/${id}`);
  world.gateway.clock.advance(20_000);
  await world.gateway.runJobs();
  assert.equal((await member.post(`${PATH}/${id}/restore`)).status, 200);
  world.gateway.clock.advance(20_000);
  await world.gateway.runJobs();
  const { body } = await member.get(`${PATH}/${id}/revisions`);
  assert.deepEqual(body.items.map((one: { kind: string }) => one.kind), ["live", "created"]);
});

Deno.test("a comment does not repeat a text that has grown inside of its anchor without end", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("start end");
  const anchor = { text: "start end" };
  for (let n = 0; n < 30; n++) {
    assert.equal((await world.as("member").post(`${PATH}/${id}/comments`, { text: `${n}`, anchor })).status, 201);
  }
  await world.edit(id, { op: "insert_after", find: "start", text: "x".repeat(100_000) });
  const { body } = await world.as("member").get(`${PATH}/${id}/comments`);
  assert.deepEqual([body.items[0].anchor.start, body.items[0].anchor.end], [0, 100_009]);
  assert.ok(JSON.stringify(body).length < 300_000, `${JSON.stringify(body).length} bytes`);
});

Deno.test("comment.update without a change changes nothing and tells nobody", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("text");
  const { body: made } = await world.as("member").post(`${PATH}/${id}/comments`, { text: "hm" });
  const before = await world.events();
  const path = `${PATH}/${id}/comments/${made.id}`;
  for (const input of [{}, { text: "hm" }, { resolved: false }]) {
    assert.deepEqual((await world.as("member").patch(path, input)).body, made);
  }
  assert.equal((await world.events()).length, before.length);
});

Deno.test("document.list finds a part of the title also where it is not ASCII", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("", { title: "Übersicht ÄRZTE" });
  for (const q of ["Übersicht", "ÄRZTE", "bersicht Ä"]) {
    const { body } = await world.as("member").get(`${PATH}?q=${encodeURIComponent(q)}`);
    assert.deepEqual(body.items.map((one: { id: string }) => one.id), [id], q);
  }
});
