// A node that dies in the middle of a job leaves it to be done again: here all that a gateway does later is cut off after each
// of its commits in turn, and after the last, with the same result as running once.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { sql } from "kysely";
import * as Y from "yjs";
import { DAY_MS, MINUTE_MS } from "@/core/time/clock.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { upload } from "../modules/file/file_harness.ts";
import { createCallers, createRoom, ok, sendMessage } from "../modules/fixtures.ts";
import { inRoom, remember } from "../modules/memory/memory_fixture.ts";
import { openVectorGateway, search } from "../modules/vector/vector_fixture.ts";
import { until } from "../wait.ts";

const API = "/v1/collaboration";
/** Nothing comes of these without a media server or a push service. */
const OUTSIDE_KINDS = ["meeting.record", "meeting.sfu", "push.send"];
/** What these claim is theirs for two minutes, also when they are cut off: done again at once, they have nothing to do. */
const CLAIMING_KINDS = ["vector.embed"];

Deno.test("every job that is cut off anywhere and done again does what it does once", async () => {
  const kinds = new Set<string>();
  const once = await runMonths((run) => run());
  const again = await runMonths(async (run, kind, cuts) => {
    kinds.add(kind);
    for (let commits = 1, isCut = !CLAIMING_KINDS.includes(kind); isCut; commits++) {
      const cut = { left: commits };
      await cuts.run(cut, run).catch((thrown) => assert.equal(cut.left, 0, thrown));
      isCut = cut.left === 0;
    }
    await run();
  });
  assert.deepEqual(again.outcome, once.outcome);
  // What never came up shows nothing.
  for (const type of ["calendar.event.reminder", "meeting.ended", "message.expired", "notification.removed"]) {
    assert.ok(JSON.stringify(once.outcome).includes(type), type);
  }
  assert.deepEqual(again.kinds.filter((kind) => !kinds.has(kind) && !OUTSIDE_KINDS.includes(kind)), []);
});

/** Commits until the one after which what runs is cut off. */
type Cuts = AsyncLocalStorage<{ left: number }>;
type RunStrategy = (run: () => Promise<void>, kind: string, cuts: Cuts) => Promise<void>;

/** What is there after months of a gateway that does its jobs in this way: rows by table, and what was published meanwhile. */
async function runMonths(way: RunStrategy): Promise<{ outcome: unknown; kinds: string[] }> {
  await using opened = await openVectorGateway();
  const { gateway } = opened;
  const { modules, store } = gateway.app;
  const cuts: Cuts = new AsyncLocalStorage();
  const write = store.write.bind(store);
  store.write = async (work) => {
    const cut = store.isInTransaction ? undefined : cuts.getStore();
    const result = await write(work);
    if (cut !== undefined && --cut.left === 0) throw new Error("killed");
    return result;
  };
  const told: Record<string, number> = {};
  const { onCommit } = store;
  store.onCommit = (committed) => {
    for (const { stream, type } of committed.events) {
      const name = `${type} on ${stream.slice(0, stream.indexOf(":"))}`;
      told[name] = (told[name] ?? 0) + 1;
    }
    onCommit(committed);
  };
  const jobs = modules.flatMap((module) => module.jobs ?? []);
  for (const job of jobs) {
    const { run } = job;
    job.run = (call) => way(() => run(call), job.kind, cuts);
  }
  await createJobs(gateway);
  const tables = await sql<{ name: string }>`select name from sqlite_master where type = 'table'`.execute(store.db);
  const rows: Record<string, number> = {};
  for (const { name } of tables.rows) {
    const counted = await sql<{ n: number }>`select count(*) as n from ${sql.table(name)}`.execute(store.db);
    // How the search index stores its entries is internal.
    if (!name.includes("search")) rows[name] = counted.rows[0]?.n ?? 0;
  }
  return { outcome: { rows, told }, kinds: jobs.map((job) => job.kind) };
}

