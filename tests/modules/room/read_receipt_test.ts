// Read receipts: read positions of others, in the list of members and live, for those who share theirs.
import assert from "node:assert/strict";
import type { PublicationContext } from "npm:centrifuge@5.8.0";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { SqliteConnection } from "@/adapters/store/sqlite/connection.ts";
import { principalStream, roomStream, type StoredEvent } from "@/core/event/event.ts";
import { PRESENCE_MAX, ReadReceipts, RoomStore } from "@/modules/room/mod.ts";
import { streamKey } from "@/ports/store.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { startRedis } from "../../conformance/redis_server.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { replace } from "../../replace.ts";
import { openPeer, pushesOn } from "../../transport/ws_harness.ts";
import { allEnded, pause, until } from "../../wait.ts";
import { SdkClient, serveGateway } from "../http_server.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const ME = "/v1/collaboration/me";

type Receipt = { roomId: string; principalId: string; lastReadSeq: number };

/** A subscriber of a room, with the receipts it has got. */
async function listen(gateway: Harness, who: Caller, roomId: string) {
  const peer = await openPeer(gateway, who, `room:${roomId}`);
  const publications = () => pushesOn(peer.socket, `room:${roomId}`).map(({ data }) => data);
  return {
    publications,
    receipts: (): Receipt[] => publications().flatMap(({ type, data }) => type === "member.read" ? [data] : []),
    leave: () => peer.connection.onSocketClosed(),
  };
}

/** Read positions of a room's members as shown to the caller. */
async function positions(who: Caller, roomId: string): Promise<Record<string, number | null>> {
  const { items }: { items: Receipt[] } = ok(await who.get(`/v1/rooms/${roomId}/members`));
  return Object.fromEntries(items.map(({ principalId, lastReadSeq }) => [principalId, lastReadSeq]));
}

/** Makes it a room of one member more than may see each other's positions. */
async function enlarge({ app: { store } }: Harness, roomId: string): Promise<void> {
  await store.write(({ db }) => new RoomStore(db).update("default", roomId, { member_count: PRESENCE_MAX + 1 }));
}

async function read(who: Caller, roomId: string, seq: number | "all" = "all"): Promise<number> {
  return ok(await who.put(`/v1/rooms/${roomId}/read`, { seq })).lastReadSeq;
}

