// Contiguity: whatever the bus loses, doubles or swaps, every event is handed on once and in order.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { MemoryBus } from "@/adapters/bus_memory.ts";
import type { StoredEvent } from "@/core/event.ts";
import { streamKey } from "@/ports/store.ts";
import { Canary } from "@/transport/ws/canary.ts";
import { Sequence } from "@/transport/ws/sequence.ts";
import { until } from "../wait.ts";
import { ask, FakeLog, offsets, pushes, rig, SMALL, TENANT } from "./ws_rig.ts";

const room = "room:a";

class Owner {
  readonly tenantId = TENANT;
  readonly channel = room;
  readonly seen: number[] = [];
  isLost = false;
  deliver(events: readonly StoredEvent[]): void {
    this.seen.push(...events.map((event) => event.seq));
  }
  lost(): void {
    this.isLost = true;
  }
}

Deno.test("Sequence hands on every event once and in order, whatever the bus does", async () => {
  const step = fc.record({
    /** Events appended together, told as one message. */
    count: fc.integer({ min: 1, max: 4 }),
    fate: fc.constantFrom("told", "told", "lost", "doubled", "late"),
  });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 3 }), fc.array(step, { maxLength: 25 }), async (before, steps) => {
      const log = new FakeLog();
      const owner = new Owner();
      const sequence = new Sequence(log, 0, owner);
      for (let i = 0; i < before; i++) log.append(room);
      await sequence.start();
      const late: StoredEvent[][] = [];
      for (const { count, fate } of steps) {
        const events = Array.from({ length: count }, () => log.append(room));
        if (fate === "late") late.push(events);
        else if (fate !== "lost") sequence.accept(events);
        if (fate === "doubled") sequence.accept(events);
        if (late.length > 1) { for (const held of late.splice(0).reverse()) sequence.accept(held); }
      }
      // One more that arrives, so that even a loss at the end is noticed.
      sequence.accept([log.append(room)]);
      const { head } = await log.position(TENANT, room);
      await until(() => sequence.head === head);
      assert.deepEqual(owner.seen, Array.from({ length: head - before }, (_, i) => before + i + 1));
      assert.equal(owner.isLost, false);
      sequence.close();
    }),
    { numRuns: 60 },
  );
});

Deno.test("Sequence sorts in what arrives before its position is known", async () => {
  const log = new FakeLog();
  const owner = new Owner();
  const sequence = new Sequence(log, 0, owner);
  const events = [1, 2, 3].map(() => log.append(room));
  const starting = sequence.start();
  sequence.accept(events.slice(1));
  sequence.accept([log.append(room)]);
  await starting;
  assert.deepEqual(owner.seen, [4]);
  assert.equal(sequence.head, 4);
  sequence.close();
});

Deno.test("Sequence keeps trying while the log is away, and gives up on what the log does not have", async () => {
  const log = new FakeLog();
  const owner = new Owner();
  const sequence = new Sequence(log, 1, owner);
  await sequence.start();
  log.isAway = true;
  log.append(room);
  sequence.accept([log.append(room)]);
  await until(() => log.reads > 2);
  assert.deepEqual(owner.seen, []);
  log.isAway = false;
  await until(() => owner.seen.length === 2);
  assert.deepEqual(owner.seen, [1, 2]);

  log.append(room);
  const fourth = log.append(room);
  log.trimTo(room, 1);
  sequence.accept([fourth]);
  await until(() => owner.isLost);
  assert.deepEqual(owner.seen, [1, 2]);
});

Deno.test("Sequence is lost when its stream starts over", async () => {
  const log = new FakeLog();
  const owner = new Owner();
  const sequence = new Sequence(log, 1, owner);
  await sequence.start();
  sequence.accept([log.append(room)]);
  log.reset(room);
  sequence.accept([log.append(room)]);
  assert.equal(owner.isLost, true);
  assert.deepEqual(owner.seen, [1]);
});

