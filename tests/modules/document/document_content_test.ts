// Content of documents over REST: as a whole and by edits, revisions, comments, exports and Yjs updates.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import * as Y from "yjs";
import { testOnEngines } from "../../engines.ts";
import { recordChange, spliceText } from "@/modules/document/content/crdt.ts";
import { applySplices, diffText } from "@/modules/document/content/text_edits.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem } from "../fixtures.ts";
import { runSteps } from "../steps.ts";

Deno.test("document.write requires the current revision as its base", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("one\n");
  const path = `${PATH}/${id}/content`;
  const member = fixture.as("member");
  assertProblem(await member.put(path, { text: "two\n" }), 428, "precondition_required");
  const { headers } = await member.get(path);
  const written = await member.put(path, { text: "two\n" }, { "if-match": headers.get("etag") ?? "" });
  assert.deepEqual([written.status, written.body.revision], [200, 2]);
  assertProblem(await member.put(path, { text: "three\n" }, { "if-match": '"1"' }), 412, "version_mismatch");
  assertProblem(await fixture.as("observer").put(path, { text: "x", revision: 2 }), 403, "forbidden");
  assert.equal((await member.put(path, { text: "two\n", revision: 2 })).body.revision, 2, "nothing new, no revision");
  assert.equal(await fixture.readText(id), "two\n");
});

Deno.test("document.edit replaces, inserts, appends and prepends, in order", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a b a\n");
  const { revision, applied } = await fixture.edit(
    id,
    { op: "replace", find: "b", with: "bee" },
    { op: "insert_after", find: "bee", text: "s" },
    { op: "replace", find: "a", with: "the", occurrence: "all" },
    { op: "append", text: "end 😀\n" },
    { op: "prepend", text: "# T\n" },
    { op: "replace", find: "the", with: "The", occurrence: "first" },
  );
  assert.deepEqual([revision, applied], [2, 6]);
  assert.equal(await fixture.readText(id), "# T\nThe bees the\nend 😀\n");
});

Deno.test("writing operations run once for an Idempotency-Key", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a\n");
  const member = fixture.as("member");
  const key = { "idempotency-key": "once" };
  const edit = { baseRevision: 1, onStale: "rebase", edits: [{ op: "append", text: "b\n" }] };
  const [first, again] = [
    await member.patch(`${PATH}/${id}/content`, edit, key),
    await member.patch(`${PATH}/${id}/content`, edit, key),
  ];
  assert.deepEqual([again.status, again.body, again.headers.get("idempotency-replayed")], [200, first.body, "true"]);
  assert.equal(await fixture.readText(id), "a\nb\n");
  assertProblem(
    await member.patch(`${PATH}/${id}/content`, { ...edit, baseRevision: 2 }, key),
    422,
    "idempotency_key_reused",
  );
  const own = (await member.post(PATH, { title: "Own" })).body;
  for (const replayed of [null, "true"]) {
    const { status, headers } = await member.delete(`${PATH}/${own.id}`, key);
    assert.deepEqual([status, headers.get("idempotency-replayed")], [204, replayed]);
  }
});

Deno.test("document.edit applies all edits or none and names the one that does not match", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("a b a aaa\n");
  const edit = (...edits: unknown[]) => fixture.as("member").patch(`${PATH}/${id}/content`, { baseRevision: 1, edits });
  const append = { op: "append", text: "x" };
  const absent = await edit(append, { op: "replace", find: "zzz", with: "" });
  assertProblem(absent, 422, "edit_not_matched");
  assert.equal(absent.body.errors[0].pointer, "/edits/1/find");
  assertProblem(await edit(append, { op: "replace", find: "a", with: "" }), 422, "edit_ambiguous");
  assertProblem(await edit({ op: "insert_after", find: "aa", text: "!" }), 422, "edit_ambiguous");
  assertProblem(await edit({ op: "append", text: "x".repeat(1024 * 1024) }), 413, "payload_too_large");
  assert.equal(await fixture.readText(id), "a b a aaa\n");
});

