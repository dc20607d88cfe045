// Rich documents that hostile clients make grow: giant attributes, hundreds of thousands of tiny items, content that is written and
// deleted again and again, values that nest, awareness as a store. All is refused clearly, at a bounded cost, and others go on.
// Measures the work of its thread.
import assert from "node:assert/strict";
import * as enc from "npm:lib0@0.2.120/encoding";
import * as Y from "yjs";
import type { ApiResponse } from "../../harness.ts";
import { CPU_LIMIT_MS, cpuTimeMs, withinCpuLimit } from "../../cpu_time.ts";
import { until } from "../../wait.ts";
import { slowTest } from "../../tier.ts";
import { EditorServer, RawEditor } from "./document_editor.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { assertProblem } from "../fixtures.ts";
import { ok } from "../room/room_fixture.ts";

/** A copy of a document, as a client of REST has it, which sends its changes one by one. */
class Copy {
  readonly #fixture: DocumentFixture;
  readonly #id: string;
  readonly #doc = new Y.Doc();

  private constructor(fixture: DocumentFixture, id: string) {
    this.#fixture = fixture;
    this.#id = id;
  }

  static async open(fixture: DocumentFixture): Promise<Copy> {
    const { id } = await fixture.create("", { kind: "rich", text: "# Title\n\nSome text.\n" });
    const copy = new Copy(fixture, id);
    const { update } = ok(await fixture.as("member").get(`${PATH}/${id}/content?format=yjs`));
    Y.applyUpdate(copy.#doc, Uint8Array.fromBase64(update));
    return copy;
  }

  async change(change: (root: Y.XmlFragment) => void): Promise<ApiResponse> {
    const vector = Y.encodeStateVector(this.#doc);
    this.#doc.transact(() => change(this.#doc.getXmlFragment("default")));
    return await withinCpuLimit(this.#fixture.mergeUpdate(this.#id, Y.encodeStateAsUpdate(this.#doc, vector)));
  }

  async commit(): Promise<void> {
    this.#fixture.gateway.clock.advance(20_000);
    await withinCpuLimit(this.#fixture.gateway.runJobs());
  }

  async assertReadable(): Promise<void> {
    for (const format of ["markdown", "html", "prosemirror"]) {
      ok(await withinCpuLimit(this.#fixture.as("member").get(`${PATH}/${this.#id}/content?format=${format}`)));
    }
  }
}

function setAttribute(root: Y.XmlFragment, name: string, value: unknown): void {
  (root.get(0) as Y.XmlElement).setAttribute(name, value as string);
}

Deno.test("attributes count as content: a giant one is refused, and so is the sum of many", async () => {
  await using fixture = await DocumentFixture.open();
  const giant = await Copy.open(fixture);
  assertProblem(
    await giant.change((root) => setAttribute(root, "src", "x".repeat(1_500_000))),
    413,
    "payload_too_large",
  );
  await giant.assertReadable();
  const many = await Copy.open(fixture);
  let [status, accepted] = [200, 0];
  for (; status === 200; accepted++) {
    ({ status } = await many.change((root) => setAttribute(root, `src${accepted}`, "x".repeat(200_000))));
  }
  assert.deepEqual([status, accepted], [413, 6]);
  await many.assertReadable();
});

Deno.test("values of attributes that nest deeper than editors write them are refused", async () => {
  await using fixture = await DocumentFixture.open();
  const copy = await Copy.open(fixture);
  let value: unknown = "x";
  for (let depth = 0; depth < 40; depth++) value = { [depth]: [value] };
  assertProblem(await copy.change((root) => setAttribute(root, "data", value)), 422, "validation_failed");
  await copy.assertReadable();
});

Deno.test("a node with more attributes than any editor gives it is refused", async () => {
  await using fixture = await DocumentFixture.open();
  const create = (count: number) => {
    const attrs = Object.fromEntries(Array.from({ length: count }, (_, at) => [`a${at}`, at]));
    const prosemirror = { type: "doc", content: [{ type: "paragraph", attrs }] };
    return fixture.as("member").post(PATH, { roomId: fixture.roomId, title: "Notes", kind: "rich", prosemirror });
  };
  assert.equal((await create(1000)).status, 201);
  const refused = await create(1001);
  assertProblem(refused, 422, "validation_failed");
  assert.equal(refused.body.errors[0].pointer, "/prosemirror/content/0/attrs");
});

slowTest(
  "what is written and deleted again and again fills its limit, and is forgotten with the next revision",
  async () => {
    await using fixture = await DocumentFixture.open();
    const copy = await Copy.open(fixture);
    let [status, rounds] = [200, 0];
    for (; status === 200; rounds++) {
      ({ status } = await copy.change((root) => setAttribute(root, "data", `${rounds}${"x".repeat(900_000)}`)));
      if (status === 200) await copy.change((root) => (root.get(0) as Y.XmlElement).removeAttribute("data"));
      assert.ok(rounds < 40, "it ends");
    }
    assert.equal(status, 413);
    await copy.commit();
    await copy.assertReadable();
    const other = await Copy.open(fixture);
    for (let round = 0; round < rounds + 2; round++) {
      ok(await other.change((root) => setAttribute(root, "data", `${round}${"x".repeat(900_000)}`)));
      await other.commit();
    }
    await other.assertReadable();
  },
);

/** An update with as many empty elements as fit into it, each of eight bytes here and a hundred times that in memory. */
function manyElements(bytes: number): Uint8Array {
  const parts = enc.createEncoder();
  let count = 0;
  for (; enc.length(parts) < bytes; count++) {
    if (count === 0) {
      enc.writeUint8Array(parts, Uint8Array.of(0x07, 1));
      enc.writeVarString(parts, "default");
    } else {
      enc.writeUint8(parts, 0x87);
      for (const number of [5, count - 1]) enc.writeVarUint(parts, number);
    }
    enc.writeVarUint(parts, 3);
    enc.writeVarString(parts, "p");
  }
  const update = enc.createEncoder();
  for (const number of [1, count, 5, 0]) enc.writeVarUint(update, number);
  enc.writeUint8Array(update, enc.toUint8Array(parts));
  enc.writeVarUint(update, 0);
  return enc.toUint8Array(update);
}

slowTest("hundreds of thousands of tiny items in one update are refused, and other editors go on", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("", { kind: "rich", text: "Some text.\n" });
  await using server = new EditorServer(fixture.gateway);
  const honest = await server.openSyncedEditor(id, fixture.as("owner").token);
  const hostile = await RawEditor.connect(server.url, id, fixture.as("member").token);
  const update = manyElements(2_000_000);
  assert.ok((Y.parseUpdateMeta(update).to.get(5) ?? 0) > 200_000);
  const startedAt = cpuTimeMs();
  hostile.sendUpdate(new Uint8Array(2));
  hostile.sendUpdate(update, 2);
  await until(() => hostile.hasReceived("limit_reached"), "it is refused");
  await until(() => hostile.hasReceived("content-refused"), "its editor is disconnected");
  assert.ok(cpuTimeMs() - startedAt < CPU_LIMIT_MS);
  honest.doc.getXmlFragment("default").push([new Y.XmlElement("paragraph")]);
  await honest.waitUntilSaved();
  assert.equal(honest.doc.getXmlFragment("default").length, 2);
  await hostile.close();
});

Deno.test("awareness is not a store: a large state closes its socket", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("", { kind: "rich" });
  await using server = new EditorServer(fixture.gateway);
  for (const bytes of [20_000, 100_000, 3_000_000]) {
    const hostile = await RawEditor.connect(server.url, id, fixture.as("member").token);
    hostile.sendAwareness([1], 1, JSON.stringify({ user: { name: "x".repeat(bytes) } }));
    assert.equal(await hostile.closed, 1009, `${bytes} bytes`);
  }
});
