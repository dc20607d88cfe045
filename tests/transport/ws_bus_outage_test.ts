// During a bus outage the log is read for removals before an ephemeral message is broadcast.
import assert from "node:assert/strict";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { coalesce } from "@/core/coalesce.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import { pause, until } from "../wait.ts";
import { createHubHarness, pushesOn, sendCommand, TENANT } from "./ws_harness.ts";

const room = "room:a";
const typing = { publish: { channel: room, data: { type: "typing", data: { typing: true } } } };

/** A bus with simulated outages: the node still receives its harness messages, as with Redis. */
class InterruptibleBus implements Bus {
  isHealthy = true;
  readonly isCurrent = true;
  onLost: () => void = () => {};
  onRecovered: () => void = () => {};
  readonly #inner = new MemoryBus();

  publish(topic: string, message: BusMessage): void {
    this.#inner.publish(topic, message);
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

async function openRoomOfThree() {
  const bus = new InterruptibleBus();
  const harness = createHubHarness({ bus });
  const [alice, bob, carol] = await Promise.all(["alice", "bob", "carol"].map((name) => harness.connect(name)));
  assert.ok(alice && bob && carol);
  for (const peer of [alice, bob, carol]) await sendCommand(peer, 2, { subscribe: { channel: room } });
  const countTyping = (peer: typeof alice) =>
    pushesOn(peer.socket, room).filter(({ data }) => data.type === "typing").length;
  /** Another node removes bob, without a bus message. */
  const remove = () => harness.log.append(room, null, { kind: "evict", principalIds: ["bob"], reason: "removed" });
  return { ...harness, bus, alice, bob, carol, countTyping, remove };
}

Deno.test("during a bus outage removals are read from the log before a broadcast", async () => {
  const { hub, bus, alice, bob, carol, countTyping, remove } = await openRoomOfThree();
  bus.isHealthy = false;
  bus.onLost();
  remove();
  await sendCommand(alice, 3, typing);
  await until(() => countTyping(carol) === 1);
  assert.equal(countTyping(bob), 0);
  assert.equal(pushesOn(bob.socket, room, "unsubscribe")[0].code, 2000);
  await hub.drain();
});

Deno.test("what may be of any stream is not broadcast during a bus outage, and is authorized again after it", async () => {
  const { hub, bus, alice, carol } = await openRoomOfThree();
  const channel = "run:1";
  assert.ok((await sendCommand(carol, 3, { subscribe: { channel } })).subscribe);
  bus.isHealthy = false;
  bus.onLost();
  hub.publish({ tenantId: TENANT, channel, json: "{}" });
  // Published later, and received.
  await sendCommand(alice, 4, typing);
  await until(() => pushesOn(carol.socket, room).length > 0);
  assert.deepEqual(pushesOn(carol.socket, channel), []);
  bus.isHealthy = true;
  bus.onRecovered();
  await until(() => pushesOn(carol.socket, channel, "unsubscribe").length > 0);
  assert.equal(pushesOn(carol.socket, channel, "unsubscribe")[0].code, 2500);
  await hub.drain();
});

Deno.test("ephemeral messages wait for the comparison of heads after a reconnect, but not after it", async () => {
  const { hub, log, bus, alice, bob, carol, countTyping, remove } = await openRoomOfThree();
  bus.isHealthy = false;
  bus.onLost();
  await pause(5);
  remove();
  bus.isHealthy = true;
  await sendCommand(alice, 3, typing);
  await until(() => countTyping(carol) === 1);
  assert.equal(countTyping(bob), 0);
  let heads = 0;
  const readHeads = log.heads.bind(log);
  log.heads = (streams) => (heads++, readHeads(streams));
  bus.onRecovered();
  await until(() => heads > 0, "the comparison");
  await pause(5);
  const { reads } = log;
  heads = 0;
  await sendCommand(alice, 4, typing);
  await until(() => countTyping(carol) === 2);
  assert.deepEqual([log.reads, heads], [reads, 0]);
  await hub.drain();
});

Deno.test("ephemeral messages are dropped while both bus and log are unavailable", async () => {
  const { hub, log, bus, alice, bob, carol, countTyping, remove } = await openRoomOfThree();
  bus.isHealthy = false;
  bus.onLost();
  remove();
  log.isUnavailable = true;
  await sendCommand(alice, 3, typing);
  await pause(20);
  assert.deepEqual([bob, carol].map(countTyping), [0, 0]);
  log.isUnavailable = false;
  await sendCommand(alice, 4, typing);
  await until(() => countTyping(carol) === 1);
  assert.equal(countTyping(bob), 0);
  await hub.drain();
});

Deno.test("a coalesced call resolves with a run that started after it, shared with other calls", async () => {
  const rounds: PromiseWithResolvers<void>[] = [];
  const run = coalesce(async () => {
    const round = Promise.withResolvers<void>();
    const number = rounds.push(round);
    await round.promise;
    return number;
  });
  const first = [run(), run()];
  await until(() => rounds.length === 1);
  const second = [run(), run()];
  rounds[0]?.resolve();
  assert.deepEqual(await Promise.all(first), [1, 1]);
  await until(() => rounds.length === 2);
  rounds[1]?.reject(new Error("broken"));
  assert.deepEqual((await Promise.allSettled(second)).map(({ status }) => status), ["rejected", "rejected"]);
  const third = run();
  await until(() => rounds.length === 3);
  rounds[2]?.resolve();
  assert.equal(await third, 3);
});
