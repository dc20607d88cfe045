// Documents against hostile clients: crafted updates, edits that expand, documents of others, and events they must not receive.
// Measures the work of its thread.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { chargeTo } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { renderFragment } from "@/modules/document/rendering.ts";
import { assertYields, withinCpuLimit } from "../../cpu_time.ts";
import { allEnded } from "../../wait.ts";
import { slowTest } from "../../tier.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem } from "../fixtures.ts";

/** A document with edits of the clients 7 and 9. */
async function createWritten(fixture: DocumentFixture): Promise<{ id: string; text: string }> {
  const { id } = await fixture.create("");
  const one = new Y.Doc();
  one.clientID = 7;
  one.getText("content").insert(0, "hello world");
  one.getText("content").delete(3, 2);
  const two = new Y.Doc();
  two.clientID = 9;
  Y.applyUpdate(two, Y.encodeStateAsUpdate(one));
  two.getText("content").insert(4, "XY");
  const merged = await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(two));
  assert.equal(merged.status, 200, JSON.stringify(merged.body));
  return { id, text: two.getText("content").toString() };
}

Deno.test("document.write_yjs refuses updates after which a document could not be opened", async () => {
  await using fixture = await DocumentFixture.open();
  const { id, text } = await createWritten(fixture);
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
    const { status } = await fixture.mergeUpdate(id, Uint8Array.fromHex(hex));
    assert.ok(status === 422 || status === 409, `${hex}: ${status}`);
    assert.equal(await fixture.readText(id), text);
  }
  const { body } = await fixture.as("member").get(`${PATH}/${id}/comments`);
  assert.deepEqual(body.items, []);
});

Deno.test("document.write_yjs refuses repeated deletions of the same text", async () => {
  await using fixture = await DocumentFixture.open();
  const { id, text } = await createWritten(fixture);
  const again = [0, 1, 7, 3, 0, 2, 0, 2, 0, 2];
  assertProblem(await fixture.mergeUpdate(id, Uint8Array.from(again)), 422, "validation_failed");
  assert.equal(await fixture.readText(id), text);
  assert.equal(
    (await fixture.mergeUpdate(id, Uint8Array.from([0, 1, 7, 2, 0, 1, 1, 1]))).status,
    200,
    "one after the other",
  );
});

Deno.test("document.write_yjs refuses items next to, and deletions of, missing items", async () => {
  await using fixture = await DocumentFixture.open();
  const { id, text } = await createWritten(fixture);
  const elsewhere = new Y.Doc();
  elsewhere.clientID = 11;
  elsewhere.getText("content").insert(0, "a word");
  const before = Y.encodeStateVector(elsewhere);
  const other = new Y.Doc();
  other.clientID = 12;
  Y.applyUpdate(other, Y.encodeStateAsUpdate(elsewhere));
  other.getText("content").insert(2, "in it ");
  assertProblem(await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(other, before)), 409, "conflict");
  elsewhere.getText("content").delete(0, 2);
  assertProblem(await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(elsewhere, before)), 409, "conflict");
  assert.equal(await fixture.readText(id), text);
  assert.equal((await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(other))).status, 200, "whole, it fits");
});

Deno.test("document.write_yjs refuses an update with more items or values than a document can have", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("", { kind: "rich" });
  const update = (items: number[], count: number[], rest: number[]): Uint8Array =>
    Uint8Array.from([1, ...count, 1, 0, ...items, ...rest, 0]);
  const element = [7, 1, 1, 120, 3, 1, 112]; // <p> in the fragment "x"
  const attribute = [0x28, 0, 1, 0, 1, 97]; // "a" of it
  const collected = (count: number): number[] => Array<number[]>(count).fill([0, 1]).flat();
  const values = (count: number): number[] => Array<number>(count).fill(126);
  const text = (...bytes: number[]): Uint8Array =>
    update([...element, ...attribute], [2], [1, 119, bytes.length, ...bytes]);
  const hundredThousandOne = [0xa1, 0x8d, 0x06];
  const fourHundredThousandOne = [0x81, 0xb5, 0x18];
  const refused: [code: string, update: Uint8Array][] = [
    ["limit_reached", update(element, hundredThousandOne, collected(100_000))],
    ["limit_reached", update([...element, ...attribute, ...fourHundredThousandOne], [2], values(400_001))],
    ["validation_failed", text(97, 0)],
    ["validation_failed", text(0xed, 0xa0, 0x80)], // a lone surrogate
  ];
  for (const [code, update] of refused) assert.equal((await fixture.mergeUpdate(id, update)).body.code, code);
  assert.equal((await fixture.mergeUpdate(id, text(97))).status, 200);
});