Deno.test("document.edit on an old revision is refused, or rebased on request", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("alpha beta\n");
  await fixture.edit(id, { op: "append", text: "more\n" });
  const edit = (input: Record<string, unknown>) =>
    fixture.as("member").patch(`${PATH}/${id}/content`, {
      edits: [{ op: "replace", find: "beta", with: "gamma" }],
      baseRevision: 1,
      ...input,
    });
  assertProblem(await edit({}), 409, "stale_revision");
  assertProblem(await edit({ baseRevision: 9, onStale: "rebase" }), 409, "stale_revision");
  assert.equal((await edit({ onStale: "rebase" })).body.revision, 3);
  assert.equal(await fixture.readText(id), "alpha gamma\nmore\n");
});

Deno.test("of five concurrent edits each is in the text or fails with 409", async () => {
  await using fixture = await DocumentFixture.open();
  for (const onStale of ["reject", "rebase"]) {
    const { id } = await fixture.create("");
    const responses = await Promise.all([1, 2, 3, 4, 5].map((n) =>
      fixture.as("member").patch(`${PATH}/${id}/content`, {
        baseRevision: 1,
        edits: [{ op: "append", text: `line ${n}\n` }],
        onStale,
      })
    ));
    const text = await fixture.readText(id);
    for (const [index, response] of responses.entries()) {
      const count = text.split(`line ${index + 1}\n`).length - 1;
      assert.equal(count, response.status === 200 ? 1 : 0);
      if (response.status !== 200) assertProblem(response, 409, "stale_revision");
    }
    const succeeded = responses.filter(({ status }) => status === 200).length;
    assert.equal(succeeded, onStale === "rebase" ? 5 : 1);
  }
});

Deno.test("document.revert with an Idempotency-Key runs once", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("one");
  await fixture.edit(id, { op: "append", text: " two" });
  const revert = () =>
    fixture.as("member").post(`${PATH}/${id}/revisions/1/restore`, {}, { "idempotency-key": "once" });
  const [first, second] = [await revert(), await revert()];
  assert.deepEqual([first.status, second.status, second.body], [201, 201, first.body]);
  assert.equal(first.body.revision, 3);
  assert.equal(await fixture.readText(id), "one");
});

Deno.test("revisions are stored as text, listed newest first, and can be restored", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("first\n");
  await fixture.edit(id, { op: "append", text: "second\n" });
  const member = fixture.as("member");
  const { body: list } = await member.get(`${PATH}/${id}/revisions`);
  assert.deepEqual(list.items.map((one: { revision: number; kind: string }) => [one.revision, one.kind]), [
    [2, "written"],
    [1, "created"],
  ]);
  assert.equal((await member.get(`${PATH}/${id}/revisions/1`)).body.text, "first\n");
  assert.equal((await member.get(`${PATH}/${id}/content?revision=1`)).body.text, "first\n");
  assertProblem(await member.get(`${PATH}/${id}/revisions/7`), 404, "not_found");
  const reverted = await member.post(`${PATH}/${id}/revisions/1/restore`);
  assert.equal(reverted.headers.get("Location"), `${PATH}/${id}/revisions/${reverted.body.revision}`);
  assert.deepEqual([reverted.status, reverted.body.revision], [201, 3]);
  assert.equal(await fixture.readText(id), "first\n");
});

testOnEngines("an impossible revision number is not found", async (environment) => {
  await using fixture = await DocumentFixture.open({ environment });
  const { id } = await fixture.create("text");
  const member = fixture.as("member");
  for (const revision of [2, 3_000_000_000, Number.MAX_SAFE_INTEGER]) {
    assertProblem(await member.get(`${PATH}/${id}/revisions/${revision}`), 404, "not_found");
    assertProblem(await member.get(`${PATH}/${id}/content?revision=${revision}`), 404, "not_found");
    assertProblem(await member.post(`${PATH}/${id}/revisions/${revision}/restore`), 404, "not_found");
  }
});

