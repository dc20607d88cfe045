// The text of documents over REST: whole and by edits, its revisions, comments, exports and the CRDT itself.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import * as Y from "yjs";
import { onEngines } from "../engines.ts";
import { applySplices } from "@/modules/document/crdt.ts";
import { difference, spliced } from "@/modules/document/edit.ts";
import { DocumentWorld, PATH } from "./document_world.ts";
import { refused } from "./team.ts";

Deno.test("document.write needs the revision it is based on, and that it is the newest", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("one\n");
  const path = `${PATH}/${id}/content`;
  const member = world.as("member");
  refused(await member.put(path, { text: "two\n" }), 428, "precondition_required");
  const { headers } = await member.get(path);
  const written = await member.put(path, { text: "two\n" }, { "if-match": headers.get("etag") ?? "" });
  assert.deepEqual([written.status, written.body.revision], [200, 2]);
  refused(await member.put(path, { text: "three\n" }, { "if-match": '"1"' }), 412, "version_mismatch");
  refused(await world.as("observer").put(path, { text: "x", revision: 2 }), 403, "forbidden");
  assert.equal((await member.put(path, { text: "two\n", revision: 2 })).body.revision, 2, "nothing new, no revision");
  assert.equal(await world.text(id), "two\n");
});

Deno.test("document.edit replaces, inserts, appends and prepends, in order", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a b a\n");
  const { revision, applied } = await world.edit(
    id,
    { op: "replace", find: "b", with: "bee" },
    { op: "insert_after", find: "bee", text: "s" },
    { op: "replace", find: "a", with: "the", occurrence: "all" },
    { op: "append", text: "end 😀\n" },
    { op: "prepend", text: "# T\n" },
    { op: "replace", find: "the", with: "The", occurrence: "first" },
  );
  assert.deepEqual([revision, applied], [2, 6]);
  assert.equal(await world.text(id), "# T\nThe bees the\nend 😀\n");
});

Deno.test("whatever changes or deletes something does so once for an Idempotency-Key", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a\n");
  const member = world.as("member");
  const key = { "idempotency-key": "once" };
  const edit = { baseRevision: 1, onStale: "rebase", edits: [{ op: "append", text: "b\n" }] };
  const [first, again] = [
    await member.patch(`${PATH}/${id}/content`, edit, key),
    await member.patch(`${PATH}/${id}/content`, edit, key),
  ];
  assert.deepEqual([again.status, again.body, again.headers.get("idempotency-replayed")], [200, first.body, "true"]);
  assert.equal(await world.text(id), "a\nb\n");
  refused(
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

Deno.test("document.edit makes all edits or none, and says which does not fit", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("a b a aaa\n");
  const edit = (...edits: unknown[]) => world.as("member").patch(`${PATH}/${id}/content`, { baseRevision: 1, edits });
  const append = { op: "append", text: "x" };
  const absent = await edit(append, { op: "replace", find: "zzz", with: "" });
  refused(absent, 422, "edit_not_matched");
  assert.equal(absent.body.errors[0].pointer, "/edits/1/find");
  refused(await edit(append, { op: "replace", find: "a", with: "" }), 422, "edit_ambiguous");
  refused(await edit({ op: "insert_after", find: "aa", text: "!" }), 422, "edit_ambiguous");
  refused(await edit({ op: "append", text: "x".repeat(1024 * 1024) }), 413, "payload_too_large");
  assert.equal(await world.text(id), "a b a aaa\n");
});

Deno.test("document.edit on an old revision is refused, or rebased where the caller says so", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("alpha beta\n");
  await world.edit(id, { op: "append", text: "more\n" });
  const edit = (input: Record<string, unknown>) =>
    world.as("member").patch(`${PATH}/${id}/content`, {
      edits: [{ op: "replace", find: "beta", with: "gamma" }],
      baseRevision: 1,
      ...input,
    });
  refused(await edit({}), 409, "stale_revision");
  refused(await edit({ baseRevision: 9, onStale: "rebase" }), 409, "stale_revision");
  assert.equal((await edit({ onStale: "rebase" })).body.revision, 3);
  assert.equal(await world.text(id), "alpha gamma\nmore\n");
});

