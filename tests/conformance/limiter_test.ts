// What every limiter promises, and what the Redis one promises besides: one count for all nodes, and none that waits.
import assert from "node:assert/strict";
import { MemoryLimiter, windowOf } from "@/adapters/limiter/memory.ts";
import { RedisLimiter, type RedisLimiterOptions } from "@/adapters/limiter/redis.ts";
import type { Limiter } from "@/ports/limiter.ts";
import { pause, until, WAIT_MS } from "../wait.ts";
import { hasRedis, hasRedisServer, sendRedisCommand, startRedis, withRedis } from "./redis_server.ts";

/** Its window of 100 s outlasts every test. */
const SLOW = { perSecond: 0.05, burst: 5 };
const FAST = { perSecond: 3, burst: 3 };

const BACKENDS: { name: string; ignore: boolean; run: (body: (limiter: Limiter) => Promise<void>) => Promise<void> }[] =
  [
    { name: "memory", ignore: false, run: withMemory },
    { name: "redis", ignore: !hasRedis, run: withOneNode },
  ];

for (const { name, ignore, run } of BACKENDS) {
  const test = (title: string, body: (limiter: Limiter) => Promise<void>): void =>
    Deno.test({ name: `limiter ${name}: ${title}`, ignore, fn: () => run(body) });

  test("a burst passes, one more does not, and says when to come back", async (limiter) => {
    for (let remaining = 4; remaining >= 0; remaining--) {
      const take = await limiter.consume("ada", SLOW);
      assert.deepEqual([take.isAllowed, take.limit, take.remaining], [true, 5, remaining]);
    }
    for (let again = 0; again < 3; again++) {
      const refused = await limiter.consume("ada", SLOW);
      assert.deepEqual([refused.isAllowed, refused.limit, refused.remaining], [false, 5, 0]);
      assert.ok(refused.resetMs > 0 && refused.resetMs <= 100_000, `${refused.resetMs}`);
    }
  });

  test("the tokens are back after the time they need", async (limiter) => {
    for (let window = 0; window < 2; window++) {
      // More than the burst where the machine pauses for longer than a window.
      let [passed, result] = [0, await limiter.consume("ada", FAST)];
      for (; result.isAllowed; passed++) result = await limiter.consume("ada", FAST);
      assert.ok(passed >= 3 && result.resetMs <= 1000, `${passed} passed, the next in ${result.resetMs} ms`);
      await pause(result.resetMs + 20);
    }
  });

  test("keys and rates have buckets of their own", async (limiter) => {
    for (let count = 0; count < 6; count++) await limiter.consume("ada", SLOW);
    assert.ok(!(await limiter.consume("ada", SLOW)).isAllowed);
    assert.ok((await limiter.consume("bob", SLOW)).isAllowed);
    assert.ok((await limiter.consume("ada", FAST)).isAllowed);
  });

  test("takes at the same moment never exceed the burst", async (limiter) => {
    const takes = await Promise.all(Array.from({ length: 50 }, () => limiter.consume("ada", SLOW)));
    assert.equal(takes.filter(({ isAllowed }) => isAllowed).length, 5);
  });
}

Deno.test("limiter: a window keeps the rate exactly, in whole seconds", () => {
  assert.deepEqual(windowOf({ perSecond: 10, burst: 100 }), { points: 100, duration: 10 });
  assert.deepEqual(windowOf({ perSecond: 0.5, burst: 30 }), { points: 30, duration: 60 });
  assert.deepEqual(windowOf({ perSecond: 20, burst: 5 }), { points: 20, duration: 1 });
  for (let burst = 1; burst <= 600; burst++) {
    const { points, duration } = windowOf({ perSecond: burst / 60, burst });
    assert.deepEqual([points, duration], [burst, 60]);
  }
  assert.deepEqual(windowOf({ perSecond: 0.001, burst: 1 }), { points: 1, duration: 1000 });
});

Deno.test("limiter memory: many addresses take no memory without limit, and one that calls meanwhile is counted", async () => {
  const limiter = new MemoryLimiter();
  for (let count = 0; count < 5; count++) {
    await limiter.consume("ada", SLOW);
    await limiter.consume("bob", SLOW);
  }
  for (let address = 0; address < 100_000; address++) {
    await limiter.consume(`address ${address}`, SLOW);
    if (address % 1000 === 0) assert.ok(!(await limiter.consume("ada", SLOW)).isAllowed);
  }
  assert.ok((await limiter.consume("bob", SLOW)).isAllowed);
});

