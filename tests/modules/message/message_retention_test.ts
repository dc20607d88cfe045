// Retention: expired messages are deleted with their dependents, and nothing else is.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { fillRoom } from "../../conformance/search_engines.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { openPeer, sendCommand } from "../../transport/ws_harness.ts";
import { FILES, listFiles, upload } from "../file/file_harness.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents, search, sendMessage } from "../fixtures.ts";

/** Longer than the pause between batches. */
const REST_MS = 1000;
const BATCH = 200;

/** The same callers with new tokens, some days later. */
async function advanceDays(gateway: Harness, days: number): Promise<{ alice: Caller; bob: Caller }> {
  gateway.clock.advance(days * DAY_MS);
  return await createCallers(gateway, "alice", "bob");
}

/** Runs the jobs of the next hour. */
async function runMaintenance(gateway: Harness): Promise<void> {
  await gateway.app.runMaintenance();
  await gateway.runJobs();
}

/** Ids of the messages that have rows in a table. */
async function messageIdsIn(
  gateway: Harness,
  table: "mention" | "reaction" | "message_edit" | "thread_participant",
): Promise<string[]> {
  const rows = await gateway.app.store.db.selectFrom(table).select("message_id").execute();
  return rows.map((row) => row.message_id);
}

async function messagesIn(gateway: Harness, roomId: string): Promise<number[]> {
  const rows = await gateway.app.store.db.selectFrom("message").select("seq").where("room_id", "=", roomId)
    .orderBy("seq").execute();
  return rows.map((row) => row.seq);
}

async function countsOf(who: Caller, roomId: string): Promise<[number, number]> {
  const { unreadCount, mentionCount } = ok(await who.get(`/v1/rooms/${roomId}`));
  const { items } = ok(await who.get("/v1/collaboration/unreads"));
  const unread = items.find((item: { roomId: string }) => item.roomId === roomId);
  assert.deepEqual([unread.unreadCount, unread.mentionCount], [unreadCount, mentionCount]);
  return [unreadCount, mentionCount];
}

async function find(who: Caller, query: string): Promise<string[]> {
  const { items } = await search(who, { query });
  return items.map((item: { message: { id: string } }) => item.message.id);
}