Deno.test("of five edits at the same time each is in the text or was told 409", async () => {
  await using world = await DocumentWorld.open();
  for (const onStale of ["reject", "rebase"]) {
    const { id } = await world.make("");
    const answers = await Promise.all([1, 2, 3, 4, 5].map((n) =>
      world.as("member").patch(`${PATH}/${id}/content`, {
        baseRevision: 1,
        edits: [{ op: "append", text: `line ${n}\n` }],
        onStale,
      })
    ));
    const text = await world.text(id);
    for (const [index, answer] of answers.entries()) {
      const count = text.split(`line ${index + 1}\n`).length - 1;
      assert.equal(count, answer.status === 200 ? 1 : 0);
      if (answer.status !== 200) refused(answer, 409, "stale_revision");
    }
    const made = answers.filter(({ status }) => status === 200).length;
    assert.equal(made, onStale === "rebase" ? 5 : 1);
  }
});

Deno.test("an edit inside a request with an Idempotency-Key is made once", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("one");
  await world.edit(id, { op: "append", text: " two" });
  const revert = () => world.as("member").post(`${PATH}/${id}/revisions/1/restore`, {}, { "idempotency-key": "once" });
  const [first, second] = [await revert(), await revert()];
  assert.deepEqual([first.status, second.status, second.body], [201, 201, first.body]);
  assert.equal(first.body.revision, 3);
  assert.equal(await world.text(id), "one");
});

Deno.test("revisions are kept as text, listed newest first, and can be brought back", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("first\n");
  await world.edit(id, { op: "append", text: "second\n" });
  const member = world.as("member");
  const { body: list } = await member.get(`${PATH}/${id}/revisions`);
  assert.deepEqual(list.items.map((one: { revision: number; kind: string }) => [one.revision, one.kind]), [
    [2, "written"],
    [1, "created"],
  ]);
  assert.equal((await member.get(`${PATH}/${id}/revisions/1`)).body.text, "first\n");
  assert.equal((await member.get(`${PATH}/${id}/content?revision=1`)).body.text, "first\n");
  refused(await member.get(`${PATH}/${id}/revisions/7`), 404, "not_found");
  const reverted = await member.post(`${PATH}/${id}/revisions/1/restore`);
  assert.deepEqual([reverted.status, reverted.body.revision], [201, 3]);
  assert.equal(await world.text(id), "first\n");
});

onEngines("a revision that there cannot be is not found", async (environment) => {
  await using world = await DocumentWorld.open({ environment });
  const { id } = await world.make("text");
  const member = world.as("member");
  for (const revision of [2, 3_000_000_000, Number.MAX_SAFE_INTEGER]) {
    refused(await member.get(`${PATH}/${id}/revisions/${revision}`), 404, "not_found");
    refused(await member.get(`${PATH}/${id}/content?revision=${revision}`), 404, "not_found");
    refused(await member.post(`${PATH}/${id}/revisions/${revision}/restore`), 404, "not_found");
  }
});

Deno.test("at most 200 revisions are kept, and none for longer than 90 days but the newest", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("");
  for (let n = 0; n < 205; n++) await world.edit(id, { op: "append", text: `${n}\n` });
  const kept = async (): Promise<number[]> => {
    const { body } = await (await world.gateway.as("member")).get(`${PATH}/${id}/revisions?limit=200`);
    assert.equal(body.hasMore, false);
    return body.items.map((one: { revision: number }) => one.revision);
  };
  const before = await kept();
  assert.deepEqual([before.length, before[0], before.at(-1)], [200, 206, 7]);
  world.gateway.clock.advance(91 * 86_400_000);
  const later = await world.gateway.as("member");
  await later.patch(`${PATH}/${id}/content`, { baseRevision: 206, edits: [{ op: "append", text: "!" }] });
  assert.deepEqual(await kept(), [207]);
  const text = Array.from({ length: 205 }, (_, n) => `${n}\n`).join("");
  assert.equal((await later.get(`${PATH}/${id}/content`)).body.text, `${text}!`);
});