Deno.test("at most 200 revisions are stored, for at most 90 days except for the newest", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("");
  for (let n = 0; n < 205; n++) await fixture.edit(id, { op: "append", text: `${n}\n` });
  const listRevisions = async (): Promise<number[]> => {
    const { body } = await (await fixture.gateway.as("member")).get(`${PATH}/${id}/revisions?limit=200`);
    assert.equal(body.hasMore, false);
    return body.items.map((one: { revision: number }) => one.revision);
  };
  const before = await listRevisions();
  assert.deepEqual([before.length, before[0], before.at(-1)], [200, 206, 7]);
  fixture.gateway.clock.advance(91 * 86_400_000);
  const later = await fixture.gateway.as("member");
  await later.patch(`${PATH}/${id}/content`, { baseRevision: 206, edits: [{ op: "append", text: "!" }] });
  assert.deepEqual(await listRevisions(), [207]);
  const text = Array.from({ length: 205 }, (_, n) => `${n}\n`).join("");
  assert.equal((await later.get(`${PATH}/${id}/content`)).body.text, `${text}!`);
});

Deno.test("comments follow their text through edits before, inside and across it", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("The quick fox.\nThe slow fox.\n");
  const path = `${PATH}/${id}/comments`;
  const comment = (anchor: unknown, text = "hm") => fixture.as("member").post(path, { text, anchor });
  assertProblem(await comment({ text: "dog" }), 422, "anchor_not_found");
  assertProblem(await comment({ text: "fox" }), 422, "anchor_not_found");
  const created = await comment({ text: "fox", prefix: "slow " });
  assert.deepEqual(created.body.anchor, { quote: "fox", text: "fox", start: 24, end: 27 });
  await fixture.edit(id, { op: "prepend", text: "# Foxes\n" }, {
    op: "replace",
    find: "slow fox",
    with: "slow old fox",
  });
  const now = async () => (await fixture.as("observer").get(path)).body.items[0].anchor;
  assert.deepEqual(await now(), { quote: "fox", text: "fox", start: 36, end: 39 });
  await fixture.edit(id, { op: "replace", find: "The slow old fox.\n", with: "" });
  assert.deepEqual(await now(), { quote: "fox", text: null, start: null, end: null });
  const { data, type } = (await fixture.readEvents()).find((event) => event.type === "document.commented");
  assert.deepEqual([type, data.action, data.comment.id], ["document.commented", "created", created.body.id]);
});

Deno.test("comments have replies, are updated by their author, resolved by members, and deleted with replies", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const path = `${PATH}/${id}/comments`;
  const [member, moderator, observer] = [fixture.as("member"), fixture.as("moderator"), fixture.as("observer")];
  const { body: root } = await member.post(path, { text: "why?", anchor: { text: "text" } });
  const reply = await moderator.post(path, { text: "because", parentId: root.id });
  assert.equal(reply.body.parentId, root.id);
  assertProblem(await observer.post(path, { text: "x" }), 403, "forbidden");
  assertProblem(await moderator.patch(`${path}/${root.id}`, { text: "x" }), 403, "forbidden");
  assertProblem(await member.post(path, { text: "x".repeat(4001) }), 422, "validation_failed");
  assertProblem(await member.patch(`${path}/${reply.body.id}`, { resolved: true }), 422, "validation_failed");
  assert.equal((await member.patch(`${path}/${root.id}`, { text: "why not?" })).body.text, "why not?");
  const resolved = await moderator.patch(`${path}/${root.id}`, { resolved: true }, { "if-match": '"2"' });
  assert.deepEqual([resolved.body.resolved, resolved.body.resolvedBy], [true, "moderator"]);
  assert.deepEqual((await observer.get(`${path}?resolved=false`)).body.items, []);
  assert.equal((await observer.get(`${path}?resolved=true`)).body.items.length, 2);
  const actions = (await fixture.readEvents()).filter(({ type }) => type === "document.commented").map(({ data }) =>
    data.action
  );
  assert.deepEqual(actions, ["created", "created", "updated", "resolved"]);
  assert.equal((await moderator.delete(`${path}/${root.id}`)).status, 204);
  assert.deepEqual((await observer.get(path)).body.items, []);
});

