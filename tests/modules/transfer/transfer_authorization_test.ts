// What an archive may not do, for any importer: give more rights than its importers have, replace other content, mix
// rooms, exceed the limits of a room, or cost more than its size. And the limits of an export, so that it can be imported again.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { type Caller, openGateway } from "../../harness.ts";
import { pause } from "../../wait.ts";
import { download as downloadFile, pngHeader, sha256, untilCreated, upload } from "../file/file_harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import {
  type Any,
  crashAfterWrites,
  downloadExport,
  exportRoom,
  EXPORTS,
  exportTenant,
  importArchive,
  IMPORTS,
  importWhole,
  parseRecords,
  putArchive,
  recordsOfType,
  skipCounts,
  toArchive,
  uploadArchive,
} from "./transfer_fixture.ts";
import { CREATED_AT, END, HEADER, member, message, principal, room } from "./transfer_records.ts";
import { createZip } from "./transfer_zip.ts";

Deno.test("an archive gives no principal more rights than who requested the import, or who uploaded it", async () => {
  await using gateway = await openGateway();
  const owner = await gateway.as("boss", { role: "owner" });
  const admin = await gateway.as("adm", { role: "admin" });
  const { body: made } = await owner.post(IMPORTS, { kind: "gateway" });
  const agent = (id: string, ownerId: string) => principal(id, { kind: "agent", ownerId });
  // Each after its agent, as in the order of ids.
  const agents = [agent("a1", "a2"), agent("a2", "a1"), agent("a3", "a3"), agent("a4", "nobody"), agent("a5", "zoe")];
  const people = [principal("mallory", { role: "owner" }), principal("zoe")];
  const archive = toArchive([HEADER, ...agents, ...people, END]);
  assert.equal((await putArchive(admin, made.id, archive)).status, 202);
  await gateway.runJobs();
  assert.equal(ok(await owner.get("/v1/collaboration/principals/mallory")).role, "admin");
  const lines = recordsOfType(await exportTenant(gateway, owner), "principal").filter(({ kind }) => kind === "agent");
  assert.deepEqual(lines.map(({ id, ownerId }) => [id, ownerId]), [
    ["a1", "boss"],
    ["a2", "boss"],
    ["a3", "boss"],
    ["a4", "boss"],
    ["a5", "zoe"],
  ]);
});

Deno.test("a file of an archive cannot take the place of a content that is not its own", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const picture = ok(await upload(gateway, ann, { name: "p.png" }, pngHeader(700, 700))).id;
  // It ends after its head, so nothing can be made of it.
  const small = () => untilCreated(() => downloadFile(gateway, ann, picture, {}, "GET", "?thumbnail=320"));
  assert.equal((await small()).status, 422);
  const forged = pngHeader(10, 10);
  const file = {
    type: "file",
    id: `${picture}_320`,
    name: "x.png",
    contentType: "image/png",
    size: forged.length,
    sha256: sha256(forged),
    uploaderId: "ann",
    roomId: null,
    createdAt: CREATED_AT,
  };
  const lines = [
    HEADER,
    room("room_a"),
    file,
    { type: "content", of: file.id, data: forged.toBase64() },
    message("room_a", "msg_a", { files: [{ ...file, width: 10, height: 10 }] }),
    END,
  ];
  const done = await importArchive(gateway, boss, "gateway", toArchive(lines));
  assert.equal((await small()).status, 422);
  assert.deepEqual(skipCounts(done), { invalid_record: 1 });
});