Deno.test({
  name: "limiter redis: two nodes count together",
  ignore: !hasRedis,
  fn: () =>
    withRedis(async (url, prefix) => {
      await withNode(url, prefix, (here) =>
        withNode(url, prefix, async (there) => {
          for (let count = 0; count < 3; count++) await here.consume("ada", SLOW);
          assert.equal((await there.consume("ada", SLOW)).remaining, 1);
          assert.equal((await here.consume("ada", SLOW)).remaining, 0);
          assert.ok(!(await there.consume("ada", SLOW)).isAllowed);
          assert.ok(!(await here.consume("ada", SLOW)).isAllowed);
        }));
    }),
});

Deno.test({
  name: "limiter redis: while Redis is away each node counts alone, and together again afterwards",
  ignore: !hasRedisServer,
  fn: async () => {
    await using server = await startRedis();
    await withNode(server.url, "svc:", (here) =>
      withNode(server.url, "svc:", async (there) => {
        await here.consume("ada", SLOW);
        await server.stop();
        const takes = [];
        for (let count = 0; count < 6; count++) takes.push(await here.consume("ada", SLOW));
        assert.deepEqual(takes.map(({ isAllowed }) => isAllowed), [true, true, true, true, true, false]);
        assert.ok((await there.consume("ada", SLOW)).isAllowed);
        await server.start();
        await untilShared(here, there);
      }));
  },
});

Deno.test({
  name: "limiter redis: while Redis is a replica each node counts alone, and together again afterwards",
  ignore: !hasRedisServer,
  fn: async () => {
    await using server = await startRedis();
    await using master = await startRedis();
    await withNode(server.url, "svc:", (here) =>
      withNode(server.url, "svc:", async (there) => {
        await here.consume("ada", SLOW);
        await server.demote(master);
        for (let count = 0; count < 5; count++) assert.ok((await here.consume("ada", SLOW)).isAllowed);
        assert.ok(!(await here.consume("ada", SLOW)).isAllowed);
        assert.equal((await there.consume("ada", SLOW)).remaining, 4);
        await server.promote();
        await untilShared(here, there);
      }));
  },
});

Deno.test({
  name: "limiter redis: a Redis that hangs is waited for once, not by every call",
  ignore: !hasRedisServer,
  fn: async () => {
    await using server = await startRedis();
    await withNode(server.url, "svc:", async (limiter) => {
      await limiter.consume("ada", SLOW);
      const before = await scriptsRun(server.url);
      server.freeze();
      for (let count = 0; count < 20; count++) await limiter.consume("ada", SLOW);
      server.unfreeze();
      const asked = await scriptsRun(server.url) - before;
      // Again after a second, if that many calls take so long.
      assert.ok(asked >= 1 && asked <= 5, `Redis was asked ${asked} times`);
    }, {});
  },
});

/** Both nodes see one count again. */
async function untilShared(here: Limiter, there: Limiter): Promise<void> {
  let round = 0;
  await until(async () => {
    const key = `shared ${round++}`;
    await here.consume(key, SLOW);
    return (await there.consume(key, SLOW)).remaining === 3;
  });
}

async function withMemory(body: (limiter: Limiter) => Promise<void>): Promise<void> {
  const limiter = new MemoryLimiter();
  await body(limiter);
  await limiter.close();
}

async function withOneNode(body: (limiter: Limiter) => Promise<void>): Promise<void> {
  await withRedis((url, prefix) => withNode(url, prefix, body));
}

/** A node that waits for a response of Redis, however busy the machine is. */
async function withNode(
  url: string,
  prefix: string,
  body: (limiter: Limiter) => Promise<void>,
  options: RedisLimiterOptions = { commandTimeoutMs: WAIT_MS },
): Promise<void> {
  const limiter = new RedisLimiter(url, { prefix, ...options });
  try {
    await limiter.connected;
    await body(limiter);
  } finally {
    await limiter.close();
  }
}

/** How often scripts were run there. */
async function scriptsRun(url: string): Promise<number> {
  const stats = String(await sendRedisCommand(url, "INFO", "commandstats"));
  return [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}
