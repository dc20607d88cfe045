// Whatever is not stored is said so that an unmodified provider shows it, and nothing that is typed later is lost silently.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { DAY_MS } from "@/core/time/clock.ts";
import { signToken } from "../../harness.ts";
import { allEnded, until } from "../../wait.ts";
import { type Editor, EditorFixture, EditorServer, waitBriefly } from "./document_editor.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";

/** A paragraph with a picture of this many bytes in its text, as editors paste them. */
function paste(editor: Editor, bytes: number): void {
  const paragraph = new Y.XmlElement("paragraph");
  const picture = new Y.XmlElement("image");
  picture.setAttribute("src", `data:image/png;base64,${"A".repeat(bytes)}`);
  paragraph.insert(0, [picture]);
  editor.doc.getXmlFragment("default").push([paragraph]);
}

function nest(depth: number): Y.XmlElement {
  const element = new Y.XmlElement("section");
  if (depth > 1) element.insert(0, [nest(depth - 1)]);
  return element;
}

type Refused = { what: string; kind: "text" | "rich"; code: string; write: (editor: Editor) => void };
const REFUSED: readonly Refused[] = [
  { what: "an update that is too large", kind: "text", code: "payload_too_large", write: insert(600_000) },
  { what: "a frame that is too large", kind: "text", code: "payload_too_large", write: insert(3_000_000) },
  { what: "a large picture", kind: "rich", code: "payload_too_large", write: (one) => paste(one, 3_000_000) },
  {
    what: "nesting",
    kind: "rich",
    code: "validation_failed",
    write: ({ doc }) => doc.getXmlFragment("default").insert(0, [nest(65)]),
  },
  {
    what: "nodes in a text document",
    kind: "text",
    code: "validation_failed",
    write: ({ doc }) => doc.getXmlFragment("default").insert(0, [nest(1)]),
  },
  {
    what: "a subdocument",
    kind: "rich",
    code: "validation_failed",
    write: ({ doc }) => void doc.getMap("files").set("a", new Y.Doc()),
  },
];

function insert(length: number): (editor: Editor) => void {
  return (editor) => editor.insert(0, "y".repeat(length));
}

for (const { what, kind, code, write } of REFUSED) {
  Deno.test(`${what}: its editor is disconnected with the reason, and others go on`, async () => {
    await using fixture = await DocumentFixture.open();
    const { id } = await fixture.create("start", { kind });
    await using server = new EditorServer(fixture.gateway);
    const token = (name: string): string => fixture.as(name).token;
    const [hostile, other] = await allEnded([
      server.openSyncedEditor(id, token("member")),
      server.openSyncedEditor(id, token("owner")),
    ]);
    const before = Y.encodeStateAsUpdate(other.doc);
    write(hostile);
    await until(() => hostile.closeReasons.length > 0, "it is disconnected");
    hostile.doc.getMap("later").set("typed", true);
    await waitBriefly();
    const [{ code: said, detail } = { code: "", detail: "" }] = hostile.rejections;
    assert.deepEqual([said, hostile.authFailures, hostile.closeReasons], [code, ["content-refused"], [detail]]);
    assert.equal(hostile.isSaved, false);
    assert.deepEqual(Y.encodeStateAsUpdate(other.doc), before);
    if (kind === "text") other.insert(0, "more ");
    else other.doc.getXmlFragment("default").push([nest(1)]);
    await other.waitUntilSaved();
    // A new copy, as after a reload.
    const reloaded = await server.openSyncedEditor(id, token("member"));
    assert.deepEqual(Y.encodeStateVector(reloaded.doc), Y.encodeStateVector(other.doc));
  });
}

Deno.test("an editor over its daily quota is disconnected with the reason, and a reconnect on the next day saves all", async () => {
  await using fixture = await EditorFixture.open("", {
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_WRITTEN_BYTES_PER_DAY: "200000",
  });
  const { documents, server, id } = fixture;
  const { clock } = documents.gateway;
  const [alice, bob] = await allEnded(
    ["member", "owner"].map((sub) => server.openSyncedEditor(id, () => signToken(clock, sub))),
  );
  assert.ok(alice !== undefined && bob !== undefined);
  for (let n = 0; n < 50 && alice.closeReasons.length === 0; n++) {
    alice.insert(alice.text.length, "x".repeat(10_000));
    await until(() => alice.isSaved || alice.closeReasons.length > 0, "saved, or over the quota");
  }
  const stored = await documents.readText(id);
  assert.deepEqual([alice.authFailures, alice.rejections[0]?.code], [["quota-exceeded"], "quota_exceeded"]);
  assert.match(alice.closeReasons[0] ?? "", /may write at most 200000 bytes a day/);
  alice.insert(0, "typed meanwhile ");
  bob.insert(0, "Bob goes on. ");
  await bob.waitUntilSaved();
  await alice.disconnect();
  const { length } = alice.authFailures;
  await alice.reconnect();
  await until(() => alice.authFailures.length > length, "it is still over its quota when it reconnects");
  assert.equal(alice.isSaved, false);
  assert.equal(await documents.readText(id), `Bob goes on. ${stored}`);

  // A revision of what was typed may be stored only now, and use up this day as well.
  for (let days = 0; days < 3 && !alice.isSaved; days++) {
    const failures = alice.authFailures.length;
    await alice.disconnect();
    clock.advance(DAY_MS);
    await alice.reconnect();
    await until(() => alice.isSaved || alice.authFailures.length > failures, "saved, or over the quota");
  }
  await alice.waitUntilSaved();
  await until(() => bob.text === alice.text, "the other editor has all of it");
  const tomorrow = await documents.gateway.as("member");
  assert.equal((await tomorrow.get(`${PATH}/${id}/content`)).body.text, alice.text);
  assert.equal(alice.text.match(/typed meanwhile |Bob goes on\. /g)?.length, 2);
  assert.equal(alice.text.replaceAll(/[^x]/g, "").length, stored.length + 10_000);
});

Deno.test("an editor that the store no longer lets write is read-only at once, and saves all when it may write again", async () => {
  await using fixture = await EditorFixture.open("text");
  const { documents, server, id, token } = fixture;
  const alice = await server.openSyncedEditor(id, token("member"));
  assert.equal(alice.scopes.at(-1), "read-write");
  // As if the signal of the change had been lost.
  const lock = (isLocked: number) =>
    documents.gateway.app.store.write(({ db }) =>
      db.updateTable("document").set({ is_locked: isLocked }).where("id", "=", id).execute()
    );
  await lock(1);
  alice.insert(0, "while locked ");
  await until(() => alice.scopes.at(-1) === "readonly", "the editor is read-only");
  alice.insert(0, "more ");
  await waitBriefly();
  assert.equal(alice.isSaved, false);
  assert.equal(await documents.readText(id), "text");
  await lock(0);
  // Whatever else changes the document makes the gateway look at its rights.
  await documents.as("owner").patch(`${PATH}/${id}`, { title: "Other" });
  await until(() => alice.scopes.at(-1) === "read-write", "the editor may write again");
  await until(async () => await documents.readText(id) === "more while locked text", "all of it is saved");
  await alice.waitUntilSaved();
  assert.deepEqual([alice.authFailures, alice.closeCodes], [[], []]);
});
