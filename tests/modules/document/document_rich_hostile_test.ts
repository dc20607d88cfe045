// Rich documents against hostile clients: content in the wrong place, deep and repeated nesting, marks that expand, crafted bytes.
// Whatever is accepted can be read and opened.
// Measures the work of its thread.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import * as Y from "yjs";
import { CPU_LIMIT_MS, cpuTimeMs, withinCpuLimit } from "../../cpu_time.ts";
import { until } from "../../wait.ts";
import { slowTest } from "../../tier.ts";
import { decodeUpdate } from "@/modules/document/content/decoded_update.ts";
import { EditorServer, RawEditor } from "./document_editor.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem } from "../fixtures.ts";
import { ok } from "../room/room_fixture.ts";

const FORMATS = ["markdown", "html", "json", "text", "prosemirror", "yjs"];

function createRich(fixture: DocumentFixture) {
  return fixture.create("", { kind: "rich", text: "# Title\n\nSome **bold** text.\n" });
}

/** The update of a change by another client of a document. */
async function changeOf(fixture: DocumentFixture, id: string, change: (root: Y.XmlFragment, doc: Y.Doc) => void) {
  const doc = new Y.Doc();
  const { update } = ok(await fixture.as("member").get(`${PATH}/${id}/content?format=yjs`));
  Y.applyUpdate(doc, Uint8Array.fromBase64(update));
  const vector = Y.encodeStateVector(doc);
  change(doc.getXmlFragment("default"), doc);
  return Y.encodeStateAsUpdate(doc, vector);
}

async function assertReadable(fixture: DocumentFixture, id: string, status = 200): Promise<void> {
  for (const format of FORMATS) {
    const response = await fixture.as("member").get(`${PATH}/${id}/content?format=${format}`);
    const expected = format === "yjs" || format === "text" ? 200 : status;
    assert.equal(response.status, expected, `${format}: ${JSON.stringify(response.body).slice(0, 500)}`);
  }
}

function nest(depth: number): Y.XmlElement {
  const top = new Y.XmlElement("section");
  let inner = top;
  for (let level = 1; level < depth; level++) {
    const next = new Y.XmlElement("section");
    inner.insert(0, [next]);
    inner = next;
  }
  return top;
}

Deno.test("a rich document refuses what no editor writes, and accepts what they keep beside their content", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  const refused: Record<string, (root: Y.XmlFragment, doc: Y.Doc) => void> = {
    "another fragment": (_root, doc) => doc.getXmlFragment("other").insert(0, [new Y.XmlElement("p")]),
    "a text at the top level": (_root, doc) => doc.getText("content").insert(0, "text"),
    "an array at the top level": (_root, doc) => doc.getArray("list").insert(0, [1]),
    "a subdocument": (_root, doc) => doc.getMap("files").set("a", new Y.Doc()),
    "binary data": (_root, doc) => doc.getMap("files").set("a", new Uint8Array([1, 2])),
    "an embedded object": (root) => (root.get(1) as Y.XmlElement).insert(0, [withEmbed()]),
    "an element in a text": (root) => {
      textIn(root).insertEmbed(0, new Y.XmlElement("p"));
    },
    "a map among nodes": (root) => root.insert(0, [new Y.Map() as never]),
    "nesting beyond the limit": (root) => root.insert(0, [nest(65)]),
    "a name that is too long": (root) => root.insert(0, [new Y.XmlElement("x".repeat(101))]),
    "NUL in a mark": (root) => textIn(root).format(0, 3, { link: { href: "https://a.example/\0" } }),
    "a lone surrogate in the name of a field of a mark": (root) => textIn(root).format(0, 3, { link: { "\ud800": 1 } }),
    "too many top-level types": (_root, doc) => {
      for (let n = 0; n < 40; n++) doc.getMap(`map ${n}`).set("a", 1);
    },
  };
  for (const [what, change] of Object.entries(refused)) {
    const response = await fixture.mergeUpdate(id, await changeOf(fixture, id, change));
    assert.equal(response.status, 422, `${what}: ${JSON.stringify(response.body)}`);
  }
  const threads = (_root: Y.XmlFragment, doc: Y.Doc): void => {
    const thread = new Y.Map<unknown>();
    thread.set("comments", Y.Array.from([{ body: "Hi" }]));
    doc.getMap("threads").set("t1", thread);
    doc.getMap("config").set("isLoaded", true);
  };
  ok(await fixture.mergeUpdate(id, await changeOf(fixture, id, threads)));
  ok(await fixture.mergeUpdate(id, await changeOf(fixture, id, (root) => root.insert(0, [nest(64)]))));
  await assertReadable(fixture, id);
});

