// Commands that are not operations: a client that sends many of them at once pays for what they take.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { setImmediate } from "node:timers";
import { measureCpu } from "@/core/caller.ts";
import type { ChannelKind } from "@/core/event/channel.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { NOTHING_PREPARED, type Operation, Outcome } from "@/core/operation.ts";
import type { HubDeps } from "@/transport/ws/hub.ts";
import { createHubHarness, sendCommand, TENANT, TEST_LIMITS } from "./ws_harness.ts";
import { replace } from "../replace.ts";
import { until } from "../wait.ts";

Deno.test("subscriptions are charged to their caller, and refused while it owes too much; those of others are not", async () => {
  const time = { now: 1000 };
  const checks = { alice: 0, bob: 0 };
  const slow: ChannelKind = {
    prefix: "slow",
    summary: "A channel whose rights take long to check",
    isDurable: false,
    presenceMax: 0,
    ephemeral: {},
    authorize: (actor) => {
      checks[actor.principalId as keyof typeof checks]++;
      measureCpu(() => time.now += 50);
      return Promise.resolve();
    },
  };
  const { hub, connect } = createHubHarness({
    channels: [slow],
    cpu: new CpuBudget({ percent: 10, now: () => time.now }),
    limits: { ...TEST_LIMITS, subscriptionsMax: 1000 },
  });
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  assert.ok((await sendCommand(bob, 2, { subscribe: { channel: "slow:first" } })).subscribe);
  const count = 300;
  for (let n = 0; n < count; n++) {
    alice.connection.receive(JSON.stringify({ id: 10 + n, subscribe: { channel: `slow:${n}` } }));
  }
  const replies = () => alice.socket.messages.filter(({ id }) => id >= 10);
  await until(() => replies().length === count);
  const refused = replies().filter(({ error }) => error?.code === 111);
  // Its burst, and what a socket may owe: 4 s, with what came back meanwhile.
  assert.ok(checks.alice <= 90, `${checks.alice} checks`);
  assert.ok(refused.length >= count - checks.alice, `${refused.length} refused`);
  assert.ok((await sendCommand(bob, 3, { subscribe: { channel: "slow:second" } })).subscribe);
  await hub.drain();
});

Deno.test("connecting is charged to the caller, and refused while it owes too much; that of others is not", async () => {
  const time = { now: 1000 };
  let connected = 0;
  const { hub, connect } = createHubHarness({
    connectData: () => {
      connected++;
      return Promise.resolve(measureCpu(() => void (time.now += 50)));
    },
    cpu: new CpuBudget({ percent: 10, now: () => time.now }),
    limits: { ...TEST_LIMITS, rate: { perSecond: 1000, burst: 1000 } },
  });
  await connect("bob");
  const count = 150;
  let refused = 0;
  for (let n = 0; n < count; n++) {
    const { socket, connection } = await connect("alice");
    if (socket.messages[0]?.error?.code === 111) refused++;
    connection.onSocketClosed();
  }
  assert.ok(connected <= 100, `${connected} connected`);
  assert.equal(refused, count - (connected - 1));
  assert.equal((await connect("bob")).socket.messages[0]?.error, undefined);
  await hub.drain();
});

Deno.test("calls of operations that do not exist are charged to their caller, since similar names are looked for", async () => {
  const time = { now: 1000 };
  let lookups = 0;
  class SlowNames extends Map<string, Operation> {
    override keys(): MapIterator<string> {
      lookups++;
      time.now += 50;
      return super.keys();
    }
  }
  const { hub, connect } = createHubHarness({
    operations: new SlowNames(),
    cpu: new CpuBudget({ percent: 10, now: () => time.now }),
    limits: TEST_LIMITS,
  });
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  assert.equal((await sendCommand(bob, 2, { rpc: { method: "room.lits", data: {} } })).error.code, 104);
  const count = 300;
  for (let n = 0; n < count; n++) {
    alice.connection.receive(JSON.stringify({ id: 10 + n, rpc: { method: `room.lits${n}`, data: {} } }));
  }
  const replies = () => alice.socket.messages.filter(({ id }) => id >= 10);
  await until(() => replies().length === count);
  const refused = replies().filter(({ error }) => error?.code === 111);
  assert.ok(lookups <= 91, `${lookups} lookups`);
  assert.equal(refused.length, count - (lookups - 1));
  assert.equal((await sendCommand(bob, 3, { rpc: { method: "room.lits", data: {} } })).error.code, 104);
  await hub.drain();
});

Deno.test("encoding the reply of a call is charged to its caller, also if it is too long for a socket", async () => {
  const time = { now: 1000 };
  const text = "x".repeat(TEST_LIMITS.outboxMaxBytes);
  const dispatch: HubDeps["dispatch"] = Object.assign(
    () => Promise.resolve(new Outcome({ text, toJSON: () => (time.now += 50, { text }) })),
    { prepare: () => Promise.resolve(NOTHING_PREPARED) },
  );
  const cpu = new CpuBudget({ percent: 10, now: () => time.now });
  const { hub, connect } = createHubHarness({ dispatch, cpu, limits: TEST_LIMITS });
  const alice = await connect("alice");
  const measured: number[] = [];
  const { byteLength } = Buffer;
  {
    using _measuring = replace(Buffer, "byteLength", (value, encoding) => {
      if (typeof value === "string") measured.push(value.length);
      return byteLength(value, encoding);
    });
    const { error } = await sendCommand(alice, 2, { rpc: { method: "test.echo", data: {} } });
    assert.equal(error.code, 413);
  }
  assert.ok(measured.length > 0 && Math.max(...measured) < text.length, "it is not measured, which would copy it");
  assert.equal(cpu.accountOf({ tenantId: TENANT, ownerId: null, principalId: "alice", kind: "human" }).consumedMs, 50);
  await hub.drain();
});

for (
  const [what, command] of [
    ["history", { history: { channel: "room:1", limit: -1 } }],
    ["recovery", { subscribe: { channel: "room:1", recover: true, offset: 0, epoch: "" } }],
  ] as const
) {
  Deno.test(`a long ${what} lets others have their turn after each page`, async () => {
    const time = { now: 1000 };
    const { hub, connect, log } = createHubHarness({
      cpu: new CpuBudget({ percent: 10, now: () => time.now }),
      limits: { ...TEST_LIMITS, replyMaxEvents: 1000, replyMaxBytes: 1024 * 1024 },
    });
    for (let n = 0; n < 1000; n++) log.append("room:1");
    log.beforeRead = () => Promise.resolve(measureCpu(() => void (time.now += 5)));
    log.reads = 0;
    const alice = await connect("alice");
    let isDone = false;
    const reply = sendCommand(alice, 2, command).finally(() => isDone = true);
    let most = 0;
    for (let before = 0; !isDone; before = log.reads) {
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, log.reads - before);
    }
    const { history, subscribe } = await reply;
    assert.equal((history ?? subscribe).publications.length, 1000);
    assert.ok(most <= 2, `${most} pages in a tick`);
    await hub.drain();
  });
}
