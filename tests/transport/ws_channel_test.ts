// Channels: who may hear them, what is recovered, who is removed, who is there.
import assert from "node:assert/strict";
import { MemoryPresence } from "@/adapters/presence_memory.ts";
import type { TenantRole } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { streamKey } from "@/ports/store.ts";
import { PAGE } from "@/transport/ws/pages.ts";
import { pause, until } from "../wait.ts";
import { ask, authenticate, offsets, pushes, rig, SMALL, TENANT } from "./ws_rig.ts";

const room = "room:a";

Deno.test("subscribe answers with the position and then delivers what comes, in order", async () => {
  const { hub, connect, emit, log } = rig();
  log.append(room);
  const peer = await connect();
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room } });
  assert.equal(subscribe.recoverable, true);
  assert.equal(subscribe.offset, 1);
  assert.equal(typeof subscribe.epoch, "string");
  for (let i = 0; i < 3; i++) emit(room, i);
  await until(() => offsets(peer.socket, room).length === 3);
  assert.deepEqual(
    pushes(peer.socket, room),
    [2, 3, 4].map((offset, index) => ({
      data: { id: `evt_${offset}`, type: "message.created", data: index },
      offset,
    })),
  );
  await hub.drain();
});

Deno.test("subscribe refuses what is not there, not allowed, there already, or too much", async () => {
  const { hub, connect, rooms, log } = rig({ limits: { ...SMALL, subscriptionsMax: 2 } });
  const peer = await connect();
  let id = 2;
  const code = async (channel: string, extra = {}) =>
    (await ask(peer, ++id, { subscribe: { channel, ...extra } })).error?.code;
  assert.equal(await code("nowhere:a"), 102);
  assert.equal(await code("room:"), 102);
  assert.equal(await code("room"), 102);
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
  assert.equal(log.streams.has(`${TENANT}/room:missing`), false, "a refused name leaves no stream behind");
  await hub.drain();
});

Deno.test("recovery brings exactly what was missed, and the offset stays the client's", async () => {
  const { hub, connect, log } = rig();
  for (let i = 0; i < 5; i++) log.append(room, i);
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  const request = { channel: room, recover: true, offset: 2, epoch };
  const { subscribe } = await ask(peer, 2, { subscribe: request });
  assert.equal(subscribe.was_recovering, true);
  assert.equal(subscribe.recovered, true);
  assert.equal(subscribe.offset, 2);
  assert.deepEqual(subscribe.publications.map((pub: { offset: number }) => pub.offset), [3, 4, 5]);
  await hub.drain();
});

Deno.test("recovery is whole or refused", async () => {
  const { hub, connect, log } = rig({ limits: { ...SMALL, replyMaxEvents: 3, replyMaxBytes: 2000 } });
  for (let i = 0; i < 6; i++) log.append(room, i);
  log.trimTo(room, 4);
  log.append("room:heavy", "x".repeat(3000));
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  let id = 2;
  const recover = async (request: Record<string, unknown>) => {
    const channel = request.channel ?? room;
    const reply = await ask(peer, ++id, { subscribe: { channel, recover: true, ...request } });
    await ask(peer, ++id, { unsubscribe: { channel } });
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
  assert.equal(await recovered({ epoch, offset: 2 }), true, "more than one reply holds");
  assert.equal(await recovered({ epoch, offset: 1 }), false, "trimmed");
  assert.equal(await recovered({ epoch, offset: 7 }), false, "from the future");
  assert.equal(await recovered({ epoch: "_", offset: 6 }), false, "after 3014");
  assert.equal(await recovered({ epoch: "other", offset: 6 }), false, "another epoch");
  assert.equal(await recovered({ channel: "room:heavy" }), true, "too heavy for one reply");
  assert.equal((await recover({ epoch: "other", offset: 6, flag: 3 })).error.code, 112);
  await hub.drain();
});

Deno.test("what is published while a recovery reads the log comes after the reply, once", async () => {
  const { hub, connect, log, emit } = rig();
  for (let i = 0; i < 3; i++) log.append(room, i);
  const other = await connect("bob");
  await ask(other, 2, { subscribe: { channel: room } });
  const peer = await connect();
  log.beforeRead = async () => {
    emit(room, "during 1");
    await pause(1);
    emit(room, "during 2");
  };
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
  emit(room, "after");
  await until(() => offsets(peer.socket, room).at(-1) === 6);
  assert.deepEqual(subscribe.publications.map((pub: { offset: number }) => pub.offset), [2, 3]);
  assert.deepEqual(offsets(peer.socket, room), [4, 5, 6]);
  const kinds = peer.socket.lines.map((line) => line.id ?? line.push?.pub?.offset);
  assert.ok(kinds.indexOf(2) < kinds.indexOf(4), "the reply comes first");
  await hub.drain();
});

Deno.test("a client ahead of this node is not sent back: the node catches up first", async () => {
  const { hub, connect, log } = rig();
  const first = await connect("bob");
  await ask(first, 2, { subscribe: { channel: room } });
  for (let i = 0; i < 4; i++) log.append(room, i);
  const peer = await connect();
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 3 } });
  assert.equal(subscribe.recovered, true);
  assert.deepEqual(subscribe.publications.map((pub: { offset: number }) => pub.offset), [4]);
  assert.deepEqual(offsets(first.socket, room), [1, 2, 3, 4]);
  await hub.drain();
});

