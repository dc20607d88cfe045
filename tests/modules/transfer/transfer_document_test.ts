// Revisions and comments of documents, and bans of rooms, are exported and imported: whole, once, by
// rights, and from an archive that is not believed.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { slowTest } from "../../tier.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";
import {
  type Any,
  assertIdempotent,
  assertNothingAdded,
  comparableRecords,
  CRASH_STEP,
  crashAfterWrites,
  downloadExport,
  EXPORTS,
  exportTenant,
  importAgain,
  importArchive,
  importPartly,
  IMPORTS,
  importWhole,
  parseRecords,
  recordsOfType,
  summarizeImport,
  toArchive,
  uploadArchive,
} from "./transfer_fixture.ts";

const DOCUMENTS = "/v1/collaboration/documents";
const PARTS = ["revision", "comment", "ban"];

/** Edits a document as a live editor does. */
async function editLive(who: Caller, id: string, text: string): Promise<void> {
  const doc = new Y.Doc();
  Y.applyUpdate(doc, Uint8Array.fromBase64(ok(await who.get(`${DOCUMENTS}/${id}/content?format=yjs`)).update));
  const before = Y.encodeStateVector(doc);
  doc.getText("content").insert(0, text);
  ok(await who.post(`${DOCUMENTS}/${id}/yjs`, Y.encodeStateAsUpdate(doc, before)));
}

/** A document with a past and a discussion, a private one with a note, and a member who is banned from the room. */
async function createContent(gateway: Harness) {
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const { ann, bob, cyd } = await createCallers(gateway, "ann", "bob", "cyd", "eve");
  const roomId = await createRoom(ann, ["bob", "cyd", "eve"], { visibility: "public" });
  ok(await ann.delete(`/v1/rooms/${roomId}/members/eve?ban=true&reason=noise`));
  const tick = (): void => gateway.clock.advance(60_000);
  const { id } = ok(await ann.post(DOCUMENTS, { roomId, title: "Plan", text: "The quick fox.\nThe slow fox.\n" }));
  const path = `${DOCUMENTS}/${id}`;
  const edit = async (who: Caller, baseRevision: number, find: string, text: string): Promise<void> => {
    tick();
    ok(await who.patch(`${path}/content`, { baseRevision, edits: [{ op: "replace", find, with: text }] }));
  };
  const comment = async (who: Caller, text: string, more: Any = {}): Promise<string> => {
    tick();
    return ok(await who.post(`${path}/comments`, { text, ...more })).id;
  };
  const asked = await comment(cyd, "why slow?", { anchor: { text: "fox", prefix: "slow " } });
  const lost = await comment(bob, "really?", { anchor: { text: "quick" } });
  await edit(bob, 1, "quick ", "");
  const answered = await comment(ann, "because 上海", { parentId: asked });
  const whole = await comment(ann, "typo", {});
  ok(await ann.patch(`${path}/comments/${whole}`, { text: "about it all" }));
  const gone = await comment(bob, "never mind");
  ok(await bob.delete(`${path}/comments/${gone}`));
  ok(await bob.patch(`${path}/comments/${asked}`, { resolved: true }));
  await edit(ann, 2, "The fox", "# Foxes\nThe fox");
  tick();
  ok(await bob.post(`${path}/revisions/1/restore`));
  ok(await ann.delete(`/v1/rooms/${roomId}/members/cyd`));
  // Live edits: some committed, and some that are in no revision yet.
  await editLive(bob, id, "Live. ");
  tick();
  await gateway.runJobs();
  gateway.clock.advance(11 * 60_000);
  await editLive(ann, id, "On. ");
  const own = ok(await ann.post(DOCUMENTS, { title: "Private", text: "mine" })).id;
  ok(await ann.post(`${DOCUMENTS}/${own}/comments`, { text: "to myself" }));
  return { boss, ann, bob, cyd, roomId, id, own, comments: { asked, lost, answered, whole, gone } };
}

/** What a reader sees of a document's past and discussion, without ids. */
async function readContent(who: Caller, id: string): Promise<Any> {
  const path = `${DOCUMENTS}/${id}`;
  const revisions: Any[] = [];
  for (const { revision } of ok(await who.get(`${path}/revisions?limit=100`)).items) {
    revisions.push(ok(await who.get(`${path}/revisions/${revision}`)));
  }
  const comments: Any[] = ok(await who.get(`${path}/comments?limit=100`)).items;
  const texts = new Map(comments.map((one) => [one.id, one.text]));
  return {
    revisions,
    comments: comments.map(({ id: _id, documentId: _documentId, parentId, ...rest }) => ({
      ...rest,
      under: texts.get(parentId) ?? null,
    })),
  };
}

