// Channels: authorization, recovery, eviction, presence, history.
import assert from "node:assert/strict";
import { MemoryPresence } from "@/adapters/presence/memory.ts";
import type { TenantRole } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { streamKey } from "@/ports/store.ts";
import { PAGE_SIZE } from "@/transport/ws/recovery_cache.ts";
import { pause, until } from "../wait.ts";
import { authenticate, createHubHarness, offsetsOn, pushesOn, sendCommand, TENANT, TEST_LIMITS } from "./ws_harness.ts";

const room = "room:a";

Deno.test("subscribe replies with the position and then delivers events in order", async () => {
  const { hub, connect, emit, log } = createHubHarness();
  log.append(room);
  const peer = await connect();
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: room } });
  assert.equal(subscribe.recoverable, true);
  assert.equal(subscribe.offset, 1);
  assert.equal(typeof subscribe.epoch, "string");
  for (let i = 0; i < 3; i++) emit(room, i);
  await until(() => offsetsOn(peer.socket, room).length === 3);
  assert.deepEqual(
    pushesOn(peer.socket, room),
    [2, 3, 4].map((offset, index) => ({
      data: { id: `evt_${offset}`, type: "message.created", data: index },
      offset,
    })),
  );
  await hub.drain();
});

Deno.test("subscribe rejects unknown, forbidden, repeated and too many channels", async () => {
  const { hub, connect, rooms, log } = createHubHarness({ limits: { ...TEST_LIMITS, subscriptionsMax: 2 } });
  const peer = await connect();
  let id = 2;
  const code = async (channel: string, extra = {}) =>
    (await sendCommand(peer, ++id, { subscribe: { channel, ...extra } })).error?.code;
  assert.equal(await code("nowhere:a"), 102);
  assert.equal(await code("room:"), 102);
  assert.equal(await code("room"), 102);
  const { error } = await sendCommand(peer, ++id, { subscribe: { channel: "room" } });
  assert.match(error.message, /^unknown channel: expected .*room:<id>/);
  assert.equal(await code("room:missing"), 103);
  assert.equal(await code("principal:alice"), 105);
  assert.equal(await code("principal:bob"), 103);
  assert.equal(await code(room, { type: 1 }), 108);
  rooms.failure = new Fault("unavailable", "Try later");
  assert.equal(await code(room), 100);
  rooms.failure = undefined;
  assert.equal(await code(room), undefined);
  assert.equal(await code(room), 105);
  assert.equal(await code("room:b"), undefined);
  assert.equal(await code("room:c"), 106);
  assert.equal(log.streams.has(`${TENANT}/room:missing`), false, "a rejected name creates no stream");
  await hub.drain();
});

Deno.test("recovery returns exactly the missed events and the client's offset", async () => {
  const { hub, connect, log } = createHubHarness();
  for (let i = 0; i < 5; i++) log.append(room, i);
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  const request = { channel: room, recover: true, offset: 2, epoch };
  const { subscribe } = await sendCommand(peer, 2, { subscribe: request });
  assert.equal(subscribe.was_recovering, true);
  assert.equal(subscribe.recovered, true);
  assert.equal(subscribe.offset, 2);
  assert.deepEqual(subscribe.publications.map((pub: { offset: number }) => pub.offset), [3, 4, 5]);
  await hub.drain();
});

Deno.test("recovery is complete or refused", async () => {
  const { hub, connect, log } = createHubHarness({
    limits: { ...TEST_LIMITS, replyMaxEvents: 3, replyMaxBytes: 2000 },
  });
  for (let i = 0; i < 6; i++) log.append(room, i);
  log.trimTo(room, 4);
  log.append("room:heavy", "x".repeat(3000));
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  let id = 2;
  const recover = async (request: Record<string, unknown>) => {
    const channel = request.channel ?? room;
    const reply = await sendCommand(peer, ++id, { subscribe: { channel, recover: true, ...request } });
    await sendCommand(peer, ++id, { unsubscribe: { channel } });
    return reply;
  };
  const recovered = async (request: Record<string, unknown>) => {
    const { subscribe } = await recover(request);
    assert.equal(subscribe.was_recovering, true);
    if (subscribe.recovered !== true) {
      assert.equal(subscribe.publications, undefined);
      assert.ok(subscribe.offset > 0);
    }
    return subscribe.recovered === true;
  };
  assert.equal(await recovered({ epoch, offset: 6 }), true, "nothing missed");
  assert.equal(await recovered({ epoch, offset: 3 }), true, "as many as fit");
  assert.equal(await recovered({ offset: 3 }), true, "an empty epoch is any epoch");
  assert.equal(await recovered({ epoch, offset: 2 }), true, "more than fits a reply");
  assert.equal(await recovered({ epoch, offset: 1 }), false, "trimmed");
  assert.equal(await recovered({ epoch, offset: 7 }), false, "from the future");
  assert.equal(await recovered({ epoch: "_", offset: 6 }), false, "after 3014");
  assert.equal(await recovered({ epoch: "other", offset: 6 }), false, "another epoch");
  assert.equal(await recovered({ channel: "room:heavy" }), true, "too large for one reply");
  assert.equal((await recover({ epoch: "other", offset: 6, flag: 3 })).error.code, 112);
  await hub.drain();
});