Deno.test("what is hidden from an actor is neither recovered, nor in history, nor still on its way", async () => {
  const { hub, connect, log, rooms } = rig();
  const early = await connect("bob");
  await ask(early, 2, { subscribe: { channel: room } });
  for (let i = 0; i < 5; i++) log.append(room, i);
  rooms.hiddenUpTo = 3;
  const peer = await connect();
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
  assert.equal(subscribe.recovered, true);
  assert.equal(subscribe.offset, 3);
  const seen = (pubs: { offset: number }[]) => pubs.map((pub) => pub.offset);
  assert.deepEqual(seen(subscribe.publications), [4, 5]);
  const history = async (id: number, reverse: boolean) =>
    seen((await ask(peer, id, { history: { channel: room, limit: -1, reverse } })).history.publications);
  assert.deepEqual(await history(3, false), [4, 5]);
  assert.deepEqual(await history(4, true), [5, 4]);
  assert.deepEqual(offsets(peer.socket, room), []);
  await hub.drain();
});

Deno.test("an event about what is hidden from one subscriber comes to that one empty, in its place; to others whole", async () => {
  const { hub, connect, log, bus, rooms } = rig();
  for (let i = 1; i <= 3; i++) log.append(room, `old ${i}`);
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  await ask(alice, 2, { subscribe: { channel: room } });
  rooms.hiddenUpTo = 3;
  await ask(bob, 2, { subscribe: { channel: room } });
  const events = [
    log.append(room, "new 4"),
    log.append(room, "about 3", { kind: "about", seq: 3 }),
    log.append(room, "about 4", { kind: "about", seq: 4 }),
    log.append(room, "new 7"),
  ];
  bus.publish(streamKey(TENANT, room), { kind: "events", events });
  const heard = (peer: typeof alice) =>
    pushes(peer.socket, room).map(({ offset, data }) => [offset, data.id, data.type, data.data]);
  await until(() => heard(alice).length === 4 && heard(bob).length === 4);
  const created = "message.created";
  const whole: unknown[][] = [
    [4, "evt_4", created, "new 4"],
    [5, "evt_5", created, "about 3"],
    [6, "evt_6", created, "about 4"],
    [7, "evt_7", created, "new 7"],
  ];
  assert.deepEqual(heard(alice), whole);
  assert.deepEqual(heard(bob), whole.with(1, [5, "evt_5", "message.hidden", {}]));
  await hub.drain();
});

Deno.test("the connection's own stream is recovered in the connect reply", async () => {
  const { hub, connect, log, emit } = rig();
  for (let i = 0; i < 3; i++) log.append("principal:alice", i);
  const { epoch } = await log.position(TENANT, "principal:alice");
  const subs = { "principal:alice": { recover: true, offset: 1, epoch }, "principal:bob": { recover: true } };
  const { socket } = await connect("alice", { subs });
  const result = socket.lines[0].connect.subs;
  assert.deepEqual(Object.keys(result), ["principal:alice"]);
  assert.equal(result["principal:alice"].recovered, true);
  assert.deepEqual(result["principal:alice"].publications.map((pub: { offset: number }) => pub.offset), [2, 3]);
  emit("principal:alice", "more");
  await until(() => offsets(socket, "principal:alice").length === 1);
  await hub.drain();
});

