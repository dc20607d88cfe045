// The threads of a principal: those that it takes part in, of rooms that it reads, with what is unread in them.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { migrations } from "@/modules/message/migrations.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { assertNoTenantScan, recordQueries } from "../query_log.ts";
import { exportTenant, importArchive, recordsOfType, skipCounts } from "../transfer/transfer_fixture.ts";

// deno-lint-ignore no-explicit-any -- a response
type Listed = any;

async function threadsOf(caller: Caller, query = ""): Promise<[string, number, string[]][]> {
  const { items } = ok(await caller.get(`/v1/threads${query}`));
  return items.map(({ root, unreadCount, replies }: Listed) => [
    root.text,
    unreadCount,
    replies.map(({ text }: Listed) => text),
  ]);
}

testOnEngines("thread.list has the threads that the caller takes part in, newest reply first", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  const elsewhere = await createRoom(bob, ["alice"], { name: "Elsewhere" });
  const post = (caller: Caller, text: string, more: Record<string, unknown> = {}, room = roomId) => {
    gateway.clock.advance(1000);
    return sendMessage(caller, room, text, more);
  };
  const first = await post(alice, "first");
  const second = await post(bob, "second");
  await post(alice, "without replies");
  const third = await post(bob, "third @alice", { parseMentions: true }, elsewhere);
  for (const n of [1, 2, 3, 4]) await post(bob, `reply ${n}`, { threadId: first.id });
  const answer = await post(carol, "answer", { threadId: second.id });
  await post(bob, "there", { threadId: third.id }, elsewhere);
  assert.deepEqual(await threadsOf(alice), [
    ["third @alice", 1, ["there"]],
    ["first", 4, ["reply 2", "reply 3", "reply 4"]],
  ]);
  assert.deepEqual(await threadsOf(carol), [["second", 0, ["answer"]]]);
  // An edit that mentions a member, and a reply of its own, make it take part as well.
  ok(await carol.patch(`/v1/messages/${answer.id}`, { text: "answer for @alice", parseMentions: true }));
  await post(carol, "me too", { threadId: first.id });
  assert.deepEqual((await threadsOf(alice)).map(([text]) => text), ["first", "third @alice", "second"]);
  assert.deepEqual(await threadsOf(carol, "?unread=true"), [["first", 4, ["reply 3", "reply 4", "me too"]]]);
  assert.deepEqual((await threadsOf(alice, `?roomId=${elsewhere}`)).map(([text]) => text), ["third @alice"]);

  const texts: string[] = [];
  for (let cursor = "", isMore = true; isMore;) {
    const { items, nextCursor, senders } = ok(await alice.get(`/v1/threads?limit=1&include=senders${cursor}`));
    assert.ok(senders.length > 0);
    texts.push(...items.map(({ root }: Listed) => root.text));
    isMore = nextCursor !== null;
    cursor = `&cursor=${nextCursor}`;
  }
  assert.deepEqual(texts, ["first", "third @alice", "second"]);

  // The position is that of the room: what was read there is read in its threads.
  ok(await alice.put(`/v1/rooms/${roomId}/read`, { seq: "all" }));
  assert.deepEqual((await threadsOf(alice, "?unread=true")).map(([text]) => text), ["third @alice"]);
  assert.deepEqual((await threadsOf(alice, "?unread=false")).map(([text]) => text), ["first", "second"]);
  // The migration finds the same in messages that were sent before it.
  const before = await Promise.all([alice, bob, carol].map((caller) => threadsOf(caller)));
  await gateway.app.store.write(async (tx) => {
    await sql`drop table thread_participant`.execute(tx.db);
    for (const { name, up } of migrations) if (name > "0008") await up(tx.db, gateway.app.store.dialect);
  });
  assert.deepEqual(await Promise.all([alice, bob, carol].map((caller) => threadsOf(caller))), before);

  // A thread without replies is none, nor is one of a room that was left, or that is deleted for good.
  ok(await carol.delete(`/v1/messages/${answer.id}`));
  ok(await alice.delete(`/v1/rooms/${elsewhere}/members/alice`));
  assert.deepEqual((await threadsOf(alice)).map(([text]) => text), ["first"]);
});

testOnEngines("thread.list has no thread that the caller may not read", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const open = await createRoom(alice, ["bob"], { visibility: "public" });
  const hidden = await createRoom(alice, [], { historyVisibility: "joined" });
  for (const roomId of [open, hidden]) {
    const root = await sendMessage(alice, roomId, roomId, { parseMentions: true });
    await sendMessage(alice, roomId, "for bob", { threadId: root.id, mentions: { principalIds: [] } });
    if (roomId === open) await sendMessage(bob, roomId, "mine", { threadId: root.id });
    else {
      ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
      await sendMessage(alice, roomId, "@bob", { threadId: root.id, parseMentions: true });
    }
  }
  assert.deepEqual((await threadsOf(bob)).map(([text]) => text), [open]);
  // A public room can be read without being a member, but there is no read position in it.
  ok(await bob.delete(`/v1/rooms/${open}/members/bob`));
  assert.deepEqual(await threadsOf(bob), []);
  ok(await bob.put(`/v1/rooms/${open}/members/bob`));
  assert.equal((await threadsOf(bob)).length, 1);
});