/** The text of the title. */
function textIn(root: Y.XmlFragment): Y.XmlText {
  return (root.get(0) as Y.XmlElement).get(0) as Y.XmlText;
}

function withEmbed(): Y.XmlText {
  const text = new Y.XmlText();
  text.insertEmbed(0, { image: "x" });
  return text;
}

Deno.test("an update is decoded once for all who check it, wherever in a frame it lies", () => {
  const [one, other] = ["one", "other"].map((name) => {
    const doc = new Y.Doc();
    doc.getMap(name).set("a", 1);
    return Y.encodeStateAsUpdate(doc);
  });
  assert.ok(one !== undefined && other !== undefined);
  const frame = new Uint8Array([7, 7, ...one, ...other]);
  const decoded = decodeUpdate(frame.subarray(2, 2 + one.length));
  assert.equal(decodeUpdate(frame.subarray(2, 2 + one.length)), decoded);
  assert.deepEqual(decoded.structs[0]?.id, decodeUpdate(one).structs[0]?.id);
  assert.deepEqual(decodeUpdate(frame.subarray(2 + one.length)).structs[0]?.id, decodeUpdate(other).structs[0]?.id);
  assert.throws(() => decodeUpdate(frame.subarray(3, 20)));
});

Deno.test("nesting in many small updates ends at the same depth", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  let depth = 0;
  for (let status = 200; status === 200; depth++) {
    const update = await changeOf(fixture, id, (root) => {
      let inner = root;
      for (let level = 0; level < depth; level++) inner = inner.get(0) as Y.XmlElement;
      inner.insert(0, [new Y.XmlElement("section")]);
    });
    ({ status } = await fixture.mergeUpdate(id, update));
    assert.ok(depth < 100);
  }
  assert.equal(depth, 65);
  await assertReadable(fixture, id);
});

Deno.test("marks that expand to more than a document may have are stored, but not read, and nothing more is accepted", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  const update = await changeOf(fixture, id, (root) => {
    const text = (root.get(0) as Y.XmlElement).get(0) as Y.XmlText;
    text.insert(0, "x".repeat(1000));
    text.format(0, 1000, { note: { text: "y".repeat(50_000) } });
    for (let at = 0; at < 1000; at += 2) text.format(at, 1, { bold: {} });
  });
  ok(await withinCpuLimit(fixture.mergeUpdate(id, update)));
  fixture.gateway.clock.advance(20_000);
  await withinCpuLimit(fixture.gateway.runJobs());
  await withinCpuLimit(assertReadable(fixture, id, 413));
  const more = await changeOf(fixture, id, (root) => root.insert(0, [new Y.XmlElement("p")]));
  assertProblem(await fixture.mergeUpdate(id, more), 413, "payload_too_large");
  const { items } = ok(await fixture.as("member").get(`${PATH}/${id}/revisions`));
  assert.equal(items.length, 2);
});