Deno.test("events published during a recovery are delivered after the reply, once", async () => {
  const { hub, connect, log, emit } = createHubHarness();
  for (let i = 0; i < 3; i++) log.append(room, i);
  const other = await connect("bob");
  await sendCommand(other, 2, { subscribe: { channel: room } });
  const peer = await connect();
  log.beforeRead = async () => {
    emit(room, "during 1");
    await pause(1);
    emit(room, "during 2");
  };
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
  emit(room, "after");
  await until(() => offsetsOn(peer.socket, room).at(-1) === 6);
  assert.deepEqual(subscribe.publications.map((pub: { offset: number }) => pub.offset), [2, 3]);
  assert.deepEqual(offsetsOn(peer.socket, room), [4, 5, 6]);
  const kinds = peer.socket.messages.map((line) => line.id ?? line.push?.pub?.offset);
  assert.ok(kinds.indexOf(2) < kinds.indexOf(4), "the reply comes first");
  await hub.drain();
});

Deno.test("a node catches up before it replies to a client ahead of it", async () => {
  const { hub, connect, log } = createHubHarness();
  const first = await connect("bob");
  await sendCommand(first, 2, { subscribe: { channel: room } });
  for (let i = 0; i < 4; i++) log.append(room, i);
  const peer = await connect();
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 3 } });
  assert.equal(subscribe.recovered, true);
  assert.deepEqual(subscribe.publications.map((pub: { offset: number }) => pub.offset), [4]);
  assert.deepEqual(offsetsOn(first.socket, room), [1, 2, 3, 4]);
  await hub.drain();
});

Deno.test("hidden events are neither recovered, nor in history, nor pushed", async () => {
  const { hub, connect, log, rooms } = createHubHarness();
  const early = await connect("bob");
  await sendCommand(early, 2, { subscribe: { channel: room } });
  for (let i = 0; i < 5; i++) log.append(room, i);
  rooms.hiddenUpTo = 3;
  const peer = await connect();
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
  assert.equal(subscribe.recovered, true);
  assert.equal(subscribe.offset, 3);
  const offsetsOf = (pubs: { offset: number }[]) => pubs.map((pub) => pub.offset);
  assert.deepEqual(offsetsOf(subscribe.publications), [4, 5]);
  const history = async (id: number, reverse: boolean) =>
    offsetsOf((await sendCommand(peer, id, { history: { channel: room, limit: -1, reverse } })).history.publications);
  assert.deepEqual(await history(3, false), [4, 5]);
  assert.deepEqual(await history(4, true), [5, 4]);
  assert.deepEqual(offsetsOn(peer.socket, room), []);
  await hub.drain();
});

Deno.test("an event about a hidden one is redacted for that subscriber only, in order", async () => {
  const { hub, connect, log, bus, rooms } = createHubHarness();
  for (let i = 1; i <= 3; i++) log.append(room, `old ${i}`);
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  await sendCommand(alice, 2, { subscribe: { channel: room } });
  rooms.hiddenUpTo = 3;
  await sendCommand(bob, 2, { subscribe: { channel: room } });
  const events = [
    log.append(room, "new 4"),
    log.append(room, "about 3", { kind: "concerns", seq: 3 }),
    log.append(room, "about 4", { kind: "concerns", seq: 4 }),
    log.append(room, "new 7"),
  ];
  bus.publish(streamKey(TENANT, room), { kind: "events", events });
  const received = (peer: typeof alice) =>
    pushesOn(peer.socket, room).map(({ offset, data }) => [offset, data.id, data.type, data.data]);
  await until(() => received(alice).length === 4 && received(bob).length === 4);
  const created = "message.created";
  const unredacted: unknown[][] = [
    [4, "evt_4", created, "new 4"],
    [5, "evt_5", created, "about 3"],
    [6, "evt_6", created, "about 4"],
    [7, "evt_7", created, "new 7"],
  ];
  assert.deepEqual(received(alice), unredacted);
  assert.deepEqual(received(bob), unredacted.with(1, [5, "evt_5", "message.hidden", {}]));
  await hub.drain();
});

