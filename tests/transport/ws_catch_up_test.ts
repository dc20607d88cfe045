// Recoveries beyond the size of a reply: the rest is pushed from the log, complete, in order and once, as fast as the client reads.
import assert from "node:assert/strict";
import * as fc from "npm:fast-check@4.10.2";
import { streamKey } from "@/ports/store.ts";
import { pause, until } from "../wait.ts";
import { authenticate, createHubHarness, offsetsOn, pushesOn, sendCommand, TENANT, TEST_LIMITS } from "./ws_harness.ts";

const room = "room:a";
const limits = { ...TEST_LIMITS, replyMaxEvents: 3, replyMaxBytes: 2000 };

function seqsBetween(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, at) => from + at);
}

Deno.test("events beyond the recovery reply are pushed after it, before newly published ones", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 400 }),
      fc.nat(400),
      fc.array(fc.boolean(), { maxLength: 40 }),
      async (count, offset, during) => {
        const { hub, connect, log, emit } = createHubHarness({ limits });
        for (let i = 0; i < count; i++) log.append(room, i);
        const after = Math.min(offset, count);
        const peer = await connect();
        const reply = sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: after } });
        for (const isPublished of during) {
          // The next message reveals events lost by the bus.
          if (isPublished) emit(room);
          else log.append(room);
          await pause(0);
        }
        const { subscribe } = await reply;
        emit(room);
        const head = count + during.length + 1;
        assert.equal(subscribe.recovered, true);
        assert.equal(subscribe.offset ?? 0, after);
        const received = () => [
          ...(subscribe.publications ?? []).map((pub: { offset: number }) => pub.offset),
          ...offsetsOn(peer.socket, room),
        ];
        await until(() => received().at(-1) === head, "everything");
        assert.deepEqual(received(), seqsBetween(after + 1, head));
        await hub.drain();
      },
    ),
    { numRuns: 60 },
  );
});

Deno.test("pushes after a recovery reply redact hidden history as the reply does", async () => {
  const { hub, connect, log, rooms } = createHubHarness({ limits });
  rooms.hiddenUpTo = 5;
  for (let i = 1; i <= 40; i++) {
    log.append(room, `event ${i}`, i > 5 ? { kind: "concerns", seq: i % 2 === 0 ? 5 : 6 } : undefined);
  }
  const peer = await connect();
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  const received = () => [...subscribe.publications, ...pushesOn(peer.socket, room)];
  await until(() => received().at(-1).offset === 40, "everything");
  assert.deepEqual(
    received().map(({ offset, data }) => [offset, data.type === "message.hidden", data.data]),
    seqsBetween(6, 40).map((seq) => seq % 2 === 0 ? [seq, true, {}] : [seq, false, `event ${seq}`]),
  );
  await hub.drain();
});

Deno.test("a slow client receives the rest of its recovery only as fast as it reads", async () => {
  const { hub, connect, log } = createHubHarness({ limits: { ...limits, outboxMaxBytes: 20_000 } });
  for (let i = 0; i < 300; i++) log.append(room, "x".repeat(1000));
  const peer = await connect();
  peer.socket.isStalled = true;
  await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  let maxBytes = 0;
  for (let rounds = 0; offsetsOn(peer.socket, room).at(-1) !== 300; rounds++) {
    assert.ok(rounds < 200, "progress");
    await pause(25);
    maxBytes = Math.max(maxBytes, peer.socket.bufferedAmount);
    peer.socket.bufferedAmount = 0;
  }
  assert.ok(maxBytes <= 20_000, `${maxBytes} bytes waited`);
  assert.equal(peer.socket.closedWith, undefined);
  await hub.drain();
});

