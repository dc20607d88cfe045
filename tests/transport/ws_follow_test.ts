// Recoveries that are more than one reply holds: the rest follows from the log, whole, in order, once, at the reader's pace.
import assert from "node:assert/strict";
import * as fc from "npm:fast-check@4.10.2";
import { streamKey } from "@/ports/store.ts";
import { pause, until } from "../wait.ts";
import { ask, authenticate, offsets, pushes, rig, SMALL, TENANT } from "./ws_rig.ts";

const room = "room:a";
const limits = { ...SMALL, replyMaxEvents: 3, replyMaxBytes: 2000 };

function line(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, at) => from + at);
}

Deno.test("the rest of a long recovery follows the reply, and what is published meanwhile comes after it", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 400 }),
      fc.nat(400),
      fc.array(fc.boolean(), { maxLength: 40 }),
      async (count, offset, during) => {
        const { hub, connect, log, emit } = rig({ limits });
        for (let i = 0; i < count; i++) log.append(room, i);
        const after = Math.min(offset, count);
        const peer = await connect();
        const asked = ask(peer, 2, { subscribe: { channel: room, recover: true, offset: after } });
        for (const isTold of during) {
          // Of what the bus loses, the next message tells.
          if (isTold) emit(room);
          else log.append(room);
          await pause(0);
        }
        const { subscribe } = await asked;
        emit(room);
        const head = count + during.length + 1;
        assert.equal(subscribe.recovered, true);
        assert.equal(subscribe.offset ?? 0, after);
        const seen = () => [
          ...(subscribe.publications ?? []).map((pub: { offset: number }) => pub.offset),
          ...offsets(peer.socket, room),
        ];
        await until(() => seen().at(-1) === head, "everything");
        assert.deepEqual(seen(), line(after + 1, head));
        await hub.drain();
      },
    ),
    { numRuns: 60 },
  );
});

Deno.test("what follows a long recovery is as empty of the hidden past as the recovery itself", async () => {
  const { hub, connect, log, rooms } = rig({ limits });
  rooms.hiddenUpTo = 5;
  for (let i = 1; i <= 40; i++) {
    log.append(room, `event ${i}`, i > 5 ? { kind: "about", seq: i % 2 === 0 ? 5 : 6 } : undefined);
  }
  const peer = await connect();
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  const seen = () => [...subscribe.publications, ...pushes(peer.socket, room)];
  await until(() => seen().at(-1).offset === 40, "everything");
  assert.deepEqual(
    seen().map(({ offset, data }) => [offset, data.type === "message.hidden", data.data]),
    line(6, 40).map((seq) => seq % 2 === 0 ? [seq, true, {}] : [seq, false, `event ${seq}`]),
  );
  await hub.drain();
});

Deno.test("a reader that is behind gets the rest of its recovery only as it reads", async () => {
  const { hub, connect, log } = rig({ limits: { ...limits, outboxMaxBytes: 20_000 } });
  for (let i = 0; i < 300; i++) log.append(room, "x".repeat(1000));
  const peer = await connect();
  peer.socket.isStuck = true;
  await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  let most = 0;
  for (let rounds = 0; offsets(peer.socket, room).at(-1) !== 300; rounds++) {
    assert.ok(rounds < 200, "it goes on");
    await pause(25);
    most = Math.max(most, peer.socket.bufferedAmount);
    peer.socket.bufferedAmount = 0;
  }
  assert.ok(most <= 20_000, `${most} bytes waited`);
  assert.equal(peer.socket.closedWith, undefined);
  await hub.drain();
});

Deno.test("a recovery that is overtaken by trimming ends with 2500, so that the client hears it cannot have it whole", async () => {
  const { hub, connect, log } = rig({ limits });
  for (let i = 0; i < 300; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => {
    if (log.reads === 2) log.trimTo(room, 10);
    return Promise.resolve();
  };
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  assert.equal(subscribe.recovered, true);
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushes(peer.socket, room, "unsubscribe")[0].code, 2500);
  assert.deepEqual(offsets(peer.socket, room), []);
  const again = await ask(peer, 3, { subscribe: { channel: room, recover: true, offset: 3 } });
  assert.equal(again.subscribe.recovered, undefined);
  await hub.drain();
});