Deno.test("the connect reply recovers the principal's own stream", async () => {
  const { hub, connect, log, emit } = createHubHarness();
  for (let i = 0; i < 3; i++) log.append("principal:alice", i);
  const { epoch } = await log.position(TENANT, "principal:alice");
  const subs = { "principal:alice": { recover: true, offset: 1, epoch }, "principal:bob": { recover: true } };
  const { socket } = await connect("alice", { subs });
  const result = socket.messages[0].connect.subs;
  assert.deepEqual(Object.keys(result), ["principal:alice"]);
  assert.equal(result["principal:alice"].recovered, true);
  assert.deepEqual(result["principal:alice"].publications.map((pub: { offset: number }) => pub.offset), [2, 3]);
  emit("principal:alice", "more");
  await until(() => offsetsOn(socket, "principal:alice").length === 1);
  await hub.drain();
});

Deno.test("eviction ends a subscription before the event that causes it is delivered", async () => {
  const { hub, connect, emit } = createHubHarness();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await sendCommand(peer, 2, { subscribe: { channel: room } });
  emit(room, 1);
  emit(room, 2, { kind: "evict", principalIds: ["bob"], reason: "removed from the room" });
  emit(room, 3);
  await until(() => offsetsOn(alice.socket, room).length === 3);
  await until(() => pushesOn(bob.socket, room, "unsubscribe").length > 0);
  assert.deepEqual(offsetsOn(bob.socket, room), [1]);
  assert.deepEqual(pushesOn(bob.socket, room, "unsubscribe"), [{ code: 2000, reason: "removed from the room" }]);
  assert.ok(bob.socket.isOpen);
  emit(room, 4, { kind: "evict", principalIds: "*", reason: "rights changed", resubscribe: true });
  await until(() => pushesOn(alice.socket, room, "unsubscribe").length === 1);
  assert.deepEqual(pushesOn(alice.socket, room, "unsubscribe"), [{ code: 2500, reason: "rights changed" }]);
  assert.equal(hub.stats().channels.room, 0);
  await hub.drain();
});

Deno.test("an eviction during the authorization of a subscribe takes effect", async () => {
  const { hub, connect, emit, rooms } = createHubHarness();
  const other = await connect("other");
  await sendCommand(other, 2, { subscribe: { channel: room } });
  const peer = await connect("bob");
  rooms.beforeCheck = () => {
    emit(room, 1, { kind: "evict", principalIds: ["bob"], reason: "removed" });
    return Promise.resolve();
  };
  assert.equal((await sendCommand(peer, 2, { subscribe: { channel: room } })).error.code, 103);
  emit(room, 2);
  await until(() => offsetsOn(other.socket, room).length === 2);
  assert.deepEqual(offsetsOn(peer.socket, room), []);
  await hub.drain();
});

Deno.test("a removal between the end of the checks and the reply is not missed", async () => {
  const { hub, connect, emit, log } = createHubHarness();
  for (let i = 0; i < 2; i++) log.append(room);
  const other = await connect("other");
  await sendCommand(other, 2, { subscribe: { channel: room } });
  for (let hops = 0; hops < 12; hops++) {
    const peer = await connect(`p${hops}`);
    log.beforeRead = () => {
      let later = Promise.resolve();
      for (let hop = 0; hop < hops; hop++) later = later.then(() => {});
      later.then(() => void emit(room, hops, { kind: "evict", principalIds: [`p${hops}`], reason: "removed" }));
      return Promise.resolve();
    };
    const reply = await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
    const isNotified = () => reply.error?.code === 103 || pushesOn(peer.socket, room, "unsubscribe").length === 1;
    await until(isNotified, `the notification after ${hops} microtasks`);
    assert.equal(peer.connection.subscriptions.size, 1);
  }
  await hub.drain();
});

Deno.test("disconnect closes the sockets of a principal, or of one token", async () => {
  const { hub, connect, emit } = createHubHarness();
  const [phone, laptop, bob] = [await connect("alice/60"), await connect("alice/90"), await connect("bob")];
  emit("principal:alice", null, { kind: "disconnect", tokenId: "jti-alice/60", reason: "token revoked" });
  await until(() => !phone.socket.isOpen);
  assert.deepEqual(phone.socket.closedWith, { code: 3503, reason: "token revoked" });
  assert.ok(laptop.socket.isOpen);
  emit("principal:alice", null, { kind: "disconnect", reason: "null" });
  await until(() => !laptop.socket.isOpen);
  assert.deepEqual(laptop.socket.closedWith, { code: 3503, reason: "force disconnect" });
  assert.ok(bob.socket.isOpen);
  await hub.drain();
});

