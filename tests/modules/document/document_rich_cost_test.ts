// What it costs to write a rich document of many small parts: work that grows with their number, charged to the caller and in slices,
// so that others are served meanwhile.
// Measures the work of its thread.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { runInSlices } from "@/core/caller.ts";
import { inspectContent } from "@/modules/document/archive/content.ts";
import { applyChange, encode, openDocument, recordChange } from "@/modules/document/content/crdt.ts";
import { readFragment } from "@/modules/document/rich/fragment.ts";
import { isWritten, writeFragment } from "@/modules/document/rich/fragment_writer.ts";
import type { RichNode } from "@/modules/document/rich/node.ts";
import { assertYields, cpuTimeMs } from "../../cpu_time.ts";
import { slowTest } from "../../tier.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { createCallers, openWithLimits } from "../fixtures.ts";
import { ok } from "../room/room_fixture.ts";
import { runSteps } from "../steps.ts";

const fragmentOf = (doc: Y.Doc): Y.XmlFragment => doc.getXmlFragment("default");

/** How many items Yjs looks at during some work. */
function countVisits(work: () => void): number {
  const { prototype } = Y.Item;
  const deleted = Object.getOwnPropertyDescriptor(prototype, "deleted");
  assert.ok(deleted?.get !== undefined);
  const { get } = deleted;
  let visits = 0;
  Object.defineProperty(prototype, "deleted", {
    ...deleted,
    get(this: Y.Item): boolean {
      visits++;
      return get.call(this);
    },
  });
  try {
    work();
  } finally {
    Object.defineProperty(prototype, "deleted", deleted);
  }
  return visits;
}

function repeat(count: number, nodeAt: (at: number) => RichNode): RichNode[] {
  return Array.from({ length: count }, (_, at) => nodeAt(at));
}

function paragraphOf(content: RichNode[]): RichNode[] {
  return [{ type: "paragraph", content }];
}

/** Contents of so many parts: what is there, and what is written over it. */
const CHANGES: Record<string, (count: number) => [RichNode[], RichNode[]]> = {
  "a new document": (count) => [[], repeat(count, () => ({ type: "paragraph" }))],
  "nodes of another type": (count) => [
    repeat(count, () => ({ type: "paragraph" })),
    repeat(count, () => ({ type: "rule" })),
  ],
  "every second node of another type": (count) => [
    repeat(count, () => ({ type: "paragraph" })),
    repeat(count, (at) => at % 2 === 0 ? { type: "rule" } : { type: "paragraph", attrs: { level: at } }),
  ],
  "every second node deleted": (count) => [
    repeat(count, (at) => ({ type: "paragraph", attrs: { at } })),
    repeat(count / 2, (at) => ({ type: "paragraph", attrs: { at: 2 * at } })),
  ],
  "marks of adjacent texts exchanged": (count) => {
    const texts = (first: string, second: string): RichNode[] =>
      repeat(count, (at) => ({ type: "text", text: "ab", marks: [{ type: at % 2 === 0 ? first : second }] }));
    return [paragraphOf(texts("bold", "italic")), paragraphOf(texts("italic", "bold"))];
  },
  "words between others": (count) => {
    const words = (changed: string): RichNode[] => [{
      type: "text",
      text: repeat(count, (at) => ({ type: at % 5 === 0 ? changed : `word${at}` })).map(({ type }) => type).join(" "),
    }];
    return [paragraphOf(words("old")), paragraphOf(words("new"))];
  },
};

Deno.test("a document of twice as many parts takes twice as much work to write, whatever changes", () => {
  for (const [what, contents] of Object.entries(CHANGES)) {
    const [few = 0, many = 0] = [300, 600].map((count) => {
      const [before, after] = contents(count);
      const doc = openDocument([]);
      runSteps(applyChange(doc, "gateway", writeFragment(fragmentOf(doc), before)));
      return countVisits(() => {
        runSteps(recordChange(doc, "gateway", writeFragment(fragmentOf(doc), after)));
        assert.ok(isWritten(readFragment(fragmentOf(doc)), after), what);
      });
    });
    assert.ok(many < 3 * few, `${what}: ${few}, then ${many}`);
  }
});

