// Rooms that keep messages for some days: what is older goes with all that hangs on it, and nothing else does.
import assert from "node:assert/strict";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { fillRoom } from "../conformance/search_engines.ts";
import { onEngines, onPostgres } from "../engines.ts";
import { ask, FakeSocket } from "../transport/ws_rig.ts";
import { FILES, filesIn, openFileGateway, upload } from "./file_rig.ts";
import { eventsOf, ok, people, refused, roomOf, say } from "./team.ts";

const DAY_MS = 86_400_000;
/** More than the rest between batches. */
const REST_MS = 1000;
const BATCH = 500;

/** The same people with fresh tokens, some days later. */
async function later(gateway: Harness, days: number): Promise<{ alice: Caller; bob: Caller }> {
  gateway.clock.advance(days * DAY_MS);
  return await people(gateway, "alice", "bob");
}

/** What happens within the hour. */
async function sweep(gateway: Harness): Promise<void> {
  await gateway.app.housekeep();
  await gateway.runJobs();
}

/** Ids of the messages that have rows in a table. */
async function having(gateway: Harness, table: "mention" | "reaction" | "message_edit"): Promise<string[]> {
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
  const { items } = ok(await who.post("/v1/search", { query }));
  return items.map((item: { message: { id: string } }) => item.message.id);
}