Deno.test("eviction ends a subscription before the event that causes it is delivered", async () => {
  const { hub, connect, emit } = rig();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await ask(peer, 2, { subscribe: { channel: room } });
  emit(room, 1);
  emit(room, 2, { kind: "evict", principalIds: ["bob"], reason: "removed from the room" });
  emit(room, 3);
  await until(() => offsets(alice.socket, room).length === 3);
  await until(() => pushes(bob.socket, room, "unsubscribe").length > 0);
  assert.deepEqual(offsets(bob.socket, room), [1]);
  assert.deepEqual(pushes(bob.socket, room, "unsubscribe"), [{ code: 2000, reason: "removed from the room" }]);
  assert.ok(bob.socket.isOpen);
  emit(room, 4, { kind: "evict", principalIds: "*", reason: "rights changed", resubscribe: true });
  await until(() => pushes(alice.socket, room, "unsubscribe").length === 1);
  assert.deepEqual(pushes(alice.socket, room, "unsubscribe"), [{ code: 2500, reason: "rights changed" }]);
  assert.equal(hub.stats().channels.room, 0);
  await hub.drain();
});

Deno.test("an eviction that comes while a subscribe is being checked still takes effect", async () => {
  const { hub, connect, emit, rooms } = rig();
  const other = await connect("other");
  await ask(other, 2, { subscribe: { channel: room } });
  const peer = await connect("bob");
  rooms.beforeCheck = () => {
    emit(room, 1, { kind: "evict", principalIds: ["bob"], reason: "removed" });
    return Promise.resolve();
  };
  assert.equal((await ask(peer, 2, { subscribe: { channel: room } })).error.code, 103);
  emit(room, 2);
  await until(() => offsets(other.socket, room).length === 2);
  assert.deepEqual(offsets(peer.socket, room), []);
  await hub.drain();
});

Deno.test("a removal between the end of the checks and the reply is not missed", async () => {
  const { hub, connect, emit, log } = rig();
  for (let i = 0; i < 2; i++) log.append(room);
  const other = await connect("other");
  await ask(other, 2, { subscribe: { channel: room } });
  for (let hops = 0; hops < 12; hops++) {
    const peer = await connect(`p${hops}`);
    log.beforeRead = () => {
      let later = Promise.resolve();
      for (let hop = 0; hop < hops; hop++) later = later.then(() => {});
      later.then(() => void emit(room, hops, { kind: "evict", principalIds: [`p${hops}`], reason: "removed" }));
      return Promise.resolve();
    };
    const reply = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
    const isTold = () => reply.error?.code === 103 || pushes(peer.socket, room, "unsubscribe").length === 1;
    await until(isTold, `what is told after ${hops} turns of the microtask queue`);
    assert.equal(peer.connection.subscriptions.size, 1);
  }
  await hub.drain();
});

