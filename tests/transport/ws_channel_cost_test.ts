// Commands about channels: a client that sends many of them at once pays for what they take.
import assert from "node:assert/strict";
import { measureCpu } from "@/core/caller.ts";
import type { ChannelKind } from "@/core/channel.ts";
import { CpuBudget } from "@/core/cpu_budget.ts";
import { createHubHarness, sendCommand, TEST_LIMITS } from "./ws_harness.ts";
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