onEngines("what is older than a room keeps is gone with all that hangs on it", async (environment) => {
  await using files = await openFileGateway(environment);
  const { gateway } = files;
  let { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"], { retentionDays: 7 });
  const elsewhere = await roomOf(alice, ["bob"]);
  const uploaded = async (text: string): Promise<string> =>
    ok(await upload(gateway, alice, { name: "plan.txt" }, text)).id;
  const [own, shared] = [await uploaded("only here"), await uploaded("here and there")];
  const root = await say(alice, roomId, "an ancient secret", {
    mentions: { principalIds: ["bob"] },
    fileIds: [own, shared],
  });
  const reply = await say(bob, roomId, "an ancient answer", { threadId: root.id });
  const kept = await say(alice, elsewhere, "ancient, too", {
    mentions: { principalIds: ["bob"] },
    fileIds: [shared],
  });
  ok(await alice.patch(`/v1/messages/${root.id}`, { text: "an ancient secret, edited" }));
  for (const { id } of [root, kept]) ok(await bob.put(`/v1/messages/${id}/reactions/${encodeURIComponent("👍")}`));
  ok(await alice.put(`/v1/messages/${root.id}/pin`));
  await gateway.runJobs();
  ({ alice, bob } = await later(gateway, 5));
  ok(await bob.patch(`/v1/messages/${reply.id}`, { text: "an ancient answer, edited late" }));
  ({ alice, bob } = await later(gateway, 1));
  const young = await say(alice, roomId, "young");
  const answer = await say(bob, roomId, "young as well", { threadId: root.id });
  await sweep(gateway);
  assert.deepEqual(await messagesIn(gateway, roomId), [root.seq, reply.seq, young.seq, answer.seq]);
  assert.deepEqual((await find(bob, "ancient")).sort(), [root.id, reply.id, kept.id].sort());
  assert.deepEqual(await countsOf(bob, roomId), [2, 1]);
  assert.equal((await filesIn(files.folder)).length, 2);

  ({ alice, bob } = await later(gateway, 1.5));
  await sweep(gateway);

  const { items, hasBefore, lastSeq } = ok(await bob.get(`/v1/messages?roomId=${roomId}`));
  assert.deepEqual(items.map((item: { id: string; seq: number }) => [item.id, item.seq]), [
    [young.id, young.seq],
    [answer.id, answer.seq],
  ]);
  assert.deepEqual([hasBefore, lastSeq], [false, answer.seq + 1]);
  for (const { id } of [root, reply]) refused(await alice.get(`/v1/messages/${id}`), 404, "not_found");
  assert.equal(ok(await bob.get(`/v1/messages/${answer.id}?include=thread`)).thread.items.length, 1);
  refused(await bob.post("/v1/messages", { roomId, text: "x", threadId: root.id }), 422, "validation_failed");
  assert.deepEqual(ok(await alice.get(`/v1/rooms/${roomId}/pins`)).items, []);
  assert.deepEqual(await countsOf(bob, roomId), [1, 0]);
  assert.deepEqual(await countsOf(bob, elsewhere), [1, 1]);
  const { items: notices } = ok(await bob.get("/v1/collaboration/notifications?kinds=mention"));
  assert.deepEqual(notices.map((notice: { messageId: string }) => notice.messageId), [kept.id]);

  assert.deepEqual(await messagesIn(gateway, roomId), [young.seq, answer.seq]);
  assert.deepEqual(await having(gateway, "mention"), [kept.id]);
  assert.deepEqual(await having(gateway, "reaction"), [kept.id]);
  assert.deepEqual(await having(gateway, "message_edit"), []);
  const links = await gateway.app.store.db.selectFrom("file_link").select("room_id").execute();
  assert.deepEqual(links.map((row) => row.room_id), [elsewhere]);
  refused(await alice.get(`${FILES}/${own}`), 404, "not_found");
  assert.equal(ok(await bob.get(`${FILES}/${shared}`)).id, shared);
  assert.equal((await filesIn(files.folder)).length, 1);
  assert.deepEqual(await find(bob, "ancient"), [kept.id]);
  assert.deepEqual((await find(bob, "young")).sort(), [young.id, answer.id].sort());
  const indexed = await gateway.app.store.db.selectFrom("search_document").select("id").execute();
  assert.deepEqual(indexed.map((row) => row.id).sort(), [kept.id, young.id, answer.id].sort());
  assert.equal(ok(await bob.get(`/v1/messages/${kept.id}`)).reactions.length, 1);
  const [created] = await eventsOf(bob, elsewhere);
  assert.deepEqual([created?.type, created?.data.room.epoch], [
    "room.created",
    ok(await bob.get(`/v1/rooms/${elsewhere}`)).epoch,
  ]);

  // An event is there until it is as old itself.
  const late = young.seq - 1;
  refused(await bob.get(`/v1/rooms/${roomId}/events?after=${late - 2}`), 410, "gone");
  const events = await eventsOf(bob, roomId, late - 1);
  assert.deepEqual(events.map(({ seq, type }) => [seq, type]), [
    [late, "message.updated"],
    [young.seq, "message.created"],
    [answer.seq, "message.created"],
    [lastSeq, "message.expired"],
  ]);
  assert.deepEqual(events.at(-1)?.data, { roomId, upToSeq: reply.seq });
  ({ alice, bob } = await later(gateway, 5));
  await sweep(gateway);
  refused(await bob.get(`/v1/rooms/${roomId}/events?after=${late - 1}`), 410, "gone");
  assert.deepEqual((await eventsOf(bob, roomId, late)).map(({ seq }) => seq), [young.seq, answer.seq, lastSeq]);
});

Deno.test("a page of events that are trimmed while it is read has no hole", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  const roomId = await roomOf(alice, []);
  for (let at = 0; at < 4; at++) await say(alice, roomId, `${at}`);
  const { log } = gateway.app.store;
  const { position } = log;
  for (const keep of [2, 0]) {
    log.position = async (...stream) => {
      const before = await position.apply(log, stream);
      await log.trim(0, keep);
      return before;
    };
    refused(await alice.get(`/v1/rooms/${roomId}/events?after=${5 - keep}`), 410, "gone");
  }
});