/** Something to do for every kind of job. */
async function createJobs(gateway: Harness): Promise<void> {
  const { clock } = gateway;
  const later = (ms: number): string => new Date(clock.now() + ms).toISOString();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const mentions = { principalIds: ["bob"], room: false };
  await sendMessage(alice, roomId, "to bob", { mentions });
  const regretted = await sendMessage(alice, roomId, "to bob, by mistake", { mentions });
  const remembered = await sendMessage(alice, roomId, "for later");
  ok(await bob.put(`/v1/messages/${remembered.id}/saved`, { remindAt: later(MINUTE_MS) }));
  ok(await bob.put(`/v1/messages/${regretted.id}/saved`, {}));
  await sendMessage(alice, roomId, "soon", { sendAt: later(MINUTE_MS), mentions });
  const task = { roomId, title: "Due", dueAt: later(DAY_MS), assigneeIds: ["bob"] };
  ok(await alice.post(`${API}/tasks`, task));
  const dropped = ok(await alice.post(`${API}/tasks`, { roomId, title: "Dropped" }));
  ok(await alice.delete(`${API}/tasks/${dropped.id}`));
  const start = { dateTime: "2026-03-01T18:30:00", timeZone: "UTC" };
  const event = { roomId, title: "Review", start, rrule: "FREQ=DAILY", reminders: [{ minutesBefore: 45 }] };
  ok(await alice.post(`${API}/calendar/events`, { ...event, attendees: [{ principalId: "bob" }] }));
  ok(await alice.post(`${API}/calendar/import`, { roomId, text: ICS }));
  ok(await alice.post(`${API}/meetings`, { roomId }));
  const { id: directId } = ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: ["bob"] }));
  ok(await alice.post(`${API}/meetings`, { roomId: directId }));
  await createDocuments(alice, roomId);
  ok(await bob.patch(`${API}/me`, { displayName: "Bobby" }));
  const { id: tokenId, token } = ok(await bob.post(`${API}/tokens`, { name: "feeds", scopes: ["*"] }));
  ok(await gateway.withToken(token).post(`${API}/calendar/feeds`, { name: "Ends with its token" }));
  ok(await bob.delete(`${API}/tokens/${tokenId}`));
  const files = [];
  for (const name of ["shown.txt", "loose.txt", "dropped.txt"]) {
    files.push(ok(await upload(gateway, alice, { name }, name)).id);
  }
  await sendMessage(alice, roomId, "see", { fileIds: [files[0]] });
  ok(await alice.delete(`${API}/files/${files[2]}`));
  const brief = await createRoom(alice, ["bob"], { retentionDays: 1 });
  for (let count = 0; count < 3; count++) await sendMessage(alice, brief, "not for long", { mentions });
  const doomed = await createRoom(alice, ["bob"]);
  await sendMessage(alice, doomed, "gone soon", { mentions });
  ok(await alice.delete(`/v1/rooms/${doomed}`));
  await gateway.runJobs();
  ok(await alice.delete(`/v1/messages/${regretted.id}`));
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.post(`${API}/search/reindex`, {}));
  await createVectorsAndRuns(gateway, alice, admin, roomId);
  const { id: exportId } = ok(await alice.post(`${API}/exports`, { kind: "room", roomId }));
  await gateway.runJobs();
  assert.equal(ok(await alice.get(`${API}/exports/${exportId}`)).state, "done");
  const owner = await gateway.as("owner", { role: "owner" });
  const { id: importId } = ok(await owner.post(`${API}/imports`, { kind: "gateway" }));
  const archive = await alice.open(`${API}/exports/${exportId}/content`);
  ok(await owner.put(`${API}/imports/${importId}/content`, await archive.bytes()));
  await gateway.runJobs();
  await createCallers(gateway, "dora");
  ok(await alice.put(`/v1/rooms/${roomId}/members/dora`));
  ok(await owner.post(`${API}/erasures`, { principalId: "dora", mode: "anonymize", confirm: "dora" }));
  // An owner who is disabled is followed by somebody else.
  ok(await owner.delete(`${API}/principals/alice`));
  for (let hour = 0; hour < 24; hour += 6) {
    clock.advance(6 * 60 * MINUTE_MS);
    await gateway.runJobs();
  }
  for (let day = 0; day < 3; day++) {
    clock.advance(20 * DAY_MS);
    await gateway.app.runMaintenance();
    await gateway.runJobs();
  }
}

/** Vectors of what has just changed come a little later. */
async function waitForVectors(gateway: Harness): Promise<void> {
  for (let n = 0; n < 5; n++) {
    await gateway.runJobs();
    gateway.clock.advance(2 * MINUTE_MS);
  }
}