Deno.test("direct rooms of an archive stay apart, and those that are here keep their members", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann, bob } = await createCallers(gateway, "ann", "bob", "cyd");
  const direct = (id: string, memberIds: string[]): Any => room(id, { kind: "direct", memberIds });
  // Of each somebody has left.
  const done = await importArchive(
    gateway,
    boss,
    "gateway",
    toArchive([
      HEADER,
      direct("room_b", ["ann"]),
      member("room_b", "ann", "owner"),
      message("room_b", "msg_b"),
      direct("room_c", ["ann"]),
      member("room_c", "ann", "owner"),
      message("room_c", "msg_c"),
      END,
    ]),
  );
  assert.deepEqual([done.state, done.progress.added.rooms, done.report], ["done", 2, []]);
  for (const name of ["b", "c"]) {
    const { items } = ok(await ann.get(`/v1/messages?roomId=room_${name}`));
    assert.deepEqual(items.map(({ id }: Any) => id), [`msg_${name}`]);
  }
  const own = ok(await ann.post("/v1/rooms", { kind: "direct", memberIds: ["bob"] })).id;
  const out = await exportTenant(gateway, boss);
  ok(await bob.delete(`/v1/rooms/${own}/members/me`));
  const at = parseRecords(out).findIndex(({ type, roomId }) => type === "member" && roomId === own);
  const lines = parseRecords(out).toSpliced(at, 0, member(own, "boss", "owner"), member(own, "cyd"));
  const back = await importArchive(gateway, boss, "gateway", toArchive(lines));
  assert.deepEqual([back.state, back.progress.added.members], ["done", 0]);
  assert.deepEqual(
    ok(await ann.get(`/v1/rooms/${own}/members`)).items.map(({ principalId }: Any) => principalId),
    ["ann"],
  );
});

Deno.test("a room of an archive has the limits of every room", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const lines = [
    HEADER,
    room("room_big", { metadata: { big: "x".repeat(9000) } }),
    member("room_big", "ann", "owner"),
    room("room_short", { retentionDays: 0 }),
    room("room_long", { retentionDays: 36_501 }),
    room("room_slug", { slug: "No/Slug" }),
    END,
  ];
  const done = await importArchive(gateway, boss, "gateway", toArchive(lines));
  assert.deepEqual(skipCounts(done), { metadata_too_large: 1, invalid_record: 3 });
  assert.match(JSON.stringify(done.report), /line 4: retentionDays .*line 5: retentionDays .*line 6: slug /);
  assert.deepEqual(ok(await ann.get("/v1/rooms/room_big")).metadata, {});
  assertProblem(await ann.get("/v1/rooms/room_short"), 404, "not_found");
});

Deno.test("times of an archive are imported in the form in which times are compared", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  await createCallers(gateway, "ann", "bob");
  await createRoom(boss, ["bob"]);
  const lines = [
    HEADER,
    room("room_a", { historyVisibility: "joined", createdAt: "2026-01-01T00:00:00Z" }),
    member("room_a", "ann", "owner"),
    { ...member("room_a", "bob"), joinedAt: "2026-01-02T00:00:00.000Z" },
    message("room_a", "msg_1", { createdAt: "2026-01-02T00:00:00Z" }),
    message("room_a", "msg_2", { createdAt: "2026-01-02T00:00:00.000001Z", pinnedAt: "2026-01-03T00:00:00Z" }),
    message("room_a", "msg_3", { createdAt: "2026-01-02T00:00:01Z" }),
    END,
  ];
  assert.deepEqual((await importArchive(gateway, boss, "gateway", toArchive(lines))).report, []);
  const [ann, bob] = [await gateway.as("ann"), await gateway.as("bob")];
  const { items } = ok(await ann.get("/v1/messages?roomId=room_a"));
  assert.deepEqual(items.map(({ createdAt }: Any) => createdAt), [
    "2026-01-02T00:00:00.000Z",
    "2026-01-02T00:00:00.000Z",
    "2026-01-02T00:00:01.000Z",
  ]);
  const seen = ok(await bob.get("/v1/messages?roomId=room_a")).items;
  assert.deepEqual(seen.map(({ id }: Any) => id), ["msg_3"], "what was said when bob came is not for bob");

  // The event of joining, which has another time, no longer says what the room is called once bob has left.
  const joining = async () =>
    (await gateway.app.store.log.read("default", "principal:bob", 0, 100)).flatMap(({ type, json }) =>
      type === "member.joined" && json.includes('"room_a"') ? [JSON.parse(json).data.room?.name] : []
    );
  assert.deepEqual(await joining(), ["room_a"]);
  ok(await bob.delete("/v1/rooms/room_a/members/bob"));
  assert.deepEqual(await joining(), [undefined]);
});

Deno.test("principals of an archive have no invalid handle or time zone", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const mars = { handle: "me", timeZone: "Mars/Olympus" };
  const lines = [HEADER, principal("ann", mars), principal("ben", { handle: "here" }), END];
  assert.deepEqual(skipCounts(await importArchive(gateway, boss, "gateway", toArchive(lines))), {
    handle_invalid: 2,
  });
  const { handle, timeZone } = ok(await boss.get("/v1/collaboration/principals/ann"));
  assert.deepEqual([handle, timeZone], [null, null]);
});