Deno.test("comment.delete redacts the comment and its replies in events, and no others", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const path = `${PATH}/${id}/comments`;
  const member = fixture.as("member");
  const comment = async (text: string, parentId?: string) => (await member.post(path, { text, parentId })).body.id;
  const [deletedId, otherId] = [await comment("secret"), await comment("kept")];
  await comment("secret, too", deletedId);
  await member.patch(`${path}/${deletedId}`, { text: "secret, still" });
  await comment(`${deletedId} said`, otherId);
  assert.equal((await member.delete(`${path}/${deletedId}`)).status, 204);
  const events = (await fixture.readEvents()).filter(({ type }) => type === "document.commented");
  assert.deepEqual(events.map(({ data: { action, comment } }) => [action, comment.text]), [
    ["created", ""],
    ["created", "kept"],
    ["created", ""],
    ["updated", ""],
    ["created", `${deletedId} said`],
    ["deleted", ""],
  ]);
});

Deno.test("document.import normalizes Markdown of other programs", async () => {
  await using fixture = await DocumentFixture.open();
  const post = (input: Record<string, unknown>) =>
    fixture.as("member").post(`${PATH}/import`, { roomId: fixture.roomId, ...input });
  const { body } = await post({ markdown: "\uFEFFIntro\r\n\r\n## Minutes ##\r\n- a\r\n" });
  assert.equal(body.title, "Minutes");
  assert.equal(await fixture.readText(body.id), "Intro\n\n## Minutes ##\n- a\n");
  assert.equal((await post({ markdown: "just *text*\nmore" })).body.title, "just *text*");
  assert.equal((await post({ markdown: "", title: "Given" })).body.title, "Given");
  assertProblem(await post({ markdown: "\n---\n" }), 422, "validation_failed");
});

Deno.test("document.content returns the blocks of the text with source and lines", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("# Title\n\nSome *text*\nhere.\n\n```ts\nlet a;\n```\n\n- one\n- two\n");
  const { body } = await fixture.as("observer").get(`${PATH}/${id}/content?format=json`);
  assert.deepEqual(body.blocks, [
    { type: "heading", level: 1, language: null, markdown: "# Title", firstLine: 0, lastLine: 1 },
    { type: "paragraph", level: null, language: null, markdown: "Some *text*\nhere.", firstLine: 2, lastLine: 4 },
    { type: "code", level: null, language: "ts", markdown: "```ts\nlet a;\n```", firstLine: 5, lastLine: 8 },
    { type: "list", level: null, language: null, markdown: "- one\n- two", firstLine: 9, lastLine: 11 },
  ]);
  const { id: old } = await fixture.create("a\rb\r\n\r# Title");
  const { body: { blocks } } = await fixture.as("observer").get(`${PATH}/${old}/content?format=json`);
  assert.deepEqual(blocks.map((block: { markdown: string }) => block.markdown), ["a\nb", "# Title"]);
});