Deno.test("document.import finds a title in the longest line", async () => {
  await using fixture = await DocumentFixture.open();
  const markdown = `# ${"#".repeat(200_000)} ${" #".repeat(200_000)} x`;
  const { status } = await withinCpuLimit(
    fixture.as("member").post(`${PATH}/import`, { roomId: fixture.roomId, markdown }),
  );
  assert.equal(status, 201);
});

Deno.test("document.content and export bound the size of their output", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a\n\n".repeat(340_000));
  const member = fixture.as("member");
  assertProblem(await withinCpuLimit(member.get(`${PATH}/${id}/content?format=json`)), 413, "payload_too_large");
  assertProblem(await withinCpuLimit(member.get(`${PATH}/${id}/export?format=html`)), 413, "payload_too_large");
  assert.equal((await member.get(`${PATH}/${id}/export`)).status, 200);
  const { id: prose } = await fixture.create("[".repeat(1_000_000));
  const { body } = await withinCpuLimit(member.get(`${PATH}/${prose}/content?format=json`));
  assert.deepEqual(body.blocks.map((block: { type: string }) => block.type), ["paragraph"]);
});

Deno.test("document.content and export count lines as the parser does, for all line endings", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a\r\r".repeat(340_000));
  const member = fixture.as("member");
  assertProblem(await withinCpuLimit(member.get(`${PATH}/${id}/content?format=json`)), 413, "payload_too_large");
  assertProblem(await withinCpuLimit(member.get(`${PATH}/${id}/export?format=html`)), 413, "payload_too_large");
});

Deno.test("document.export bounds the expansion of references", async () => {
  await using fixture = await DocumentFixture.open();
  const html = async (text: string) => {
    const { id } = await fixture.create(text);
    return await withinCpuLimit(fixture.as("member").get(`${PATH}/${id}/export?format=html`));
  };
  const address = `http://example.org/${"&".repeat(10_000)}`;
  assertProblem(await html(`[x]: ${address}\n\n${"[x] ".repeat(10_000)}`), 413, "payload_too_large");
  assertProblem(await html(`[x]: /y "${"&".repeat(10_000)}"\n\n${"![x] ".repeat(10_000)}`), 413, "payload_too_large");
  assert.equal((await html(`[x]: ${address}\n\n${"[x] ".repeat(100)}`)).status, 200);
  assert.equal((await html(`[x](/${"ä".repeat(500_000)})`)).status, 200, "all that stands in the text");
});

slowTest("document.export and document.content do not block others while the parser runs", async () => {
  await using fixture = await DocumentFixture.open();
  const member = fixture.as("member");
  const { id } = await fixture.create("![".repeat(40_000));
  const { id: deep } = await fixture.create("- > - > - > - > - > a\n".repeat(6000));
  for (const path of [`${id}/export?format=html`, `${deep}/content?format=json`]) {
    await assertYields(async () => assert.equal((await member.get(`${PATH}/${path}`)).status, 200, path));
  }
});

Deno.test("a principal has a quarter of the rendering queue, and delays others by one piece of work", async () => {
  const cpu = new CpuBudget({ percent: undefined });
  const ended: string[] = [];
  const renderFor = (owner: string): Promise<string> =>
    chargeTo(cpu.accountOfKey(owner), () => renderFragment("a ".repeat(3000))).then(
      () => "rendered",
      (error) => `${error.code} ${error.retryAfterMs}`,
    ).finally(() => ended.push(owner));
  const waiting = Array.from({ length: 10 }, () => renderFor("default/mallory"));
  assert.equal(await renderFor("default/mallory"), "rate_limited 2000");
  waiting.push(renderFor("default/alice"), renderFor("other/mallory"));
  assert.deepEqual([...new Set(await allEnded(waiting))], ["rendered"]);
  // The first is the refused one. Tenants take turns, and in each of them its members.
  assert.deepEqual(ended.slice(1, 4), ["default/mallory", "other/mallory", "default/alice"]);
});