for (const [size, filler] of [["small", ""], ["large", "x".repeat(300_000)]]) {
  Deno.test(`an item of a ${size} file of Slack that no store takes costs that item, and what does not fit is named by its field`, async () => {
    await using gateway = await openGateway();
    const boss = await gateway.as("boss", { role: "owner" });
    const post = (n: number, text: unknown): Any => ({
      type: "message",
      user: "U1",
      ts: `${1_700_000_000 + n}.000000`,
      text,
    });
    const archive = createZip({
      "users.json": JSON.stringify([{ id: "U1", name: "ann" }, { id: "U2", name: "bob", real_name: "B\0b" }]),
      "channels.json": JSON.stringify([{ id: "C1", name: "one", members: ["U1"] }]),
      "one/2024-01-01.json": JSON.stringify([
        { ...post(1, "first"), filler },
        post(2, "half \ud83d"),
        post(3, 7),
        post(4, "last"),
      ]),
    });
    const done = await importArchive(gateway, boss, "slack", archive);
    assert.deepEqual([skipCounts(done), done.progress.added.messages], [{ invalid_text: 2, invalid_record: 1 }, 2]);
    const found = Object.fromEntries(done.report.map(({ code, examples }: Any) => [code, examples]));
    assert.deepEqual(found.invalid_text, ["users.json item 1: /real_name", "one/2024-01-01.json item 1: /text"]);
    assert.match(found.invalid_record[0], /^one\/2024-01-01\.json item 2: text /);
  });
}

Deno.test("a large file of Slack that is not a JSON array is reported, and the others are imported", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const filler = "x".repeat(300_000);
  const archive = createZip({
    "users.json": JSON.stringify([{ id: "U1", name: "ann" }]),
    "channels.json": JSON.stringify([{ id: "C1", name: "one", members: ["U1"] }]),
    "one/2024-01-01.json": `["${filler}`,
    "one/2024-01-02.json": JSON.stringify({ filler }),
    "one/2024-01-03.json": `${"[".repeat(150_000)}${"]".repeat(150_000)}`,
    "one/2024-01-04.json": JSON.stringify([{ type: "message", user: "U1", ts: "1700000000.000000", text: "hi" }]),
  });
  const done = await importArchive(gateway, boss, "slack", archive);
  assert.deepEqual([skipCounts(done), done.progress.added.messages], [{ invalid_json: 2, invalid_record: 1 }, 1]);
});

Deno.test("names of users that objects know too are names, and what does not fit is named by its field", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", type: "O" } },
    { type: "user", user: { username: "constructor", teams: [{ name: "t", channels: [{ name: "c" }] }] } },
    { type: "post", post: { team: "t", channel: "c", user: "constructor", message: "hi", create_at: 1 } },
    { type: "post", post: { team: "t", channel: "c", user: "constructor", message: "hi", create_at: "now" } },
  ];
  const done = await importArchive(gateway, boss, "mattermost", toArchive(lines));
  assert.deepEqual(skipCounts(done), { invalid_record: 1 });
  assert.match(done.report[0].examples[0], /^line 5: create_at /);
  const reader = await gateway.as("mattermost:constructor");
  const [{ id }] = ok(await reader.get("/v1/rooms?member=me")).items;
  assert.equal(ok(await reader.get(`/v1/messages?roomId=${id}`)).items[0].senderId, "mattermost:constructor");
});

Deno.test("a map of principals is refused where it would have no effect", async () => {
  await using _gateway = await openGateway();
  const boss = await _gateway.as("boss", { role: "owner" });
  const answer = await boss.post(IMPORTS, { kind: "gateway", principalMap: { ann: "bob" } });
  assertProblem(answer, 422, "validation_failed");
  assert.equal(answer.body.errors[0].pointer, "/principalMap");
});