Deno.test("comments stay with their words through edits before, inside and over them", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("The quick fox.\nThe slow fox.\n");
  const path = `${PATH}/${id}/comments`;
  const comment = (anchor: unknown, text = "hm") => world.as("member").post(path, { text, anchor });
  refused(await comment({ text: "dog" }), 422, "anchor_not_found");
  refused(await comment({ text: "fox" }), 422, "anchor_not_found");
  const made = await comment({ text: "fox", prefix: "slow " });
  assert.deepEqual(made.body.anchor, { quote: "fox", text: "fox", start: 24, end: 27 });
  await world.edit(id, { op: "prepend", text: "# Foxes\n" }, { op: "replace", find: "slow fox", with: "slow old fox" });
  const now = async () => (await world.as("observer").get(path)).body.items[0].anchor;
  assert.deepEqual(await now(), { quote: "fox", text: "fox", start: 36, end: 39 });
  await world.edit(id, { op: "replace", find: "The slow old fox.\n", with: "" });
  assert.deepEqual(await now(), { quote: "fox", text: null, start: null, end: null });
  const { data, type } = (await world.events()).find((event) => event.type === "document.commented");
  assert.deepEqual([type, data.action, data.comment.id], ["document.commented", "created", made.body.id]);
});

Deno.test("comments are answered, changed by their author, resolved by members, and deleted with their replies", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("text");
  const path = `${PATH}/${id}/comments`;
  const [member, moderator, observer] = [world.as("member"), world.as("moderator"), world.as("observer")];
  const { body: root } = await member.post(path, { text: "why?", anchor: { text: "text" } });
  const reply = await moderator.post(path, { text: "because", parentId: root.id });
  assert.equal(reply.body.parentId, root.id);
  refused(await observer.post(path, { text: "x" }), 403, "forbidden");
  refused(await moderator.patch(`${path}/${root.id}`, { text: "x" }), 403, "forbidden");
  refused(await member.post(path, { text: "x".repeat(4001) }), 422, "validation_failed");
  refused(await member.patch(`${path}/${reply.body.id}`, { resolved: true }), 422, "validation_failed");
  assert.equal((await member.patch(`${path}/${root.id}`, { text: "why not?" })).body.text, "why not?");
  const resolved = await moderator.patch(`${path}/${root.id}`, { resolved: true }, { "if-match": '"2"' });
  assert.deepEqual([resolved.body.resolved, resolved.body.resolvedBy], [true, "moderator"]);
  assert.deepEqual((await observer.get(`${path}?resolved=false`)).body.items, []);
  assert.equal((await observer.get(`${path}?resolved=true`)).body.items.length, 2);
  const actions = (await world.events()).filter(({ type }) => type === "document.commented").map(({ data }) =>
    data.action
  );
  assert.deepEqual(actions, ["created", "created", "updated", "resolved"]);
  assert.equal((await moderator.delete(`${path}/${root.id}`)).status, 204);
  assert.deepEqual((await observer.get(path)).body.items, []);
});

Deno.test("what a deleted comment and its replies said is in no event any more, and what others said still is", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("text");
  const path = `${PATH}/${id}/comments`;
  const member = world.as("member");
  const say = async (text: string, parentId?: string) => (await member.post(path, { text, parentId })).body.id;
  const [gone, kept] = [await say("secret"), await say("kept")];
  await say("secret, too", gone);
  await member.patch(`${path}/${gone}`, { text: "secret, still" });
  await say(`${gone} said`, kept);
  assert.equal((await member.delete(`${path}/${gone}`)).status, 204);
  const told = (await world.events()).filter(({ type }) => type === "document.commented");
  assert.deepEqual(told.map(({ data: { action, comment } }) => [action, comment.text]), [
    ["created", ""],
    ["created", "kept"],
    ["created", ""],
    ["updated", ""],
    ["created", `${gone} said`],
    ["deleted", ""],
  ]);
});