Deno.test("document.edit refuses too many occurrences and unbounded growth", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a".repeat(300_000));
  const edit = (...edits: unknown[]) =>
    withinCpuLimit(fixture.as("member").patch(`${PATH}/${id}/content`, { baseRevision: 1, edits }));
  assertProblem(await edit({ op: "replace", find: "a", with: "b", occurrence: "all" }), 409, "limit_reached");
  const { id: small } = await fixture.create("a".repeat(2000));
  const double = { op: "replace", find: "a", with: "a".repeat(100), occurrence: "all" };
  const grown = await withinCpuLimit(
    fixture.as("member").patch(`${PATH}/${small}/content`, {
      baseRevision: 1,
      edits: Array(100).fill(double),
    }),
  );
  assert.ok(grown.status === 413 || grown.body.code === "limit_reached", JSON.stringify(grown.body));
  const append = { op: "append", text: "x".repeat(20_000) };
  assertProblem(await edit(...Array(100).fill(append)), 413, "payload_too_large");
});

Deno.test("document.edit and comment.create search in linear time", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a".repeat(1_000_000));
  const find = `${"a".repeat(20_000)}b${"a".repeat(20_000)}`;
  const edits = Array(20).fill({ op: "replace", find, with: "", occurrence: "first" });
  const edited = await withinCpuLimit(fixture.as("member").patch(`${PATH}/${id}/content`, { baseRevision: 1, edits }));
  assertProblem(edited, 422, "edit_not_matched");
  const anchor = { text: `${"a".repeat(499)}b${"a".repeat(500)}` };
  const commented = await withinCpuLimit(fixture.as("member").post(`${PATH}/${id}/comments`, { text: "?", anchor }));
  assertProblem(commented, 422, "anchor_not_found");
});

Deno.test("an agent receives no events of a private document that its owner does not see", async () => {
  await using fixture = await DocumentFixture.open();
  const agent = await fixture.gateway.as("robot", { kind: "agent", owner: "member" });
  await agent.get("/v1/collaboration/me");
  const owner = fixture.as("owner");
  const { body: { id } } = await owner.post(PATH, { title: "Secret plan", text: "hush" });
  await owner.put(`${PATH}/${id}/access/robot`, { role: "editor" });
  await owner.patch(`${PATH}/${id}`, { title: "Secret plan B" });
  await owner.post(`${PATH}/${id}/comments`, { text: "hush", anchor: { text: "hush" } });
  const receivedEvents = async () => {
    const rows = await fixture.gateway.app.store.log.read("default", "principal:robot", 0, 100);
    return rows.filter(({ type }) => type.startsWith("document.")).map(({ type }) => type);
  };
  assert.deepEqual(await receivedEvents(), []);
  await owner.put(`${PATH}/${id}/access/member`, { role: "reader" });
  await owner.patch(`${PATH}/${id}`, { title: "Plan" });
  assert.ok((await receivedEvents()).includes("document.updated"));
  await owner.delete(`${PATH}/${id}`);
  assert.equal((await receivedEvents()).at(-1), "document.deleted");
});

Deno.test("documents of others are neither deleted nor moved with a parent", async () => {
  await using fixture = await DocumentFixture.open();
  const { body: theirs } = await fixture.as("owner").post(PATH, { roomId: fixture.roomId, title: "Theirs", text: "x" });
  const mine = await fixture.create("mine");
  const member = fixture.as("member");
  const { body: lair } = await member.post("/v1/rooms", { name: "Lair" });
  assertProblem(await member.patch(`${PATH}/${theirs.id}`, { roomId: lair.id }), 403, "forbidden");
  assert.equal((await member.patch(`${PATH}/${theirs.id}`, { parentId: mine.id })).status, 200);
  assertProblem(await member.delete(`${PATH}/${mine.id}`), 403, "forbidden");
  assertProblem(await member.patch(`${PATH}/${mine.id}`, { roomId: lair.id }), 403, "forbidden");
  assert.equal((await fixture.as("observer").get(`${PATH}/${theirs.id}`)).body.roomId, fixture.roomId);
  assert.equal((await fixture.as("moderator").delete(`${PATH}/${mine.id}`)).status, 204);
});

