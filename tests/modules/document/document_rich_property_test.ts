// Whatever nodes an editor has: they are stored and read back as they were, and a change of some leaves the others in their place.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import * as Y from "yjs";
import { updateFault } from "@/modules/document/content/crdt.ts";
import { FragmentText, readFragment } from "@/modules/document/rich/fragment.ts";
import { completeIds, isWritten, writeFragment } from "@/modules/document/rich/fragment_writer.ts";
import { parseNodes, type RichNode } from "@/modules/document/rich/node.ts";
import { checkShape } from "@/modules/document/rich/update_shape.ts";
import { runSteps } from "../steps.ts";

const name = fc.constantFrom("paragraph", "heading", "list", "custom-node", "blockContainer", "constructor");
const value = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 5 }),
  fc.integer(),
  // JSON has no negative zero.
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
  fc.boolean(),
  fc.constant({ nested: [1, { deep: null }] }),
);
const attrs = fc.dictionary(fc.constantFrom("id", "level", "checked", "href", "data-x", "valueOf"), value, {
  maxKeys: 3,
});
const mark = fc.record({ type: fc.constantFrom("bold", "link", "comment", "toString"), attrs }, {
  requiredKeys: ["type"],
});
const text = fc.record({
  type: fc.constant("text"),
  text: fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }).filter((one) => !one.includes("\0")),
  marks: fc.uniqueArray(mark, { maxLength: 3, selector: (one) => JSON.stringify(one) }),
}, { requiredKeys: ["type", "text"] });
const { nodes } = fc.letrec<{ nodes: unknown[]; node: unknown }>((tie) => ({
  node: fc.record(
    { type: name, attrs, content: fc.array(fc.oneof(text, tie("node")), { maxLength: 4 }) },
    { requiredKeys: ["type"] },
  ),
  nodes: fc.array(tie("node"), { maxLength: 5 }),
}));

function write(doc: Y.Doc, content: readonly RichNode[]): void {
  doc.transact(() => runSteps(writeFragment(doc.getXmlFragment("default"), content)));
}

function read(doc: Y.Doc): RichNode[] {
  return readFragment(doc.getXmlFragment("default"));
}

/** A copy of a document, as another client has it. */
function copyOf(doc: Y.Doc): Y.Doc {
  const copy = new Y.Doc();
  Y.applyUpdate(copy, Y.encodeStateAsUpdate(doc));
  return copy;
}

Deno.test("any nodes are read back from Yjs as they were written, also over others", () => {
  fc.assert(
    fc.property(nodes, nodes, (first, second) => {
      const doc = new Y.Doc();
      for (const one of [first, second]) {
        const content = completeIds(parseNodes(one, ""));
        write(doc, content);
        assert.ok(isWritten(read(doc), content), JSON.stringify({ content, read: read(doc) }));
        const copy = copyOf(doc);
        assert.deepEqual(read(copy), read(doc), "other clients read the same");
        // Text is where comments are anchored.
        const { text, segments } = new FragmentText(copy.getXmlFragment("default"));
        for (const { type, start, length } of segments) {
          assert.equal(
            text.slice(start, start + length),
            (type.toDelta() as { insert: string }[]).map(({ insert }) => insert).join(""),
          );
        }
      }
      const updates: Uint8Array[] = [];
      doc.on("update", (update: Uint8Array) => updates.push(update));
      write(doc, read(doc));
      assert.deepEqual(updates, [], "what is there already is not written again");
    }),
    { numRuns: 300 },
  );
});

Deno.test("nodes that are written while others type converge, and lose nothing that was typed", () => {
  fc.assert(
    fc.property(nodes, fc.nat(), fc.nat(), (input, which, at) => {
      const server = new Y.Doc();
      write(server, parseNodes([{ type: "paragraph", content: [{ type: "text", text: "start" }] }, ...input], ""));
      const editor = copyOf(server);
      const { segments } = new FragmentText(editor.getXmlFragment("default"));
      const segment = segments[which % segments.length];
      segment?.type.insert(at % (segment.length + 1), "TYPED");
      write(server, [...read(server), { type: "paragraph", content: [{ type: "text", text: "end" }] }]);
      const updates = [server, editor].map((doc) => Y.encodeStateAsUpdate(doc));
      for (const doc of [server, editor]) for (const update of updates) Y.applyUpdate(doc, update);
      assert.deepEqual(read(server), read(editor));
      const { text } = new FragmentText(server.getXmlFragment("default"));
      assert.equal(text.split("TYPED").length, 2, text);
      assert.ok(text.endsWith("end"));
      // What honest editors have is accepted as a whole as well, in whatever order its items are.
      const whole = Y.encodeStateAsUpdate(editor);
      assert.equal(updateFault(whole, "rich"), undefined);
      assert.equal(checkShape(new Y.Doc(), whole, "default"), "default");
    }),
    { numRuns: 200 },
  );
});

Deno.test("one changed word is a small update, wherever it is, and another editor's cursor stays", () => {
  const doc = new Y.Doc();
  const paragraph = (words: string): RichNode => ({ type: "paragraph", content: [{ type: "text", text: words }] });
  const before = Array.from({ length: 200 }, (_, n) => paragraph(`Paragraph ${n} has some words.`));
  write(doc, before);
  const { segments } = new FragmentText(doc.getXmlFragment("default"));
  const cursor = Y.createRelativePositionFromTypeIndex(segments[150]?.type ?? doc.getText(), 10);
  let bytes = 0;
  doc.on("update", (update: Uint8Array) => bytes += update.length);
  const after = before.toSpliced(10, 1, paragraph("Paragraph 10 has many words.")).toSpliced(50, 0, paragraph("New."));
  write(doc, after.with(151, paragraph("Paragraph 150 has some other words.")));
  assert.ok(bytes < 200, `${bytes} bytes`);
  const position = Y.createAbsolutePositionFromRelativePosition(cursor, doc);
  assert.deepEqual([position?.type, position?.index], [segments[150]?.type, 10]);
});