testOnEngines(
  "revisions and comments of a document are imported as they were exported, under other ids where theirs are taken",
  async (engine) => {
    await using gateway = await openGateway(engine);
    const { boss, ann, roomId, id, comments } = await createContent(gateway);
    const out = await exportTenant(gateway, boss);
    const [document] = recordsOfType(out, "document");
    assert.deepEqual([document.id, document.revision], [id, 6]);
    assert.deepEqual([document.origin.kind, document.origin.principalIds], ["live", ["ann"]]);
    const kept = recordsOfType(out, "revision").map((
      { revision, kind, principalIds },
    ) => [revision, kind, principalIds]);
    assert.deepEqual(kept, [
      [5, "live", ["bob"]],
      [4, "restored", ["bob"]],
      [3, "written", ["ann"]],
      [2, "written", ["bob"]],
      [1, "created", ["ann"]],
    ]);
    assert.deepEqual(
      recordsOfType(out, "comment").map((one) => one.id).slice(0, 4),
      [comments.asked, comments.lost, comments.whole, comments.answered],
      "replies last, and nothing that was deleted",
    );
    const { counts } = parseRecords(out).at(-1);
    assert.deepEqual([counts.documents, counts.revisions, counts.comments, counts.bans], [2, 5, 5, 1]);
    assert.ok(recordsOfType(out, "principal").some((one) => one.id === "eve"));

    const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
    const done = await importWhole(gateway, twin, "gateway", out);
    const { revisions, comments: added, bans } = done.progress.added;
    assert.deepEqual([revisions, added, bans], [5, 5, 1]);
    const reader = await gateway.as("ann", { tenant: "twin" });
    const [copy] = ok(await reader.get(`${DOCUMENTS}?q=Plan`)).items;
    assert.notEqual(copy.id, id);
    await gateway.runJobs();
    const before = await readContent(ann, id);
    // Here live edits are committed, there they were not yet when it was exported.
    gateway.clock.advance(60_000);
    await gateway.runJobs();
    assert.deepEqual((await readContent(reader, copy.id)).comments, before.comments);
    const texts = ({ revisions }: Any): Any[] => revisions.map((one: Any) => [one.revision, one.kind, one.text]);
    assert.deepEqual(texts(await readContent(reader, copy.id)), texts(await readContent(ann, id)));
    const [asked] = ok(await reader.get(`${DOCUMENTS}/${copy.id}/comments`)).items;
    assert.deepEqual([asked.authorId, asked.resolvedBy, asked.anchor.text], ["cyd", "bob", "fox"]);

    // Comments stay with their words, and all receive new ones.
    const { revision } = ok(await reader.get(`${DOCUMENTS}/${copy.id}`));
    const edits = [{ op: "replace", find: "slow fox", with: "slow old fox" }];
    ok(await reader.patch(`${DOCUMENTS}/${copy.id}/content`, { baseRevision: revision, edits }));
    const moved = ok(await reader.get(`${DOCUMENTS}/${copy.id}/comments`)).items[0].anchor;
    assert.deepEqual([moved.text, moved.start], ["fox", asked.anchor.start + 4]);
    ok(await reader.post(`${DOCUMENTS}/${copy.id}/revisions/3/restore`));
    assert.match(ok(await reader.get(`${DOCUMENTS}/${copy.id}/content`)).text, /^# Foxes\n/);
    const room = ok(await reader.get(`${DOCUMENTS}/${copy.id}`)).roomId;
    const told = (await readRoomEvents(reader, room)).filter(({ type }) => type === "document.commented");
    assert.deepEqual(told.map(({ data }) => data.action), Array(4).fill("created"));

    // Who was banned is, and that is known to those who knew.
    const list = ok(await reader.get(`/v1/rooms/${room}/bans`)).items;
    assert.deepEqual(list, ok(await ann.get(`/v1/rooms/${roomId}/bans`)).items);
    assertProblem(await (await gateway.as("eve", { tenant: "twin" })).get(`/v1/rooms/${room}`), 404, "not_found");

    await importAgain(gateway, twin, "gateway", out);
  },
);

Deno.test("imported content is exported again without a difference, and a later archive completes an older one", async () => {
  await using gateway = await openGateway();
  const { boss, id } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  {
    await using empty = await openGateway();
    const newBoss = await empty.as("boss", { role: "owner" });
    await importWhole(empty, newBoss, "gateway", out);
    assert.deepEqual(comparableRecords(await exportTenant(empty, newBoss)), comparableRecords(out));
  }
  const old = toArchive(
    parseRecords(out).filter(({ type }) => !PARTS.includes(type)).map(({ origin: _origin, ...line }) => line),
  );
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const done = await importArchive(empty, newBoss, "gateway", old);
  assert.deepEqual([done.state, done.report, done.progress.added.documents], ["done", [], 2]);
  const ann = await empty.as("ann");
  const only = ok(await ann.get(`${DOCUMENTS}/${id}/revisions`)).items;
  assert.deepEqual(only.map((one: Any) => [one.revision, one.kind, one.principalIds]), [[6, "created", ["ann"]]]);
  const edits = [{ op: "prepend", text: "Here. " }];
  ok(await ann.patch(`${DOCUMENTS}/${id}/content`, { baseRevision: 6, edits }));
  const more = await importArchive(empty, newBoss, "gateway", out);
  const { documents, revisions, comments, bans } = more.progress.added;
  assert.deepEqual([more.report, documents, revisions, comments, bans], [[], 0, 5, 5, 0]);
  const now = await readContent(ann, id);
  assert.deepEqual(now.revisions.map((one: Any) => one.revision), [7, 6, 5, 4, 3, 2, 1]);
  assert.equal(ok(await ann.get(`${DOCUMENTS}/${id}/content`)).text.slice(0, 10), "Here. On. ");
});

Deno.test("importing into the source restores no other revisions, no deleted document, and no banned member", async () => {
  await using gateway = await openGateway();
  const { boss, ann, bob, id, own, roomId } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  const again = async (): Promise<Any> => {
    const { state, report, progress } = await importArchive(gateway, boss, "gateway", out);
    const { revisions, comments, bans, members } = progress.added;
    return [state, report, { revisions, comments, bans, members }];
  };
  const nothing = { revisions: 0, comments: 0, bans: 0, members: 0 };
  assert.deepEqual(await again(), ["done", [], nothing]);
  ok(await ann.delete(`/v1/rooms/${roomId}/bans/eve`));
  ok(await ann.delete(`/v1/rooms/${roomId}/members/bob?ban=true`));
  const [note] = ok(await ann.get(`${DOCUMENTS}/${own}/comments`)).items;
  ok(await ann.delete(`${DOCUMENTS}/${own}/comments/${note.id}`));
  ok(await ann.delete(`${DOCUMENTS}/${own}`));
  assert.deepEqual(await again(), ["done", [], nothing]);
  assert.deepEqual(ok(await ann.get(`/v1/rooms/${roomId}/bans`)).items.map((one: Any) => one.principalId), ["bob"]);
  assertProblem(await bob.get(`${DOCUMENTS}/${id}/comments`), 404, "not_found");
  assertProblem(await ann.get(`${DOCUMENTS}/${own}/comments`), 404, "not_found");
});

Deno.test("an export of a room has the past and discussion of its documents, and of no others", async () => {
  await using gateway = await openGateway();
  const { ann, boss, roomId, id, own } = await createContent(gateway);
  assertProblem(await boss.post(EXPORTS, { kind: "room", roomId }), 403, "forbidden");
  const { id: exportId } = ok(await ann.post(EXPORTS, { kind: "room", roomId }));
  await gateway.runJobs();
  const out = await (await downloadExport(ann, exportId)).text();
  const parts = recordsOfType(out, "revision", "comment");
  assert.deepEqual([...new Set(parts.map(({ documentId }) => documentId))], [id]);
  assert.equal(parts.length, 9);
  assert.ok(!out.includes(own) && !out.includes("to myself"));
  const { counts } = ok(await ann.get(`${EXPORTS}/${exportId}`));
  assert.deepEqual([counts.revisions, counts.comments, counts.bans], [5, 4, 1]);
  const named = new Set(recordsOfType(out, "principal").map((one) => one.id));
  for (const part of parts) {
    for (const name of part.principalIds ?? [part.authorId]) assert.ok(named.has(name), name);
  }
});

Deno.test("lines of revisions, comments and bans are not believed", async () => {
  await using gateway = await openGateway();
  const { boss, id, own, roomId, comments } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const at = "2026-01-01T00:00:00.000Z";
  const stranger = { type: "revision", documentId: id, kind: "live", startedAt: at, at, text: "x" };
  const asked = lines.find((line) => line.id === comments.asked);
  const remark = { ...asked, anchor: null, resolvedBy: null, resolvedAt: null };
  const tname = (name: string): string =>
    new Uint8Array([1, name.length, ...new TextEncoder().encode(name)]).toBase64();
  const bad = lines.flatMap((line): Any[] => {
    if (line.type === "revision" && line.revision === 1) {
      return [
        { ...stranger, revision: 2, principalIds: ["ann"] }, // There is one.
        { ...stranger, revision: 6, principalIds: ["ann"] }, // Not older.
        { ...stranger, revision: 4_000_000, principalIds: ["ann"] }, // In the way of one to come.
        { ...stranger, revision: 2 ** 40, principalIds: ["ann"] },
        { ...stranger, revision: 1, principalIds: Array(101).fill("ann") },
        { ...stranger, revision: 1, principalIds: ["ann"], text: "ä".repeat(524_289) },
        { ...stranger, revision: 1, principalIds: ["ann"], kind: "dreamt" },
        { ...stranger, revision: 1, principalIds: ["ann"], documentId: own }, // Comes before its document.
        { ...stranger, revision: 1, principalIds: ["ghost"] },
        line, // One too many.
      ];
    }
    if (line.id === comments.whole) {
      return [
        line,
        { ...remark, id: "c_nul", text: "a\u0000b" },
        { ...remark, id: "c_long", text: "x".repeat(4001) },
        { ...remark, id: "c_empty", text: "" },
        { ...remark, id: "c_half", resolvedBy: "ann" },
        { ...remark, id: "c_big", version: 2 ** 40 },
        { ...remark, id: "c_noise", anchor: { ...asked.anchor, start: "%%%" } },
        { ...remark, id: "c_short", anchor: { ...asked.anchor, end: "AA==" } },
        { ...remark, id: "c_type", anchor: { ...asked.anchor, end: tname("other") } },
        { ...remark, id: "c_far", anchor: { ...asked.anchor, start: "AP///w8B", end: "AP///w8B" } },
        { ...remark, id: "c_all", anchor: { quote: "q", start: tname("content"), end: tname("content") } },
        { ...remark, id: "c_orphan", parentId: "c_nowhere" },
        { ...remark, id: "c_deep", parentId: comments.answered }, // Comes after it, and is a reply itself.
        { ...remark, id: "c_self", parentId: "c_self" },
        { ...remark, id: "c_ghost", authorId: "phantom" },
        { ...remark, id: "c_ghost", text: "again" },
      ];
    }
    if (line.id === comments.answered) return [line, { ...remark, id: "c_under", parentId: line.id }];
    // The same comment on another document is another.
    if (line.type === "comment" && line.documentId === own) return [line, { ...remark, documentId: own }];
    if (line.type === "ban") return [line, { ...line, principalId: "bob" }, { ...line, reason: "x".repeat(501) }];
    return [line];
  });
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const done = await importPartly(empty, newBoss, toArchive(bad), {
    invalid_text: 1,
    invalid_record: 9,
    unknown_document: 1,
    unknown_author: 2,
    anchor_invalid: 3,
    parent_missing: 4,
  });
  const where = done.report.find(({ code }: Any) => code === "unknown_document").examples[0];
  const line = bad.findIndex((one) => one.documentId === own && one.type === "revision") + 1;
  assert.equal(where, `line ${line}`);
  assert.deepEqual([done.progress.added.revisions, done.progress.added.comments], [5, 16]);
  // Bob is banned, as the archive says, whatever it says of members.
  assertProblem(await (await empty.as("bob")).get(`/v1/rooms/${roomId}`), 404, "not_found");
  const ann = await empty.as("ann");
  const { revisions, comments: all } = await readContent(ann, id);
  assert.deepEqual(revisions.map((one: Any) => one.revision), [6, 5, 4, 3, 2, 1]);
  assert.deepEqual([revisions[5].text, revisions[5].principalIds], ["x", ["ghost"]]);
  assert.ok(all.length === 14 && all.every(({ under }: Any) => under === null || under === "why slow?"));
  assert.equal(ok(await ann.get(`${DOCUMENTS}/${own}/comments`)).items.length, 2);
  // It lives on: editing, commenting, restoring.
  const edits = [{ op: "append", text: "More.\n" }];
  assert.equal(ok(await ann.patch(`${DOCUMENTS}/${id}/content`, { baseRevision: 6, edits })).revision, 7);
  ok(await ann.post(`${DOCUMENTS}/${id}/comments`, { text: "hm", parentId: "c_orphan" }));
  assert.equal(ok(await ann.post(`${DOCUMENTS}/${id}/revisions/1/restore`)).revision, 8);
  assertNothingAdded(await importArchive(empty, newBoss, "gateway", toArchive(bad)));
});

Deno.test("a document keeps as many revisions and comments as it may have, and the report counts the rest", async () => {
  await using gateway = await openGateway();
  const { boss, id, comments } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const remark = lines.find((line) => line.id === comments.whole);
  const kept = lines.find((line) => line.type === "revision" && line.documentId === id);
  const many = lines.flatMap((line): Any[] => {
    if (line.type === "document" && line.id === id) return [{ ...line, revision: 300 }];
    if (line === kept) return Array.from({ length: 205 }, (_, n) => ({ ...kept, revision: 299 - n, text: `${n}` }));
    if (line.id === comments.answered) {
      return [line, ...Array.from({ length: 2003 }, (_, n) => ({ ...remark, id: `c_${n}`, text: `${n}` }))];
    }
    return [line];
  });
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  // Besides the present there are 199; of the archive's own come 4 that are older, too.
  const skipped = { too_many_revisions: 10, too_many_comments: 7 };
  const done = await importPartly(empty, newBoss, toArchive(many), skipped);
  const { revisions, comments: added } = done.progress.added;
  assert.deepEqual([revisions, added], [199, 2001]);
  const ann = await empty.as("ann");
  assertProblem(await ann.post(`${DOCUMENTS}/${id}/comments`, { text: "x" }), 409, "limit_reached");
});

slowTest("an import of revisions, comments and bans that crashes at every turn ends as one that does not", async () => {
  await using gateway = await openGateway();
  const { boss, id } = await createContent(gateway);
  // The first texts are so long that each is imported on its own.
  const out = toArchive(
    parseRecords(await exportTenant(gateway, boss)).map((line) =>
      line.type === "revision" && line.revision <= 3 ? { ...line, text: `${line.revision}`.repeat(1024 * 1024) } : line
    ),
  );
  let whole: unknown;
  let lines: string[] = [];
  {
    await using empty = await openGateway();
    const newBoss = await empty.as("boss", { role: "owner" });
    whole = summarizeImport(await importArchive(empty, newBoss, "gateway", out));
    lines = comparableRecords(await exportTenant(empty, newBoss));
    const told = await readRoomEvents(
      await empty.as("ann"),
      JSON.parse(out.split("\n").find((line) => line.includes('"type":"room"')) ?? "").id,
    );
    assert.equal(told.filter(({ type }) => type === "document.commented").length, 4);
  }
  let crashes = 0;
  for (let isDone = false; !isDone; crashes++) {
    await using broken = await openGateway();
    const newBoss = await broken.as("boss", { role: "owner" });
    const importId = await uploadArchive(newBoss, "gateway", out);
    await crashAfterWrites(broken, 2 + CRASH_STEP * crashes);
    isDone = (await newBoss.get(`${IMPORTS}/${importId}`)).body.state === "done";
    await broken.runJobs();
    const after = await broken.as("boss", { role: "owner" });
    assert.deepEqual(summarizeImport((await after.get(`${IMPORTS}/${importId}`)).body), whole);
    assert.deepEqual(comparableRecords(await exportTenant(broken, after)), lines);
    const kept = ok(await (await broken.as("ann")).get(`${DOCUMENTS}/${id}/revisions`)).items;
    assert.deepEqual(kept.map((one: Any) => one.revision), [6, 5, 4, 3, 2, 1]);
  }
  assert.ok(crashes * CRASH_STEP > 12, `${crashes} places to crash`);
});

Deno.test("an import of them whose transactions are run twice, as the store may, counts and publishes everything once", async () => {
  await using gateway = await openGateway();
  const { boss, roomId } = await createContent(gateway);
  // A reply to nothing, so that there is something to report.
  const out = toArchive(
    parseRecords(await exportTenant(gateway, boss)).map((line) =>
      line.parentId ? { ...line, parentId: "c_gone" } : line
    ),
  );
  await assertIdempotent(out, roomId);
});
