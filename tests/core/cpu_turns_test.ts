// Which calls have a tick of the event loop, by the CPU time that their callers have used.
import assert from "node:assert/strict";
import { setImmediate } from "node:timers";
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { createDispatch } from "@/core/dispatch.ts";
import { Metrics } from "@/core/metrics.ts";
import { defineOperation } from "@/core/operation.ts";

/** Calls that take 20 ms of a time that nothing else advances, or none. */
function openCalls() {
  const time = { now: 1000 };
  const ran: string[] = [];
  const cpu = new CpuBudget({ percent: 10, tenantPercent: 50, now: () => time.now });
  const dispatch = createDispatch({
    metrics: new Metrics(),
    consumeRate: undefined,
    writeRate: { perSecond: 1, burst: 1 },
    cpu,
  });
  const operationOf = (ms: number) =>
    defineOperation({
      name: "test.read",
      summary: "Use the thread",
      access: { scope: "test.read" },
      http: { method: "GET", path: "/v1/test", status: 200 },
      input: z.strictObject({}),
      output: z.strictObject({}),
      example: {},
      run({ actor }) {
        ran.push(actor.principalId);
        time.now += ms;
        return Promise.resolve({});
      },
    });
  const [long, short] = [operationOf(20), operationOf(0)];
  const call = (name: string, operation = long) => {
    const [principalId = "", tenantId = "default"] = name.split("/").reverse();
    const actor = { tenantId, principalId, ownerId: null, kind: "human", role: "member" } as Actor; // enough to call
    return dispatch(operation, { actor, input: {}, requestId: "1", via: "test" });
  };
  return { call, short, ran, cpu, time };
}

/** Until others have had a turn. */
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

Deno.test("of long calls of many members one runs a tick, and who has used least is first", async () => {
  const { call, short, ran } = openCalls();
  const calls = Array.from({ length: 30 }, (_, n) => [call(`m${n}`), call(`m${n}`)]).flat();
  let most = 0;
  while (ran.length < 35) {
    const before = ran.length;
    await tick();
    most = Math.max(most, ran.length - before);
  }
  assert.ok(most <= 2, `${most} in a tick`);
  // It comes last, and waits only for what has the tick.
  const before = ran.length;
  await call("honest", short);
  assert.ok(ran.indexOf("honest") - before <= 2, `${ran.indexOf("honest") - before} before it`);
  await Promise.all(calls);
  assert.equal(ran.length, 61);
});

Deno.test("who uses little is soon served beside many who call all the time, each within its share", async () => {
  const { call, short, ran, time } = openCalls();
  let isOver = false;
  const callAgain = async (name: string): Promise<void> => {
    while (!isOver) await call(name);
  };
  const many = Array.from({ length: 30 }, (_, n) => [callAgain(`many/m${n}`), callAgain(`many/m${n}`)]).flat();
  while (ran.length < 100) await tick();
  for (const name of ["many/honest", "other/honest"]) {
    for (const calls of [1, 5]) {
      const before = ran.length;
      const own = Promise.all(Array.from({ length: calls }, () => call(name, short)));
      let isServed = false;
      void own.then(() => isServed = true);
      while (!isServed && ran.length < before + 200) await tick();
      // One call of each of the others at most.
      assert.ok(isServed && ran.length - before <= 30 + calls, `${ran.length - before} for ${calls} of ${name}`);
    }
  }
  isOver = true;
  // Some wait for the share of their tenant.
  time.now += 10_000;
  await Promise.all(many);
});

Deno.test("short calls share a tick", async () => {
  const { call, short, ran } = openCalls();
  const calls = Array.from({ length: 200 }, (_, n) => call(`m${n}`, short));
  await tick();
  assert.equal(ran.length, 200);
  await Promise.all(calls);
});

Deno.test("slices of work take turns with calls, and neither waits for ever", async () => {
  const { call, ran, cpu, time } = openCalls();
  const importer = cpu.accountOf({ tenantId: "default", principalId: "importer", ownerId: null, kind: "human" });
  const calls = Array.from({ length: 200 }, (_, n) => call(`m${n % 20}`));
  for (let n = 0; n < 5; n++) {
    await importer.waitForSlice();
    ran.push("slice");
    time.now += 30; // and as long a pause
    importer.consume(15);
  }
  await Promise.all(calls);
  assert.equal(ran.length, 205);
  assert.ok(ran.lastIndexOf("slice") < ran.length - 1, ran.join(" "));
  assert.ok(ran.indexOf("m1") < ran.lastIndexOf("slice"), ran.join(" "));
});