Deno.test("thousands of marks on one text, changed by one editor, do not block the others", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  await using server = new EditorServer(fixture.gateway);
  const hostile = await RawEditor.connect(server.url, id, fixture.as("member").token);
  const honest = await server.openSyncedEditor(id, fixture.as("owner").token);
  const update = await changeOf(fixture, id, (root) => {
    const text = new Y.XmlText("z".repeat(3000));
    const paragraph = new Y.XmlElement("paragraph");
    paragraph.insert(0, [text]);
    root.insert(0, [paragraph]);
    const delta = Array.from({ length: 3000 }, (_, n) => ({ retain: 1, attributes: { [`mark${n}`]: {} } }));
    text.applyDelta(delta);
  });
  const startedAt = cpuTimeMs();
  hostile.sendUpdate(new Uint8Array(2));
  hostile.sendUpdate(update, 2);
  await until(() => honest.doc.getXmlFragment("default").length === 3, "the honest editor receives it");
  const paragraph = honest.doc.getXmlFragment("default").get(1) as Y.XmlElement;
  (paragraph.get(0) as Y.XmlText).insert(0, "still here ");
  await honest.waitUntilSaved();
  assert.ok(cpuTimeMs() - startedAt < CPU_LIMIT_MS);
  await hostile.close();
});

Deno.test("an attribute with a long history is not searched from its start again and again", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  const set = (client: number, count: number) =>
    changeOf(fixture, id, (root, doc) => {
      doc.clientID = client;
      const element = root.get(0) as Y.XmlElement;
      for (let n = 0; n < count; n++) element.setAttribute("level", `${client} ${n}`);
    });
  for (let client = 1; client <= 5; client++) {
    const { status } = await withinCpuLimit(fixture.mergeUpdate(id, await set(client, 2000)));
    assert.ok(status === 200 || status === 409, `${status}`);
  }
  await assertReadable(fixture, id);
});

Deno.test("after any bytes the document can be read, and is what it was unless they were accepted", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await createRich(fixture);
  const update = await changeOf(fixture, id, (root, doc) => {
    doc.clientID = 77;
    const item = new Y.XmlElement("item");
    item.setAttribute("checked", true as unknown as string);
    item.insert(0, [new Y.XmlText("new"), new Y.XmlElement("br")]);
    root.insert(1, [item]);
    (item.get(0) as Y.XmlText).format(0, 2, { bold: {}, link: { href: "https://example.org" } });
    (root.get(0) as Y.XmlElement).setAttribute("level", 2 as unknown as string);
    root.delete(2, 1);
  });
  const nodes = async () =>
    JSON.stringify(ok(await fixture.as("member").get(`${PATH}/${id}/content?format=prosemirror`)).prosemirror);
  let before = await nodes();
  const edit = fc.record({ at: fc.nat(update.length - 1), byte: fc.integer({ min: 0, max: 255 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 4 }), async (edits) => {
      const bytes = update.slice();
      for (const { at, byte } of edits) bytes[at] = byte;
      const { status, body } = await fixture.mergeUpdate(id, bytes);
      assert.ok([200, 409, 422].includes(status), `${status} ${JSON.stringify(body)}: ${bytes.toHex()}`);
      const after = await nodes();
      if (status !== 200) assert.equal(after, before);
      before = after;
    }),
    { numRuns: 400 },
  );
  await assertReadable(fixture, id);
});

slowTest("Markdown and HTML that nest or repeat without end are converted or refused in little time", async () => {
  await using fixture = await DocumentFixture.open();
  const hostile: Record<string, Record<string, string>> = {
    "quotes in quotes": { text: "> ".repeat(20_000) },
    "open brackets": { text: "![".repeat(20_000) },
    "open emphasis": { text: "*a_".repeat(20_000) },
    "a long reference many times": { text: `${"[a]".repeat(20_000)}\n\n[a]: ${"x".repeat(20_000)}` },
    "open tags": { html: "<b>".repeat(20_000) + "</i>".repeat(20_000) },
    "lists in lists": { html: "<ul><li>".repeat(20_000) },
    "line breaks": { html: `<p>${"<br>".repeat(20_000)}` },
  };
  for (const [what, input] of Object.entries(hostile)) {
    const creating = fixture.as("member").post(PATH, {
      roomId: fixture.roomId,
      title: "Notes",
      kind: "rich",
      ...input,
    });
    const { status, body } = await withinCpuLimit(creating);
    assert.ok(status === 201 || status === 413, `${what}: ${status} ${JSON.stringify(body)}`);
    if (status === 201) await withinCpuLimit(assertReadable(fixture, body.id));
  }
});
