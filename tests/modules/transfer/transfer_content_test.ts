// Documents and contents of files are exported and imported: whole, once, within limits, by rights.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { JobRunner } from "@/adapters/job/runner.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { replace } from "../../replace.ts";
import { slowTest } from "../../tier.ts";
import { download as downloadFile, FILES, pngHeader, sha256, upload } from "../file/file_harness.ts";
import {
  assertProblem,
  completeSearch,
  createCaller,
  createCallers,
  createRoom,
  ok,
  sendMessage,
} from "../fixtures.ts";
import {
  type Any,
  assertNothingAdded,
  beforeEmit,
  comparableRecords,
  crashAfterWrites,
  downloadExport,
  endRenewals,
  exportArchive,
  EXPORTS,
  exportTenant,
  importAgain,
  importArchive,
  importPartly,
  IMPORTS,
  importWhole,
  LEASE_MS,
  parseRecords,
  skipCounts,
  summarizeImport,
  toArchive,
  uploadArchive,
} from "./transfer_fixture.ts";
import { END, HEADER, message, principal, room } from "./transfer_records.ts";

const DOCUMENTS = "/v1/collaboration/documents";
const TEXT = `# Plan\n\n${'A line with "umlauts" äöü and 上海.\n'.repeat(10)}`;

function noise(bytes: number): Uint8Array<ArrayBuffer> {
  const content = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 65_536) crypto.getRandomValues(content.subarray(at, at + 65_536));
  return content;
}

/** A team with a tree of documents, a private one, and files: one shown twice, one a picture, one deleted, one never shown. */
async function createContent(gateway: Harness) {
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const { ann, bob } = await createCallers(gateway, "ann", "bob");
  const roomId = await createRoom(ann, ["bob", "boss"]);
  const other = await createRoom(ann, ["bob"]);
  const make = async (who: Caller, input: Any): Promise<Any> =>
    ok(await who.post(DOCUMENTS, { title: "Doc", ...input }));
  const parent = await make(ann, { roomId, title: "Parent", text: TEXT, metadata: { color: "red" } });
  const child = await make(bob, { roomId, title: "Child", parentId: parent.id, text: "child" });
  ok(
    await ann.patch(`${DOCUMENTS}/${parent.id}/content`, {
      baseRevision: 1,
      edits: [{ op: "append", text: "more\n" }, { op: "replace", find: "# Plan", with: "# The plan" }],
    }),
  );
  ok(await ann.patch(`${DOCUMENTS}/${child.id}`, { state: "archived" }));
  const gone = await make(ann, { roomId, title: "Gone", text: "gone" });
  ok(await ann.delete(`${DOCUMENTS}/${gone.id}`));
  const own = await make(ann, { title: "Private", text: "mine" });
  ok(await ann.put(`${DOCUMENTS}/${own.id}/access/bob`, { role: "reader" }));

  const send = async (name: string, body: Uint8Array<ArrayBuffer> | string, query: Record<string, string> = {}) =>
    ok(await upload(gateway, ann, { name, ...query }, body)).id as string;
  const content = noise(700_000);
  const files = {
    big: await send("noise.bin", content),
    bound: await send("bound.txt", "only here", { roomId }),
    picture: await send("p.png", pngHeader(30, 20)),
    empty: await send("empty.txt", ""),
    deleted: await send("deleted.txt", "deleted"),
    loose: await send("loose.txt", "never shown"),
  };
  await sendMessage(ann, roomId, "look", { fileIds: [files.big, files.bound, files.deleted] });
  await sendMessage(ann, other, "again", { fileIds: [files.picture, files.big, files.empty] });
  ok(await ann.delete(`${FILES}/${files.deleted}`));
  await gateway.runJobs();
  return { boss, ann, bob, roomId, other, content, files, documents: { parent, child, gone, own } };
}