Deno.test("nodes are read as often as they would be without the nodes around them", () => {
  const readsAt = (depth: number): number => {
    let reads = 0;
    const leaf: RichNode = {
      get type(): string {
        reads++;
        return "rule";
      },
    };
    const leaves = repeat(50, () => Object.create(leaf, Object.getOwnPropertyDescriptors(leaf)));
    const doc = openDocument([]);
    for (const added of [[], [{ type: "other" }]]) {
      let content: RichNode[] = [...added, ...leaves];
      for (let level = 1; level < depth; level++) content = [{ type: "section", content }];
      runSteps(applyChange(doc, "gateway", writeFragment(fragmentOf(doc), content)));
    }
    return reads;
  };
  assert.equal(readsAt(40), readsAt(2));
});

Deno.test("the update of a change in many transactions is all of it, and a small one if little changes", () => {
  const doc = openDocument([]);
  let transactions = 0;
  doc.on("afterTransaction", () => transactions++);
  const before = repeat(3000, (at) => ({ type: "paragraph", attrs: { at } }));
  runSteps(applyChange(doc, "gateway", writeFragment(fragmentOf(doc), before)));
  assert.ok(transactions > 10, `${transactions}`);
  for (const level of [20, 3000]) {
    const other = openDocument([encode(doc)]);
    const after = repeat(3000, (at) => ({ type: "paragraph", attrs: { at: at < level ? `${level}` : at } }));
    const update = runSteps(recordChange(doc, "gateway", writeFragment(fragmentOf(doc), after)));
    if (level === 20) assert.ok(update.length < 2000, `${update.length} bytes`);
    Y.applyUpdate(other, update);
    assert.deepEqual(encode(other), encode(doc));
    assert.ok(isWritten(readFragment(fragmentOf(other)), after));
  }
});

slowTest("others are served while a large rich document is created, replaced and edited", async () => {
  await using fixture = await DocumentFixture.open();
  const member = fixture.as("member");
  const html = { paragraphs: "<p></p>".repeat(12_000), rules: "<hr>".repeat(12_000) };
  await assertYields(async () => {
    const input = { roomId: fixture.roomId, title: "Rules", kind: "rich" };
    const { id, revision } = ok(await member.post(PATH, { ...input, html: html.paragraphs }), 201);
    ok(await member.put(`${PATH}/${id}/content`, { html: html.rules, revision }));
    const edits = Array.from({ length: 20 }, () => ({ op: "insert_block", at: 0, text: "Text" }));
    ok(await member.patch(`${PATH}/${id}/content`, { baseRevision: revision + 1, edits }));
  });
});

slowTest("others are served while a large document from an archive is validated", async () => {
  const doc = openDocument([]);
  const paragraphs = repeat(12_000, (at) => ({ type: "paragraph", content: [{ type: "text", text: `Text ${at}` }] }));
  runSteps(applyChange(doc, "gateway", writeFragment(fragmentOf(doc), paragraphs)));
  const update = encode(doc);
  await assertYields(async () => {
    const content = await runInSlices(inspectContent(update, { kind: "rich", fragment: "default" }));
    assert.ok(typeof content !== "string", `${content}`);
  });
});

slowTest("others are served while long quotes are searched for in a large text", async () => {
  await using fixture = await DocumentFixture.open();
  const lines = Array.from({ length: 60_000 }, (_, at) => `line ${at}`);
  const { id } = await fixture.create(lines.join("\n"));
  const quote = (at: number): string => lines.slice(at, at + 40).join("\n");
  const edits = Array.from(
    { length: 60 },
    (_, at) => ({ op: "insert_after", find: quote(50_000 + 50 * at), text: "" }),
  );
  await assertYields(() => fixture.edit(id, ...edits));
});

Deno.test("creating a rich document is charged to the caller", async () => {
  const { gateway: opened, accountOf } = await openWithLimits();
  await using gateway = opened;
  const { alice } = await createCallers(gateway, "alice");
  const account = accountOf("alice");
  const content = repeat(8000, (at) => ({ type: "paragraph", content: [{ type: "text", text: `Paragraph ${at}` }] }));
  const startedAt = { chargedMs: account.consumedMs, cpuMs: cpuTimeMs() };
  ok(await alice.post(PATH, { title: "Notes", kind: "rich", prosemirror: { type: "doc", content } }), 201);
  const chargedMs = account.consumedMs - startedAt.chargedMs;
  assert.ok(chargedMs > (cpuTimeMs() - startedAt.cpuMs) / 2, `${chargedMs} ms`);
});
