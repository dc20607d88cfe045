// Rich documents over REST and in live editors: what is written in one format is read in the others.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { testOnEngines } from "../../engines.ts";
import { until } from "../../wait.ts";
import { type Editor, EditorServer } from "./document_editor.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem, completeSearch } from "../fixtures.ts";
import { ok } from "../room/room_fixture.ts";

const MARKDOWN = `# Runbook

Some **bold**, *italic*, \`code\`, ~~gone~~ and a [link](https://example.org).

- one
- two
  - nested

1. Breathe.
2. Look.

- [ ] open
- [x] done

> quote

\`\`\`ts
const x = 1;
\`\`\`

| a | b |
| - | - |
| 1 | 2 |

***
`;

function createRich(fixture: DocumentFixture, input: Record<string, unknown> = {}) {
  return fixture.create("", { kind: "rich", text: undefined, ...input });
}

/** Replaces the content as the member. */
async function put(fixture: DocumentFixture, id: string, input: Record<string, unknown>) {
  const { body: { revision } } = await fixture.as("member").get(`${PATH}/${id}`);
  return await fixture.as("member").put(`${PATH}/${id}/content`, { revision, ...input });
}

async function contentOf(fixture: DocumentFixture, id: string, format: string) {
  return ok(await fixture.as("member").get(`${PATH}/${id}/content?format=${format}`));
}

/** Adds a paragraph to the fragment that an editor binds to. */
function addParagraph(editor: Editor, text: string, fragment = "default"): void {
  const paragraph = new Y.XmlElement("paragraph");
  paragraph.insert(0, [new Y.XmlText(text)]);
  const root = editor.doc.getXmlFragment(fragment);
  root.insert(root.length, [paragraph]);
}

Deno.test("a rich document is written as Markdown and read in every format", async () => {
  await using fixture = await DocumentFixture.open();
  const document = await createRich(fixture, { text: MARKDOWN });
  assert.deepEqual([document.kind, document.fragment], ["rich", "default"]);
  assert.equal(
    (await contentOf(fixture, document.id, "markdown")).text.replaceAll("---", "***"),
    MARKDOWN.replaceAll("---", "***"),
  );
  const { prosemirror } = await contentOf(fixture, document.id, "prosemirror");
  assert.equal(prosemirror.type, "doc");
  const types = prosemirror.content.map((node: { type: string }) => node.type);
  const expected = [
    "heading",
    "paragraph",
    "bulletList",
    "orderedList",
    "taskList",
    "blockquote",
    "codeBlock",
    "table",
  ];
  assert.deepEqual(types, [...expected, "horizontalRule"]);
  const { html } = await contentOf(fixture, document.id, "html");
  for (const part of ["<h1>Runbook</h1>", "<strong>bold</strong>", 'data-checked="true"', "<td><p>1</p></td>"]) {
    assert.ok(html.includes(part), `${part} in ${html}`);
  }
  assert.match((await contentOf(fixture, document.id, "text")).text, /^Runbook\nSome bold, italic, code/);
  assert.equal((await contentOf(fixture, document.id, "json")).blocks[0].type, "heading");
  const list = ok(await fixture.as("member").get(`${PATH}?kind=rich`));
  assert.deepEqual(list.items.map((one: { kind: string }) => one.kind), ["rich"]);
});

Deno.test("the first content of a rich document names its fragment, and content elsewhere ends the connection", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  await using server = new EditorServer(fixture.gateway);
  const alice = await server.openSyncedEditor(id, fixture.as("member").token);
  addParagraph(alice, "Hello", "document-store");
  await alice.waitUntilSaved();
  assert.equal(ok(await fixture.as("member").get(`${PATH}/${id}`)).fragment, "document-store");
  const bob = await server.openSyncedEditor(id, fixture.as("owner").token);
  addParagraph(bob, "elsewhere", "default");
  await until(() => bob.authFailures.length > 0, "bob is disconnected");
  assert.deepEqual(bob.authFailures, ["content-refused"]);
  assert.equal(bob.rejections[0]?.code, "validation_failed");
  assert.equal(bob.isSaved, false);
  addParagraph(alice, "more", "document-store");
  await alice.waitUntilSaved();
  assert.equal((await contentOf(fixture, id, "markdown")).text, "Hello\n\nmore\n");
});