Deno.test("a message that was edited often is exported with its last texts, in a line that can be imported", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const roomId = await createRoom(ann, []);
  const { id } = await sendMessage(ann, roomId, "0");
  const text = "\u0001".repeat(15_000);
  for (let n = 1; n <= 110; n++) ok(await ann.patch(`/v1/messages/${id}`, { text: `${n}${text}` }));
  const out = await exportTenant(gateway, boss);
  const longest = Math.max(...out.split("\n").map((line) => line.length));
  assert.ok(longest < 8 * 1024 ** 2, `${longest}`);
  const [line] = recordsOfType(out, "message");
  const versions = line.edits.map(({ version }: Any) => version);
  assert.ok(versions.length > 20 && versions.at(-1) === 110, `${versions}`);
  assert.deepEqual(versions, versions.toSorted((a: number, b: number) => a - b));
  assert.equal(parseRecords(out).at(-1).counts.edits, versions.length);
  await using empty = await openGateway();
  const done = await importArchive(empty, await empty.as("boss", { role: "owner" }), "gateway", out);
  assert.deepEqual([done.report, done.progress.added.messages, done.progress.added.edits], [
    [],
    1,
    versions.length,
  ]);
});

Deno.test("a message with more reactions than a line can contain is exported in one that can be imported", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const { id } = await sendMessage(ann, await createRoom(ann, []), "Do you agree?");
  const rows = Array.from({ length: 36_000 }, (_, n) => ({
    tenant_id: "default",
    message_id: id,
    key: `:${"x".repeat(60)}${10 + n % 50}:`,
    principal_id: `p${Math.floor(n / 50)}`.padEnd(128, "x"),
    created_at: CREATED_AT,
  }));
  await gateway.app.store.write((tx) => tx.insertMany("reaction", rows));
  const out = await exportTenant(gateway, boss);
  const [line] = recordsOfType(out, "message");
  const count = line.reactions.length;
  assert.ok(count > 25_000 && count < rows.length, String(count));
  assert.equal(parseRecords(out).at(-1).counts.reactions, count);
  await using other = await openGateway();
  const root = await other.as("root", { role: "owner" });
  const done = await importArchive(other, root, "gateway", out);
  assert.equal(done.progress.added.messages, 1, JSON.stringify(done.report));
});

Deno.test("who is named in an archive may be more than one statement can ask for", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_ROOM_MEMBERS: "10" });
  const boss = await gateway.as("boss", { role: "owner" });
  const many = Array.from({ length: 40_000 }, (_, n) => `p${n}`);
  const reactions = many.map((principalId) => ({ key: "+", principalId, at: CREATED_AT }));
  const lines = [
    HEADER,
    room("room_a"),
    ...many.map((id) => member("room_a", id)),
    message("room_a", "msg_a", { reactions }),
    END,
  ];
  const done = await importArchive(gateway, boss, "gateway", toArchive(lines));
  assert.equal(done.state, "done", JSON.stringify(done));
  assert.deepEqual([done.progress.added.members, done.progress.added.reactions], [10, 40_000]);
  assert.deepEqual(skipCounts(done), { too_many_members: 39_990, unknown_author: 40_001 });
});

Deno.test("long messages do not wait for others until they fill the memory", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const edits = [{ version: 1, text: "x".repeat(700_000), editorId: "ann", at: CREATED_AT }];
  const lines = [
    HEADER,
    principal("ann"),
    room("room_a"),
    ...Array.from({ length: 20 }, (_, n) => message("room_a", `msg_${n}`, { edits, version: 2 })),
    END,
  ];
  await uploadArchive(boss, "gateway", toArchive(lines));
  const { store } = gateway.app;
  const write = store.write;
  let messages: number[] = [];
  store.write = (work) =>
    write.call(store, async (tx) => {
      const result = await work(tx);
      const [{ n }]: Any[] = await tx.db.selectFrom("message" as never).select(({ fn }) => fn.countAll().as("n"))
        .execute();
      messages = [...messages, Number(n)];
      return result;
    }) as never;
  await gateway.runJobs();
  store.write = write;
  assert.ok(new Set(messages).size > 9, `${messages}`);
  assert.equal(messages.at(-1), 20);
});