Deno.test("revalidation ends subscriptions after lost rights, but not on store failures", async () => {
  let isValid = true;
  const { hub, connect, rooms } = createHubHarness({
    limits: { ...TEST_LIMITS, revalidateMs: 30 },
    revalidate: (actor) => Promise.resolve(isValid ? actor : undefined),
  });
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  await sendCommand(peer, 3, { subscribe: { channel: "room:b" } });
  rooms.failure = new Fault("unavailable", "The store is unavailable");
  const { checks } = rooms;
  await until(() => rooms.checks > checks + 2);
  assert.equal(peer.connection.subscriptions.size, 3);
  rooms.failure = undefined;
  rooms.banned.add("alice");
  await until(() => pushesOn(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushesOn(peer.socket, room, "unsubscribe")[0].code, 2000);
  assert.ok(peer.socket.isOpen);
  isValid = false;
  await until(() => !peer.socket.isOpen);
  assert.equal(peer.socket.closedWith?.code, 3503);
  await hub.drain();
});

Deno.test("of two concurrent revalidations, the current rights count", async () => {
  let role: TenantRole = "member";
  let pending: (() => void)[] = [];
  const { hub, connect } = createHubHarness({
    revalidate: (actor) => {
      const snapshot = { ...actor, role };
      return new Promise((resolve) => pending.push(() => resolve(snapshot)));
    },
  });
  const completeAll = () => pending.splice(0).forEach((complete) => complete());
  const connecting = connect();
  await until(() => pending.length === 1);
  completeAll();
  const { connection } = await connecting;
  for (const isReversed of [false, true]) {
    role = "member";
    hub.revalidatePrincipal(TENANT, "alice");
    role = "guest";
    hub.revalidatePrincipal(TENANT, "alice");
    if (isReversed) pending = pending.toReversed();
    await until(() => (completeAll(), connection.actor?.role === "guest"));
    await pause(5);
    completeAll();
    await pause(5);
    assert.equal(connection.actor?.role, "guest");
  }
  await hub.drain();
});

Deno.test("publish accepts the ephemeral types of a channel only", async () => {
  const { hub, connect, rooms } = createHubHarness();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await sendCommand(peer, 2, { subscribe: { channel: room } });
  let id = 2;
  const publish = (data: unknown, channel = room) => sendCommand(alice, ++id, { publish: { channel, data } });
  assert.deepEqual((await publish({ type: "typing", data: { typing: true } })).publish, {});
  await until(() => pushesOn(bob.socket, room).length === 1);
  const [push] = pushesOn(bob.socket, room);
  assert.deepEqual({ ...push.data, at: "" }, {
    type: "typing",
    at: "",
    actor: { id: "alice", kind: "human" },
    data: { typing: true },
  });
  assert.deepEqual(push.info, {
    user: "alice",
    client: alice.connection.client,
    conn_info: { name: "ALICE", kind: "human" },
  });
  assert.equal("offset" in push, false);

  assert.equal((await publish({ type: "signal", data: { to: "bob" } })).error, undefined);
  await until(() => pushesOn(bob.socket, room).length === 2);
  assert.equal(pushesOn(alice.socket, room).length, 1, "a message for one member reaches only that member");

  const rejected = (await publish({ type: "message.created", data: {} })).error;
  assert.equal(rejected.code, 103);
  assert.match(rejected.message, /typing, signal in this channel; use rpc for everything else/);
  assert.equal((await publish("hello")).error.code, 103);
  assert.equal((await publish({ type: "toString", data: {} })).error.code, 103);
  assert.equal((await publish({ type: "typing", data: {} }, "principal:bob")).error.code, 103);
  assert.equal((await publish({ type: "typing", data: {} }, "nowhere:b")).error.code, 102);
  const invalid = (await publish({ type: "typing", data: { typing: 1 } })).error;
  assert.equal(invalid.code, 107);
  assert.match(invalid.message, /^bad request: data\.typing: [^\n]+$/);
  const missing = (await publish({ type: "typing" })).error;
  assert.equal(missing.message, "bad request: data: required, expected object");
  assert.equal((await publish({ type: "signal", data: { to: "bob", text: "x".repeat(80) } })).error.code, 106);
  rooms.banned.add("alice");
  assert.equal((await publish({ type: "typing", data: { typing: true } })).error.code, 103);
  await hub.drain();
});

Deno.test("presence lists clients up to the channel's limit; join and leave require a flag", async () => {
  const presence = new MemoryPresence();
  const { hub, connect } = createHubHarness({ presence });
  const alice = await connect("alice");
  await sendCommand(alice, 2, { subscribe: { channel: room, join_leave: true } });
  await until(() => pushesOn(alice.socket, room, "join").length === 1);
  const kinds = alice.socket.messages.map((line) => line.id ?? Object.keys(line.push).at(-1));
  assert.deepEqual(kinds, [1, 2, "join"], "the own join follows the reply");
  const bob = await connect("bob");
  await sendCommand(bob, 2, { subscribe: { channel: room } });
  await until(() => pushesOn(alice.socket, room, "join").length === 2);
  assert.deepEqual(pushesOn(alice.socket, room, "join")[1].info.user, "bob");
  assert.deepEqual(pushesOn(bob.socket, room, "join"), [], "not requested");

  const shown = (await sendCommand(bob, 3, { presence: { channel: room } })).presence.presence;
  assert.deepEqual(Object.keys(shown).sort(), [alice.connection.client, bob.connection.client].sort());
  const alsoBob = await connect("bob");
  await sendCommand(alsoBob, 2, { subscribe: { channel: room } });
  assert.deepEqual((await sendCommand(bob, 4, { presence_stats: { channel: room } })).presence_stats, {
    num_clients: 3,
    num_users: 2,
  });
  const carol = await connect("carol");
  await sendCommand(carol, 2, { subscribe: { channel: room } });
  assert.equal((await sendCommand(bob, 5, { presence: { channel: room } })).error.code, 108);
  assert.equal((await sendCommand(bob, 6, { presence: { channel: "room:b" } })).error.code, 103);
  carol.connection.onSocketClosed();
  alsoBob.connection.onSocketClosed();
  await sendCommand(bob, 7, { unsubscribe: { channel: room } });
  await until(() => pushesOn(alice.socket, room, "leave").length >= 2);
  assert.equal((await presence.list(`${TENANT}/${room}`)).length, 1);
  await hub.drain();
});

Deno.test("history returns pages of the log to authorized clients", async () => {
  const { hub, connect, log, rooms } = createHubHarness({ limits: { ...TEST_LIMITS, replyMaxEvents: 4 } });
  for (let i = 0; i < 6; i++) log.append(room, i);
  log.trimTo(room, 5);
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  let id = 2;
  const page = async (request: Record<string, unknown>) =>
    await sendCommand(peer, ++id, { history: { channel: room, ...request } });
  const offsets = async (request: Record<string, unknown>) =>
    (await page(request)).history.publications.map((pub: { offset: number }) => pub.offset);
  assert.deepEqual((await page({})).history, { publications: [], epoch, offset: 6 });
  assert.deepEqual(await offsets({ limit: 2 }), [2, 3]);
  assert.deepEqual(await offsets({ limit: 2, since: { offset: 3, epoch } }), [4, 5]);
  assert.deepEqual(await offsets({ limit: -1 }), [2, 3, 4, 5]);
  assert.deepEqual(await offsets({ limit: 2, reverse: true }), [6, 5]);
  assert.deepEqual(await offsets({ limit: 9, reverse: true, since: { offset: 4, epoch } }), [3, 2]);
  assert.equal((await page({ limit: 1, since: { offset: 3, epoch: "other" } })).error.code, 112);
  assert.equal((await page({ limit: 1, since: { offset: 0, epoch } })).error.code, 112, "trimmed away");
  assert.equal((await page({ channel: "run:1" })).error.code, 108);
  assert.deepEqual((await page({ channel: "principal:alice" })).history.publications, []);
  assert.equal((await page({ channel: "principal:bob" })).error.code, 103);
  rooms.banned.add("alice");
  assert.equal((await page({ limit: 1 })).error.code, 103);
  await hub.drain();
});

Deno.test("a channel without a log has no offsets and delivers what modules publish", async () => {
  const { hub, connect } = createHubHarness();
  const peer = await connect();
  assert.deepEqual(await sendCommand(peer, 2, { subscribe: { channel: "run:1" } }), { id: 2, subscribe: {} });
  hub.publish({ tenantId: TENANT, channel: "run:1", json: `{"type":"run.delta"}` });
  hub.publish({ tenantId: "other", channel: "run:1", json: `{"type":"secret"}` });
  await until(() => pushesOn(peer.socket, "run:1").length > 0);
  assert.deepEqual(pushesOn(peer.socket, "run:1"), [{ data: { type: "run.delta" } }]);
  assert.equal(hub.stats().channels.run, 1);
  await hub.drain();
});

Deno.test("after unsubscribe or disconnect nothing is delivered and the channel is closed", async () => {
  const { hub, connect, emit } = createHubHarness();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await sendCommand(peer, 2, { subscribe: { channel: room } });
  assert.deepEqual((await sendCommand(alice, 3, { unsubscribe: { channel: room } })).unsubscribe, {});
  emit(room, 1);
  await until(() => offsetsOn(bob.socket, room).length === 1);
  assert.deepEqual(offsetsOn(alice.socket, room), []);
  bob.connection.onSocketClosed();
  assert.deepEqual(hub.stats(), { connections: 1, lingeringSockets: 0, channels: { principal: 1, room: 0 } });
  await sendCommand(alice, 4, { unsubscribe: { channel: "principal:alice" } });
  assert.equal(alice.connection.subscriptions.size, 1, "the subscription of the server remains");
  await hub.drain();
});

Deno.test("a disconnect during the authorization of a subscribe leaves no subscription", async () => {
  const presence = new MemoryPresence();
  const { hub, connect, rooms } = createHubHarness({ presence });
  const peer = await connect();
  const { promise, resolve } = Promise.withResolvers<void>();
  rooms.beforeCheck = () => promise;
  peer.connection.receive(JSON.stringify({ id: 2, subscribe: { channel: room } }));
  await until(() => rooms.checks === 1);
  peer.connection.onSocketClosed();
  resolve();
  await pause(5);
  assert.deepEqual(hub.stats().channels, { principal: 0 });
  assert.deepEqual(await presence.list(`${TENANT}/${room}`), []);
  await hub.drain();
});

Deno.test("consecutive subscribes run concurrently; excess and repeated ones are rejected", async () => {
  const { hub, connect, rooms } = createHubHarness({ limits: { ...TEST_LIMITS, subscriptionsMax: 3 } });
  const peer = await connect();
  const { promise, resolve } = Promise.withResolvers<void>();
  rooms.beforeCheck = () => promise;
  const channels = ["room:a", "room:a", "room:b", "room:c", "room:d"];
  const lines = channels.map((channel, index) => JSON.stringify({ id: index + 2, subscribe: { channel } }));
  peer.connection.receive([...lines, JSON.stringify({ id: 9, unsubscribe: { channel: "room:a" } })].join("\n"));
  await until(() => rooms.checks === channels.length, "concurrent checks");
  assert.equal(peer.socket.messages.length, 1, "later commands wait");
  resolve();
  await until(() => peer.socket.messages.length === 2 + channels.length);
  const codes = peer.socket.messages.slice(1).sort((one, other) => one.id - other.id).map(({ error }) => error?.code);
  assert.deepEqual(codes, [undefined, 105, undefined, undefined, 106, undefined]);
  assert.equal(peer.socket.messages.at(-1).id, 9);
  assert.deepEqual([...peer.connection.subscriptions.keys()], ["principal:alice", "room:b", "room:c"]);
  assert.equal(hub.stats().channels.room, 2);
  await hub.drain();
});

Deno.test("a client that recovers many channels at once gets all events and is not closed as slow", async () => {
  const { hub, connect, log } = createHubHarness({
    limits: { ...TEST_LIMITS, outboxMaxBytes: 16_000, replyMaxBytes: 7000 },
  });
  const channels = Array.from({ length: 12 }, (_, index) => `room:${index}`);
  for (const channel of channels) for (let i = 0; i < 6; i++) log.append(channel, "x".repeat(1000));
  const peer = await connect();
  const lines = channels.map((channel, index) =>
    JSON.stringify({ id: index + 2, subscribe: { channel, recover: true } })
  );
  peer.connection.receive(lines.join("\n"));
  const received = (channel: string): number[] => {
    const reply = peer.socket.messages.find(({ id }) => id === channels.indexOf(channel) + 2)?.subscribe;
    const recovered = (reply?.publications ?? []).map(({ offset }: { offset: number }) => offset);
    return [...recovered, ...offsetsOn(peer.socket, channel)];
  };
  await until(() => !peer.socket.isOpen || channels.every((channel) => received(channel).length >= 6));
  assert.equal(peer.socket.closedWith, undefined);
  for (const channel of channels) assert.deepEqual(received(channel), [1, 2, 3, 4, 5, 6]);
  await hub.drain();
});

Deno.test("a client closed as slow right after its reply is not in presence", async () => {
  const presence = new MemoryPresence();
  const { hub, connect, log, emit } = createHubHarness({ presence, limits: { ...TEST_LIMITS, outboxMaxBytes: 4000 } });
  log.append(room);
  const peer = await connect();
  log.beforeRead = () => {
    peer.socket.bufferedAmount = 3000;
    for (let i = 0; i < 5; i++) emit(room, "x".repeat(1000));
    return Promise.resolve();
  };
  peer.connection.receive(JSON.stringify({ id: 2, subscribe: { channel: room, recover: true } }));
  await until(() => !peer.socket.isOpen);
  assert.equal(peer.socket.closedWith?.code, 3008);
  assert.deepEqual(await presence.list(`${TENANT}/${room}`), []);
  await hub.drain();
});

Deno.test("a reply is bounded in UTF-8 bytes", async () => {
  const { hub, connect, log } = createHubHarness({
    limits: { ...TEST_LIMITS, outboxMaxBytes: 16_000, replyMaxBytes: 7000 },
  });
  for (let i = 0; i < 6; i++) log.append(room, "語".repeat(1000));
  const peer = await connect();
  const { history } = await sendCommand(peer, 2, { history: { channel: room, limit: -1 } }) ?? {};
  assert.deepEqual(history?.publications.map(({ offset }: { offset: number }) => offset), [1, 2]);
  const { subscribe } = await sendCommand(peer, 3, { subscribe: { channel: room, recover: true } });
  const received = () => [...subscribe.publications ?? [], ...pushesOn(peer.socket, room)].map(({ offset }) => offset);
  await until(() => !peer.socket.isOpen || received().length >= 6);
  assert.deepEqual(received(), [1, 2, 3, 4, 5, 6]);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("history and recovery read little more of the log than fits a reply", async () => {
  const { hub, connect, log } = createHubHarness({
    limits: { ...TEST_LIMITS, outboxMaxBytes: 60_000, replyMaxEvents: 2000, replyMaxBytes: 15_000 },
  });
  for (let i = 0; i < 2000; i++) log.append(room, "x".repeat(1000));
  const [read, readBack] = [log.read.bind(log), log.readBackward.bind(log)];
  let events = 0;
  log.read = async (...args) => (await read(...args)).map((event) => (events++, event));
  log.readBackward = async (...args) => (await readBack(...args)).map((event) => (events++, event));
  const peer = await connect();
  await sendCommand(peer, 2, { history: { channel: room, limit: -1 } });
  assert.ok(events <= 100, `${events} events for a page of history`);
  events = 0;
  await sendCommand(peer, 3, { history: { channel: room, limit: -1, reverse: true } });
  assert.ok(events <= 100, `${events} events for a page of history in reverse`);
  events = 0;
  // Pushes after the reply wait until it is read.
  peer.socket.isStalled = true;
  const { subscribe } = await sendCommand(peer, 4, { subscribe: { channel: room, recover: true } });
  assert.equal(subscribe.recovered, true);
  assert.ok(events <= 100, `${events} events for a recovery`);
  await hub.drain();
  await pause(25);
});

Deno.test("history has no events beyond its position", async () => {
  const { hub, connect, log, emit } = createHubHarness();
  for (let i = 0; i < 3; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => Promise.resolve(void emit(room, "meanwhile"));
  const { history } = await sendCommand(peer, 2, { history: { channel: room, limit: -1 } });
  assert.deepEqual([history.offset, history.publications.at(-1).offset], [3, 3]);
  const { epoch } = history;
  const back = await sendCommand(peer, 3, {
    history: { channel: room, limit: 2, reverse: true, since: { offset: 99, epoch } },
  });
  assert.deepEqual(back.history.publications.map(({ offset }: { offset: number }) => offset), [4, 3]);
  await hub.drain();
});

Deno.test("history trimmed during a read has no gap: it ends before, or fails as unrecoverable", async () => {
  const { hub, connect, log } = createHubHarness();
  for (let i = 0; i < 2 * PAGE_SIZE; i++) log.append(room, i);
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  let id = 1;
  const page = (request: Record<string, unknown>) =>
    sendCommand(peer, ++id, { history: { channel: room, ...request } });
  let keep: number[] = [];
  log.beforeRead = () => Promise.resolve(log.trimTo(room, keep.shift() ?? 0));
  keep = [2 * PAGE_SIZE, 5];
  const { history } = await page({ limit: 2 * PAGE_SIZE, since: { offset: 0, epoch } });
  assert.deepEqual([history.publications.length, history.publications.at(-1).offset], [PAGE_SIZE, PAGE_SIZE]);
  for (const left of [3, 0]) {
    keep = [left];
    const since = { offset: 2 * PAGE_SIZE - left - 2, epoch };
    assert.equal((await page({ limit: 2 * PAGE_SIZE, since })).error?.code, 112, `${left} are left`);
  }
  assert.deepEqual((await page({ limit: 2 })).history.publications, []);
  await hub.drain();
});

Deno.test("a client that loses access during its recovery is rejected", async () => {
  const { hub, connect, log, rooms } = createHubHarness({ revalidate: (actor) => Promise.resolve(actor) });
  log.append(room);
  const peer = await connect();
  log.beforeRead = async () => {
    rooms.banned.add("alice");
    hub.revalidatePrincipal(TENANT, "alice");
    await pause(5);
  };
  assert.equal((await sendCommand(peer, 2, { subscribe: { channel: room, recover: true } })).error?.code, 103);
  await hub.drain();
});

Deno.test("all connections are revalidated in turn, however many there are", async () => {
  let now = Date.now();
  const revalidated = new Set<string>();
  const { hub, connect } = createHubHarness({
    clock: { now: () => now },
    limits: { ...TEST_LIMITS, tickMs: 100_000, revalidateMs: 100_000, pingMs: 10_000_000 },
    revalidate: (actor) => Promise.resolve((revalidated.add(actor.principalId), actor)),
  });
  for (let i = 0; i < 250; i++) await connect(`p${i}`);
  revalidated.clear();
  for (let tick = 0; tick < 3; tick++) {
    now += 100_000;
    hub.tick();
    await pause(5);
  }
  await until(() => revalidated.size === 250);
  await hub.drain();
});

Deno.test("the end of an old token does not close a connection that was refreshed meanwhile", async () => {
  let complete: (() => void) | undefined;
  let isFirst = true;
  const { hub, connect } = createHubHarness({
    revalidate: (actor) => {
      if (actor.tokenId !== "jti-alice/60" || isFirst) {
        isFirst = false;
        return Promise.resolve(actor);
      }
      return new Promise((resolve) => complete = () => resolve(undefined));
    },
  });
  const peer = await connect("alice/60");
  hub.revalidatePrincipal(TENANT, "alice");
  await until(() => complete !== undefined);
  await sendCommand(peer, 2, { refresh: { token: "alice/90" } });
  complete?.();
  await pause(5);
  assert.equal(peer.socket.closedWith, undefined);
  await hub.drain();
});

Deno.test("a narrow token receives redacted events, and full ones after a refresh", async () => {
  const { hub, connect, emit } = createHubHarness({
    authenticate: async (token) => ({
      ...await authenticate(token.replace("narrow ", "")),
      scopes: token.startsWith("narrow ") ? new Set(["task.read"]) : undefined,
    }),
    eventFilterOf: ({ scopes }) => scopes && ((type) => type.startsWith("task.")),
  });
  const ownStream = "principal:alice";
  const wide = await connect("alice");
  const narrow = await connect("narrow alice");
  const { epoch, offset = 0 } = narrow.socket.messages[0].connect.subs[ownStream];
  emit(ownStream, "one");
  await until(() => pushesOn(narrow.socket, ownStream).length === 1);
  await sendCommand(narrow, 2, { refresh: { token: "alice" } });
  emit(ownStream, "two");
  await until(() => pushesOn(narrow.socket, ownStream).length === 2);
  const back = await connect("narrow alice", { subs: { [ownStream]: { recover: true, offset, epoch } } });
  const { publications } = back.socket.messages[0].connect.subs[ownStream];
  const contents = (pubs: { offset: number; data: { data: unknown } }[]) =>
    pubs.map((pub) => [pub.offset, pub.data.data]);
  assert.deepEqual(contents(pushesOn(wide.socket, ownStream)), [[1, "one"], [2, "two"]]);
  assert.deepEqual(contents(pushesOn(narrow.socket, ownStream)), [[1, {}], [2, "two"]]);
  assert.deepEqual(contents(publications), [[1, {}], [2, {}]]);
  await hub.drain();
});

Deno.test("a lagging node does not deliver hidden history to a new subscriber", async () => {
  const { hub, connect, log, rooms, bus } = createHubHarness();
  const early = await connect("bob");
  await sendCommand(early, 2, { subscribe: { channel: room } });
  const read = log.read.bind(log);
  const { promise, resolve } = Promise.withResolvers<void>();
  let isRead = false;
  log.read = async (...args) => {
    const events = await read(...args);
    log.read = read;
    isRead = true;
    await promise;
    return events;
  };
  // A client ahead of this node makes it read the log; events are added meanwhile.
  log.append(room, "first");
  const ahead = await connect("carol");
  const recovering = sendCommand(ahead, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
  await until(() => isRead);
  const events = [log.append(room, "secret"), log.append(room, "secret")];
  rooms.hiddenUpTo = 3;
  const peer = await connect("alice");
  const subscribed = sendCommand(peer, 2, { subscribe: { channel: room } });
  await pause(5);
  resolve();
  await Promise.all([recovering, subscribed]);
  bus.publish(streamKey(TENANT, room), { kind: "events", events });
  await until(() => offsetsOn(early.socket, room).length === 3);
  assert.deepEqual(offsetsOn(peer.socket, room), []);

  for (let i = 0; i < 3; i++) log.append(room, "secret");
  rooms.hiddenUpTo = 6;
  log.isUnavailable = true;
  const late = await connect("dave");
  const { error } = await sendCommand(late, 2, { subscribe: { channel: room } });
  assert.deepEqual([error?.code, error?.temporary], [100, true]);
  await hub.drain();
});

Deno.test("a removed member cannot read, even before the node receives the removal", async () => {
  const presence = new MemoryPresence();
  const { hub, connect, log, rooms } = createHubHarness({ presence });
  const peer = await connect("alice");
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  const code = async (id: number, command: Record<string, unknown>) =>
    (await sendCommand(peer, id, command)).error?.code;
  assert.equal(await code(3, { history: { channel: room, limit: -1 } }), undefined);
  rooms.banned.add("alice");
  log.append(room, null, { kind: "evict", principalIds: ["alice"], reason: "removed" });
  log.append(room, "secret");
  assert.equal(await code(4, { history: { channel: room, limit: -1 } }), 103);
  assert.equal(await code(5, { presence: { channel: room } }), 103);
  assert.equal(await code(6, { presence_stats: { channel: room } }), 103);
  // Removed during the read of its page.
  const other = await connect("bob");
  log.beforeRead = () => {
    rooms.banned.add("bob");
    log.append(room, "secret");
    return Promise.resolve();
  };
  assert.equal((await sendCommand(other, 2, { history: { channel: room, limit: -1 } })).error?.code, 103);
  await hub.drain();
});
