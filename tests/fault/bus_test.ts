// A bus that loses, repeats and delays messages between two nodes on one store: subscribers see every event once, in order.
import assert from "node:assert/strict";
import * as fc from "npm:fast-check@4.10.2";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { MemoryPresence } from "@/adapters/presence/memory.ts";
import { openSqliteStore } from "@/adapters/store/sqlite/store.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import { systemClock } from "@/core/time/clock.ts";
import { createDispatch } from "@/core/dispatch.ts";
import { Metrics } from "@/core/metrics.ts";
import { type EventLog, streamKey } from "@/ports/store.ts";
import { Hub } from "@/transport/ws/hub.ts";
import { authenticate, FakeRooms, FakeSocket, offsetsOn, TENANT, TEST_LIMITS } from "../transport/ws_harness.ts";
import { allEnded, eventually } from "../wait.ts";

const STREAM = "room:a";
const RUNS = 60;

/** What becomes of one message on its way to one node: how many copies arrive, and how many later ones overtake it. */
type DeliveryPlan = { copies: number; overtakenBy: number };
type Step = { events: number; fates: readonly [DeliveryPlan, DeliveryPlan] };

const deliveryPlan: fc.Arbitrary<DeliveryPlan> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ copies: 1, overtakenBy: 0 }) },
  {
    weight: 2,
    arbitrary: fc.record({ copies: fc.integer({ min: 0, max: 3 }), overtakenBy: fc.integer({ min: 0, max: 4 }) }),
  },
);
const step: fc.Arbitrary<Step> = fc.record({
  events: fc.integer({ min: 1, max: 3 }),
  fates: fc.tuple(deliveryPlan, deliveryPlan),
});

/** One node's end of the bus. */
class UnreliableBus implements Bus {
  readonly isHealthy = true;
  readonly isCurrent = true;
  onLost: () => void = () => {};
  onRecovered: () => void = () => {};
  readonly #inner = new MemoryBus();
  #delayed: { after: number; deliver: () => void }[] = [];

  publish(topic: string, message: BusMessage): void {
    this.#inner.publish(topic, message);
  }

  /** Delivers a message the way `fate` says, and those it was the last to overtake. */
  transmit(topic: string, message: BusMessage, { copies, overtakenBy }: DeliveryPlan): void {
    const deliver = () => {
      for (let copy = 0; copy < copies; copy++) this.#inner.publish(topic, message);
    };
    for (const late of this.#delayed) late.after--;
    if (overtakenBy > 0) this.#delayed.push({ after: overtakenBy, deliver });
    else deliver();
    const due = this.#delayed.filter(({ after }) => after <= 0);
    this.#delayed = this.#delayed.filter(({ after }) => after > 0);
    for (const late of due) late.deliver();
  }

  flush(): undefined {
    return undefined;
  }

  subscribe(topic: string, listener: (message: BusMessage) => void): Promise<BusSubscription> {
    return this.#inner.subscribe(topic, listener);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

Deno.test("a bus that loses, doubles and swaps messages between two nodes is not seen by anybody", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), fc.nat(30), async (steps, lateAt) => {
      const store = openSqliteStore(":memory:", { clock: systemClock });
      await store.migrate();
      const buses = [new UnreliableBus(), new UnreliableBus()];
      const nodes = buses.map((bus) => node(bus, store.log));
      const heard = await allEnded(nodes.map(listen));
      let head = 0;
      for (const [at, { events, fates }] of steps.entries()) {
        const told: BusMessage[] = [];
        store.onCommit = ({ events }) => void told.push({ kind: "events", events });
        await store.write(async (tx) => {
          for (let count = 0; count < events; count++) {
            await tx.emit({ tenantId: TENANT, stream: STREAM, type: "message.created", data: { at } });
          }
        });
        head += events;
        for (const message of told) {
          buses.forEach((bus, node) => bus.transmit(streamKey(TENANT, STREAM), message, fates[node] ?? fates[0]));
        }
        // A client that connects in the middle of it, without a position.
        if (at === lateAt && nodes[0] !== undefined) heard.push(await listen(nodes[0]));
      }
      const line = Array.from({ length: head }, (_, seq) => seq + 1);
      for (const seqs of heard) await eventually(() => assert.deepEqual(seqs(), line));
      await Promise.all(nodes.map((hub) => hub.drain()));
      await store.close();
    }),
    { numRuns: RUNS },
  );
});

function node(bus: Bus, log: EventLog): Hub {
  const metrics = new Metrics();
  const writeRate = { perSecond: 1, burst: 1 };
  return new Hub({
    eventFilterOf: () => undefined,
    bus,
    log,
    presence: new MemoryPresence(),
    channels: [new FakeRooms().kind],
    operations: new Map(),
    dispatch: createDispatch({ metrics, consumeRate: undefined, writeRate }),
    metrics,
    clock: systemClock,
    limits: { ...TEST_LIMITS, compareHeadsMs: 20 },
    version: "1",
    authenticate,
    connectData: () => Promise.resolve({}),
  });
}

/** A client that asks for everything from the start of the line; resolves to what it has seen, once it listens. */
async function listen(hub: Hub): Promise<() => number[]> {
  const socket = new FakeSocket();
  const connection = hub.open(socket, { ip: "::1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: "alice" } }));
  connection.receive(JSON.stringify({ id: 2, subscribe: { channel: STREAM, recover: true, offset: 0, epoch: "" } }));
  const reply = () => socket.messages.find(({ id }) => id === 2);
  await eventually(() => assert.ok(reply()));
  return () => [
    ...(reply().subscribe.publications ?? []).map(({ offset }: { offset: number }) => offset),
    ...offsetsOn(socket, STREAM),
  ];
}