Deno.test("a post with many replies waits in the table without being there with each of them", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const text = "x".repeat(100_000);
  const replies = Array.from({ length: 600 }, (_, n) => ({ user: "bob", message: `${n}`, create_at: 2000 + n }));
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", type: "O" } },
    {
      type: "post",
      post: { team: "t", channel: "c", user: "ann", message: text, create_at: 1000, props: { x: text }, replies },
    },
  ];
  const id = await uploadArchive(boss, "mattermost", toArchive(lines));
  await crashAfterWrites(gateway, 5);
  const rows: Any[] = await gateway.app.store.db.selectFrom("transfer_line" as never).selectAll().execute();
  assert.equal(rows.length, 601);
  const units = rows.reduce((sum, { json }) => sum + json.length, 0);
  assert.ok(units < 500_000, `${units}`);
  await gateway.runJobs();
  const { body } = await (await gateway.as("boss", { role: "owner" })).get(`${IMPORTS}/${id}`);
  assert.deepEqual([body.state, body.progress.added.messages], ["done", 607]);
});

Deno.test("an import notices that it is cancelled also where an archive has nothing to import", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const junk = Array.from({ length: 150_000 }, () => ({ type: "mystery" }));
  const id = await uploadArchive(boss, "gateway", toArchive([HEADER, ...junk, END]));
  const running = gateway.runJobs();
  let body: Any;
  do {
    await pause(1);
    body = (await boss.get(`${IMPORTS}/${id}`)).body;
  } while (body.state === "queued" || (body.state === "running" && body.progress.done === 0));
  assert.equal(body.state, "running", "how far it is, is told meanwhile");
  ok(await boss.post(`${IMPORTS}/${id}/cancel`));
  await running;
  const after = ok(await boss.get(`${IMPORTS}/${id}`));
  assert.ok(after.progress.done < after.progress.total, JSON.stringify(after.progress));
});

Deno.test("earlier revisions may be left out of an export, and a later import completes an import of it", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const roomId = await createRoom(ann, []);
  const { id } = ok(await ann.post("/v1/collaboration/documents", { roomId, title: "Plan", text: "one\n" }));
  const edits = [{ op: "append", text: "two\n" }];
  ok(await ann.patch(`/v1/collaboration/documents/${id}/content`, { baseRevision: 1, edits }));
  const made = ok(await ann.post(EXPORTS, { kind: "room", roomId, revisions: false }));
  assert.equal(made.revisions, false);
  await gateway.runJobs();
  const out = await (await downloadExport(ann, made.id)).text();
  assert.deepEqual([recordsOfType(out, "revision"), parseRecords(out).at(-1).counts.revisions], [[], 0]);
  const whole = await exportTenant(gateway, boss);
  await using empty = await openGateway();
  const newBoss = await empty.as("boss", { role: "owner" });
  const first = await importArchive(empty, newBoss, "gateway", out);
  assert.deepEqual([first.report, first.progress.added.documents], [[], 1]);
  assert.equal(
    ok(await (await empty.as("ann")).get(`/v1/collaboration/documents/${id}/content`)).text,
    "one\ntwo\n",
  );
  const second = await importArchive(empty, newBoss, "gateway", whole);
  assert.deepEqual([second.report, second.progress.added.revisions], [[], 1]);
});

Deno.test("a room whose owner is disabled where it comes from passes on to who can manage it", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const user = (username: string, roles: string, more: Any = {}): Any => ({
    type: "user",
    user: { username, teams: [{ name: "t", channels: [{ name: "c", roles }] }], ...more },
  });
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", type: "P" } },
    user("ann", "channel_user channel_admin", { delete_at: 5 }),
    user("bob", "channel_user"),
  ];
  assert.equal((await importArchive(gateway, boss, "mattermost", toArchive(lines))).state, "done");
  const bob = await gateway.as("mattermost:bob");
  assert.equal(ok(await bob.get("/v1/rooms?member=me")).items[0].myRole, "owner");
});

Deno.test("an export of a room names its creator, who may have left", async () => {
  await using gateway = await openGateway();
  const { ann, bob } = await createCallers(gateway, "ann", "bob");
  const roomId = await createRoom(ann, ["bob"]);
  ok(await ann.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  ok(await ann.delete(`/v1/rooms/${roomId}/members/me`));
  const out = await exportRoom(gateway, bob, roomId);
  assert.deepEqual(recordsOfType(out, "principal").map((one) => one.id).sort(), ["ann", "bob"]);
});

Deno.test("a message that is deleted in an archive has no text", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const gone = {
    text: "for ever",
    deletedAt: CREATED_AT,
    version: 2,
    pinnedAt: CREATED_AT,
    metadata: { a: "for ever" },
    edits: [{ version: 1, text: "for ever", editorId: "ann", at: CREATED_AT }],
    reactions: [{ key: ":shipit:", principalId: "ann", at: CREATED_AT }],
  };
  const lines = [
    HEADER,
    principal("ann"),
    room("room_a"),
    member("room_a", "ann", "owner"),
    message("room_a", "msg_a", gone),
  ];
  await importArchive(gateway, boss, "gateway", toArchive([...lines, END]));
  const ann = await gateway.as("ann");
  const read = ok(await ann.get("/v1/messages/msg_a?include=history"));
  assert.deepEqual([read.text, read.deletedAt, read.pinned, read.reactions], [null, CREATED_AT, false, []]);
  assert.ok(!JSON.stringify(read).includes("for ever"), JSON.stringify(read));
});

