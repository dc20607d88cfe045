// Limits shared by all connections of a principal and its agents.
import assert from "node:assert/strict";
import type { Actor } from "@/core/actor.ts";
import { OwnerSockets } from "@/transport/ws/owner_sockets.ts";
import { DISCONNECT } from "@/transport/shared/disconnect.ts";
import { ProtocolError } from "@/transport/ws/protocol.ts";
import { WS_LIMITS } from "@/transport/shared/socket_limits.ts";
import { until } from "../wait.ts";
import { createHubHarness, TEST_LIMITS } from "./ws_harness.ts";

const actor = (principalId: string, ownerId: string | null = null, tenantId = "default"): Actor =>
  ({ tenantId, principalId, ownerId }) as Actor; // the fields that are read

const tooMany = (whose: string) => (thrown: unknown): boolean => {
  assert.ok(thrown instanceof ProtocolError);
  assert.deepEqual(thrown.error, {
    code: 106,
    message: `limit exceeded: at most 3 connections of ${whose}`,
    temporary: true,
  });
  return true;
};

Deno.test("connections of agents count for their owner until they close", () => {
  const ownerSockets = new OwnerSockets({ ...WS_LIMITS, connectionsPerOwner: 3 });
  const sockets = Array.from({ length: 5 }, () => ({}));
  const [first = {}, second = {}, third = {}, fourth = {}, fifth = {}] = sockets;
  assert.ok(ownerSockets.add(first, actor("alice"), 0));
  assert.ok(ownerSockets.add(second, actor("bot1", "alice"), 0));
  assert.ok(ownerSockets.add(third, actor("bot2", "alice"), 0));
  const beyond = tooMany("a principal and its agents");
  assert.throws(() => ownerSockets.add(fourth, actor("bot3", "alice"), 0), beyond);
  assert.ok(ownerSockets.add(fifth, actor("bob"), 0));
  ownerSockets.remove(fourth);
  assert.throws(() => ownerSockets.add(fourth, actor("bot3", "alice"), 0), beyond);
  ownerSockets.remove(second);
  ownerSockets.remove(second);
  assert.ok(ownerSockets.add(fourth, actor("bot3", "alice"), 0));
  assert.throws(() => ownerSockets.add(second, actor("bot1", "alice"), 0), beyond);
});

Deno.test("a tenant has so many connections, however many principals it has, and others have theirs", () => {
  const ownerSockets = new OwnerSockets({ ...WS_LIMITS, connectionsPerTenant: 3 });
  const sockets = ["alice", "bob", "carol"].map((name) => {
    const socket = {};
    ownerSockets.add(socket, actor(name), 0);
    return socket;
  });
  const beyond = tooMany("a tenant to this node");
  assert.throws(() => ownerSockets.add({}, actor("dan"), 0), beyond);
  assert.ok(ownerSockets.add({}, actor("alice", null, "other"), 0));
  ownerSockets.remove(sockets[0] ?? {});
  assert.ok(ownerSockets.add({}, actor("dan"), 0));
  assert.throws(() => ownerSockets.add({}, actor("alice"), 0), beyond);
});

Deno.test("a connection that the gateway closed counts until its socket has closed", async () => {
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, connectionsPerOwner: 1 } });
  const first = await connect("alice");
  first.connection.close(DISCONNECT.slow);
  const refused = await connect("alice");
  assert.equal(refused.socket.messages[0]?.error?.code, 106);
  assert.equal((await connect("bob")).socket.messages[0]?.error, undefined);
  first.connection.onSocketClosed();
  first.connection.onSocketClosed();
  const second = await connect("alice");
  assert.equal(second.socket.messages[0]?.error, undefined);
  // One that the client closed no longer counts.
  second.connection.onSocketClosed();
  assert.equal((await connect("alice")).socket.messages[0]?.error, undefined);
  await hub.drain();
});

Deno.test("reconnecting does not reset the command rate", () => {
  const ownerSockets = new OwnerSockets({ ...WS_LIMITS, rate: { perSecond: 1, burst: 2 }, commandWaitMs: 0 });
  const rpc = { method: "rpc", id: 1, length: 10, body: { method: "x", data: {} } } as const;
  const sent = (): number => {
    const socket = {};
    const limiter = ownerSockets.add(socket, actor("alice"), 0);
    let count = 0;
    while (count < 50 && limiter.waitMsFor(rpc, 0) !== undefined) count++;
    ownerSockets.remove(socket);
    return count;
  };
  assert.equal(sent(), 6);
  assert.equal(sent(), 0);
});

Deno.test("an owner that connects again and again is refused beyond three times the rate; others are not", async () => {
  const subscriptions: string[] = [];
  const { hub, connect } = createHubHarness({
    limits: { ...TEST_LIMITS, rate: { perSecond: 0.001, burst: 2 } },
    connectData: ({ principalId }) => Promise.resolve(void subscriptions.push(principalId)),
  });
  const errors: unknown[] = [];
  for (let n = 0; n < 10; n++) {
    const { socket, connection } = await connect("alice");
    errors.push(socket.messages[0]?.error?.code);
    connection.onSocketClosed();
  }
  assert.deepEqual(errors, [...Array(6).fill(undefined), ...Array(4).fill(106)]);
  assert.equal(subscriptions.length, 6);
  assert.equal((await connect("bob")).socket.messages[0]?.error, undefined);
  await hub.drain();
});

Deno.test("many connections of one principal share the command rate of three; others are not affected", async () => {
  // What is allowed is not filled up again while the test runs.
  const rate = { perSecond: 0.001, burst: 5 };
  const limits = { ...TEST_LIMITS, rate, commandWaitMs: 0, connectionsPerPrincipal: 10 };
  const { hub, connect } = createHubHarness({ limits });
  const clients = await Promise.all(Array.from({ length: 8 }, () => connect("alice")));
  const bob = await connect("bob");
  let id = 10;
  const countErrors = (client: typeof bob, error: number): number => {
    return client.socket.messages.filter((line) => line.error?.code === error).length;
  };
  for (const client of [...clients, bob]) {
    for (let n = 0; n < 5; n++) {
      client.connection.receive(JSON.stringify({ id: id++, rpc: { method: "none", data: {} } }));
    }
  }
  const countAll = (error: number) => clients.reduce((sum, client) => sum + countErrors(client, error), 0);
  await until(() => countAll(111) + countAll(104) === 40 && countErrors(bob, 104) === 5);
  assert.deepEqual([countAll(104), countAll(111)], [15, 25]);
  assert.deepEqual([countErrors(bob, 104), countErrors(bob, 111)], [5, 0]);
  await hub.drain();
});