testOnEngines("messages older than the retention period are deleted with their dependents", async (environment) => {
  await using gateway = await openGateway(environment);
  let { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"], { retentionDays: 7 });
  const elsewhere = await createRoom(alice, ["bob"]);
  const uploaded = async (text: string): Promise<string> =>
    ok(await upload(gateway, alice, { name: "plan.txt" }, text)).id;
  const [own, shared] = [await uploaded("only here"), await uploaded("here and there")];
  const root = await sendMessage(alice, roomId, "an ancient secret", {
    mentions: { principalIds: ["bob"] },
    fileIds: [own, shared],
  });
  const reply = await sendMessage(bob, roomId, "an ancient answer", { threadId: root.id });
  const kept = await sendMessage(alice, elsewhere, "ancient, too", {
    mentions: { principalIds: ["bob"] },
    fileIds: [shared],
  });
  ok(await alice.patch(`/v1/messages/${root.id}`, { text: "an ancient secret, edited" }));
  for (const { id } of [root, kept]) ok(await bob.put(`/v1/messages/${id}/reactions/${encodeURIComponent("👍")}`));
  ok(await alice.put(`/v1/messages/${root.id}/pin`));
  await gateway.runJobs();
  ({ alice, bob } = await advanceDays(gateway, 5));
  ok(await bob.patch(`/v1/messages/${reply.id}`, { text: "an ancient answer, edited late" }));
  ({ alice, bob } = await advanceDays(gateway, 1));
  const young = await sendMessage(alice, roomId, "young");
  const answer = await sendMessage(bob, roomId, "young as well", { threadId: root.id });
  await runMaintenance(gateway);
  assert.deepEqual(await messagesIn(gateway, roomId), [root.seq, reply.seq, young.seq, answer.seq]);
  assert.deepEqual((await find(bob, "ancient")).sort(), [root.id, reply.id, kept.id].sort());
  assert.deepEqual(await countsOf(bob, roomId), [2, 1]);
  assert.equal((await listFiles(gateway.folder)).length, 2);

  ({ alice, bob } = await advanceDays(gateway, 1.5));
  await runMaintenance(gateway);

  const { items, hasBefore, lastSeq } = ok(await bob.get(`/v1/messages?roomId=${roomId}`));
  assert.deepEqual(items.map((item: { id: string; seq: number }) => [item.id, item.seq]), [
    [young.id, young.seq],
    [answer.id, answer.seq],
  ]);
  assert.deepEqual([hasBefore, lastSeq], [false, answer.seq + 1]);
  for (const { id } of [root, reply]) assertProblem(await alice.get(`/v1/messages/${id}`), 404, "not_found");
  assert.equal(ok(await bob.get(`/v1/messages/${answer.id}?include=thread`)).thread.items.length, 1);
  assertProblem(await bob.post("/v1/messages", { roomId, text: "x", threadId: root.id }), 422, "validation_failed");
  // Nothing would remove who follows what is no more.
  assertProblem(await alice.put(`/v1/threads/${answer.id}/follow`), 404, "not_found");
  assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}/pins`)).items, []);
  assert.deepEqual(await countsOf(bob, roomId), [1, 0]);
  assert.deepEqual(await countsOf(bob, elsewhere), [1, 1]);
  const { items: notices } = ok(await bob.get("/v1/collaboration/notifications?kind=mention"));
  assert.deepEqual(notices.map((notice: { messageId: string }) => notice.messageId), [kept.id]);

  assert.deepEqual(await messagesIn(gateway, roomId), [young.seq, answer.seq]);
  assert.deepEqual(await messageIdsIn(gateway, "mention"), [kept.id]);
  assert.deepEqual(await messageIdsIn(gateway, "reaction"), [kept.id]);
  assert.deepEqual(await messageIdsIn(gateway, "message_edit"), []);
  assert.deepEqual(await messageIdsIn(gateway, "thread_participant"), []);
  const links = await gateway.app.store.db.selectFrom("file_link").select("room_id").execute();
  assert.deepEqual(links.map((row) => row.room_id), [elsewhere]);
  assertProblem(await alice.get(`${FILES}/${own}`), 404, "not_found");
  assert.equal(ok(await bob.get(`${FILES}/${shared}`)).id, shared);
  assert.equal((await listFiles(gateway.folder)).length, 1);
  assert.deepEqual(await find(bob, "ancient"), [kept.id]);
  assert.deepEqual((await find(bob, "young")).sort(), [young.id, answer.id].sort());
  const indexed = await gateway.app.store.db.selectFrom("search_document").select("id").execute();
  assert.deepEqual(indexed.map((row) => row.id).sort(), [kept.id, young.id, answer.id].sort());
  assert.equal(ok(await bob.get(`/v1/messages/${kept.id}`)).reactions.length, 1);
  const [created] = await readRoomEvents(bob, elsewhere);
  assert.deepEqual([created?.type, created?.data.room.epoch], [
    "room.created",
    ok(await bob.get(`/v1/rooms/${elsewhere}`)).epoch,
  ]);

  // An event is stored until it has expired itself.
  const late = young.seq - 1;
  assertProblem(await bob.get(`/v1/rooms/${roomId}/events?after=${late - 2}`), 410, "gone");
  const events = await readRoomEvents(bob, roomId, late - 1);
  assert.deepEqual(events.map(({ seq, type }) => [seq, type]), [
    [late, "message.updated"],
    [young.seq, "message.created"],
    [answer.seq, "message.created"],
    [lastSeq, "message.expired"],
  ]);
  assert.deepEqual(events.at(-1)?.data, { roomId, upToSeq: reply.seq });
  assert.deepEqual([events[0]?.data.messageId, events[0]?.data.changes.text], [reply.id, null], "without its content");
  ({ alice, bob } = await advanceDays(gateway, 5));
  await runMaintenance(gateway);
  assertProblem(await bob.get(`/v1/rooms/${roomId}/events?after=${late - 1}`), 410, "gone");
  assert.deepEqual((await readRoomEvents(bob, roomId, late)).map(({ seq }) => seq), [young.seq, answer.seq, lastSeq]);
});

Deno.test("a page of events that are trimmed while it is read has no gap", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  for (let at = 0; at < 4; at++) await sendMessage(alice, roomId, `${at}`);
  const { log } = gateway.app.store;
  const { position } = log;
  for (const keep of [2, 0]) {
    log.position = async (...stream) => {
      const before = await position.apply(log, stream);
      await log.trim(0, keep);
      return before;
    };
    assertProblem(await alice.get(`/v1/rooms/${roomId}/events?after=${5 - keep}`), 410, "gone");
  }
});

testOnEngines("a client recovers from the start of the log, and not from deleted events", async (environment) => {
  await using gateway = await openGateway(environment);
  let { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"], { retentionDays: 1 });
  const channel = `room:${roomId}`;
  const old = await sendMessage(alice, roomId, "old");
  const older = ok(await bob.get("/v1/collaboration/sync")).cursor;
  await sendMessage(alice, roomId, "old as well");
  ({ alice, bob } = await advanceDays(gateway, 2));
  const before = ok(await bob.get("/v1/collaboration/sync")).cursor;
  const young = await sendMessage(alice, roomId, "young");
  await runMaintenance(gateway);

  const peer = await openPeer(gateway, bob);
  const { epoch } = ok(await bob.get(`/v1/rooms/${roomId}/events?after=${young.seq - 1}`));
  const recover = async (id: number, offset: number) => {
    const { subscribe } = await sendCommand(peer, id, { subscribe: { channel, recover: true, offset, epoch } });
    await sendCommand(peer, id + 1, { unsubscribe: { channel } });
    return subscribe;
  };
  const { was_recovering, recovered: isWhole = false } = await recover(2, old.seq);
  assert.deepEqual([was_recovering, isWhole], [true, false]);
  const { recovered, publications } = await recover(4, young.seq - 1);
  assert.equal(recovered, true);
  assert.deepEqual(publications.map((one: { offset: number }) => one.offset), [young.seq, young.seq + 1]);

  assert.equal(ok(await bob.get(`/v1/collaboration/sync?since=${older}`)).limited, true);
  const delta = ok(await bob.get(`/v1/collaboration/sync?since=${before}`));
  assert.equal(delta.limited, false);
  assert.deepEqual(delta.events.map((event: { type: string }) => event.type), ["message.created", "message.expired"]);
  assert.equal(delta.unreads[0].unreadCount, 1);
});

testOnEngines(
  "a new retention period applies to older messages, in batches until it is removed",
  async (environment) => {
    await using gateway = await openGateway(environment);
    let { alice } = await createCallers(gateway, "alice", "bob");
    const { roomId } = await fillRoom(gateway, alice, Array.from({ length: 2 * BATCH + 20 }, (_, n) => `text ${n}`));
    const all = await messagesIn(gateway, roomId);
    ({ alice } = await advanceDays(gateway, 2));
    await runMaintenance(gateway);
    assert.deepEqual(await messagesIn(gateway, roomId), all);

    ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: 1 }));
    await runMaintenance(gateway);
    assert.deepEqual(await messagesIn(gateway, roomId), all.slice(BATCH));

    ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: null }));
    gateway.clock.advance(REST_MS);
    await runMaintenance(gateway);
    assert.deepEqual(await messagesIn(gateway, roomId), all.slice(BATCH));

    ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: 1 }));
    const young = await sendMessage(alice, roomId, "young");
    await runMaintenance(gateway);
    assert.deepEqual(await messagesIn(gateway, roomId), [...all.slice(2 * BATCH), young.seq]);
    gateway.clock.advance(REST_MS);
    await gateway.runJobs();
    assert.deepEqual(await messagesIn(gateway, roomId), [young.seq]);
    const types = (await readRoomEvents(alice, roomId, young.seq - 1)).map(({ type }) => type);
    assert.deepEqual(types, ["message.created", "message.expired", "message.expired"]);
    await runMaintenance(gateway);
    assert.equal((await sendMessage(alice, roomId, "next")).seq, young.seq + 3);
  },
);

testOnEngines("retention deletes failed scheduled messages, but not pending ones", async (environment) => {
  await using gateway = await openGateway(environment);
  let { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"], { retentionDays: 1 });
  const at = (days: number): string => new Date(gateway.clock.now() + days * DAY_MS).toISOString();
  ok(await bob.post("/v1/messages", { roomId, text: "too late", sendAt: at(0.5) }));
  ok(await alice.post("/v1/messages", { roomId, text: "waits", sendAt: at(9) }));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  ({ alice, bob } = await advanceDays(gateway, 1));
  await runMaintenance(gateway);
  assert.equal(ok(await bob.get("/v1/messages/scheduled")).items[0].state, "failed");
  ({ alice, bob } = await advanceDays(gateway, 1));
  await runMaintenance(gateway);
  assert.deepEqual(ok(await bob.get("/v1/messages/scheduled")).items, []);
  assert.equal(ok(await alice.get("/v1/messages/scheduled")).items.length, 1);
});

testOnEngines(
  "a message dated in the future, by a clock that was wrong, expires with the next one",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"], { retentionDays: 7 });
    gateway.clock.advance(300 * DAY_MS);
    const ahead = await advanceDays(gateway, 0);
    await sendMessage(ahead.alice, roomId, "from the future");
    gateway.clock.advance(-300 * DAY_MS);
    const next = await sendMessage(alice, roomId, "next");
    const { alice: later } = await advanceDays(gateway, 6);
    const young = await sendMessage(later, roomId, "young");
    await runMaintenance(gateway);
    assert.deepEqual(await messagesIn(gateway, roomId), [next.seq - 1, next.seq, young.seq]);
    await advanceDays(gateway, 2);
    await runMaintenance(gateway);
    assert.deepEqual(await messagesIn(gateway, roomId), [young.seq]);
  },
);

testOnPostgres("two nodes delete expired messages once", async (environment) => {
  await using one = await openGateway(environment);
  await using two = await openGateway(environment);
  const { alice } = await createCallers(one, "alice", "bob");
  const { roomId } = await fillRoom(one, alice, Array.from({ length: BATCH + 20 }, (_, n) => `text ${n}`));
  ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: 1 }));
  const [first] = [await advanceDays(one, 2), await advanceDays(two, 2)];
  const young = await sendMessage(first.alice, roomId, "young");
  await Promise.all([runMaintenance(one), runMaintenance(two)]);
  for (const { clock } of [one, two]) clock.advance(REST_MS);
  await Promise.all([one.runJobs(), two.runJobs()]);
  await Promise.all([one.runJobs(), two.runJobs()]);
  assert.deepEqual(await messagesIn(one, roomId), [young.seq]);
  const types = (await readRoomEvents(first.alice, roomId, young.seq - 1)).map(({ type }) => type);
  assert.deepEqual(types, ["message.created", "message.expired", "message.expired"]);
});

testOnEngines("purging a room deletes the content of its messages, also from the log", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const admin = await gateway.as("admin", { role: "admin" });
  const [roomId, other] = [await createRoom(admin, ["alice"]), await createRoom(admin, ["alice"])];
  await sendMessage(alice, roomId, "an ancient secret");
  const kept = await sendMessage(alice, other, "said elsewhere");
  ok(await admin.delete(`/v1/rooms/${roomId}?purge=true`));
  await gateway.runJobs();
  assert.deepEqual(await messagesIn(gateway, roomId), []);
  const { log } = gateway.app.store;
  assert.deepEqual(await log.read("default", `room:${roomId}`, 0, 100), []);
  assert.ok((await log.read("default", `room:${other}`, 0, 100)).some(({ seq }) => seq === kept.seq));
});
