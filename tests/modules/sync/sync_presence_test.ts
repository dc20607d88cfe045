// Presence in sync: the same principals as the command `presence`, on one node and on several.
import assert from "node:assert/strict";
import { RedisPresence } from "@/adapters/presence/redis.ts";
import { hasRedisServer, startRedis } from "../../conformance/redis_server.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { openPeer } from "../../transport/ws_harness.ts";
import { pause, until } from "../../wait.ts";
import { createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const SYNC = "/v1/collaboration/sync";

/** Opens a room on a socket of its own; the return closes it. */
async function subscribe(gateway: Harness, who: Caller, roomId: string): Promise<() => void> {
  const { connection } = await openPeer(gateway, who, `room:${roomId}`);
  return () => connection.onSocketClosed();
}

async function present(who: Caller, query = ""): Promise<string[]> {
  const { presence }: { presence: { principalId: string }[] } = ok(await who.get(`${SYNC}${query}`));
  return presence.map(({ principalId }) => principalId).sort();
}

async function assertListsPresent(gateway: Harness): Promise<void> {
  const { alice, bob, carol, dave } = await createCallers(gateway, "alice", "bob", "carol", "dave");
  const one = await createRoom(alice, ["bob"]);
  const two = await createRoom(alice, ["bob", "carol"]);
  const open = await createRoom(dave, [], { visibility: "public" });
  const leave = [
    await subscribe(gateway, bob, one),
    await subscribe(gateway, bob, one),
    await subscribe(gateway, carol, two),
  ];
  leave.push(await subscribe(gateway, dave, open));
  assert.deepEqual(await present(alice), ["bob", "carol"], "each once, and nobody of a room one only might look into");
  assert.deepEqual(await present(carol), ["carol"]);
  assert.deepEqual(await present(dave), ["dave"]);
  assert.deepEqual(await present(await gateway.as("alice", { tenant: "elsewhere" })), []);

  // All of it in every answer, also where nothing happened.
  const { cursor } = ok(await alice.get(SYNC));
  const since = `?since=${encodeURIComponent(cursor)}`;
  assert.deepEqual(await present(alice, since), ["bob", "carol"]);
  leave[0]?.();
  assert.deepEqual(await present(alice, since), ["bob", "carol"], "the other device is still there");
  leave[1]?.();
  assert.deepEqual(await present(alice, since), ["carol"]);

  // A member who is removed from a room gets neither its events nor its presence.
  ok(await alice.delete(`/v1/rooms/${two}/members/carol?ban=true`));
  await until(async () => (await present(alice)).length === 0);
  leave.push(await subscribe(gateway, alice, two));
  assert.deepEqual(await present(carol), []);
  assert.deepEqual(await present(bob), ["alice"]);

  // An agent receives no more than its owner does.
  const agent = await createCaller(gateway, "robot", { kind: "agent", owner: "bob" });
  for (const id of [one, two]) ok(await alice.put(`/v1/rooms/${id}/members/robot`));
  assert.deepEqual(await present(agent), ["alice"]);
  ok(await bob.delete(`/v1/rooms/${two}/members/me`));
  assert.deepEqual(await present(agent), []);

  // Off in rooms that are too large, as for the command.
  assert.deepEqual(await present(alice), ["alice"]);
  await gateway.app.store.db.updateTable("room" as never).set({ member_count: 201 } as never).execute();
  assert.deepEqual(await present(alice), []);
  for (const go of leave) go();
}

Deno.test("sync.read returns the presence in the caller's rooms, complete in every response", async () => {
  await using gateway = await openGateway();
  await assertListsPresent(gateway);
});

Deno.test({
  name: "sync.read returns the presence on other nodes, unless a room has too many connections",
  ignore: !hasRedisServer,
  async fn() {
    await using server = await startRedis();
    {
      await using gateway = await openGateway({ SVC_REDIS_URL: server.url });
      await assertListsPresent(gateway);
    }
    await using gateway = await openGateway({ SVC_REDIS_URL: server.url });
    const { erin } = await createCallers(gateway, "erin");
    const rooms = [await createRoom(erin, []), await createRoom(erin, [])];
    const there = new RedisPresence(server.url);
    const enter = (place: number, user: string, client = user) =>
      there.add(`default/room:${rooms[place]}`, { user, client });
    enter(0, "frank");
    enter(1, "grace");
    await until(async () => (await present(erin)).length === 2);
    for (let n = 0; n < 200; n++) enter(1, "crowd", `c${n}`);
    await until(async () => (await present(erin)).length === 1);
    assert.deepEqual(await present(erin), ["frank"]);
    await there.close();
  },
});

Deno.test("a waiting sync does not end when presence changes", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { cursor } = ok(await alice.get(SYNC));
  const waiting = alice.get(`${SYNC}?since=${encodeURIComponent(cursor)}&wait=20`);
  let isOver = false;
  waiting.then(() => isOver = true);
  const leave = await subscribe(gateway, bob, roomId);
  await pause(50);
  assert.equal(isOver, false);
  await sendMessage(bob, roomId, "now");
  const { events, presence } = ok(await waiting);
  assert.deepEqual([events.length, presence], [1, [{ principalId: "bob" }]]);
  leave();
});