Deno.test("an agent alone does not own imported rooms: a person does, or the importer", async () => {
  await using gateway = await openGateway();
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const bot = principal("bot", { kind: "agent", ownerId: "ann" });
  const document = {
    type: "document",
    id: "doc_0190c5d2e7f07b1c9d0a1b2c3d4e5f60",
    roomId: null,
    parentId: null,
    title: "Notes",
    state: "active",
    locked: false,
    revision: 1,
    metadata: {},
    version: 1,
    createdBy: "ann",
    createdAt: CREATED_AT,
    updatedAt: CREATED_AT,
    editedBy: "ann",
    editedAt: CREATED_AT,
    readers: [{ principalId: "bot", role: "owner" }],
  };
  const state = { type: "content", of: document.id, data: Y.encodeStateAsUpdate(new Y.Doc()).toBase64() };
  const lines = [
    HEADER,
    principal("ann"),
    bot,
    room("room_a"),
    member("room_a", "bot", "owner"),
    member("room_a", "ann"),
    room("room_b"),
    member("room_b", "bot", "owner"),
    document,
    state,
    END,
  ];
  await importWhole(gateway, boss, "gateway", toArchive(lines));
  const ann = await gateway.as("ann");
  const roles = async (who: Caller, id: string): Promise<Any> =>
    ok(await who.get(`/v1/rooms/${id}?include=members`)).members.map((one: Any) => [one.principalId, one.role])
      .sort();
  assert.deepEqual(await roles(ann, "room_a"), [["ann", "owner"], ["bot", "owner"]]);
  assert.deepEqual(await roles(boss, "room_b"), [["boss", "owner"], ["bot", "owner"]]);
  const { items } = ok(await boss.get(`/v1/collaboration/documents/${document.id}/access`));
  assert.deepEqual(items.map((one: Any) => [one.principalId, one.role]).sort(), [["boss", "owner"], [
    "bot",
    "owner",
  ]]);
});

Deno.test("an export of a room names the owners of the agents in it", async () => {
  await using gateway = await openGateway();
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann", "bob");
  const bot = ok(
    await boss.post("/v1/collaboration/principals", { id: "bot", kind: "agent", displayName: "Bot", ownerId: "bob" }),
  );
  const roomId = await createRoom(ann, ["bob"]);
  assert.equal(bot.ownerId, "bob");
  const sender = await gateway.as("bot", { kind: "agent" });
  ok(await ann.put(`/v1/rooms/${roomId}/members/bot`));
  await sendMessage(sender, roomId, "done");
  ok(await ann.delete(`/v1/rooms/${roomId}/members/bob`));
  const out = await exportRoom(gateway, ann, roomId);
  const names = recordsOfType(out, "principal").map((one) => one.id);
  assert.ok(names.indexOf("bob") >= 0 && names.indexOf("bob") < names.indexOf("bot"), names.join());
});

Deno.test("a post of more replies than most is imported with all of them, whatever comes after it", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const time = Date.parse(CREATED_AT);
  const replies = Array.from({ length: 10_001 }, (_, n) => ({ user: "ann", message: `${n}`, create_at: time }));
  const post = (message: string, more: Any = {}): Any => ({
    type: "post",
    post: { team: "t", channel: "c", user: "ann", message, create_at: time, ...more },
  });
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", type: "O" } },
    post("first", { replies }),
    post("second"),
  ];
  const done = await importArchive(gateway, boss, "mattermost", toArchive(lines));
  assert.deepEqual([done.state, done.progress.added.messages], ["done", 10_003]);
});
