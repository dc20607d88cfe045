// Rich documents over REST and in live editors: what is written in one format is read in the others.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { until } from "../wait.ts";
import { type Editor, EditorServer } from "./document_editor.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { ok } from "./room_fixture.ts";

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
  return fixture.create(undefined as unknown as string, { kind: "rich", ...input });
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