Deno.test("a member removed while the rest of its recovery is on its way hears no more of it", async () => {
  const { hub, connect, log, emit } = rig({ limits });
  for (let i = 0; i < 300; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => {
    if (log.reads === 3) {
      emit(room, "bye", { kind: "evict", principalIds: ["alice"], reason: "removed" });
    }
    return Promise.resolve();
  };
  await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  const heard = offsets(peer.socket, room);
  await pause(20);
  assert.deepEqual(heard, line(4, 103));
  assert.deepEqual(offsets(peer.socket, room), heard);
  await hub.drain();
});

Deno.test("a newer token that may hear nothing ends the rest of a recovery", async () => {
  const self = "principal:alice";
  const { hub, connect, log } = rig({ limits, revalidate: (actor) => Promise.resolve(actor) });
  for (let i = 0; i < 300; i++) log.append(self, i);
  const { promise, resolve } = Promise.withResolvers<void>();
  log.beforeRead = () => log.reads === 2 ? promise : Promise.resolve();
  const { socket, connection } = await connect("alice", { subs: { [self]: { recover: true, offset: 0 } } });
  await until(() => log.reads === 2);
  connection.renew({ ...await authenticate("alice"), scopes: new Set(["task.read"]) });
  hub.tick();
  await pause(5);
  resolve();
  await pause(20);
  assert.deepEqual(offsets(socket, self), []);
  assert.ok(socket.isOpen);
  await hub.drain();
});

Deno.test("a burst that is more than waits for anybody costs no reader its connection", async () => {
  const { hub, connect, log, bus, metrics } = rig({ limits: { ...SMALL, outboxMaxBytes: 20_000 } });
  const presence = { channel: room, join_leave: true };
  const [reader, other] = [await connect("alice"), await connect("bob")];
  for (const peer of [reader, other]) await ask(peer, 2, { subscribe: presence });
  for (let burst = 1; burst <= 3; burst++) {
    const events = Array.from({ length: 40 }, () => log.append(room, "x".repeat(1000)));
    // In one message, or in many that come together.
    const told = burst === 1 ? [events] : events.map((event) => [event]);
    for (const some of told) bus.publish(streamKey(TENANT, room), { kind: "events", events: some });
    await ask(other, 2 + burst, { publish: { channel: room, data: { type: "typing", data: { isTyping: true } } } });
    await until(() => !reader.socket.isOpen || offsets(reader.socket, room).at(-1) === 40 * burst);
  }
  const last = log.append(room, "after");
  bus.publish(streamKey(TENANT, room), { kind: "events", events: [last] });
  await until(() => [reader, other].every(({ socket }) => offsets(socket, room).at(-1) === 121));
  for (const { socket } of [reader, other]) {
    assert.deepEqual(offsets(socket, room), line(1, 121));
    assert.equal(socket.closedWith, undefined);
  }
  assert.match(await metrics.registry.metrics(), /svc_pool_messages_dropped_total 0\n/);
  await hub.drain();
});

Deno.test("an event that is longer than may wait for anybody ends the connection, as nothing else can be done", async () => {
  const { hub, connect, emit } = rig({ limits: { ...SMALL, outboxMaxBytes: 20_000 } });
  const peer = await connect();
  await ask(peer, 2, { subscribe: { channel: room } });
  emit(room, "x".repeat(20_000));
  await until(() => !peer.socket.isOpen);
  assert.equal(peer.socket.closedWith?.code, 3008);
  await hub.drain();
});

Deno.test("what no log has is left out where it does not fit beside a burst, and counted", async () => {
  const { hub, connect, log, bus, metrics } = rig({ limits: { ...SMALL, outboxMaxBytes: 20_000 } });
  const peer = await connect();
  await ask(peer, 2, { subscribe: { channel: room } });
  const events = Array.from({ length: 18 }, () => log.append(room, "x".repeat(1000)));
  bus.publish(streamKey(TENANT, room), { kind: "events", events });
  hub.publish({ tenantId: TENANT, channel: room, json: JSON.stringify("y".repeat(1500)) });
  await until(() => offsets(peer.socket, room).at(-1) === 18);
  assert.equal(peer.socket.closedWith, undefined);
  assert.equal(pushes(peer.socket, room).length, 18);
  assert.match(await metrics.registry.metrics(), /svc_pool_messages_dropped_total 1\n/);
  await hub.drain();
});
