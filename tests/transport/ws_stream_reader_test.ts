// StreamReader delivers every event once and in order, although the bus loses, repeats or reorders events.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { defineSignal, type StoredEvent } from "@/core/event/event.ts";
import { streamKey } from "@/ports/store.ts";
import { BusProbe } from "@/transport/ws/bus_probe.ts";
import { StreamReader } from "@/transport/ws/stream_reader.ts";
import { until } from "../wait.ts";
import { createHubHarness, FakeLog, offsetsOn, pushesOn, sendCommand, TENANT, TEST_LIMITS } from "./ws_harness.ts";

const room = "room:a";

class FakeOwner {
  readonly tenantId = TENANT;
  readonly channel = room;
  readonly seqs: number[] = [];
  hasGap = false;
  deliver(events: readonly StoredEvent[]): void {
    this.seqs.push(...events.map((event) => event.seq));
  }
  onGap(): void {
    this.hasGap = true;
  }
}

Deno.test("StreamReader delivers every event once and in order, whatever the bus does", async () => {
  const step = fc.record({
    /** Events appended together and published in one message. */
    count: fc.integer({ min: 1, max: 4 }),
    fate: fc.constantFrom("published", "published", "lost", "repeated", "late"),
  });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 3 }), fc.array(step, { maxLength: 25 }), async (before, steps) => {
      const log = new FakeLog();
      const owner = new FakeOwner();
      const reader = new StreamReader(log, 0, owner);
      for (let i = 0; i < before; i++) log.append(room);
      await reader.start();
      const late: StoredEvent[][] = [];
      for (const { count, fate } of steps) {
        const events = Array.from({ length: count }, () => log.append(room));
        if (fate === "late") late.push(events);
        else if (fate !== "lost") reader.accept(events);
        if (fate === "repeated") reader.accept(events);
        if (late.length > 1) { for (const batch of late.splice(0).reverse()) reader.accept(batch); }
      }
      // A final published event, so that a loss before it is detected.
      reader.accept([log.append(room)]);
      const { head } = await log.position(TENANT, room);
      await until(() => reader.head === head);
      assert.deepEqual(owner.seqs, Array.from({ length: head - before }, (_, i) => before + i + 1));
      assert.equal(owner.hasGap, false);
      reader.close();
    }),
    { numRuns: 60 },
  );
});

Deno.test("StreamReader merges events received before its position is known", async () => {
  const log = new FakeLog();
  const owner = new FakeOwner();
  const reader = new StreamReader(log, 0, owner);
  const events = [1, 2, 3].map(() => log.append(room));
  const starting = reader.start();
  reader.accept(events.slice(1));
  reader.accept([log.append(room)]);
  await starting;
  assert.deepEqual(owner.seqs, [4]);
  assert.equal(reader.head, 4);
  reader.close();
});

Deno.test("StreamReader retries while the log is unavailable, and reports a gap for trimmed events", async () => {
  const log = new FakeLog();
  const owner = new FakeOwner();
  const reader = new StreamReader(log, 1, owner);
  await reader.start();
  log.isUnavailable = true;
  log.append(room);
  reader.accept([log.append(room)]);
  await until(() => log.reads > 2);
  assert.deepEqual(owner.seqs, []);
  log.isUnavailable = false;
  await until(() => owner.seqs.length === 2);
  assert.deepEqual(owner.seqs, [1, 2]);

  log.append(room);
  const fourth = log.append(room);
  log.trimTo(room, 1);
  reader.accept([fourth]);
  await until(() => owner.hasGap);
  assert.deepEqual(owner.seqs, [1, 2]);
});

Deno.test("StreamReader reports a gap when its stream is reset", async () => {
  const log = new FakeLog();
  const owner = new FakeOwner();
  const reader = new StreamReader(log, 1, owner);
  await reader.start();
  reader.accept([log.append(room)]);
  log.reset(room);
  reader.accept([log.append(room)]);
  assert.equal(owner.hasGap, true);
  assert.deepEqual(owner.seqs, [1]);
});