Deno.test("a foreign private document below the caller's is neither shared with a room nor deleted", async () => {
  await using fixture = await DocumentFixture.open();
  const [alice, bob] = [fixture.as("owner"), fixture.as("member")];
  const { body: parent } = await alice.post(PATH, { title: "Shared" });
  await alice.put(`${PATH}/${parent.id}/access/member`, { role: "editor" });
  const { body: hidden } = await bob.post(PATH, { title: "Bob's own", parentId: parent.id, text: "for nobody" });
  assertProblem(await alice.get(`${PATH}/${hidden.id}`), 404, "not_found");
  assertProblem(await alice.patch(`${PATH}/${parent.id}`, { roomId: fixture.roomId }), 403, "forbidden");
  assertProblem(await alice.delete(`${PATH}/${parent.id}`), 403, "forbidden");
  assert.equal((await bob.get(`${PATH}/${hidden.id}`)).body.roomId, null);
  assertProblem(await fixture.as("observer").get(`${PATH}/${hidden.id}`), 404, "not_found");
  assert.equal((await bob.delete(`${PATH}/${hidden.id}`)).status, 204);
  assert.equal((await alice.delete(`${PATH}/${parent.id}`)).status, 204);
});

Deno.test("document.delete refuses branches beyond the limit", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("");
  const { store } = fixture.gateway.app;
  const row = await store.db.selectFrom("document").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  await store.write((tx) =>
    tx.insertMany(
      "document",
      Array.from({ length: 2000 }, (_, n) => ({ ...row, id: `doc_${n}`, parent_id: id })),
    )
  );
  assertProblem(await withinCpuLimit(fixture.as("member").delete(`${PATH}/${id}`)), 409, "limit_reached");
});

Deno.test("live edits of a document that was deleted and restored are committed to a revision", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createWritten(fixture);
  const member = fixture.as("member");
  await member.delete(`${PATH}/${id}`);
  fixture.gateway.clock.advance(20_000);
  await fixture.gateway.runJobs();
  assert.equal((await member.post(`${PATH}/${id}/restore`)).status, 200);
  fixture.gateway.clock.advance(20_000);
  await fixture.gateway.runJobs();
  const { body } = await member.get(`${PATH}/${id}/revisions`);
  assert.deepEqual(body.items.map((one: { kind: string }) => one.kind), ["live", "created"]);
});

Deno.test("a comment does not include anchored text that has grown beyond the limit", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("start end");
  const anchor = { text: "start end" };
  for (let n = 0; n < 30; n++) {
    assert.equal((await fixture.as("member").post(`${PATH}/${id}/comments`, { text: `${n}`, anchor })).status, 201);
  }
  await fixture.edit(id, { op: "insert_after", find: "start", text: "x".repeat(100_000) });
  const { body } = await fixture.as("member").get(`${PATH}/${id}/comments`);
  assert.deepEqual([body.items[0].anchor.start, body.items[0].anchor.end], [0, 100_009]);
  assert.ok(JSON.stringify(body).length < 300_000, `${JSON.stringify(body).length} bytes`);
});

Deno.test("comment.update without a change publishes nothing", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const { body: comment } = await fixture.as("member").post(`${PATH}/${id}/comments`, { text: "hm" });
  const before = await fixture.readEvents();
  const path = `${PATH}/${id}/comments/${comment.id}`;
  for (const input of [{}, { text: "hm" }, { resolved: false }]) {
    assert.deepEqual((await fixture.as("member").patch(path, input)).body, comment);
  }
  assert.equal((await fixture.readEvents()).length, before.length);
});

Deno.test("document.list finds non-ASCII parts of titles", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("", { title: "Übersicht ÄRZTE" });
  for (const q of ["Übersicht", "ÄRZTE", "bersicht Ä"]) {
    const { body } = await fixture.as("member").get(`${PATH}?q=${encodeURIComponent(q)}`);
    assert.deepEqual(body.items.map((one: { id: string }) => one.id), [id], q);
  }
});