Deno.test("document.import takes Markdown as other programs write it", async () => {
  await using world = await DocumentWorld.open();
  const post = (input: Record<string, unknown>) =>
    world.as("member").post(`${PATH}/import`, { roomId: world.roomId, ...input });
  const { body } = await post({ markdown: "\uFEFFIntro\r\n\r\n## Minutes ##\r\n- a\r\n" });
  assert.equal(body.title, "Minutes");
  assert.equal(await world.text(body.id), "Intro\n\n## Minutes ##\n- a\n");
  assert.equal((await post({ markdown: "just *text*\nmore" })).body.title, "just *text*");
  assert.equal((await post({ markdown: "", title: "Given" })).body.title, "Given");
  refused(await post({ markdown: "\n---\n" }), 422, "validation_failed");
});

Deno.test("document.content shows the blocks of the text, each with its source and lines", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("# Title\n\nSome *text*\nhere.\n\n```ts\nlet a;\n```\n\n- one\n- two\n");
  const { body } = await world.as("observer").get(`${PATH}/${id}/content?format=json`);
  assert.deepEqual(body.blocks, [
    { type: "heading", level: 1, language: null, markdown: "# Title", firstLine: 0, lastLine: 1 },
    { type: "paragraph", level: null, language: null, markdown: "Some *text*\nhere.", firstLine: 2, lastLine: 4 },
    { type: "code", level: null, language: "ts", markdown: "```ts\nlet a;\n```", firstLine: 5, lastLine: 8 },
    { type: "list", level: null, language: null, markdown: "- one\n- two", firstLine: 9, lastLine: 11 },
  ]);
  const { id: old } = await world.make("a\rb\r\n\r# Title");
  const { body: { blocks } } = await world.as("observer").get(`${PATH}/${old}/content?format=json`);
  assert.deepEqual(blocks.map((block: { markdown: string }) => block.markdown), ["a\nb", "# Title"]);
});

Deno.test("document.export gives a file, and HTML in which nothing of the source runs", async () => {
  await using world = await DocumentWorld.open();
  const hostile = `# Hi <script>alert(1)</script>\n\n[x](javascript:alert(1)) <img src=x onerror=alert(1)>\n\n` +
    `![i](data:text/html;base64,xx) [ok](https://a.example "t\\"onmouseover=alert(1)")\n`;
  const { id } = await world.make(hostile, { title: `Plan "ü" </title><script>` });
  const member = world.as("member");
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
  refused(await member.get(`${PATH}/${id}/export?format=pdf`), 406, "not_acceptable");
  for (const query of ["format=html&format=markdown", "toString=1", "style=dark"]) {
    refused(await member.get(`${PATH}/${id}/export?${query}`), 400, "unknown_parameter");
  }
  refused(await world.as("outsider").get(`${PATH}/${id}/export`), 404, "not_found");
});