onEngines("who was away recovers from where the log begins, and not from what is gone", async (environment) => {
  await using gateway = await openGateway(environment);
  let { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"], { retentionDays: 1 });
  const channel = `room:${roomId}`;
  const old = await say(alice, roomId, "old");
  const older = ok(await bob.get("/v1/collaboration/sync")).cursor;
  await say(alice, roomId, "old as well");
  ({ alice, bob } = await later(gateway, 2));
  const before = ok(await bob.get("/v1/collaboration/sync")).cursor;
  const young = await say(alice, roomId, "young");
  await sweep(gateway);

  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  assert.ok((await ask(peer, 1, { connect: { token: bob.token } })).connect);
  const { epoch } = ok(await bob.get(`/v1/rooms/${roomId}/events?after=${young.seq - 1}`));
  const recover = async (id: number, offset: number) => {
    const { subscribe } = await ask(peer, id, { subscribe: { channel, recover: true, offset, epoch } });
    await ask(peer, id + 1, { unsubscribe: { channel } });
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

onEngines("a limit is for messages from before it, too, batch by batch until it is taken away", async (environment) => {
  await using gateway = await openGateway(environment);
  let { alice } = await people(gateway, "alice", "bob");
  const { roomId } = await fillRoom(gateway, alice, Array.from({ length: 2 * BATCH + 20 }, (_, n) => `text ${n}`));
  const all = await messagesIn(gateway, roomId);
  ({ alice } = await later(gateway, 2));
  await sweep(gateway);
  assert.deepEqual(await messagesIn(gateway, roomId), all);

  ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: 1 }));
  await sweep(gateway);
  assert.deepEqual(await messagesIn(gateway, roomId), all.slice(BATCH));

  ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: null }));
  gateway.clock.advance(REST_MS);
  await sweep(gateway);
  assert.deepEqual(await messagesIn(gateway, roomId), all.slice(BATCH));

  ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: 1 }));
  const young = await say(alice, roomId, "young");
  await sweep(gateway);
  assert.deepEqual(await messagesIn(gateway, roomId), [...all.slice(2 * BATCH), young.seq]);
  gateway.clock.advance(REST_MS);
  await gateway.runJobs();
  assert.deepEqual(await messagesIn(gateway, roomId), [young.seq]);
  const types = (await eventsOf(alice, roomId, young.seq - 1)).map(({ type }) => type);
  assert.deepEqual(types, ["message.created", "message.expired", "message.expired"]);
  await sweep(gateway);
  assert.equal((await say(alice, roomId, "next")).seq, young.seq + 3);
});

onEngines("what could not be sent to the room goes as well, unlike what still waits", async (environment) => {
  await using gateway = await openGateway(environment);
  let { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"], { retentionDays: 1 });
  const at = (days: number): string => new Date(gateway.clock.now() + days * DAY_MS).toISOString();
  ok(await bob.post("/v1/messages", { roomId, text: "too late", sendAt: at(0.5) }));
  ok(await alice.post("/v1/messages", { roomId, text: "waits", sendAt: at(9) }));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  ({ alice, bob } = await later(gateway, 1));
  await sweep(gateway);
  assert.equal(ok(await bob.get("/v1/messages/scheduled")).items[0].state, "failed");
  ({ alice, bob } = await later(gateway, 1));
  await sweep(gateway);
  assert.deepEqual(ok(await bob.get("/v1/messages/scheduled")).items, []);
  assert.equal(ok(await alice.get("/v1/messages/scheduled")).items.length, 1);
});

onPostgres("two nodes remove what is old once", async (environment) => {
  await using one = await openGateway(environment);
  await using two = await openGateway(environment);
  const { alice } = await people(one, "alice", "bob");
  const { roomId } = await fillRoom(one, alice, Array.from({ length: BATCH + 20 }, (_, n) => `text ${n}`));
  ok(await alice.patch(`/v1/rooms/${roomId}`, { retentionDays: 1 }));
  const [first] = [await later(one, 2), await later(two, 2)];
  const young = await say(first.alice, roomId, "young");
  await Promise.all([sweep(one), sweep(two)]);
  for (const { clock } of [one, two]) clock.advance(REST_MS);
  await Promise.all([one.runJobs(), two.runJobs()]);
  await Promise.all([one.runJobs(), two.runJobs()]);
  assert.deepEqual(await messagesIn(one, roomId), [young.seq]);
  const types = (await eventsOf(first.alice, roomId, young.seq - 1)).map(({ type }) => type);
  assert.deepEqual(types, ["message.created", "message.expired", "message.expired"]);
});

onEngines("a purged room leaves nothing of what was said in it, in the log neither", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await people(gateway, "alice");
  const admin = await gateway.as("admin", { role: "admin" });
  const [roomId, other] = [await roomOf(admin, ["alice"]), await roomOf(admin, ["alice"])];
  await say(alice, roomId, "an ancient secret");
  const kept = await say(alice, other, "said elsewhere");
  ok(await admin.delete(`/v1/rooms/${roomId}?purge=true`));
  await gateway.runJobs();
  assert.deepEqual(await messagesIn(gateway, roomId), []);
  const { log } = gateway.app.store;
  assert.deepEqual(await log.read("default", `room:${roomId}`, 0, 100), []);
  assert.ok((await log.read("default", `room:${other}`, 0, 100)).some(({ seq }) => seq === kept.seq));
});