Deno.test("JSON of any schema is stored as it is, and what is unknown keeps its text in other formats", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  const prosemirror = {
    type: "doc",
    content: [
      {
        type: "callout",
        attrs: { emoji: "💡", nested: { a: [1, 2] } },
        content: [{
          type: "paragraph",
          content: [
            { type: "text", text: "Ask ", marks: [{ type: "glow", attrs: { color: "#f00" } }] },
            { type: "mention", attrs: { id: "u_1", label: "Ada" } },
          ],
        }],
      },
      { type: "poll", attrs: { question: "When?" } },
    ],
  };
  ok(await put(fixture, id, { prosemirror }));
  assert.deepEqual((await contentOf(fixture, id, "prosemirror")).prosemirror, prosemirror);
  assert.equal((await contentOf(fixture, id, "markdown")).text, "Ask Ada\n");
  assert.equal((await contentOf(fixture, id, "html")).html, "<div><p>Ask Ada</p></div>");
  assert.equal((await contentOf(fixture, id, "text")).text, "Ask Ada");
});

Deno.test("HTML is read without what runs code, and written without it", async () => {
  await using fixture = await DocumentFixture.open();
  const html = `<title>no</title><h2 onclick="x()">Hi</h2><script>alert(1)</script><style>p{}</style>
    <p>a <b>bold</b> <a href="javascript:alert(1)">bad</a> <a href="https://example.org">good</a>
    <img src="data:text/html,x" alt="pic"></p>
    <ul><li><input type="checkbox" checked>done</li><li data-checked="false">open</li></ul>
    <table><tr><th>a</th></tr><tr><td colspan="2">1</td></tr></table>
    <pre><code class="language-ts">x &lt; 1\n</code></pre>`;
  const { id } = await createRich(fixture, { html });
  const { prosemirror } = await contentOf(fixture, id, "prosemirror");
  const json = JSON.stringify(prosemirror);
  for (const part of ["alert", "javascript", "data:", "onclick", "<title>"]) assert.ok(!json.includes(part), json);
  assert.deepEqual(
    prosemirror.content.map((node: { type: string }) => node.type),
    ["heading", "paragraph", "taskList", "table", "codeBlock"],
  );
  const hostile = [{
    type: "paragraph",
    content: [{ type: "text", text: "<b>x", marks: [{ type: "link", attrs: { href: "JaVa\tscript:1" } }] }],
  }];
  ok(await put(fixture, id, { prosemirror: { type: "doc", content: hostile } }));
  assert.equal((await contentOf(fixture, id, "html")).html, "<p>&lt;b&gt;x</p>");
});