Deno.test("thread.list reads no more than the threads of the caller", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const root = await sendMessage(alice, roomId, "root");
  const sent = await recordQueries(() => sendMessage(bob, roomId, "reply", { threadId: root.id }));
  const listed = await recordQueries(() => threadsOf(alice, "?unread=true"));
  for (const query of [...sent, ...listed].filter(({ sql }) => sql.includes("thread_participant"))) {
    for (const table of ["message", "root", "reply", "thread_participant", "mention"]) {
      await assertNoTenantScan(gateway, query, table);
    }
  }
});

testOnEngines(
  "thread.follow lists a thread and notifies of its replies, thread.unfollow does neither",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
    const roomId = await createRoom(alice, ["bob", "carol"]);
    const root = await sendMessage(alice, roomId, "root");
    const followingOf = async (caller: Caller, id: string) =>
      ok(await caller.get(`/v1/messages/${id}?include=following`)).following;
    assert.deepEqual([await followingOf(alice, root.id), await followingOf(bob, root.id)], [true, false]);
    const reply = await sendMessage(bob, roomId, "reply", { threadId: root.id });
    const isFollowed = async (caller: Caller): Promise<boolean[]> => [
      await followingOf(caller, root.id),
      await followingOf(caller, reply.id),
    ];
    const repliesFor = async (caller: Caller): Promise<number> => {
      await gateway.runJobs();
      return ok(await caller.get("/v1/collaboration/notifications?kind=reply")).items.length;
    };
    assert.deepEqual([await repliesFor(alice), await repliesFor(carol), await threadsOf(carol)], [1, 0, []]);
    assert.deepEqual([await isFollowed(alice), await isFollowed(carol)], [[true, true], [false, false]]);
    for (const id of [root.id, reply.id]) ok(await carol.put(`/v1/threads/${id}/follow`));
    ok(await alice.delete(`/v1/threads/${root.id}/follow`));
    assert.deepEqual([(await threadsOf(carol)).length, await threadsOf(alice)], [1, []]);
    assert.deepEqual([await isFollowed(alice), await isFollowed(carol)], [[false, false], [true, true]]);
    await sendMessage(bob, roomId, "another", { threadId: root.id });
    assert.deepEqual([await repliesFor(alice), await repliesFor(carol)], [1, 1]);
    const own = await gateway.app.store.log.read("default", "principal:carol", 0, 1000);
    assert.deepEqual(own.map(({ type }) => type).filter((type) => type.startsWith("thread.")), ["thread.followed"]);
    // Who takes part again does not follow again, unless it says so; who left the room is notified of nothing.
    await sendMessage(alice, roomId, "mine", { threadId: root.id });
    assert.deepEqual(await threadsOf(alice), []);
    ok(await alice.put(`/v1/threads/${root.id}/follow`));
    assert.equal((await threadsOf(alice)).length, 1);
    // She is notified of that reply while she is a member.
    await gateway.runJobs();
    ok(await carol.delete(`/v1/rooms/${roomId}/members/carol`));
    await sendMessage(bob, roomId, "the last", { threadId: root.id });
    assert.deepEqual([await repliesFor(alice), await repliesFor(carol)], [2, 2]);
  },
);

testOnEngines(
  "who follows which threads travels in archives of a tenant, and a decision there stays",
  async (engine) => {
    await using source = await openGateway();
    const { alice, bob, carol } = await createCallers(source, "alice", "bob", "carol");
    const boss = await createCaller(source, "boss", { role: "owner" });
    const roomId = await createRoom(alice, ["bob", "carol"]);
    const root = await sendMessage(alice, roomId, "root");
    const reply = await sendMessage(bob, roomId, "reply", { threadId: root.id });
    ok(await alice.delete(`/v1/threads/${root.id}/follow`));
    ok(await carol.put(`/v1/threads/${root.id}/follow`));
    const archive = await exportTenant(source, boss);
    assert.equal(recordsOfType(archive, "thread_following").length, 2);

    await using target = await openGateway(engine);
    const owner = await createCaller(target, "boss", { role: "owner" });
    const added = async () => (await importArchive(target, owner, "gateway", archive)).progress.added.followedThreads;
    assert.equal(await added(), 2);
    const there = await createCallers(target, "alice", "bob", "carol");
    const listed = async () =>
      [await threadsOf(there.alice), await threadsOf(there.bob), await threadsOf(there.carol)].map(({ length }) =>
        length
      );
    assert.deepEqual(await listed(), [0, 1, 1]);
    ok(await there.carol.delete(`/v1/threads/${root.id}/follow`));
    assert.deepEqual([await added(), await listed()], [0, [0, 1, 0]]);
    for (const id of ["msg_unknown", reply.id]) {
      const lost = archive.replaceAll(`"threadId":"${root.id}","following"`, `"threadId":"${id}","following"`);
      assert.deepEqual(skipCounts(await importArchive(target, owner, "gateway", lost)), { followed_thread_missing: 2 });
    }
  },
);