/** Vectors that are built, followed and built again; a fact that ends with its source; a run whose agent says nothing. */
async function createVectorsAndRuns(gateway: Harness, alice: Caller, admin: Caller, roomId: string): Promise<void> {
  const { id: messageId } = await sendMessage(alice, roomId, "the boiler leaks");
  await remember(alice, inRoom(roomId), "The boiler leaks", { sourceMessageIds: [messageId] });
  await search(alice, "boiler", { mode: "hybrid" });
  await waitForVectors(gateway);
  await sendMessage(alice, roomId, "and the pump, too");
  ok(await admin.post(`${API}/vectors/reindex`, {}));
  await waitForVectors(gateway);
  ok(await alice.delete(`/v1/messages/${messageId}`));
  const { id: agentId } = ok(await alice.post(`${API}/principals`, { kind: "agent", displayName: "Outside" }));
  const { token } = ok(await alice.post(`${API}/tokens`, { principalId: agentId, name: "bot", scopes: ["*"] }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${agentId}`, {}));
  ok(await gateway.withToken(token).post(`${API}/ai/runs`, { roomId }));
  const schedule = { rrule: "FREQ=YEARLY", startAt: "2026-03-20T09:00", timeZone: "UTC", roomId, input: "Sum up" };
  const daily = ok(await alice.post(`${API}/agents`, { handle: "daily", displayName: "Daily" }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${daily.id}`, {}));
  ok(await alice.patch(`${API}/agents/${daily.id}`, { schedule }));
}

/** One that is edited as an editor does, and one that is deleted. */
async function createDocuments(alice: Caller, roomId: string): Promise<void> {
  const { id } = ok(await alice.post(`${API}/documents`, { roomId, title: "Live" }));
  const doc = new Y.Doc();
  doc.getText("content").insert(0, "written elsewhere");
  ok(await alice.post(`${API}/documents/${id}/yjs`, Y.encodeStateAsUpdate(doc)));
  const shared = ok(await alice.post(`${API}/documents`, { title: "Shared", text: "x" }));
  ok(await alice.post(`${API}/documents/${shared.id}/comments`, { text: "to find" }));
  ok(await alice.put(`${API}/documents/${shared.id}/access/bob`, { role: "reader" }));
  const dropped = ok(await alice.post(`${API}/documents`, { roomId, title: "Dropped", text: "x" }));
  ok(await alice.delete(`${API}/documents/${dropped.id}`));
  // More than is indexed at once.
  ok(await alice.post(`${API}/documents`, { roomId, title: "Long", text: "some words ".repeat(4000) }));
}

const ICS = [
  "BEGIN:VCALENDAR",
  "VERSION:2.0",
  "BEGIN:VEVENT",
  "UID:twice",
  "DTSTAMP:20260101T000000Z",
  "DTSTART:20260302T090000Z",
  "SUMMARY:Brought in",
  "END:VEVENT",
  "END:VCALENDAR",
  "",
].join("\r\n");

Deno.test("a message that is deleted while a job notifies of it leaves no notification, also when that job is interrupted", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await gateway.runJobs();
  const { modules, store, jobs } = gateway.app;
  const notices = async (): Promise<string[]> =>
    ok(await bob.get(`${API}/notifications?roomId=${roomId}&kind=mention`)).items;
  const telling = new AsyncLocalStorage<true>();
  const job = modules.flatMap((module) => module.jobs ?? []).find(({ kind }) => kind === "message.notify");
  assert.ok(job);
  const { run } = job;
  job.run = (call) => telling.run(true, () => run(call));
  const write = store.write.bind(store);
  let messageId = "";
  store.write = async (work) => {
    if (store.isInTransaction || telling.getStore() === undefined) return await write(work);
    store.write = write;
    job.run = run;
    // It was read before, and is notified after the earlier notification was withdrawn.
    await telling.exit(async () => {
      ok(await alice.delete(`/v1/messages/${messageId}`));
      await until(async () => {
        const { waiting, running } = await jobs.counts();
        return waiting === 0 && running === 1;
      });
    });
    await write(work);
    throw new Error("killed");
  };
  messageId = (await sendMessage(alice, roomId, "to bob", { mentions: { principalIds: ["bob"], room: false } })).id;
  await until(async () => (await notices()).length === 1);
  await gateway.runJobs();
  gateway.clock.advance(MINUTE_MS);
  await gateway.runJobs();
  assert.deepEqual(await notices(), []);
});