Deno.test("document.edit changes text and blocks of a rich document while an editor has it open", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture, { text: "# Plan\n\nBreathe **slowly** now.\n\n- [ ] look\n" });
  await using server = new EditorServer(fixture.gateway);
  const editor = await server.openSyncedEditor(id, fixture.as("owner").token);
  const fragment = editor.doc.getXmlFragment("default");
  const heading = fragment.get(0);
  await fixture.edit(
    id,
    { op: "replace", find: "slowly", with: "deeply" },
    { op: "insert_after", find: "now", text: " or later" },
    { op: "append", text: "The *end*." },
    { op: "replace_block", at: 2, text: "- [x] look\n- [ ] listen" },
    { op: "insert_block", at: 1, nodes: [{ type: "paragraph", content: [{ type: "text", text: "First." }] }] },
  );
  const expected = "# Plan\n\nFirst.\n\nBreathe **deeply** now or later.\n\n- [x] look\n- [ ] listen\n\nThe *end*.\n";
  assert.equal((await contentOf(fixture, id, "markdown")).text, expected);
  await until(() => fragment.length === 5, "the editor receives it");
  assert.equal(fragment.get(0), heading, "what did not change is the same type, so cursors in it stay");
  const member = fixture.as("member");
  const edit = (edits: unknown[], more = {}) =>
    member.patch(`${PATH}/${id}/content`, { baseRevision: 1, edits, ...more });
  const replace = { op: "replace", find: "Breathe", with: "Rest" };
  assertProblem(await edit([replace]), 409, "stale_revision");
  assertProblem(await edit([{ op: "delete_block", at: 0 }], { onStale: "rebase" }), 409, "stale_revision");
  assert.equal((await edit([replace], { onStale: "rebase" })).status, 200);
  const current = { baseRevision: 3 };
  assertProblem(await edit([{ op: "replace", find: "Plan First", with: "" }], current), 422, "edit_not_matched");
  assertProblem(await edit([{ op: "replace", find: "e", with: "" }], current), 422, "edit_ambiguous");
  assertProblem(await edit([{ op: "delete_block", at: 9 }], current), 422, "edit_not_matched");
  assertProblem(await edit([{ op: "replace", find: "Rest", with: "a\nb" }], current), 422, "validation_failed");
  assertProblem(await edit([{ op: "replace_block", at: 0 }], current), 422, "validation_failed");
});

Deno.test("Markdown written to a document of BlockNote becomes its blocks, and their ids stay", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture, { fragment: "document-store", text: "# One\n\ntwo\n\n- a\n  - b\n" });
  const idsOf = async (): Promise<string[]> => {
    const { prosemirror: { content: [group] } } = await contentOf(fixture, id, "prosemirror");
    assert.equal(group.type, "blockGroup");
    return group.content.map((block: { attrs: { id: string } }) => block.attrs.id);
  };
  const before = await idsOf();
  assert.equal(new Set(before).size, 3);
  ok(await put(fixture, id, { text: "# One\n\ntwo changed\n\n- a\n  - b\n" }));
  assert.deepEqual(await idsOf(), before);
  await fixture.edit(id, { op: "append", text: "three" });
  assert.deepEqual((await idsOf()).slice(0, 3), before);
  assert.equal((await contentOf(fixture, id, "markdown")).text, "# One\n\ntwo changed\n\n- a\n  - b\n\nthree\n");
});

testOnEngines("comments of a rich document follow its text, and revisions restore its nodes", async (environment) => {
  await using fixture = await DocumentFixture.open({ environment });
  const { id } = await createRich(fixture, { text: "# Plan\n\nThe quick **brown** fox.\n\nAnother fox.\n" });
  const member = fixture.as("member");
  const path = `${PATH}/${id}`;
  const comment = ok(
    await member.post(`${path}/comments`, { text: "color?", anchor: { text: "brown fox" } }),
    201,
  );
  assert.equal(comment.anchor.text, "brown fox");
  assertProblem(
    await member.post(`${path}/comments`, { text: "which?", anchor: { text: "fox" } }),
    422,
    "anchor_not_found",
  );
  await fixture.edit(
    id,
    { op: "prepend", text: "Intro." },
    { op: "replace", find: "quick ", with: "" },
    { op: "replace", find: "brown", with: "dark brown" },
  );
  const [moved] = ok(await member.get(`${path}/comments`)).items;
  assert.equal(moved.anchor.quote, "brown fox");
  assert.match(moved.anchor.text, /brown fox$/);
  ok(await member.post(`${path}/revisions/1/restore`), 201);
  assert.equal((await contentOf(fixture, id, "markdown")).text, "# Plan\n\nThe quick **brown** fox.\n\nAnother fox.\n");
  const stored = ok(await member.get(`${path}/revisions/2`));
  assert.equal(stored.prosemirror.content[0].content[0].text, "Intro.");
  assert.match(stored.text, /^Intro\./);
  assert.match(ok(await member.get(`${path}/content?revision=2`)).text, /^Intro\./);
  const [restored] = ok(await member.get(`${path}/comments`)).items;
  assert.match(restored.anchor.text, /brown fox$/);
  await fixture.gateway.runJobs();
  const { items } = await completeSearch(() => member.get("/v1/search?q=brown&types=document"));
  assert.deepEqual(items.map((one: { document: { id: string } }) => one.document.id), [id]);
});