Deno.test("document.export returns a file, and HTML without active content", async () => {
  await using fixture = await DocumentFixture.open();
  const hostile = `# Hi <script>alert(1)</script>\n\n[x](javascript:alert(1)) <img src=x onerror=alert(1)>\n\n` +
    `![i](data:text/html;base64,xx) [ok](https://a.example "t\\"onmouseover=alert(1)")\n`;
  const { id } = await fixture.create(hostile, { title: `Plan "ü" </title><script>` });
  const member = fixture.as("member");
  const markdown = await member.get(`${PATH}/${id}/export`);
  assert.equal(markdown.body, hostile);
  assert.equal(
    markdown.headers.get("content-disposition"),
    `attachment; filename="Plan  _    title  script.md"; filename*=UTF-8''Plan%20%20%C3%BC%20%20%20%20title%20%20script.md`,
  );
  const { body: html, headers } = await member.get(`${PATH}/${id}/export?format=html`);
  assert.equal(headers.get("content-type"), "text/html; charset=utf-8");
  assert.match(headers.get("content-security-policy") ?? "", /^sandbox; default-src 'none'/);
  assert.equal(headers.get("x-content-type-options"), "nosniff");
  const tags = [...html.matchAll(/<(\w+)([^>]*)>/g)].map(([, name, rest]: RegExpMatchArray) => `${name}${rest}`);
  assert.deepEqual(tags, [
    "html",
    "head",
    'meta charset="utf-8"',
    "title",
    "body",
    "h1",
    "p",
    "p",
    'a href="https://a.example" title="t&quot;onmouseover=alert(1)"',
  ]);
  assertProblem(await member.get(`${PATH}/${id}/export?format=pdf`), 406, "not_acceptable");
  for (const query of ["format=html&format=markdown", "toString=1", "style=dark"]) {
    assertProblem(await member.get(`${PATH}/${id}/export?${query}`), 400, "unknown_parameter");
  }
  assertProblem(await fixture.as("outsider").get(`${PATH}/${id}/export`), 404, "not_found");
});

Deno.test("Yjs updates are read and merged, with text only", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("shared");
  const path = `${PATH}/${id}/yjs`;
  const member = fixture.as("member");
  const { body: content } = await member.get(`${PATH}/${id}/content?format=yjs`);
  const copy = new Y.Doc();
  Y.applyUpdate(copy, Uint8Array.fromBase64(content.update));
  assert.equal(copy.getText("content").toString(), "shared");
  copy.getText("content").insert(6, " text");
  await fixture.edit(id, { op: "prepend", text: "# " });
  const merged = await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(copy));
  assert.deepEqual([merged.status, merged.body.revision, merged.body.applied], [200, 3, 1]);
  assert.equal(await fixture.readText(id), "# shared text");
  assert.equal(
    (await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(copy))).body.applied,
    0,
    "what is known is not counted again",
  );

  const vector = Y.encodeStateVector(copy).toBase64({ alphabet: "base64url" });
  const response = await member.open(`${path}?vector=${encodeURIComponent(vector)}`);
  Y.applyUpdate(copy, new Uint8Array(await response.arrayBuffer()));
  assert.equal(copy.getText("content").toString(), "# shared text");

  assertProblem(await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(copy), "observer"), 403, "forbidden");
  assertProblem(await fixture.mergeUpdate(id, new Uint8Array([1, 2, 3, 4])), 422, "validation_failed");
  const tree = new Y.Doc();
  tree.getXmlFragment("default").insert(0, [new Y.XmlElement("p")]);
  assertProblem(await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(tree)), 422, "validation_failed");
  const rich = new Y.Doc();
  rich.getText("content").insertEmbed(0, { image: "https://example.org/a.png" });
  assertProblem(await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(rich)), 422, "validation_failed");
  const ahead = new Y.Doc();
  ahead.getText("content").insert(0, "a");
  const first = Y.encodeStateVector(ahead);
  ahead.getText("content").insert(1, "b");
  assertProblem(await fixture.mergeUpdate(id, Y.encodeStateAsUpdate(ahead, first)), 409, "conflict");
  assertProblem(await fixture.mergeUpdate(id, new Uint8Array(512 * 1024 + 1)), 413, "payload_too_large");
  assert.equal(await fixture.readText(id), "# shared text");
});

const line = fc.constantFrom(
  "",
  "a\n",
  "b\n",
  "c",
  "😀\n",
  "😁",
  "long line of words\n",
  "long line of 😀 words\n",
  "\n",
);
const textArbitrary = fc.array(line, { maxLength: 12 }).map((lines) => lines.join(""));