Deno.test("disconnect closes the sockets of a principal, or of one token", async () => {
  const { hub, connect, emit } = rig();
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

Deno.test("rights are looked at again: lost ones end the subscription, a failing store ends nothing", async () => {
  let isValid = true;
  const { hub, connect, rooms } = rig({
    limits: { ...SMALL, revalidateMs: 30 },
    revalidate: (actor) => Promise.resolve(isValid ? actor : undefined),
  });
  const peer = await connect();
  await ask(peer, 2, { subscribe: { channel: room } });
  await ask(peer, 3, { subscribe: { channel: "room:b" } });
  rooms.failure = new Fault("unavailable", "The store is away");
  const { checks } = rooms;
  await until(() => rooms.checks > checks + 2);
  assert.equal(peer.connection.subscriptions.size, 3);
  rooms.failure = undefined;
  rooms.banned.add("alice");
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushes(peer.socket, room, "unsubscribe")[0].code, 2000);
  assert.ok(peer.socket.isOpen);
  isValid = false;
  await until(() => !peer.socket.isOpen);
  assert.equal(peer.socket.closedWith?.code, 3503);
  await hub.drain();
});

Deno.test("of two looks at somebody's rights that cross each other, what is so now counts", async () => {
  let role: TenantRole = "member";
  let looks: (() => void)[] = [];
  const { hub, connect } = rig({
    revalidate: (actor) => {
      const seen = { ...actor, role };
      return new Promise((resolve) => looks.push(() => resolve(seen)));
    },
  });
  const answer = () => looks.splice(0).forEach((look) => look());
  const connecting = connect();
  await until(() => looks.length === 1);
  answer();
  const { connection } = await connecting;
  for (const isReversed of [false, true]) {
    role = "member";
    hub.rightsMoved(TENANT, "alice");
    role = "guest";
    hub.rightsMoved(TENANT, "alice");
    if (isReversed) looks = looks.toReversed();
    await until(() => (answer(), connection.actor?.role === "guest"));
    await pause(5);
    answer();
    await pause(5);
    assert.equal(connection.actor?.role, "guest");
  }
  await hub.drain();
});

Deno.test("publish takes the ephemeral kinds of a channel and says so about everything else", async () => {
  const { hub, connect, rooms } = rig();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await ask(peer, 2, { subscribe: { channel: room } });
  let id = 2;
  const publish = (data: unknown, channel = room) => ask(alice, ++id, { publish: { channel, data } });
  assert.deepEqual((await publish({ type: "typing", data: { isTyping: true } })).publish, {});
  await until(() => pushes(bob.socket, room).length === 1);
  const [push] = pushes(bob.socket, room);
  assert.deepEqual({ ...push.data, at: "" }, {
    type: "typing",
    at: "",
    actor: { id: "alice", kind: "human" },
    data: { isTyping: true },
  });
  assert.deepEqual(push.info, {
    user: "alice",
    client: alice.connection.client,
    conn_info: { name: "ALICE", kind: "human" },
  });
  assert.equal("offset" in push, false);

  assert.equal((await publish({ type: "signal", data: { to: "bob" } })).error, undefined);
  await until(() => pushes(bob.socket, room).length === 2);
  assert.equal(pushes(alice.socket, room).length, 1, "what is for one reaches one");

  const refused = (await publish({ type: "message.created", data: {} })).error;
  assert.equal(refused.code, 103);
  assert.match(refused.message, /typing, signal here; everything else is an rpc/);
  assert.equal((await publish("hello")).error.code, 103);
  assert.equal((await publish({ type: "toString", data: {} })).error.code, 103);
  assert.equal((await publish({ type: "typing", data: {} }, "principal:bob")).error.code, 103);
  assert.equal((await publish({ type: "typing", data: {} }, "nowhere:b")).error.code, 102);
  const misfit = (await publish({ type: "typing", data: { isTyping: 1 } })).error;
  assert.equal(misfit.code, 107);
  assert.match(misfit.message, /^bad request: data\.isTyping: Invalid input: [^\n]+$/);
  const missing = (await publish({ type: "typing" })).error;
  assert.match(missing.message, /^bad request: data: Invalid input: expected object, [^\n]+$/);
  assert.equal((await publish({ type: "signal", data: { to: "bob", text: "x".repeat(80) } })).error.code, 106);
  rooms.banned.add("alice");
  assert.equal((await publish({ type: "typing", data: { isTyping: true } })).error.code, 103);
  await hub.drain();
});

Deno.test("presence shows who is there up to the channel's bound; join and leave come to those who asked", async () => {
  const presence = new MemoryPresence();
  const { hub, connect } = rig({ presence });
  const alice = await connect("alice");
  await ask(alice, 2, { subscribe: { channel: room, join_leave: true } });
  await until(() => pushes(alice.socket, room, "join").length === 1);
  const kinds = alice.socket.lines.map((line) => line.id ?? Object.keys(line.push).at(-1));
  assert.deepEqual(kinds, [1, 2, "join"], "one's own join comes after the reply");
  const bob = await connect("bob");
  await ask(bob, 2, { subscribe: { channel: room } });
  await until(() => pushes(alice.socket, room, "join").length === 2);
  assert.deepEqual(pushes(alice.socket, room, "join")[1].info.user, "bob");
  assert.deepEqual(pushes(bob.socket, room, "join"), [], "not asked for");

  const shown = (await ask(bob, 3, { presence: { channel: room } })).presence.presence;
  assert.deepEqual(Object.keys(shown).sort(), [alice.connection.client, bob.connection.client].sort());
  const alsoBob = await connect("bob");
  await ask(alsoBob, 2, { subscribe: { channel: room } });
  assert.deepEqual((await ask(bob, 4, { presence_stats: { channel: room } })).presence_stats, {
    num_clients: 3,
    num_users: 2,
  });
  const carol = await connect("carol");
  await ask(carol, 2, { subscribe: { channel: room } });
  assert.equal((await ask(bob, 5, { presence: { channel: room } })).error.code, 108);
  assert.equal((await ask(bob, 6, { presence: { channel: "room:b" } })).error.code, 103);
  carol.connection.gone();
  alsoBob.connection.gone();
  await ask(bob, 7, { unsubscribe: { channel: room } });
  await until(() => pushes(alice.socket, room, "leave").length >= 2);
  assert.equal((await presence.list(`${TENANT}/${room}`)).length, 1);
  await hub.drain();
});

Deno.test("history pages through the log for those who may see it", async () => {
  const { hub, connect, log, rooms } = rig({ limits: { ...SMALL, replyMaxEvents: 4 } });
  for (let i = 0; i < 6; i++) log.append(room, i);
  log.trimTo(room, 5);
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  let id = 2;
  const page = async (request: Record<string, unknown>) =>
    await ask(peer, ++id, { history: { channel: room, ...request } });
  const seen = async (request: Record<string, unknown>) =>
    (await page(request)).history.publications.map((pub: { offset: number }) => pub.offset);
  assert.deepEqual((await page({})).history, { publications: [], epoch, offset: 6 });
  assert.deepEqual(await seen({ limit: 2 }), [2, 3]);
  assert.deepEqual(await seen({ limit: 2, since: { offset: 3, epoch } }), [4, 5]);
  assert.deepEqual(await seen({ limit: -1 }), [2, 3, 4, 5]);
  assert.deepEqual(await seen({ limit: 2, reverse: true }), [6, 5]);
  assert.deepEqual(await seen({ limit: 9, reverse: true, since: { offset: 4, epoch } }), [3, 2]);
  assert.equal((await page({ limit: 1, since: { offset: 3, epoch: "other" } })).error.code, 112);
  assert.equal((await page({ limit: 1, since: { offset: 0, epoch } })).error.code, 112, "trimmed away");
  assert.equal((await page({ channel: "run:1" })).error.code, 108);
  assert.deepEqual((await page({ channel: "principal:alice" })).history.publications, []);
  assert.equal((await page({ channel: "principal:bob" })).error.code, 103);
  rooms.banned.add("alice");
  assert.equal((await page({ limit: 1 })).error.code, 103);
  await hub.drain();
});

Deno.test("a channel without a log has no offsets and gets what modules publish", async () => {
  const { hub, connect } = rig();
  const peer = await connect();
  assert.deepEqual(await ask(peer, 2, { subscribe: { channel: "run:1" } }), { id: 2, subscribe: {} });
  hub.publish({ tenantId: TENANT, channel: "run:1", json: `{"type":"run.delta"}` });
  hub.publish({ tenantId: "other", channel: "run:1", json: `{"type":"secret"}` });
  await until(() => pushes(peer.socket, "run:1").length > 0);
  assert.deepEqual(pushes(peer.socket, "run:1"), [{ data: { type: "run.delta" } }]);
  assert.equal(hub.stats().channels.run, 1);
  await hub.drain();
});

Deno.test("after unsubscribe, or the end of the socket, nothing is delivered and the feed is gone", async () => {
  const { hub, connect, emit } = rig();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await ask(peer, 2, { subscribe: { channel: room } });
  assert.deepEqual((await ask(alice, 3, { unsubscribe: { channel: room } })).unsubscribe, {});
  emit(room, 1);
  await until(() => offsets(bob.socket, room).length === 1);
  assert.deepEqual(offsets(alice.socket, room), []);
  bob.connection.gone();
  assert.deepEqual(hub.stats(), { connections: 1, zombies: 0, channels: { principal: 1, room: 0 } });
  await ask(alice, 4, { unsubscribe: { channel: "principal:alice" } });
  assert.equal(alice.connection.subscriptions.size, 1, "the server's own subscription stays");
  await hub.drain();
});

Deno.test("who goes while a subscribe is being checked leaves nobody behind, whatever comes of the check", async () => {
  const presence = new MemoryPresence();
  const { hub, connect, rooms } = rig({ presence });
  const peer = await connect();
  const { promise, resolve } = Promise.withResolvers<void>();
  rooms.beforeCheck = () => promise;
  peer.connection.receive(JSON.stringify({ id: 2, subscribe: { channel: room } }));
  await until(() => rooms.checks === 1);
  peer.connection.gone();
  resolve();
  await pause(5);
  assert.deepEqual(hub.stats().channels, { principal: 0 });
  assert.deepEqual(await presence.list(`${TENANT}/${room}`), []);
  await hub.drain();
});

Deno.test("subscribes that follow each other are looked at together; one too many or of one channel is refused", async () => {
  const { hub, connect, rooms } = rig({ limits: { ...SMALL, subscriptionsMax: 3 } });
  const peer = await connect();
  const { promise, resolve } = Promise.withResolvers<void>();
  rooms.beforeCheck = () => promise;
  const channels = ["room:a", "room:a", "room:b", "room:c", "room:d"];
  const lines = channels.map((channel, index) => JSON.stringify({ id: index + 2, subscribe: { channel } }));
  peer.connection.receive([...lines, JSON.stringify({ id: 9, unsubscribe: { channel: "room:a" } })].join("\n"));
  await until(() => rooms.checks === channels.length, "a look at all of them at once");
  assert.equal(peer.socket.lines.length, 1, "nothing overtakes them");
  resolve();
  await until(() => peer.socket.lines.length === 2 + channels.length);
  const codes = peer.socket.lines.slice(1).sort((one, other) => one.id - other.id).map(({ error }) => error?.code);
  assert.deepEqual(codes, [undefined, 105, undefined, undefined, 106, undefined]);
  assert.equal(peer.socket.lines.at(-1).id, 9);
  assert.deepEqual([...peer.connection.subscriptions.keys()], ["principal:alice", "room:b", "room:c"]);
  assert.equal(hub.stats().channels.room, 2);
  await hub.drain();
});

Deno.test("a client that comes back for much in many channels at once gets all of it, and is not taken for slow", async () => {
  const { hub, connect, log } = rig({ limits: { ...SMALL, outboxMaxBytes: 16_000, replyMaxBytes: 7000 } });
  const channels = Array.from({ length: 12 }, (_, index) => `room:${index}`);
  for (const channel of channels) for (let i = 0; i < 6; i++) log.append(channel, "x".repeat(1000));
  const peer = await connect();
  const lines = channels.map((channel, index) =>
    JSON.stringify({ id: index + 2, subscribe: { channel, recover: true } })
  );
  peer.connection.receive(lines.join("\n"));
  const heard = (channel: string): number[] => {
    const reply = peer.socket.lines.find(({ id }) => id === channels.indexOf(channel) + 2)?.subscribe;
    const recovered = (reply?.publications ?? []).map(({ offset }: { offset: number }) => offset);
    return [...recovered, ...offsets(peer.socket, channel)];
  };
  await until(() => !peer.socket.isOpen || channels.every((channel) => heard(channel).length >= 6));
  assert.equal(peer.socket.closedWith, undefined);
  for (const channel of channels) assert.deepEqual(heard(channel), [1, 2, 3, 4, 5, 6]);
  await hub.drain();
});

Deno.test("who is closed as slow by what it hears right after its reply is not taken for present", async () => {
  const presence = new MemoryPresence();
  const { hub, connect, log, emit } = rig({ presence, limits: { ...SMALL, outboxMaxBytes: 4000 } });
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

Deno.test("a reply is bounded by its bytes, in every script", async () => {
  const { hub, connect, log } = rig({ limits: { ...SMALL, outboxMaxBytes: 16_000, replyMaxBytes: 7000 } });
  for (let i = 0; i < 6; i++) log.append(room, "語".repeat(1000));
  const peer = await connect();
  const { history } = await ask(peer, 2, { history: { channel: room, limit: -1 } }) ?? {};
  assert.deepEqual(history?.publications.map(({ offset }: { offset: number }) => offset), [1, 2]);
  const { subscribe } = await ask(peer, 3, { subscribe: { channel: room, recover: true } });
  const heard = () => [...subscribe.publications ?? [], ...pushes(peer.socket, room)].map(({ offset }) => offset);
  await until(() => !peer.socket.isOpen || heard().length >= 6);
  assert.deepEqual(heard(), [1, 2, 3, 4, 5, 6]);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("of the log hardly more is read than a reply may hold", async () => {
  const { hub, connect, log } = rig({
    limits: { ...SMALL, outboxMaxBytes: 60_000, replyMaxEvents: 2000, replyMaxBytes: 15_000 },
  });
  for (let i = 0; i < 2000; i++) log.append(room, "x".repeat(1000));
  const [read, readBack] = [log.read.bind(log), log.readBack.bind(log)];
  let events = 0;
  log.read = async (...args) => (await read(...args)).map((event) => (events++, event));
  log.readBack = async (...args) => (await readBack(...args)).map((event) => (events++, event));
  const peer = await connect();
  await ask(peer, 2, { history: { channel: room, limit: -1 } });
  assert.ok(events <= 100, `${events} events for a page of history`);
  events = 0;
  await ask(peer, 3, { history: { channel: room, limit: -1, reverse: true } });
  assert.ok(events <= 100, `${events} events for a page of history in reverse`);
  events = 0;
  // What follows the reply waits until it is read.
  peer.socket.isStuck = true;
  const { subscribe } = await ask(peer, 4, { subscribe: { channel: room, recover: true } });
  assert.equal(subscribe.recovered, true);
  assert.ok(events <= 100, `${events} events for a recovery`);
  await hub.drain();
  await pause(25);
});

Deno.test("history is of one moment: nothing in it lies beyond the position that it tells", async () => {
  const { hub, connect, log, emit } = rig();
  for (let i = 0; i < 3; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => Promise.resolve(void emit(room, "meanwhile"));
  const { history } = await ask(peer, 2, { history: { channel: room, limit: -1 } });
  assert.deepEqual([history.offset, history.publications.at(-1).offset], [3, 3]);
  const { epoch } = history;
  const back = await ask(peer, 3, {
    history: { channel: room, limit: 2, reverse: true, since: { offset: 99, epoch } },
  });
  assert.deepEqual(back.history.publications.map(({ offset }: { offset: number }) => offset), [4, 3]);
  await hub.drain();
});

Deno.test("history that is trimmed while it is read has no hole: it ends before, or says that it cannot be recovered", async () => {
  const { hub, connect, log } = rig();
  for (let i = 0; i < 2 * PAGE; i++) log.append(room, i);
  const { epoch } = await log.position(TENANT, room);
  const peer = await connect();
  let id = 1;
  const page = (request: Record<string, unknown>) => ask(peer, ++id, { history: { channel: room, ...request } });
  let keep: number[] = [];
  log.beforeRead = () => Promise.resolve(log.trimTo(room, keep.shift() ?? 0));
  keep = [2 * PAGE, 5];
  const { history } = await page({ limit: 2 * PAGE, since: { offset: 0, epoch } });
  assert.deepEqual([history.publications.length, history.publications.at(-1).offset], [PAGE, PAGE]);
  for (const left of [3, 0]) {
    keep = [left];
    const since = { offset: 2 * PAGE - left - 2, epoch };
    assert.equal((await page({ limit: 2 * PAGE, since })).error?.code, 112, `${left} are left`);
  }
  assert.deepEqual((await page({ limit: 2 })).history.publications, []);
  await hub.drain();
});

Deno.test("who loses a right while its recovery is being read is not let in", async () => {
  const { hub, connect, log, rooms } = rig({ revalidate: (actor) => Promise.resolve(actor) });
  log.append(room);
  const peer = await connect();
  log.beforeRead = async () => {
    rooms.banned.add("alice");
    hub.rightsMoved(TENANT, "alice");
    await pause(5);
  };
  assert.equal((await ask(peer, 2, { subscribe: { channel: room, recover: true } })).error?.code, 103);
  await hub.drain();
});

Deno.test("everybody's rights are looked at again in turn, however many there are", async () => {
  let now = Date.now();
  const looked = new Set<string>();
  const { hub, connect } = rig({
    clock: { now: () => now },
    limits: { ...SMALL, tickMs: 100_000, revalidateMs: 100_000, pingMs: 10_000_000 },
    revalidate: (actor) => Promise.resolve((looked.add(actor.principalId), actor)),
  });
  for (let i = 0; i < 250; i++) await connect(`p${i}`);
  looked.clear();
  for (let tick = 0; tick < 3; tick++) {
    now += 100_000;
    hub.tick();
    await pause(5);
  }
  assert.equal(looked.size, 250);
  await hub.drain();
});

Deno.test("a token that ended is no reason to close a connection that has a newer one by then", async () => {
  let look: (() => void) | undefined;
  let isFirst = true;
  const { hub, connect } = rig({
    revalidate: (actor) => {
      if (actor.tokenId !== "jti-alice/60" || isFirst) {
        isFirst = false;
        return Promise.resolve(actor);
      }
      return new Promise((resolve) => look = () => resolve(undefined));
    },
  });
  const peer = await connect("alice/60");
  hub.rightsMoved(TENANT, "alice");
  await until(() => look !== undefined);
  await ask(peer, 2, { refresh: { token: "alice/90" } });
  look?.();
  await pause(5);
  assert.equal(peer.socket.closedWith, undefined);
  await hub.drain();
});

/** In which a token "narrow alice" is one of alice that may not hear rooms. */
function rigWithNarrowTokens(): ReturnType<typeof rig> {
  return rig({
    authenticate: async (token) => ({
      ...await authenticate(token.replace("narrow ", "")),
      scopes: token.startsWith("narrow ") ? new Set(["task.read"]) : undefined,
    }),
    revalidate: (actor) => Promise.resolve(actor),
  });
}

Deno.test("a newer token that may hear more brings the client back for what it did not hear", async () => {
  const { hub, connect, emit } = rigWithNarrowTokens();
  const self = "principal:alice";
  const peer = await connect("narrow alice");
  const { epoch, offset = 0 } = peer.socket.lines[0].connect.subs[self];
  emit(self, "unheard");
  await pause(5);
  assert.deepEqual(offsets(peer.socket, self), []);
  await ask(peer, 2, { refresh: { token: "alice" } });
  await until(() => !peer.socket.isOpen);
  assert.equal(peer.socket.closedWith?.code, 3010);
  const { socket } = await connect("alice", { subs: { [self]: { recover: true, offset, epoch } } });
  assert.deepEqual(socket.lines[0].connect.subs[self].publications.map((pub: { offset: number }) => pub.offset), [1]);
  await hub.drain();
});

Deno.test("who comes back with a token that may not hear keeps their place, and hears what they missed once they may", async () => {
  const { hub, connect, emit } = rigWithNarrowTokens();
  const self = "principal:alice";
  const first = await connect("alice");
  const { epoch, offset = 0 } = first.socket.lines[0].connect.subs[self];
  first.socket.close();
  emit(self, "missed");
  await pause(5);
  const narrow = await connect("narrow alice", { subs: { [self]: { recover: true, offset, epoch } } });
  const { publications, ...kept } = narrow.socket.lines[0].connect.subs[self];
  assert.equal(publications, undefined);
  assert.equal(kept.offset ?? 0, offset);
  await ask(narrow, 2, { refresh: { token: "alice" } });
  await until(() => !narrow.socket.isOpen);
  const { socket } = await connect("alice", { subs: { [self]: { recover: true, offset: kept.offset ?? 0, epoch } } });
  assert.deepEqual(socket.lines[0].connect.subs[self].publications.map((pub: { offset: number }) => pub.offset), [1]);
  await hub.drain();
});

Deno.test("who may not see the past hears nothing of it from a node that has yet to catch up", async () => {
  const { hub, connect, log, rooms, bus } = rig();
  const early = await connect("bob");
  await ask(early, 2, { subscribe: { channel: room } });
  const read = log.read.bind(log);
  const { promise, resolve } = Promise.withResolvers<void>();
  log.read = async (...args) => {
    const events = await read(...args);
    log.read = read;
    await promise;
    return events;
  };
  // One that is ahead of this node makes it read what there is; more comes while it does.
  log.append(room, "first");
  const ahead = await connect("carol");
  const asked = ask(ahead, 2, { subscribe: { channel: room, recover: true, offset: 1 } });
  await pause(5);
  const events = [log.append(room, "secret"), log.append(room, "secret")];
  rooms.hiddenUpTo = 3;
  const peer = await connect("alice");
  const subscribed = ask(peer, 2, { subscribe: { channel: room } });
  await pause(5);
  resolve();
  await Promise.all([asked, subscribed]);
  bus.publish(streamKey(TENANT, room), { kind: "events", events });
  await until(() => offsets(early.socket, room).length === 3);
  assert.deepEqual(offsets(peer.socket, room), []);

  for (let i = 0; i < 3; i++) log.append(room, "secret");
  rooms.hiddenUpTo = 6;
  log.isAway = true;
  const late = await connect("dave");
  const { error } = await ask(late, 2, { subscribe: { channel: room } });
  assert.deepEqual([error?.code, error?.temporary], [100, true]);
  await hub.drain();
});

Deno.test("who was removed reads nothing more, also where the node has not heard of the removal yet", async () => {
  const presence = new MemoryPresence();
  const { hub, connect, log, rooms } = rig({ presence });
  const peer = await connect("alice");
  await ask(peer, 2, { subscribe: { channel: room } });
  const code = async (id: number, command: Record<string, unknown>) => (await ask(peer, id, command)).error?.code;
  assert.equal(await code(3, { history: { channel: room, limit: -1 } }), undefined);
  rooms.banned.add("alice");
  log.append(room, null, { kind: "evict", principalIds: ["alice"], reason: "removed" });
  log.append(room, "secret");
  assert.equal(await code(4, { history: { channel: room, limit: -1 } }), 103);
  assert.equal(await code(5, { presence: { channel: room } }), 103);
  assert.equal(await code(6, { presence_stats: { channel: room } }), 103);
  // Removed while its page was being read.
  const other = await connect("bob");
  log.beforeRead = () => {
    rooms.banned.add("bob");
    log.append(room, "secret");
    return Promise.resolve();
  };
  assert.equal((await ask(other, 2, { history: { channel: room, limit: -1 } })).error?.code, 103);
  await hub.drain();
});
