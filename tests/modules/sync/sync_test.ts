// Sync through the API: snapshots, deltas without gaps or duplicates, long polls, and authorization.
import assert from "node:assert/strict";
import type { PublicationContext } from "npm:centrifuge@5.8.0";
import { type Caller, openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { SyncStore } from "@/modules/sync/store.ts";
import { countTicks, pause, slowTime, until } from "../../wait.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { SdkClient, serveGateway } from "../http_server.ts";

// deno-lint-ignore no-explicit-any -- untyped responses
type Any = any;

function since(who: Caller, cursor: string, wait = 0): Promise<Any> {
  return who.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}&wait=${wait}`);
}

async function start(who: Caller): Promise<Any> {
  return ok(await who.get("/v1/collaboration/sync"));
}

function texts({ events }: Any): string[] {
  return events.filter((event: Any) => event.type === "message.created").map((event: Any) => event.data.message.text);
}

Deno.test("sync.read starts with all rooms of the caller, what is unread there, and the position of each stream", async () => {
  await using gateway = await openGateway();
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  await createRoom(alice, [], { visibility: "public" });
  const { seq } = await sendMessage(alice, roomId, "bob?", { mentions: { principalIds: ["bob"] } });
  await gateway.runJobs();
  const sync = await start(bob);
  assert.deepEqual(sync.rooms.map((room: Any) => [room.id, room.lastSeq, room.myRole]), [[roomId, seq, "member"]]);
  assert.deepEqual(sync.rooms[0], ok(await bob.get(`/v1/rooms/${roomId}`)));
  assert.deepEqual(sync.unreads, [
    { roomId, lastReadSeq: seq - 1, unreadCount: 1, mentionCount: 1, badgeCount: 1, lastSeq: seq },
  ]);
  assert.deepEqual([sync.limited, sync.events, sync.leftRoomIds], [false, [], []]);
  assert.equal(sync.unreadNotificationCount, 2);
  assert.deepEqual(sync.positions.map((position: Any) => position.channel), ["principal:bob", `room:${roomId}`]);
  assert.deepEqual(sync.positions[1], { channel: `room:${roomId}`, epoch: sync.rooms[0].epoch, offset: seq });
  assert.deepEqual((await start(eve)).rooms, []);
  assert.deepEqual((await start(await gateway.as("bob", { tenant: "elsewhere" }))).rooms, []);
});

Deno.test("a polling bot gets every message once and in order, while others write", async () => {
  await using gateway = await openGateway();
  const { alice, bob, bot } = await createCallers(gateway, "alice", "bob", "bot");
  const roomIds = [await createRoom(alice, ["bob", "bot"]), await createRoom(bob, ["alice", "bot"])];
  let { cursor } = await start(bot);
  const writing = Promise.all(
    [alice, bob].map(async (who, at) => {
      for (let turn = 0; turn < 40; turn++) {
        await sendMessage(who, roomIds[(turn + at) % 2] ?? "", `${at}:${turn}`);
        if (turn % 5 === 0) await pause(1);
      }
    }),
  );
  const heard: string[] = [];
  const last = new Map<string, number>();
  let polls = 0;
  while (heard.length < 80) {
    const sync = ok(await since(bot, cursor, 5));
    cursor = sync.cursor;
    polls++;
    heard.push(...texts(sync));
    for (const { channel, seq } of sync.events) {
      assert.equal(seq, (last.get(channel) ?? seq - 1) + 1, channel);
      last.set(channel, seq);
    }
  }
  await writing;
  assert.equal(new Set(heard).size, 80);
  assert.ok(polls > 1, "the bot polled while they wrote");
  assert.deepEqual(ok(await since(bot, cursor)).events, []);
});

Deno.test("sync.read with wait returns on the first event, and empty after the timeout", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  // The notification of the invitation is an event as well.
  await gateway.runJobs();
  const { cursor } = await start(bob);
  const waiting = since(bob, cursor, 30);
  await pause(50);
  await sendMessage(alice, roomId, "wake up");
  const first = ok(await resolveEarly(waiting));
  assert.deepEqual(texts(first), ["wake up"]);
  // A new room appears on the principal's own stream.
  const next = since(bob, first.cursor, 30);
  await pause(50);
  const other = await createRoom(alice, ["bob"]);
  assert.deepEqual(ok(await resolveEarly(next)).rooms.map((room: Any) => room.id), [other]);
  await gateway.runJobs();
  const quiet = ok(await since(bob, ok(await since(bob, first.cursor)).cursor, 1));
  assert.deepEqual([quiet.events, quiet.rooms, quiet.positions, quiet.unreads], [[], [], [], []]);
  assertProblem(await since(bob, cursor, 31), 422, "validation_failed");
});

Deno.test("an aborted request, or a gateway that stops, ends the wait", async () => {
  await using gateway = await openGateway();
  const { bob } = await createCallers(gateway, "bob");
  const { cursor } = await start(bob);
  const leaving = new AbortController();
  const path = `/v1/collaboration/sync?since=${encodeURIComponent(cursor)}&wait=30`;
  const abandoned = gateway.send(bob.request(path, { signal: leaving.signal }));
  const waiting = since(bob, cursor, 30);
  await pause(50);
  leaving.abort();
  await abandoned;
  await gateway.app.drain();
  assert.deepEqual(ok(await resolveEarly(waiting)).events, []);
  assert.equal(ok(await since(bob, cursor, 30)).limited, false);
});

Deno.test("a member removed while waiting is notified, and receives nothing of the room afterwards", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await gateway.runJobs();
  const { cursor } = await start(bob);
  const waiting = since(bob, cursor, 20);
  await pause(50);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  await sendMessage(alice, roomId, "now we can talk");
  const gone = ok(await waiting);
  assert.deepEqual(gone.leftRoomIds, [roomId]);
  assert.deepEqual(gone.events.map((event: Any) => [event.channel, event.type]), [["principal:bob", "member.left"]]);
  await sendMessage(alice, roomId, "still talking");
  const later = ok(await since(bob, gone.cursor));
  assert.deepEqual([later.events, later.leftRoomIds, later.rooms], [[], [], []]);
  assert.deepEqual(ok(await since(bob, cursor)).events.length, 1, "not by an old cursor either");
  // Back again: the room starts over, messages sent meanwhile are not returned as events.
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, {}));
  const back = ok(await since(bob, cursor));
  assert.deepEqual(back.rooms.map((room: Any) => room.id), [roomId]);
  assert.deepEqual(texts(back), []);
});

testOnEngines(
  "members removed while they were away learn nothing of the room by an old position",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const bot = await createCaller(gateway, "bot", { kind: "agent", owner: "bob" });
    const cursors = [(await start(bob)).cursor, (await start(bot)).cursor];
    const { id } = ok(
      await alice.post("/v1/rooms", {
        name: "Hush",
        slug: "hush",
        topic: "Hush",
        description: "Hush",
        memberIds: ["bob"],
      }),
    );
    gateway.clock.advance(90_000);
    ok(await alice.put(`/v1/rooms/${id}/members/bot`, {}));
    ok(await alice.delete(`/v1/rooms/${id}`));
    ok(await alice.post(`/v1/rooms/${id}/restore`));
    gateway.clock.advance(90_000);
    ok(await alice.delete(`/v1/rooms/${id}/members/bob`));
    for (const [at, caller] of [bob, bot].entries()) {
      const { events } = ok(await since(caller, cursors[at]));
      assert.deepEqual(events.map(({ type }: Any) => type).filter((type: string) => type.startsWith("member.")), [
        "member.joined",
        "member.left",
      ]);
      assert.doesNotMatch(JSON.stringify(events), /hush/i);
    }
    ok(await alice.put(`/v1/rooms/${id}/members/bob`, {}));
    assert.equal(ok(await since(bob, cursors[0])).events.at(-2).data.room.name, "Hush");
  },
);

Deno.test("an agent's sync ends where its owner's rights end", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const bot = await createCaller(gateway, "bot", { kind: "agent", owner: "bob" });
  const roomId = await createRoom(alice, ["bob", "bot"]);
  const left = await createRoom(alice, ["bob", "bot"]);
  ok(await bob.delete(`/v1/rooms/${left}/members/me`));
  const sync = await start(bot);
  assert.deepEqual(sync.rooms.map((room: Any) => room.id), [roomId]);
  ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
  await sendMessage(alice, roomId, "without bob");
  const after = ok(await since(bot, sync.cursor));
  assert.deepEqual([after.leftRoomIds, texts(after)], [[roomId], []]);
  assert.deepEqual(after.rooms, []);
});

Deno.test("an agent whose owner is disabled while it waits receives nothing more", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const boss = await gateway.as("boss", { role: "owner" });
  const bot = await createCaller(gateway, "bot", { kind: "agent", owner: "bob" });
  const roomId = await createRoom(alice, ["bob", "bot"]);
  await gateway.runJobs();
  const { cursor } = await start(bot);
  const waiting = since(bot, cursor, 20);
  await pause(50);
  ok(await boss.delete("/v1/collaboration/principals/bob"));
  await sendMessage(alice, roomId, "without bob");
  assertProblem(await waiting, 401, "token_revoked");
});

Deno.test("a token revoked during a wait receives nothing more, and no wait is longer than its token", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await gateway.runJobs();
  const device = ok(await bob.post("/v1/collaboration/tokens", { name: "device", scopes: ["*"] }));
  for (const away of [await gateway.as("bob", { jti: "phone" }), gateway.withToken(device.token)]) {
    const { cursor } = await start(away);
    const waiting = since(away, cursor, 20);
    await pause(50);
    ok(await away.post("/v1/collaboration/auth/logout", {}));
    await sendMessage(alice, roomId, "without that device");
    assertProblem(await waiting, 401, "token_revoked");
  }
  const brief = await gateway.as("bob", { exp: Math.floor(gateway.clock.now() / 1000) + 1 });
  const { cursor } = await start(brief);
  assert.deepEqual(ok(await resolveEarly(since(brief, cursor, 30))).events, []);
});

Deno.test("sync.read returns a new snapshot if too much has changed", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await gateway.runJobs();
  const { cursor } = await start(bob);
  await Promise.all(Array.from({ length: 1000 }, (_, at) => sendMessage(alice, roomId, `m${at}`)));
  assert.equal(ok(await since(bob, cursor)).events.length, 1000);
  await sendMessage(alice, roomId, "one too many");
  const limited = ok(await since(bob, cursor));
  assert.deepEqual([limited.limited, limited.events.length, limited.unreads[0].unreadCount], [true, 0, 1001]);
  assert.deepEqual(ok(await since(bob, limited.cursor)).events, []);
  // Trimmed from the log is too much as well.
  await sendMessage(alice, roomId, "last");
  await gateway.app.store.log.trim(0, 0);
  assert.equal(ok(await since(bob, limited.cursor)).limited, true);
});

Deno.test("sync.read rejects a cursor of another caller, an invalid one, and one of a reset stream", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { cursor } = await start(bob);
  assertProblem(await since(alice, cursor), 400, "invalid_cursor");
  assertProblem(await since(bob, `${cursor}x`), 400, "invalid_cursor");
  assertProblem(await since(bob, "nonsense"), 400, "invalid_cursor");
  assertProblem(await since(bob, `${cursor.slice(0, -22)}${"é".repeat(22)}`), 422, "validation_failed");
  const reset = (name: string) =>
    gateway.app.store.write((tx) =>
      tx.db.updateTable("stream").set({ epoch: "restored" }).where("name", "=", name).execute()
    );
  await reset(`room:${roomId}`);
  const fresh = ok(await since(bob, cursor));
  assert.deepEqual(fresh.rooms.map((room: Any) => [room.id, room.epoch]), [[roomId, "restored"]]);
  await reset("principal:bob");
  assertProblem(await since(bob, cursor), 409, "stream_reset");
  const narrow = await gateway.as("bob", { scope: "room.read" });
  assertProblem(await narrow.get("/v1/collaboration/sync"), 403, "scope_missing");
});

Deno.test("/ws continues from the positions of a sync, without gaps or duplicates", async () => {
  await using served = await serveGateway();
  const { alice, bob } = await createCallers(served.gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await sendMessage(alice, roomId, "before");
  const { rooms: [room] } = await start(bob);
  for (let at = 0; at < 5; at++) await sendMessage(alice, roomId, `between ${at}`);
  using client = new SdkClient(`${served.url}/ws`, { token: bob.token });
  const subscription = client.newSubscription(`room:${roomId}`, {
    since: { offset: room.lastSeq, epoch: room.epoch },
  });
  const heard: PublicationContext[] = [];
  const done = Promise.withResolvers<void>();
  subscription.on("publication", (context) => {
    heard.push(context);
    if (context.data.data.message?.text === "after 4") done.resolve();
  });
  subscription.subscribe();
  client.connect();
  const writing = (async () => {
    for (let at = 0; at < 5; at++) await sendMessage(alice, roomId, `after ${at}`);
  })();
  await Promise.all([done.promise, writing]);
  assert.deepEqual(
    heard.map(({ offset, data }) => [offset, data.data.message.text]),
    [..."01234"].map((at, index) => [room.lastSeq + 1 + index, `between ${at}`])
      .concat([..."01234"].map((at, index) => [room.lastSeq + 6 + index, `after ${at}`])),
  );
});

Deno.test("sync.read without rooms is consistent as well: what it lacks has a later position", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  await start(bob);
  let roomId: Promise<string> | undefined;
  const db = gateway.app.store.db.withPlugin({
    transformQuery: ({ node }) => node,
    // Somebody takes bob into a room after the first look at his rooms.
    async transformResult({ result }) {
      await (roomId ??= createRoom(alice, ["bob"]));
      return result;
    },
  });
  const { own, rooms } = await new SyncStore(db).readSnapshot({ tenantId: "default", principalId: "bob", ownerId: "" });
  const [joined] = await gateway.app.store.log.read("default", "principal:bob", 0, 1);
  assert.equal(joined?.type, "member.joined");
  assert.ok(rooms.some(({ id }) => id === JSON.parse(joined.json).data.roomId) || (own?.head ?? 0) < joined.seq);
});

Deno.test("sync.read does not read a delta that is too large", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await gateway.runJobs();
  const { cursor } = await start(bob);
  await Promise.all(Array.from({ length: 900 }, () => sendMessage(alice, roomId, "x".repeat(16_000))));
  const { log } = gateway.app.store;
  const reading = log.read.bind(log);
  let units = 0;
  log.read = async (...args) => {
    const events = await reading(...args);
    units += events.reduce((sum, { json }) => sum + json.length, 0);
    return events;
  };
  assert.equal(ok(await since(bob, cursor)).limited, true);
  assert.ok(units < 8 * 1024 * 1024, `${units} characters read`);
});

/** A response that arrives before the wait of 30 s is over. */
async function resolveEarly<Result>(answer: Promise<Result>): Promise<Result> {
  let isHere = false;
  const arrived = answer.finally(() => isHere = true);
  await until(() => isHere, "an answer before the end of the wait");
  return await arrived;
}

Deno.test("sync.read rejects a cursor with characters that need escaping, at any length", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  for (const since of ["%C3%A9".repeat(10_000), '"'.repeat(20_000), "a".repeat(60_001)]) {
    const { status, body } = await alice.get(`/v1/collaboration/sync?since=${since}`);
    assert.deepEqual([status, body.code, body.errors[0].pointer], [422, "validation_failed", "/since"]);
  }
});

Deno.test("sync.read gives others their turn while it presents many rooms", async () => {
  await using gateway = await openGateway();
  const alice = await createCaller(gateway, "alice");
  for (let n = 0; n < 20; n++) await createRoom(alice, []);
  // As slow a machine as takes a slice for each room.
  using _slow = slowTime(5);
  using ticks = countTicks();
  assert.equal((await start(alice)).rooms.length, 20);
  assert.ok(ticks.count > 20, `${ticks.count} ticks`);
});