Deno.test("a gap that cannot be repaired makes subscribers recover from their position", async () => {
  const { hub, connect, log, bus, emit } = createHubHarness();
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  emit(room);
  log.append(room);
  const third = log.append(room);
  log.trimTo(room, 1);
  bus.publish(streamKey(TENANT, room), { kind: "events", events: [third] });
  await until(() => pushesOn(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushesOn(peer.socket, room, "unsubscribe")[0].code, 2500);
  const again = await sendCommand(peer, 3, { subscribe: { channel: room, recover: true, offset: 1 } });
  assert.equal(again.subscribe.recovered, undefined);
  assert.equal(again.subscribe.offset, 3);

  log.append("principal:alice");
  const afterGap = log.append("principal:alice");
  log.trimTo("principal:alice", 1);
  bus.publish(streamKey(TENANT, "principal:alice"), { kind: "events", events: [afterGap] });
  await until(() => !peer.socket.isOpen);
  assert.deepEqual(peer.socket.closedWith, { code: 3010, reason: "insufficient state" });
  await hub.drain();
});

Deno.test("comparing heads finds events lost by the bus, periodically and after a reconnect", async () => {
  const bus = new MemoryBus();
  const { hub, connect, log } = createHubHarness({ bus, limits: { ...TEST_LIMITS, compareHeadsMs: 30 } });
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  log.append(room);
  await until(() => offsetsOn(peer.socket, room).length === 1);
  log.append(room);
  bus.onRecovered();
  await until(() => offsetsOn(peer.socket, room).length === 2);
  log.reset(room);
  await until(() => pushesOn(peer.socket, room, "unsubscribe").length === 1);
  await hub.drain();
});

Deno.test("comparing heads closes the connections of a principal before they receive what was written after that", async () => {
  const { hub, connect, log, bus } = createHubHarness({ bus: new MemoryBus() });
  const alice = await connect("alice");
  await sendCommand(alice, 2, { subscribe: { channel: room } });
  const bob = await connect("bob");
  await sendCommand(bob, 2, { subscribe: { channel: room } });
  log.append("principal:bob", null, { kind: "disconnect", reason: "principal disabled" });
  log.append(room, "secret");
  bus.onRecovered();
  await until(() => offsetsOn(alice.socket, room).length === 1 && !bob.socket.isOpen);
  assert.deepEqual(offsetsOn(bob.socket, room), []);
  await hub.drain();
});

Deno.test("repairing a gap applies an eviction lost by the bus", async () => {
  const { hub, connect, log, emit } = createHubHarness();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await sendCommand(peer, 2, { subscribe: { channel: room } });
  log.append(room, null, { kind: "evict", principalIds: ["bob"], reason: "removed" });
  emit(room, "secret");
  await until(() => offsetsOn(alice.socket, room).length === 2);
  assert.deepEqual(offsetsOn(bob.socket, room), []);
  assert.equal(pushesOn(bob.socket, room, "unsubscribe")[0].reason, "removed");
  await hub.drain();
});

Deno.test("MemoryBus preserves the order of nested publishes, and isolates a failing subscriber", async () => {
  const bus = new MemoryBus();
  const received: string[] = [];
  const signal = (id: string) => ({ kind: "signal", signal: defineSignal("x").create("", id) }) as const;
  await bus.subscribe("x", (message) => {
    if (message.kind === "signal" && message.signal.id === "first") bus.publish("x", signal("second"));
  });
  await bus.subscribe("x", () => {
    throw new Error("a bug");
  });
  const last = await bus.subscribe("x", (message) => message.kind === "signal" && received.push(message.signal.id));
  bus.publish("x", signal("first"));
  assert.deepEqual(received, ["first", "second"]);
  last.close();
  bus.publish("x", signal("third"));
  assert.deepEqual(received, ["first", "second"]);
  await bus.close();
});

Deno.test("BusProbe resolves on a working bus and times out on a broken one", async () => {
  const brokenBus = new MemoryBus();
  const working = createHubHarness();
  await working.hub.probeBus();
  await working.hub.probeBus();
  await working.hub.drain();
  brokenBus.publish = () => {};
  const probe = new BusProbe(brokenBus, 20);
  await assert.rejects(probe.probe(), /response from the bus within 20 ms/);
  probe.close();
  // A load balancer that waits for readiness takes a second without a response as a failure.
  const usual = new BusProbe(brokenBus);
  await assert.rejects(usual.probe(), /response from the bus within 500 ms/);
  usual.close();
});

Deno.test("StreamReader repairs a gap without delay after reads without events", async () => {
  const log = new FakeLog();
  const owner = new FakeOwner();
  const reader = new StreamReader(log, 5, owner);
  await reader.start();
  for (let i = 0; i < 20; i++) await reader.catchUp();
  log.append(room);
  // With a backoff after each of these reads, the repair would be too late for this wait.
  reader.accept([log.append(room)]);
  await until(() => owner.seqs.length === 2);
  reader.close();
});
