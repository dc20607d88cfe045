// Who is there now, as a sync tells it: the same people as the command `presence`, on one node and on many.
import assert from "node:assert/strict";
import { RedisPresence } from "@/adapters/presence_redis.ts";
import { hasRedisServer, ownRedis } from "../conformance/redis_server.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { ask, FakeSocket } from "../transport/ws_rig.ts";
import { pause, until } from "../wait.ts";
import { ok, people, roomOf, say } from "./team.ts";

const SYNC = "/v1/collaboration/sync";

/** Opens a room on a socket of its own; the return closes it. */
async function arrive(gateway: Harness, who: Caller, roomId: string): Promise<() => void> {
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  assert.ok((await ask(peer, 1, { connect: { token: who.token } })).connect);
  assert.ok((await ask(peer, 2, { subscribe: { channel: `room:${roomId}` } })).subscribe);
  return () => peer.connection.gone();
}

async function present(who: Caller, query = ""): Promise<string[]> {
  const { presence }: { presence: { principalId: string }[] } = ok(await who.get(`${SYNC}${query}`));
  return presence.map(({ principalId }) => principalId).sort();
}

async function tellsWhoIsThere(gateway: Harness): Promise<void> {
  const { alice, bob, carol, dave } = await people(gateway, "alice", "bob", "carol", "dave");
  const one = await roomOf(alice, ["bob"]);
  const two = await roomOf(alice, ["bob", "carol"]);
  const open = await roomOf(dave, [], { visibility: "public" });
  const leave = [await arrive(gateway, bob, one), await arrive(gateway, bob, one), await arrive(gateway, carol, two)];
  leave.push(await arrive(gateway, dave, open));
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

  // Nobody who is put out of a room is told of it, or in it.
  ok(await alice.delete(`/v1/rooms/${two}/members/carol?ban=true`));
  await until(async () => (await present(alice)).length === 0);
  leave.push(await arrive(gateway, alice, two));
  assert.deepEqual(await present(carol), []);
  assert.deepEqual(await present(bob), ["alice"]);

  // An agent hears of no more than its owner does.
  const agent = await gateway.as("robot", { kind: "agent", owner: "bob" });
  ok(await agent.get("/v1/collaboration/me"));
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

Deno.test("sync.read tells who is in the rooms of the caller, whole in every answer", async () => {
  await using gateway = await openGateway();
  await tellsWhoIsThere(gateway);
});

Deno.test({
  name: "sync.read tells who is there on other nodes, unless a room has too many connections",
  ignore: !hasRedisServer,
  async fn() {
    await using server = await ownRedis();
    {
      await using gateway = await openGateway({ SVC_REDIS_URL: server.url });
      await tellsWhoIsThere(gateway);
    }
    await using gateway = await openGateway({ SVC_REDIS_URL: server.url });
    const { erin } = await people(gateway, "erin");
    const rooms = [await roomOf(erin, []), await roomOf(erin, [])];
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

Deno.test("a waiting sync is not woken by who comes and goes", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const { cursor } = ok(await alice.get(SYNC));
  const waiting = alice.get(`${SYNC}?since=${encodeURIComponent(cursor)}&wait=20`);
  let isOver = false;
  waiting.then(() => isOver = true);
  const leave = await arrive(gateway, bob, roomId);
  await pause(50);
  assert.equal(isOver, false);
  await say(bob, roomId, "now");
  const { events, presence } = ok(await waiting);
  assert.deepEqual([events.length, presence], [1, [{ principalId: "bob" }]]);
  leave();
});