Deno.test("diffText transforms one text into the other without splitting characters", () => {
  fc.assert(fc.property(textArbitrary, textArbitrary, (before, after) => {
    const splices = diffText(before, after);
    assert.equal(applySplices(before, splices), after);
    for (const { insert } of splices) assert.ok(insert.isWellFormed());
  }));
});

Deno.test("diffText keeps common words of a changed line, but replaces a line with few of them", () => {
  const changed = (before: string, after: string): [string, string][] =>
    diffText(before, after).map(({ at, remove, insert }) => [before.slice(at, at + remove), insert]).toReversed() as [
      string,
      string,
    ][];
  assert.deepEqual(changed("Ann: The quick brown red fox jumps over it.\n", "The quick brown fox jumps over that.\n"), [
    ["Ann: ", ""],
    ["red ", ""],
    ["i", "tha"],
  ]);
  const [before, after] = ["All of it is the same to me.\n", "Nothing there was of it at once.\n"];
  assert.equal(changed(before, after).length, 1);
});

Deno.test("diffText does not touch text between distant changes", () => {
  const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at} of a long text\n`);
  const before = lines.join("");
  const after = lines.map((line, at) => at % 1000 === 7 ? line.replace("long", "longer") : line).join("");
  const splices = diffText(before, after);
  assert.equal(applySplices(before, splices), after);
  assert.deepEqual(splices, splices.map(({ at }) => ({ at, remove: 0, insert: "er" })));
  assert.equal(splices.length, 20);
});

Deno.test("document.write keeps the position of a comment between two changes of one line", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create(
    "The quick brown fox jumps over the lazy dog, and that is all there is to say of it.\n",
  );
  const member = fixture.as("member");
  await member.post(`${PATH}/${id}/comments`, { text: "Which?", anchor: { text: "brown fox" } });
  const text = "A quick brown fox jumps over the lazy cat, and that is all there is to say of it.\n";
  assert.equal((await member.put(`${PATH}/${id}/content`, { text, revision: 1 })).status, 200);
  const { body: { items: [comment] } } = await member.get(`${PATH}/${id}/comments`);
  assert.deepEqual([comment.anchor.text, comment.anchor.start], ["brown fox", 8]);
});

Deno.test("text typed at the end of a word that is replaced concurrently follows the new word", () => {
  const [ours, theirs] = [new Y.Doc(), new Y.Doc()];
  ours.getText("content").insert(0, "a colour\n");
  Y.applyUpdate(theirs, Y.encodeStateAsUpdate(ours));
  theirs.getText("content").insert("a colour".length, "s");
  const update = runSteps(recordChange(ours, "gateway", spliceText(ours, diffText("a colour\n", "a tint\n"))));
  Y.applyUpdate(theirs, update);
  Y.applyUpdate(ours, Y.encodeStateAsUpdate(theirs));
  assert.equal(ours.getText("content").toString(), "a tints\n");
  assert.equal(theirs.getText("content").toString(), "a tints\n");
});

Deno.test("moving a document redacts its comments in events of the former room", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const { id: other } = await fixture.create("text");
  const member = fixture.as("member");
  for (const one of [id, other]) await member.post(`${PATH}/${one}/comments`, { text: "secret" });
  const { body: room } = await member.post("/v1/rooms", { name: "Elsewhere" });
  assert.equal((await member.patch(`${PATH}/${id}`, { roomId: room.id })).status, 200);
  const events = (await fixture.readEvents()).filter(({ type }) => type === "document.commented");
  assert.deepEqual(events.map(({ data: { documentId, comment } }) => [documentId, comment.text]), [
    [id, ""],
    [other, "secret"],
  ]);
  const { body: { items } } = await member.get(`${PATH}/${id}/comments`);
  assert.equal(items[0].text, "secret");
});