Deno.test("documents and files go out, and come into an empty gateway without a difference", async () => {
  await using gateway = await openGateway();
  const { boss, content, files, documents, roomId } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  const lines = parseRecords(out);
  const of = (type: string): Any[] => lines.filter((line) => line.type === type);
  assert.deepEqual(of("document").map(({ title }) => title), ["Parent", "Child", "Private"]);
  assert.equal(of("document")[0].text, `${TEXT.replace("# Plan", "# The plan")}more\n`);
  const doc = new Y.Doc();
  for (const { of: id, data } of of("content")) {
    if (id === documents.parent.id) Y.applyUpdate(doc, Uint8Array.fromBase64(data));
  }
  assert.equal(doc.getText("content").toString(), of("document")[0].text, "the CRDT says what the text says");
  assert.deepEqual(
    of("file").map(({ id }) => id).sort(),
    [files.big, files.bound, files.picture, files.empty].sort(),
  );
  assert.deepEqual(
    [
      lines.at(-1).counts.documents,
      lines.at(-1).counts.files,
      of("content").some(({ data }) => data.length > 262_144),
    ],
    [3, 4, false],
  );

  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const back = await importWhole(empty, newBoss, "gateway", out);
  assert.deepEqual([back.progress.added.documents, back.progress.added.files], [3, 4]);
  assert.deepEqual(comparableRecords(await exportTenant(empty, newBoss)), comparableRecords(out));

  // Rights are those of rooms and readers, and of uploaders.
  const [ann, bob, eve] = await Promise.all(["ann", "bob", "eve"].map((name) => empty.as(name)));
  assert.ok(ann && bob && eve);
  assert.equal(sha256((await downloadFile(empty, bob, files.big)).bytes), sha256(content));
  assertProblem(await eve.get(`${FILES}/${files.big}`), 404, "not_found");
  assertProblem(await newBoss.get(`${FILES}/${files.picture}`), 404, "not_found");
  assert.equal(ok(await ann.get(`${FILES}/${files.bound}`)).roomId, roomId);
  assert.equal(ok(await bob.get(`${DOCUMENTS}/${documents.own.id}/content`)).text, "mine");
  assertProblem(await newBoss.get(`${DOCUMENTS}/${documents.own.id}`), 404, "not_found");
  assertProblem(await bob.put(`${DOCUMENTS}/${documents.own.id}/access/eve`, { role: "reader" }), 403, "forbidden");
  // The document lives on, as another generation.
  const read = ok(await ann.get(`${DOCUMENTS}/${documents.parent.id}`));
  assert.notEqual(read.generation, documents.parent.generation);
  const edits = [{ op: "prepend", text: "New. " }];
  ok(await bob.patch(`${DOCUMENTS}/${read.id}/content`, { baseRevision: read.revision, edits }));
  assert.match(ok(await ann.get(`${DOCUMENTS}/${read.id}/content`)).text, /^New\. # The plan/);
  await empty.runJobs();
  const found = await completeSearch(() => ann.get("/v1/search?q=umlauts&types=document"));
  assert.match(JSON.stringify(found), new RegExp(read.id));
  // A month later what is shown is still there.
  empty.clock.advance(30 * 86_400_000);
  await empty.runJobs();
  const later = await empty.as("bob");
  assert.equal((await downloadFile(empty, later, files.big)).bytes.length, content.length);

  // Once is enough.
  await importAgain(empty, await empty.as("boss", { role: "owner" }), "gateway", out);
});

Deno.test("files that tasks, events and comments name are exported with them, and imported", async () => {
  await using gateway = await openGateway();
  const { boss, ann, roomId } = await createContent(gateway);
  const send = async (name: string): Promise<string> => ok(await upload(gateway, ann, { name }, name)).id;
  const [ofTask, ofEvent, ofComment, own] = [
    await send("task.txt"),
    await send("event.txt"),
    await send("comment.txt"),
    await send("own.txt"),
  ];
  const named = (id: string): string => `![it](${FILES}/${id}/content)`;
  ok(await ann.post("/v1/collaboration/tasks", { roomId, title: "Shows", description: named(ofTask) }));
  const when = { start: { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" }, durationMinutes: 30 };
  const events = "/v1/collaboration/calendar/events";
  ok(await ann.post(events, { ...when, roomId, title: "Shows", description: named(ofEvent) }));
  ok(await ann.post(events, { ...when, title: "Own", description: named(own) }));
  const { id } = ok(await ann.post(DOCUMENTS, { roomId, title: "Commented", text: "x" }));
  ok(await ann.post(`${DOCUMENTS}/${id}/comments`, { text: named(ofComment) }));
  const out = await exportTenant(gateway, boss);
  await using empty = await openGateway();
  await importWhole(empty, await empty.as("boss", { role: "owner" }), "gateway", out);
  empty.clock.advance(30 * 86_400_000);
  await empty.runJobs();
  const [annAgain, bob] = [await empty.as("ann"), await empty.as("bob")];
  for (const [file, name] of [[ofTask, "task.txt"], [ofEvent, "event.txt"], [ofComment, "comment.txt"]] as const) {
    assert.equal(new TextDecoder().decode((await downloadFile(empty, bob, file)).bytes), name);
  }
  assert.equal(new TextDecoder().decode((await downloadFile(empty, annAgain, own)).bytes), "own.txt");
  assertProblem(await bob.get(`${FILES}/${own}`), 404, "not_found");
  const again = await exportTenant(empty, await empty.as("boss", { role: "owner" }));
  assert.deepEqual(comparableRecords(again), comparableRecords(out));
});

Deno.test("files that documents name are exported with them, and imported", async () => {
  await using gateway = await openGateway();
  const { boss, ann, roomId } = await createContent(gateway);
  const send = async (name: string): Promise<string> => ok(await upload(gateway, ann, { name }, name)).id;
  const [shared, own] = [await send("shared.txt"), await send("own.txt")];
  ok(await ann.post(DOCUMENTS, { roomId, title: "Shows", text: `![it](${FILES}/${shared}/content)` }));
  ok(await ann.post(DOCUMENTS, { title: "Own", kind: "rich", text: `[it](${FILES}/${own}/content)` }));
  const out = await exportTenant(gateway, boss);
  await using empty = await openGateway();
  await importWhole(empty, await empty.as("boss", { role: "owner" }), "gateway", out);
  empty.clock.advance(30 * 86_400_000);
  await empty.runJobs();
  const [annAgain, bob] = [await empty.as("ann"), await empty.as("bob")];
  assert.equal(new TextDecoder().decode((await downloadFile(empty, bob, shared)).bytes), "shared.txt");
  assert.equal(new TextDecoder().decode((await downloadFile(empty, annAgain, own)).bytes), "own.txt");
  assertProblem(await bob.get(`${FILES}/${own}`), 404, "not_found");
  const again = await exportTenant(empty, await empty.as("boss", { role: "owner" }));
  assert.deepEqual(comparableRecords(again), comparableRecords(out));
});

testOnEngines(
  "where ids are taken by another tenant documents and files get others, always the same",
  async (engine) => {
    await using gateway = await openGateway(engine);
    const { boss, files, documents, content } = await createContent(gateway);
    const out = await exportTenant(gateway, boss);
    const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
    await importWhole(gateway, twin, "gateway", out);
    assertNothingAdded(await importArchive(gateway, twin, "gateway", out));
    const bob = await gateway.as("bob", { tenant: "twin" });
    const tree: Any[] = ok(await bob.get(`${DOCUMENTS}?state=active`)).items;
    const archived: Any[] = ok(await bob.get(`${DOCUMENTS}?state=archived`)).items;
    assert.deepEqual(tree.map(({ title }) => title).sort(), ["Parent", "Private"]);
    assert.equal(archived[0].parentId, tree.find(({ title }) => title === "Parent").id);
    assert.notEqual(archived[0].id, documents.child.id);
    const { items: rooms } = ok(await bob.get("/v1/rooms?member=me"));
    const shown: Any[] = [];
    for (const room of rooms) {
      for (const message of ok(await bob.get(`/v1/messages?roomId=${room.id}`)).items) shown.push(...message.files);
    }
    const big = shown.filter(({ name }) => name === "noise.bin");
    assert.deepEqual([big.length, big[0].id === big[1].id, big[0].id === files.big], [2, true, false]);
    assert.equal(sha256((await downloadFile(gateway, bob, big[0].id)).bytes), sha256(content));
    assertProblem(await bob.get(`${FILES}/${files.big}`), 404, "not_found");
  },
);

Deno.test("an export of a room holds what the room shows to who asks, and files only if they are wanted", async () => {
  await using gateway = await openGateway();
  const { ann, bob, roomId, files, documents } = await createContent(gateway);
  assertProblem(await bob.post(EXPORTS, { kind: "room", roomId }), 403, "forbidden");
  const lines = async (input: Any): Promise<Any[]> => parseRecords(await exportArchive(gateway, ann, input));
  const all = await lines({ kind: "room", roomId });
  const ids = (type: string) => all.filter((line) => line.type === type).map(({ id }) => id);
  assert.deepEqual(ids("document"), [documents.parent.id, documents.child.id]);
  assert.deepEqual(ids("file").sort(), [files.big, files.bound].sort());
  const some = await lines({ kind: "room", roomId, files: false });
  assert.ok(some.every(({ type }) => type !== "file") && some.some(({ type }) => type === "document"));
  assert.equal(some.filter(({ type }) => type === "message")[0].files.length, 3, "names stay");
});

Deno.test("an archive is not believed: what is damaged, too large or refused stays out, by name", async () => {
  await using gateway = await openGateway();
  const { boss, files, documents, ann } = await createContent(gateway);
  const lines = parseRecords(await exportTenant(gateway, boss));
  const secret = ok(await upload(gateway, ann, { name: "secret.txt" }, "secret")).id;

  const bad = lines.flatMap((line): Any[] => {
    if (line.type === "content" && line.of === files.big && line.data.length < 262_144) return [];
    if (line.type === "content" && line.of === files.bound) return [{ ...line, data: "%" }];
    if (line.type === "content" && line.of === documents.child.id) return [{ ...line, data: "AAEC" }];
    if (line.type === "file" && line.id === files.picture) return [{ ...line, contentType: "application/pdf" }];
    if (line.type === "document" && line.title === "Parent") {
      return [{ ...line, parentId: "doc_nowhere", metadata: { big: "x".repeat(9000) } }];
    }
    if (line.type === "message" && line.text === "again") {
      return [{ ...line, files: [...line.files, { ...line.files[0], id: secret }] }];
    }
    return [line];
  });
  {
    await using empty = await openGateway();
    const newBoss = await empty.as("boss", { role: "owner" });
    const done = await importPartly(empty, newBoss, toArchive(bad), {
      file_corrupt: 2,
      file_rejected: 1,
      document_corrupt: 1,
      parent_missing: 1,
      metadata_too_large: 1,
    });
    assert.deepEqual([done.progress.added.documents, done.progress.added.files], [2, 1]);
    assert.deepEqual(ok(await (await empty.as("ann")).get(`${FILES}`)).items.map(({ id }: Any) => id), [files.empty]);
  }

  // Here the id is that of somebody's upload. To name it is no way to it, neither is its hash.
  const forged = [
    ...lines.slice(0, -1).filter(({ type, id }) => type !== "file" || id !== files.big),
    { type: "room", ...lines.find(({ type }) => type === "room"), id: "room_new", slug: null },
    {
      ...lines.find(({ type, id }) => type === "file" && id === files.bound),
      id: secret,
      sha256: sha256("secret"),
      size: 6,
    },
    {
      ...lines.find(({ text }) => text === "look"),
      id: "msg_new",
      roomId: "room_new",
      clientMessageId: null,
      files: [{ id: secret, name: "s", contentType: "text/plain", size: 6, width: null, height: null }],
    },
    lines.at(-1),
  ];
  const tricked = await importArchive(gateway, boss, "gateway", toArchive(forged));
  assert.deepEqual(tricked.report.map(({ code }: Any) => code), ["file_corrupt"], JSON.stringify(tricked));
  assert.equal(ok(await boss.get("/v1/messages/msg_new")).files[0].id, secret);
  assertProblem(await boss.get(`${FILES}/${secret}`), 404, "not_found");
});

for (const limit of ["SVC_LIMIT_FILE_BYTES", "SVC_LIMIT_TENANT_FILE_BYTES"]) {
  Deno.test(`an import keeps to ${limit}, and brings in what fits`, async () => {
    await using gateway = await openGateway();
    const { boss, files } = await createContent(gateway);
    const out = await exportTenant(gateway, boss);
    // The archive takes space of the tenant while it is there.
    const archiveBytes = new TextEncoder().encode(out).length;
    await using small = await openGateway({
      [limit]: String(limit === "SVC_LIMIT_FILE_BYTES" ? 600_000 : 600_000 + archiveBytes),
    });
    const done = await importArchive(small, await small.as("boss", { role: "owner" }), "gateway", out);
    assert.deepEqual(done.report.map(({ code, count }: Any) => [code, count]), [["file_rejected", 1]]);
    const bob = await small.as("bob");
    assertProblem(await bob.get(`${FILES}/${files.big}`), 404, "not_found");
    assert.equal(ok(await bob.get(`${FILES}/${files.picture}`)).uploaderId, "ann");
  });
}

slowTest("an import of documents and files that crashes at every turn ends as one that does not", async () => {
  await using gateway = await openGateway();
  const { boss, content, files } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  let whole: unknown;
  {
    await using empty = await openGateway();
    whole = summarizeImport(await importArchive(empty, await empty.as("boss", { role: "owner" }), "gateway", out));
  }
  let crashes = 0;
  for (let isDone = false; !isDone; crashes++) {
    await using broken = await openGateway();
    const newBoss = await broken.as("boss", { role: "owner" });
    const id = await uploadArchive(newBoss, "gateway", out);
    await crashAfterWrites(broken, 2 + 3 * crashes);
    isDone = (await newBoss.get(`${IMPORTS}/${id}`)).body.state === "done";
    await broken.runJobs();
    const after = await broken.as("boss", { role: "owner" });
    assert.deepEqual(summarizeImport((await after.get(`${IMPORTS}/${id}`)).body), whole);
    assert.deepEqual(comparableRecords(await exportTenant(broken, after)), comparableRecords(out));
    const bob = await broken.as("bob");
    assert.equal((await downloadFile(broken, bob, files.big)).bytes.length, content.length);
    // A day later what a crash left has been swept, and bytes are counted that are there, no others.
    broken.clock.advance(26 * 3_600_000);
    await broken.runJobs();
    const [usage]: Any[] = await broken.app.store.db.selectFrom("file_usage" as never).selectAll().execute();
    const rows: Any[] = await broken.app.store.db.selectFrom("file" as never).selectAll().execute();
    // The export made above is still there, and takes space as well.
    const { size: archive } = ok(await (await broken.as("boss")).get("/v1/collaboration/exports")).items[0];
    assert.deepEqual([rows.length, usage.bytes], [4, rows.reduce((sum, { size }) => sum + size, archive)]);
  }
  assert.ok(crashes > 5, `${crashes} places to crash`);
});

Deno.test("an older export without documents and files is still imported, and a later one adds them", async () => {
  await using gateway = await openGateway();
  const { boss, files } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  const isOld = ({ type }: Any): boolean => !["document", "revision", "file", "content"].includes(type);
  const before = toArchive(parseRecords(out).filter(isOld));
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const done = await importArchive(empty, newBoss, "gateway", before);
  assert.deepEqual([done.state, done.report, done.progress.added.messages], ["done", [], 2]);
  const bob = await empty.as("bob");
  assertProblem(await bob.get(`${FILES}/${files.big}`), 404, "not_found");
  const more = await importArchive(empty, newBoss, "gateway", out);
  const { documents, files: contents, messages } = more.progress.added;
  assert.deepEqual([more.report, documents, contents, messages], [[], 3, 4, 0]);
  assert.deepEqual(comparableRecords(await exportTenant(empty, newBoss)), comparableRecords(out));
  assert.equal((await downloadFile(empty, bob, files.big)).status, 200);
});

Deno.test("pictures of principals go along, to those who have changed nothing of themselves since", async () => {
  await using gateway = await openGateway();
  const { boss, ann, bob, files } = await createContent(gateway);
  const own = ok(await upload(gateway, bob, { name: "bob.png" }, pngHeader(40, 40))).id;
  ok(await bob.patch("/v1/collaboration/me", { avatarFileId: own }));
  ok(await ann.patch("/v1/collaboration/me", { avatarFileId: files.picture }));
  // Somebody else's file is nobody's picture.
  assertProblem(await boss.patch("/v1/collaboration/me", { avatarFileId: own }), 422, "validation_failed");
  const out = await exportTenant(gateway, boss);
  const lines = parseRecords(out);
  const pictures = lines.filter(({ type }) => type === "picture");
  assert.deepEqual(
    pictures.map(({ id, uploaderId }) => [id, uploaderId]).sort(),
    [[files.picture, "ann"], [own, "bob"]].sort(),
  );
  assert.equal(lines.filter(({ type, of }) => type === "content" && of === files.picture).length, 1, "told once");
  assert.equal(lines.at(-1).counts.files, 5);
  {
    await using empty = await openGateway();
    const newBoss = await empty.as("boss", { role: "owner" });
    const cyd = await empty.as("cyd");
    const done = await importArchive(empty, newBoss, "gateway", out);
    assert.deepEqual([done.state, done.report, done.progress.added.files], ["done", [], 5]);
    const me = async (name: string): Promise<Any> => ok(await (await empty.as(name)).get("/v1/collaboration/me"));
    assert.deepEqual(
      [(await me("ann")).principal.avatarFileId, (await me("bob")).principal.avatarFileId],
      [files.picture, own],
    );
    assert.equal((await me("boss")).principal.avatarFileId, null);
    assert.equal((await downloadFile(empty, cyd, own)).status, 200);
    empty.clock.advance(26 * 3_600_000);
    await empty.runJobs();
    assert.equal((await downloadFile(empty, await empty.as("cyd"), own)).status, 200, "no upload that nothing shows");
    // A file is the picture of who uploaded it here, whatever an archive says.
    const forged = lines.map((line) => line.type === "picture" ? { ...line, uploaderId: "cyd" } : line);
    const late = await empty.as("boss", { role: "owner" });
    assert.equal((await importArchive(empty, late, "gateway", toArchive(forged))).state, "done");
    assert.equal((await me("cyd")).principal.avatarFileId, null);
    ok(await (await empty.as("bob")).patch("/v1/collaboration/me", { avatarFileId: null }));
    const again = await importArchive(empty, await empty.as("boss", { role: "owner" }), "gateway", out);
    assert.deepEqual([again.report, again.progress.added.files, (await me("bob")).principal.avatarFileId], [
      [],
      0,
      null,
    ]);
  }
  const none = ok(await boss.post(EXPORTS, { kind: "tenant", files: false })).id;
  await gateway.runJobs();
  assert.ok(!(await (await downloadExport(boss, none)).text()).includes('"type":"picture"'));
});

Deno.test("what could be no picture through the API becomes none through an archive, and is reported", async () => {
  await using gateway = await openGateway();
  const { boss, ann, files } = await createContent(gateway);
  ok(await ann.patch("/v1/collaboration/me", { avatarFileId: files.picture }));
  const lines = parseRecords(await exportTenant(gateway, boss));
  const at = lines.findIndex(({ type }) => type === "picture");
  const picture = lines[at];
  // A text, a file of one room, and a picture without its content.
  for (const forged of [{ id: files.big }, { id: files.bound }, { ...picture, id: "file_absent" }]) {
    const file = lines.find(({ type, id }) => type === "file" && id === forged.id);
    const archive = toArchive(lines.with(at, { ...file, ...forged, type: "picture" }));
    await using empty = await openGateway();
    const newBoss = await empty.as("boss", { role: "owner" });
    const done = await importArchive(empty, newBoss, "gateway", archive);
    const code = forged.id === "file_absent" ? "file_corrupt" : "file_rejected";
    assert.deepEqual([done.state, skipCounts(done)], ["done", { [code]: 1 }], JSON.stringify(done));
    const me = ok(await (await empty.as("ann")).get("/v1/collaboration/me"));
    assert.equal(me.principal.avatarFileId, null);
    assert.equal(done.progress.added.files, 4);
  }
  // An image by its name only.
  const text = { contentType: "image/png", size: 4, sha256: sha256("text"), width: 9, height: 9 };
  const content = { type: "content", of: "file_text", data: btoa("text") };
  const archive = toArchive(lines.toSpliced(at, 1, { ...picture, ...text, id: "file_text" }, content));
  await using empty = await openGateway();
  const done = await importArchive(empty, await empty.as("boss", { role: "owner" }), "gateway", archive);
  assert.deepEqual(
    [done.state, skipCounts(done)],
    ["done", { file_rejected: 1 }],
    JSON.stringify(done),
  );
  assert.equal(ok(await (await empty.as("ann")).get("/v1/collaboration/me")).principal.avatarFileId, null);
});

Deno.test("an aborted download leaves nothing open", async () => {
  await using gateway = await openGateway();
  const { boss } = await createContent(gateway);
  const { id } = ok(await boss.post(EXPORTS, { kind: "tenant" }));
  await gateway.runJobs();
  const response = await downloadExport(boss, id);
  const reader = response.body?.getReader();
  assert.ok(((await reader?.read())?.value?.length ?? 0) > 0);
  await reader?.cancel();
  assert.equal((await downloadExport(boss, id).then((whole) => whole.text())).split("\n").length > 10, true);
});

Deno.test("an export that ends at the record of a file leaves nothing open", async () => {
  await using gateway = await openGateway();
  const { boss } = await createContent(gateway);
  const { write } = Deno.FsFile.prototype;
  let failures = 0;
  using _replaced = replace(Deno.FsFile.prototype, "write", function (this: Deno.FsFile, chunk): Promise<number> {
    const isRecord = new TextDecoder().decode(chunk.subarray(0, 20)).startsWith('{"type":"file"');
    return isRecord && failures++ === 0
      ? Promise.reject(new Error("No space left on device"))
      : write.call(this, chunk);
  });
  const { id } = ok(await boss.post(EXPORTS, { kind: "tenant" }));
  await gateway.runJobs();
  gateway.clock.advance(3_600_000);
  await gateway.runJobs();
  const { state } = ok(await (await gateway.as("boss", { role: "owner" })).get(`${EXPORTS}/${id}`));
  assert.deepEqual([state, failures > 1], ["done", true]);
});

Deno.test("an import that was only asleep while it stored a file takes nothing from the run that took its place", async () => {
  await using gateway = await openGateway();
  const { boss, files } = await createContent(gateway);
  const out = await exportTenant(gateway, boss);
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const id = await uploadArchive(newBoss, "gateway", out);
  const { store } = empty.app;
  const write = store.write;
  const { promise: awake, resolve: wake } = Promise.withResolvers<void>();
  const { promise: asleep, resolve: sleep } = Promise.withResolvers<void>();
  let isAsleep = false;
  const end = beforeEmit(empty, (drafts) => {
    // That of the first file that has been stored.
    if (isAsleep || !drafts.some(({ type }) => type === "file.created")) return;
    isAsleep = true;
    sleep();
    throw new SuspendedImport();
  });
  const telling = store.write;
  store.write = (work) =>
    telling.call(store, work).catch(async (error) => {
      if (!(error instanceof SuspendedImport)) throw error;
      await awake;
      return await write.call(store, work);
    }) as never;
  const running = empty.runJobs();
  await asleep;
  using _asleep = endRenewals();
  empty.clock.advance(LEASE_MS);
  const kinds = empty.app.modules.flatMap((module) => module.jobs ?? []);
  const other = new JobRunner({ store, kinds, clock: empty.clock });
  other.start();
  await other.whenIdle();
  assert.equal(ok(await (await empty.as("boss", { role: "owner" })).get(`${IMPORTS}/${id}`)).state, "done");
  wake();
  await running;
  await other.stop();
  end();
  assert.equal((await downloadFile(empty, await empty.as("bob"), files.big)).status, 200);
});

class SuspendedImport extends Error {}

Deno.test("a message of an archive that is dated in the future is dated now: retention would never reach it", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const lines = [
    HEADER,
    principal("ann"),
    room("r"),
    message("r", "m", { createdAt: "2099-01-01T00:00:00.000Z" }),
    END,
  ];
  assert.equal((await importArchive(gateway, boss, "gateway", toArchive(lines))).progress.added.messages, 1);
  const { created_at: at } = await gateway.app.store.db.selectFrom("message").select("created_at")
    .where("text", "=", "m").executeTakeFirstOrThrow();
  assert.equal(at, new Date(gateway.clock.now()).toISOString());
});