Deno.test("what people type in an editor moves comments, is found, and is a revision that can be restored", async () => {
  await using fixture = await DocumentFixture.open();
  const { gateway } = fixture;
  const { id } = await createRich(fixture, {
    fragment: "document-store",
    text: "Plan of the harbor.\n\nSecond line.\n",
  });
  const member = fixture.as("member");
  const path = `${PATH}/${id}`;
  const { id: comment } = ok(
    await member.post(`${path}/comments`, { text: "which?", anchor: { text: "harbor" } }),
    201,
  );
  await using server = new EditorServer(gateway);
  const editor = await server.openSyncedEditor(id, fixture.as("owner").token);
  const [first, second] = textsIn(editor.doc.getXmlFragment("document-store"));
  assert.ok(first !== undefined && second !== undefined);
  first.insert(first.toString().indexOf("bor"), "XX");
  second.delete(0, 6);
  second.insert(0, "Our lighthouse, ");
  await editor.waitUntilSaved();
  const anchorText = async (): Promise<string> =>
    ok(await member.get(`${path}/comments`)).items.find((one: { id: string }) => one.id === comment).anchor.text;
  assert.equal(await anchorText(), "harXXbor");
  gateway.clock.advance(20_000);
  await gateway.runJobs();
  const { items: found } = await completeSearch(() => member.get("/v1/search?q=lighthouse&types=document"));
  assert.deepEqual(found.map((one: { document: { id: string } }) => one.document.id), [id]);
  const [live] = ok(await member.get(`${path}/revisions`)).items;
  assert.deepEqual([live.kind, live.principalIds], ["live", ["owner"]]);
  ok(await member.post(`${path}/revisions/1/restore`), 201);
  await until(() => second.toString() === "Second line.", "the editor receives what was restored");
  assert.equal((await contentOf(fixture, id, "markdown")).text, "Plan of the harbor.\n\nSecond line.\n");
  assert.equal(await anchorText(), "harbor");
});

/** The texts of a fragment, in the order of the document. */
function textsIn(parent: Y.XmlFragment): Y.XmlText[] {
  return parent.toArray().flatMap((child) =>
    child instanceof Y.XmlText ? [child] : child instanceof Y.XmlFragment ? textsIn(child) : []
  );
}

Deno.test("a text document keeps formatting as attributes, and refuses an image visibly", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("plain text");
  await using server = new EditorServer(fixture.gateway);
  const alice = await server.openSyncedEditor(id, fixture.as("member").token);
  const bob = await server.openSyncedEditor(id, fixture.as("owner").token);
  const text = alice.doc.getText("content");
  text.format(0, 5, { bold: true });
  text.insert(10, " and more", {});
  await alice.waitUntilSaved();
  const delta = [{ insert: "plain", attributes: { bold: true } }, { insert: " text and more" }];
  await until(() => bob.text === "plain text and more", "bob receives it");
  assert.deepEqual(bob.doc.getText("content").toDelta(), delta);
  await fixture.edit(id, { op: "replace", find: "plain", with: "simple" });
  await until(() => bob.text === "simple text and more", "bob receives the edit");
  text.insertEmbed(0, { image: "https://example.org/a.png" });
  await until(() => alice.authFailures.length > 0, "alice is disconnected");
  assert.deepEqual([alice.authFailures, alice.rejections[0]?.code], [["content-refused"], "validation_failed"]);
  assert.equal(await fixture.readText(id), "simple text and more");
});