testOnEngines("member.list shows read positions of others to members who share theirs", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, carol, dave } = await createCallers(gateway, "alice", "bob", "carol", "dave");
  const robot = await gateway.as("robot", { kind: "agent", owner: "carol" });
  ok(await robot.get(ME));
  const roomId = await createRoom(alice, ["bob", "carol"], { visibility: "public" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robot`));
  const { seq: first } = await sendMessage(alice, roomId, "one");
  const { seq: last } = await sendMessage(alice, roomId, "two");
  const [b, c, r] = [await read(bob, roomId, first), await read(carol, roomId), await read(robot, roomId)];
  const joined = (await positions(alice, roomId)).alice;
  assert.deepEqual([b, c, r], [first, last, last]);
  assert.deepEqual(await positions(alice, roomId), { alice: joined, bob: b, carol: c, robot: r });
  assert.deepEqual(await positions(dave, roomId), { alice: null, bob: null, carol: null, robot: null }, "a visitor");
  const put = ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "moderator" }));
  assert.equal(put.lastReadSeq, b, "the same in what an operation on one member answers");

  // Who does not share does not see, and an agent does as its owner.
  ok(await carol.patch(ME, { readReceipts: false }));
  assert.deepEqual(await positions(alice, roomId), { alice: joined, bob: b, carol: null, robot: null });
  assert.deepEqual(await positions(carol, roomId), { alice: null, bob: null, carol: c, robot: null });
  assert.deepEqual(await positions(robot, roomId), { alice: null, bob: null, carol: null, robot: r });
  ok(await carol.patch(ME, { readReceipts: true }));
  assert.deepEqual(await positions(alice, roomId), { alice: joined, bob: b, carol: c, robot: r });

  await enlarge(gateway, roomId);
  assert.deepEqual(await positions(alice, roomId), { alice: joined, bob: null, carol: null, robot: null });
});

testOnEngines(
  "me.update stores readReceipts beside other preferences, and agents follow their owners",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice");
    const robot = await gateway.as("robot", { kind: "agent", owner: "alice" });
    const shares = async (who: Caller): Promise<boolean> => ok(await who.get(ME)).readReceipts;
    assert.deepEqual([await shares(alice), await shares(robot)], [true, true]);
    ok(await alice.patch(ME, { readReceipts: false }));
    ok(await alice.patch(ME, { notificationPrefs: { mentions: false } }));
    ok(await alice.patch(ME, { displayName: "Alice" }));
    assert.deepEqual([await shares(alice), await shares(robot)], [false, false]);
    assert.equal(ok(await alice.get(ME)).notificationPrefs.mentions, false);
    assertProblem(await robot.patch(ME, { readReceipts: true }), 403, "forbidden");
    assertProblem(await alice.patch(ME, { readReceipts: "yes" }), 422, "validation_failed");
    const { version } = ok(await alice.patch(ME, { readReceipts: true }));
    assert.equal(
      ok(await alice.patch(ME, { readReceipts: true })).version,
      version,
      "what is so already changes nothing",
    );
    assert.deepEqual([await shares(alice), await shares(robot)], [true, true]);
  },
);

testOnEngines(
  "a read position is published only to members who share theirs",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob, carol, dave, erin } = await createCallers(gateway, "alice", "bob", "carol", "dave", "erin");
    const roomId = await createRoom(alice, ["bob", "carol", "dave"], { visibility: "public" });
    ok(await carol.patch(ME, { readReceipts: false }));
    const { seq } = await sendMessage(alice, roomId, "hello");
    const everybody = await allEnded([alice, bob, carol, dave, erin].map((who) => listen(gateway, who, roomId)));
    const received = (): number[] => everybody.map(({ receipts }) => receipts().length);
    ok(await alice.delete(`/v1/rooms/${roomId}/members/dave`));
    await read(bob, roomId, seq);
    await until(() => received()[0] === 1);
    const [notice] = everybody[0]?.publications().slice(-1) ?? [];
    assert.deepEqual(notice, {
      type: "member.read",
      at: "2026-03-01T12:00:00.000Z",
      actor: { id: "bob", kind: "human" },
      data: { roomId, principalId: "bob", lastReadSeq: seq },
    });
    // Carol keeps it to herself; what Alice reads after that comes to Bob only.
    await read(carol, roomId);
    await read(alice, roomId);
    await until(() => received()[1] === 1);
    await gateway.app[Symbol.asyncDispose]();
    assert.deepEqual(
      received(),
      [1, 1, 0, 0, 0],
      "not Carol, who shares nothing; Dave, who was removed; Erin, a visitor",
    );
  },
);

Deno.test("rooms with more than 200 members publish no read positions", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const [large, small] = [await createRoom(alice, ["bob"]), await createRoom(alice, ["bob"])];
  const listeners = await allEnded([large, small].map((roomId) => listen(gateway, alice, roomId)));
  for (const roomId of [large, small]) await sendMessage(alice, roomId, "hello");
  await enlarge(gateway, large);
  await read(bob, large);
  await read(bob, small);
  await until(() => listeners[1]?.receipts().length === 1);
  assert.deepEqual(listeners[0]?.receipts(), []);
});

Deno.test("of many moves in a row the first is published at once, and the last one after a second", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  await sendMessage(alice, roomId, "hello");
  const seq = await read(bob, roomId);
  const bus = new MemoryBus();
  const published: Receipt[] = [];
  const subscription = await bus.subscribe(streamKey("default", roomStream(roomId)), (message) => {
    if (message.kind === "ephemeral") published.push(JSON.parse(message.event.json).data);
  });
  const receipts = new ReadReceipts({ store: gateway.app.store as never, clock: gateway.clock, bus });
  receipts.onCommit([readOf("bob", roomId)]);
  await until(() => published.length === 1);
  for (let n = 0; n < 20; n++) receipts.onCommit([readOf("bob", roomId)]);
  await until(() => receipts.size === 0, "nothing is left to publish");
  // One more where this thread was blocked for a second.
  assert.ok([2, 3].includes(published.length), `${published.length} of 21`);
  assert.deepEqual(published[0], { roomId, principalId: "bob", lastReadSeq: seq });
  await receipts.stop();
  subscription.close();
});

function readOf(principalId: string, roomId: string): StoredEvent {
  const json = JSON.stringify({ type: "read.updated", data: { roomId } });
  return { tenantId: "default", stream: principalStream(principalId), epoch: "", seq: 1, type: "read.updated", json };
}

/** Whether a statement asks who shares what. */
function isQuestion(sql: string): boolean {
  return sql.includes('coalesce("owner"."prefs_json"');
}

Deno.test("read receipts keep at most 10000 readers, run four queries at a time, and drop what is published", async () => {
  await using gateway = await openGateway();
  const receipts = new ReadReceipts({
    store: gateway.app.store as never,
    clock: gateway.clock,
    bus: new MemoryBus(),
  });
  let [running, most, questions] = [0, 0, 0];
  const { run } = SqliteConnection.prototype;
  using _replaced = replace(
    SqliteConnection.prototype,
    "run",
    async function (this: SqliteConnection, ...call: Parameters<typeof run>) {
      if (!isQuestion(call[0])) return await run.apply(this, call);
      most = Math.max(most, ++running);
      questions++;
      try {
        await pause(1);
        return await run.apply(this, call);
      } finally {
        running--;
      }
    },
  );
  receipts.onCommit(Array.from({ length: 12_000 }, (_, n) => readOf(`p${n % 120}`, `room_${n}`)));
  assert.equal(receipts.size, 10_000);
  await until(() => questions === 100);
  await until(() => receipts.size === 0, "forgotten after a second");
  receipts.onCommit([readOf("p", "room_x")]);
  await receipts.stop();
  assert.deepEqual([receipts.size, questions], [0, 101]);
  assert.ok(most <= 4, `${most} at once`);
  receipts.onCommit([readOf("p", "room_x")]);
  assert.equal(receipts.size, 0, "after the end nothing begins");
});

Deno.test("pending receipts are published when the gateway stops", async () => {
  const gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { receipts } = await listen(gateway, alice, roomId);
  const { seq: first } = await sendMessage(alice, roomId, "one");
  const { seq: last } = await sendMessage(alice, roomId, "two");
  await read(bob, roomId, first);
  await until(() => receipts().length === 1);
  await read(bob, roomId, last);
  await Promise.all(gateway.app.modules.map((module) => module.stop?.()));
  await until(() => receipts().length === 2);
  assert.deepEqual(receipts().map(({ lastReadSeq }) => lastReadSeq), [first, last]);
  await gateway[Symbol.asyncDispose]();
});

Deno.test("a read of many rooms takes one query, like that of a single room", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const questions = async (count: number): Promise<number> => {
    for (let n = 0; n < count; n++) await sendMessage(alice, await createRoom(alice, ["bob"]), "hello");
    const { receipts } = await listen(gateway, alice, await createRoom(alice, ["bob"]));
    const { run } = SqliteConnection.prototype;
    let queryCount = 0;
    using _replaced = replace(
      SqliteConnection.prototype,
      "run",
      function (this: SqliteConnection, ...call: Parameters<typeof run>) {
        if (isQuestion(call[0])) queryCount++;
        return run.apply(this, call);
      },
    );
    ok(await bob.post("/v1/collaboration/unreads/read"));
    await until(() => queryCount > 0);
    await pause(50);
    assert.deepEqual(receipts(), []);
    return queryCount;
  };
  assert.deepEqual([await questions(1), await questions(60)], [1, 1]);
});

Deno.test("over a real socket, positions of others arrive as publications, and no client can publish one", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { seq } = await sendMessage(alice, roomId, "hello");
  using client = new SdkClient(`${url}/ws`, { token: alice.token });
  const received: PublicationContext[] = [];
  const subscription = client.newSubscription(`room:${roomId}`);
  subscription.on("publication", (context) => received.push(context));
  subscription.subscribe();
  client.connect();
  await subscription.ready();
  await read(bob, roomId);
  await until(() => received.length === 1);
  assert.deepEqual(received[0]?.data.data, { roomId, principalId: "bob", lastReadSeq: seq });
  assert.equal(received[0]?.offset, undefined, "not of the log");
  const forged = { type: "member.read", data: { roomId, principalId: "bob", lastReadSeq: seq + 1 } };
  await assert.rejects(subscription.publish(forged), { code: 103 });
});

testOnPostgres(
  "a read position reaches members on another node, but none who was removed there",
  async (environment) => {
    await using redis = await startRedis();
    const shared = { ...environment, SVC_REDIS_URL: redis.url };
    await using one = await openGateway(shared);
    await using other = await openGateway(shared);
    const { alice, carol } = await createCallers(one, "alice", "bob", "carol");
    const elsewhere = await createCallers(other, "alice", "bob", "carol");
    const roomId = await createRoom(alice, ["bob", "carol"]);
    const { seq: first } = await sendMessage(alice, roomId, "one");
    const [onOne, removed] = [await listen(one, alice, roomId), await listen(one, carol, roomId)];
    const onOther = await listen(other, elsewhere.alice, roomId);
    await read(elsewhere.bob, roomId, first);
    await until(() => [onOne, onOther, removed].every(({ receipts }) => receipts().length === 1));
    const { seq: last } = await sendMessage(alice, roomId, "two");
    ok(await elsewhere.alice.delete(`/v1/rooms/${roomId}/members/carol`));
    await read(elsewhere.bob, roomId, last);
    await until(() => [onOne, onOther].every(({ receipts }) => receipts().at(-1)?.lastReadSeq === last));
    assert.equal(removed.receipts().length, 1);
  },
);