Deno.test("a recovery whose events are trimmed meanwhile ends with 2500", async () => {
  const { hub, connect, log } = createHubHarness({ limits });
  for (let i = 0; i < 300; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => {
    if (log.reads === 2) log.trimTo(room, 10);
    return Promise.resolve();
  };
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  assert.equal(subscribe.recovered, true);
  await until(() => pushesOn(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushesOn(peer.socket, room, "unsubscribe")[0].code, 2500);
  assert.deepEqual(offsetsOn(peer.socket, room), []);
  const again = await sendCommand(peer, 3, { subscribe: { channel: room, recover: true, offset: 3 } });
  assert.equal(again.subscribe.recovered, undefined);
  await hub.drain();
});

Deno.test("a member removed during catch-up receives no further events", async () => {
  const { hub, connect, log, emit } = createHubHarness({ limits });
  for (let i = 0; i < 300; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => {
    if (log.reads === 3) {
      emit(room, "bye", { kind: "evict", principalIds: ["alice"], reason: "removed" });
    }
    return Promise.resolve();
  };
  await sendCommand(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  await until(() => pushesOn(peer.socket, room, "unsubscribe").length === 1);
  const offsets = offsetsOn(peer.socket, room);
  await pause(20);
  assert.deepEqual(offsets, seqsBetween(4, 103));
  assert.deepEqual(offsetsOn(peer.socket, room), offsets);
  await hub.drain();
});

Deno.test("after a refresh to a narrower token, the rest of a recovery is redacted", async () => {
  const ownStream = "principal:alice";
  const { hub, connect, log } = createHubHarness({ limits, eventFilterOf: ({ scopes }) => scopes && (() => false) });
  for (let i = 0; i < 300; i++) log.append(ownStream, i);
  const { promise, resolve } = Promise.withResolvers<void>();
  log.beforeRead = () => log.reads === 2 ? promise : Promise.resolve();
  const { socket, connection } = await connect("alice", { subs: { [ownStream]: { recover: true, offset: 0 } } });
  await until(() => log.reads === 2);
  connection.updateActor({ ...await authenticate("alice"), scopes: new Set(["task.read"]) });
  resolve();
  await until(() => offsetsOn(socket, ownStream).at(-1) === 300);
  const rest = pushesOn(socket, ownStream);
  assert.ok(rest.length > 100 && rest.every(({ data }) => data.type === "message.hidden"), `${rest.length} positions`);
  await hub.drain();
});

Deno.test("a burst beyond the outbox limit closes no connection of a client that reads", async () => {
  const { hub, connect, log, bus, metrics } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 20_000 } });
  const presence = { channel: room, join_leave: true };
  const [reader, other] = [await connect("alice"), await connect("bob")];
  for (const peer of [reader, other]) await sendCommand(peer, 2, { subscribe: presence });
  for (let burst = 1; burst <= 3; burst++) {
    const events = Array.from({ length: 40 }, () => log.append(room, "x".repeat(1000)));
    // In one message, or in many at once.
    const batches = burst === 1 ? [events] : events.map((event) => [event]);
    for (const batch of batches) bus.publish(streamKey(TENANT, room), { kind: "events", events: batch });
    await sendCommand(other, 2 + burst, {
      publish: { channel: room, data: { type: "typing", data: { typing: true } } },
    });
    await until(() => !reader.socket.isOpen || offsetsOn(reader.socket, room).at(-1) === 40 * burst);
  }
  const last = log.append(room, "after");
  bus.publish(streamKey(TENANT, room), { kind: "events", events: [last] });
  await until(() => [reader, other].every(({ socket }) => offsetsOn(socket, room).at(-1) === 121));
  for (const { socket } of [reader, other]) {
    assert.deepEqual(offsetsOn(socket, room), seqsBetween(1, 121));
    assert.equal(socket.closedWith, undefined);
  }
  // How full an outbox is when somebody types depends on the pace: what does not fit is counted.
  const isTyping = ({ data }: { data?: { type: string } }): boolean => data?.type === "typing";
  const typed = [reader, other].reduce((sum, { socket }) => sum + pushesOn(socket, room).filter(isTyping).length, 0);
  const dropped = /svc_pool_messages_dropped_total (\d+)\n/.exec(await metrics.registry.metrics())?.[1];
  assert.equal(typed + Number(dropped), 6);
  await hub.drain();
});

Deno.test("an event longer than the outbox limit closes the connection", async () => {
  const { hub, connect, emit } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 20_000 } });
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  emit(room, "x".repeat(20_000));
  await until(() => !peer.socket.isOpen);
  assert.equal(peer.socket.closedWith?.code, 3008);
  await hub.drain();
});

Deno.test("ephemeral messages that do not fit beside a burst are dropped and counted", async () => {
  const { hub, connect, log, bus, metrics } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 20_000 } });
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  const events = Array.from({ length: 18 }, () => log.append(room, "x".repeat(1000)));
  bus.publish(streamKey(TENANT, room), { kind: "events", events });
  hub.publish({ tenantId: TENANT, channel: room, json: JSON.stringify("y".repeat(1500)) });
  await until(() => offsetsOn(peer.socket, room).at(-1) === 18);
  assert.equal(peer.socket.closedWith, undefined);
  assert.equal(pushesOn(peer.socket, room).length, 18);
  assert.match(await metrics.registry.metrics(), /svc_pool_messages_dropped_total 1\n/);
  await hub.drain();
});