Deno.test("the CRDT is read and merged as Yjs updates, and only text gets in", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("shared");
  const path = `${PATH}/${id}/yjs`;
  const member = world.as("member");
  const { body: content } = await member.get(`${PATH}/${id}/content?format=yjs`);
  const copy = new Y.Doc();
  Y.applyUpdate(copy, Uint8Array.fromBase64(content.update));
  assert.equal(copy.getText("content").toString(), "shared");
  copy.getText("content").insert(6, " text");
  await world.edit(id, { op: "prepend", text: "# " });
  const merged = await world.merge(id, Y.encodeStateAsUpdate(copy));
  assert.deepEqual([merged.status, merged.body.revision, merged.body.applied], [200, 3, 1]);
  assert.equal(await world.text(id), "# shared text");
  assert.equal(
    (await world.merge(id, Y.encodeStateAsUpdate(copy))).body.applied,
    0,
    "what is known is not counted again",
  );

  const vector = Y.encodeStateVector(copy).toBase64({ alphabet: "base64url" });
  const response = await world.gateway.app.fetch(
    new Request(`http://gateway.test${path}?vector=${encodeURIComponent(vector)}`, {
      headers: { authorization: `Bearer ${member.token}` },
    }),
    "127.0.0.1",
  );
  Y.applyUpdate(copy, new Uint8Array(await response.arrayBuffer()));
  assert.equal(copy.getText("content").toString(), "# shared text");

  refused(await world.merge(id, Y.encodeStateAsUpdate(copy), "observer"), 403, "forbidden");
  refused(await world.merge(id, new Uint8Array([1, 2, 3, 4])), 422, "validation_failed");
  const tree = new Y.Doc();
  tree.getXmlFragment("default").insert(0, [new Y.XmlElement("p")]);
  refused(await world.merge(id, Y.encodeStateAsUpdate(tree)), 422, "validation_failed");
  const rich = new Y.Doc();
  rich.getText("content").insert(0, "bold", { bold: true });
  refused(await world.merge(id, Y.encodeStateAsUpdate(rich)), 422, "validation_failed");
  const ahead = new Y.Doc();
  ahead.getText("content").insert(0, "a");
  const first = Y.encodeStateVector(ahead);
  ahead.getText("content").insert(1, "b");
  refused(await world.merge(id, Y.encodeStateAsUpdate(ahead, first)), 409, "conflict");
  refused(await world.merge(id, new Uint8Array(512 * 1024 + 1)), 413, "payload_too_large");
  assert.equal(await world.text(id), "# shared text");
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

Deno.test("the difference of two texts turns the one into the other without cutting a character", () => {
  fc.assert(fc.property(textArbitrary, textArbitrary, (before, after) => {
    const splices = difference(before, after);
    assert.equal(spliced(before, splices), after);
    for (const { insert } of splices) assert.ok(insert.isWellFormed());
  }));
});

Deno.test("words of a line that are in both texts stay untouched, but not the few of a line that is new", () => {
  const changed = (before: string, after: string): [string, string][] =>
    difference(before, after).map(({ at, remove, insert }) => [before.slice(at, at + remove), insert]).toReversed() as [
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

Deno.test("document.write keeps the place of a comment between two changes of one line", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make(
    "The quick brown fox jumps over the lazy dog, and that is all there is to say of it.\n",
  );
  const member = world.as("member");
  await member.post(`${PATH}/${id}/comments`, { text: "Which?", anchor: { text: "brown fox" } });
  const text = "A quick brown fox jumps over the lazy cat, and that is all there is to say of it.\n";
  assert.equal((await member.put(`${PATH}/${id}/content`, { text, revision: 1 })).status, 200);
  const { body: { items: [comment] } } = await member.get(`${PATH}/${id}/comments`);
  assert.deepEqual([comment.anchor.text, comment.anchor.start], ["brown fox", 8]);
});

Deno.test("what is typed at the end of a word while it is replaced comes after the new word", () => {
  const [ours, theirs] = [new Y.Doc(), new Y.Doc()];
  ours.getText("content").insert(0, "a colour\n");
  Y.applyUpdate(theirs, Y.encodeStateAsUpdate(ours));
  theirs.getText("content").insert("a colour".length, "s");
  const update = applySplices(ours, "gateway", difference("a colour\n", "a tint\n"));
  Y.applyUpdate(theirs, update);
  Y.applyUpdate(ours, Y.encodeStateAsUpdate(theirs));
  assert.equal(ours.getText("content").toString(), "a tints\n");
  assert.equal(theirs.getText("content").toString(), "a tints\n");
});

Deno.test("what the comments of a document said is in no event of the room any more that it left", async () => {
  await using world = await DocumentWorld.open();
  const { id } = await world.make("text");
  const { id: other } = await world.make("text");
  const member = world.as("member");
  for (const one of [id, other]) await member.post(`${PATH}/${one}/comments`, { text: "secret" });
  const { body: room } = await member.post("/v1/rooms", { name: "Elsewhere" });
  assert.equal((await member.patch(`${PATH}/${id}`, { roomId: room.id })).status, 200);
  const told = (await world.events()).filter(({ type }) => type === "document.commented");
  assert.deepEqual(told.map(({ data: { documentId, comment } }) => [documentId, comment.text]), [
    [id, ""],
    [other, "secret"],
  ]);
  const { body: { items } } = await member.get(`${PATH}/${id}/comments`);
  assert.equal(items[0].text, "secret");
});