Deno.test("a hole that cannot be filled sends subscribers back with the position they have", async () => {
  const { hub, connect, log, bus, emit } = rig();
  const peer = await connect();
  await ask(peer, 2, { subscribe: { channel: room } });
  emit(room);
  log.append(room);
  const third = log.append(room);
  log.trimTo(room, 1);
  bus.publish(streamKey(TENANT, room), { kind: "events", events: [third] });
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushes(peer.socket, room, "unsubscribe")[0].code, 2500);
  const again = await ask(peer, 3, { subscribe: { channel: room, recover: true, offset: 1 } });
  assert.equal(again.subscribe.recovered, undefined);
  assert.equal(again.subscribe.offset, 3);

  log.append("principal:alice");
  const lost = log.append("principal:alice");
  log.trimTo("principal:alice", 1);
  bus.publish(streamKey(TENANT, "principal:alice"), { kind: "events", events: [lost] });
  await until(() => !peer.socket.isOpen);
  assert.deepEqual(peer.socket.closedWith, { code: 3010, reason: "insufficient state" });
  await hub.drain();
});

Deno.test("what the bus lost without a trace is found by comparing heads, and when the bus is back", async () => {
  const bus = new MemoryBus();
  const { hub, connect, log } = rig({ bus, limits: { ...SMALL, compareHeadsMs: 30 } });
  const peer = await connect();
  await ask(peer, 2, { subscribe: { channel: room } });
  log.append(room);
  await until(() => offsets(peer.socket, room).length === 1);
  log.append(room);
  bus.onRecovered();
  await until(() => offsets(peer.socket, room).length === 2);
  log.reset(room);
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  await hub.drain();
});

Deno.test("an eviction lost by the bus is carried out by the repair", async () => {
  const { hub, connect, log, emit } = rig();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  for (const peer of [alice, bob]) await ask(peer, 2, { subscribe: { channel: room } });
  log.append(room, null, { kind: "evict", principalIds: ["bob"], reason: "removed" });
  emit(room, "secret");
  await until(() => offsets(alice.socket, room).length === 2);
  assert.deepEqual(offsets(bob.socket, room), []);
  assert.equal(pushes(bob.socket, room, "unsubscribe")[0].reason, "removed");
  await hub.drain();
});

Deno.test("MemoryBus keeps the order of what is published while it delivers, and one failing listener is alone", async () => {
  const bus = new MemoryBus();
  const heard: string[] = [];
  const signal = (id: string) => ({ kind: "signal", signal: { kind: "x", tenantId: "", id } }) as const;
  await bus.subscribe("x", (message) => {
    if (message.kind === "signal" && message.signal.id === "first") bus.publish("x", signal("second"));
  });
  await bus.subscribe("x", () => {
    throw new Error("a bug");
  });
  const last = await bus.subscribe("x", (message) => message.kind === "signal" && heard.push(message.signal.id));
  bus.publish("x", signal("first"));
  assert.deepEqual(heard, ["first", "second"]);
  last.close();
  bus.publish("x", signal("third"));
  assert.deepEqual(heard, ["first", "second"]);
  await bus.close();
});

Deno.test("the canary comes back through a bus that works, and not through one that does not", async () => {
  const deaf = new MemoryBus();
  const working = rig();
  await working.hub.canary();
  await working.hub.canary();
  await working.hub.drain();
  deaf.publish = () => {};
  const canary = new Canary(deaf, 20);
  await assert.rejects(canary.probe(), /did not answer within 20 ms/);
  canary.close();
});

Deno.test("Sequence fills a hole as soon after readings that brought nothing as ever", async () => {
  const log = new FakeLog();
  const owner = new Owner();
  const sequence = new Sequence(log, 5, owner);
  await sequence.start();
  for (let i = 0; i < 20; i++) await sequence.catchUp();
  log.append(room);
  const startedAt = performance.now();
  sequence.accept([log.append(room)]);
  await until(() => owner.seen.length === 2);
  assert.ok(performance.now() - startedAt < 500);
  sequence.close();
});
