// What every presence promises, and what the Redis one promises besides when nodes or Redis go away.
import assert from "node:assert/strict";
import { MemoryPresence } from "@/adapters/presence/memory.ts";
import { RedisPresence, type RedisPresenceOptions } from "@/adapters/presence/redis.ts";
import type { ClientInfo, Presence } from "@/ports/presence.ts";
import { captureLog } from "../log_capture.ts";
import { eventually, until, WAIT_MS } from "../wait.ts";
import { hasRedis, hasRedisServer, sendRedisCommand, startRedis, withRedis } from "./redis_server.ts";

/** Two nodes that share presence; in memory both are the same. */
type Nodes = { here: Presence; there: Presence };

/** They wait for a response of Redis, however busy the machine is. */
const PATIENT: RedisPresenceOptions = { commandTimeoutMs: WAIT_MS };
const ADA: ClientInfo = { user: "ada", client: "c1", conn_info: { name: "Ada", tags: ["ü", 1] } };
const BOB: ClientInfo = { user: "bob", client: "c2", chan_info: null };

const BACKENDS: { name: string; ignore: boolean; run: (body: (nodes: Nodes) => Promise<void>) => Promise<void> }[] = [
  { name: "memory", ignore: false, run: withMemory },
  { name: "redis", ignore: !hasRedis, run: (body) => withRedis((url, prefix) => withNodes(url, { prefix }, body)) },
];

for (const { name, ignore, run } of BACKENDS) {
  const test = (title: string, body: (nodes: Nodes) => Promise<void>): void =>
    Deno.test({ name: `presence ${name}: ${title}`, ignore, fn: () => run(body) });

  test("who is added on one node is listed on all, until removed", async ({ here, there }) => {
    here.add("room:a", ADA);
    there.add("room:a", BOB);
    await until(async () => (await here.list("room:a")).length === 2 && (await there.list("room:a")).length === 2);
    assert.deepEqual(sorted(await here.list("room:a")), [ADA, BOB]);
    assert.deepEqual(sorted(await there.list("room:a")), [ADA, BOB]);
    here.remove("room:a", ADA.client);
    await until(async () => (await there.list("room:a")).length === 1);
    assert.deepEqual(await here.list("room:a"), [BOB]);
    assert.deepEqual(await there.list("room:a"), [BOB]);
  });

  test("channels are apart, and an empty one lists nobody", async ({ here, there }) => {
    here.add("room:a", ADA);
    await until(async () => (await there.list("room:a")).length === 1);
    assert.deepEqual(await there.list("room:b"), []);
    here.remove("room:b", ADA.client);
    assert.deepEqual(await here.list("room:a"), [ADA]);
  });

  test("many channels are listed at once, each with its own", async ({ here, there }) => {
    here.add("room:a", ADA);
    there.add("room:a", BOB);
    there.add("room:c", BOB);
    const lists = async (): Promise<Map<string, ClientInfo[]>> => await here.listMany(["room:c", "room:b", "room:a"]);
    await until(async () => [...(await lists()).values()].flat().length === 3);
    assert.deepEqual([...(await lists()).keys()], ["room:c", "room:b", "room:a"]);
    assert.deepEqual([...(await lists()).values()].map(sorted), [[BOB], [], [ADA, BOB]]);
    assert.deepEqual(await here.listMany([]), new Map());
  });

  test("a client added again is listed once, as it is now", async ({ here, there }) => {
    const renamed = { ...ADA, conn_info: { name: "Ada L." } };
    here.add("room:a", ADA);
    here.add("room:a", renamed);
    await until(async () => (await there.list("room:a")).length === 1);
    assert.deepEqual(await there.list("room:a"), [renamed]);
  });
}

const redisTest = (title: string, fn: () => Promise<void>): void =>
  Deno.test({ name: `presence redis: ${title}`, ignore: !hasRedisServer, fn });

redisTest("the entries of a node that died end, and leave nothing behind", async () => {
  await using server = await startRedis();
  const [staying, looking] = [1, 2].map(() => new RedisPresence(server.url, { ...PATIENT, heartbeatMs: 50 }));
  assert.ok(staying && looking);
  staying.add("room:a", BOB);
  const nodes = async () => await sendRedisCommand(server.url, "KEYS", "svc:node:*") as string[]; // what it responds
  await until(async () => (await looking.list("room:a")).length === 1 && (await nodes()).length === 2);
  const before = new Set(await nodes());
  const dying = new RedisPresence(server.url, { ...PATIENT, heartbeatMs: 1_000_000, ttlMs: 2 * WAIT_MS });
  dying.add("room:a", ADA);
  await until(async () => (await looking.list("room:a")).length === 2);
  const [key = "", ...others] = (await nodes()).filter((name) => !before.has(name));
  assert.deepEqual(others, []);
  const ttlMs = Number(await sendRedisCommand(server.url, "PTTL", key));
  assert.ok(ttlMs > 0 && ttlMs <= 2 * WAIT_MS, `${ttlMs}`);
  // As if so much time had passed: a busy machine may take longer to look than a node may be silent.
  await sendRedisCommand(server.url, "PEXPIRE", key, "1");
  await until(async () => (await looking.list("room:a")).length === 1);
  assert.deepEqual(await looking.list("room:a"), [BOB]);
  await until(async () => await sendRedisCommand(server.url, "HLEN", "svc:presence:room:a") === 1);
  assert.deepEqual(sorted(await dying.list("room:a")), [ADA, BOB]);
  await Promise.all([dying, staying, looking].map((presence) => presence.close()));
});

redisTest("a node that stops takes its entries along", async () => {
  await using server = await startRedis();
  await withNodes(server.url, {}, async ({ here, there }) => {
    here.add("room:a", ADA);
    await until(async () => (await there.list("room:a")).length === 1);
    await here.close();
    assert.deepEqual(await there.list("room:a"), []);
  });
});

redisTest("while Redis is away a node lists its own, and tells the others when it is back", async () => {
  await using server = await startRedis();
  await withNodes(server.url, {}, async ({ here, there }) => {
    here.add("room:a", ADA);
    there.add("room:a", BOB);
    await until(async () => (await here.list("room:a")).length === 2);
    await server.stop();
    assert.deepEqual(await here.list("room:a"), [ADA]);
    assert.deepEqual(await here.listMany(["room:b", "room:a"]), new Map([["room:b", []], ["room:a", [ADA]]]));
    const late = { user: "cleo", client: "c3" };
    here.remove("room:a", ADA.client);
    here.add("room:a", late);
    assert.deepEqual(await here.list("room:a"), [late]);
    await server.start();
    await until(async () => (await there.list("room:a")).length === 2);
    assert.deepEqual(sorted(await there.list("room:a")), [BOB, late]);
  });
});

redisTest("while Redis is a replica a node lists its own, and tells the others when it is a master again", async () => {
  await using server = await startRedis();
  await using master = await startRedis();
  await withNodes(server.url, { heartbeatMs: 100 }, async ({ here, there }) => {
    here.add("room:a", ADA);
    await until(async () => (await there.list("room:a")).length === 1);
    await server.demote(master);
    await until(async () => (await there.list("room:a")).length === 0);
    assert.deepEqual(await here.list("room:a"), [ADA]);
    here.remove("room:a", ADA.client);
    here.add("room:a", BOB);
    await server.promote();
    // Whichever node is back first: what the server had before counts until the other one is.
    await eventually(async () => assert.deepEqual(await there.list("room:a"), [BOB]));
  });
});

redisTest("a Redis that refuses what it is sent is told of once, and gets it when it takes it again", async () => {
  await using server = await startRedis();
  const records = await captureLog(
    ["gateway", "redis"],
    () =>
      withNodes(server.url, { heartbeatMs: 100 }, async ({ here, there }) => {
        await sendRedisCommand(server.url, "CONFIG", "SET", "maxmemory", "1");
        here.add("room:a", ADA);
        there.add("room:a", BOB);
        // Each node more than once.
        await until(async () => await countRefusals(server.url) >= 5, "refusals");
        assert.deepEqual(await there.list("room:a"), [BOB]);
        await sendRedisCommand(server.url, "CONFIG", "SET", "maxmemory", "0");
        await until(async () => (await there.list("room:a")).length === 2);
      }),
  );
  const refusals = records.filter(({ level }) => level === "warning");
  assert.deepEqual(refusals.map(({ properties }) => properties.cause), ["OOM"]);
});

redisTest("who left while the connection was cut does not stay behind", async () => {
  await using server = await startRedis();
  await withNodes(server.url, {}, async ({ here, there }) => {
    here.add("room:a", ADA);
    here.add("room:a", BOB);
    await until(async () => (await there.list("room:a")).length === 2);
    await sendRedisCommand(server.url, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await until(async () => (await here.list("room:a")).length === 2 && (await there.list("room:a")).length === 0);
    here.remove("room:a", ADA.client);
    // Whichever node is back first: what was written before the cut counts until the other one is.
    await eventually(async () => assert.deepEqual(await there.list("room:a"), [BOB]));
  });
});

redisTest("what Redis forgot or would not take is told again with a next beat", async () => {
  await using server = await startRedis();
  await withNodes(server.url, { heartbeatMs: 250, ttlMs: WAIT_MS }, async ({ here, there }) => {
    here.add("room:a", ADA);
    await until(async () => (await there.list("room:a")).length === 1);
    await sendRedisCommand(server.url, "FLUSHALL");
    await until(async () => (await there.list("room:a")).length === 1);
    await sendRedisCommand(server.url, "CONFIG", "SET", "maxmemory", "1");
    here.add("room:a", BOB);
    await until(async () => await countRefusals(server.url) > 0);
    assert.deepEqual(await there.list("room:a"), [ADA], "what it had taken stands");
    await sendRedisCommand(server.url, "CONFIG", "SET", "maxmemory", "0");
    await until(async () => (await there.list("room:a")).length === 2);
    assert.deepEqual(sorted(await there.list("room:a")), [ADA, BOB]);
  });
});

redisTest("a node that was taken for dead is heard of again", async () => {
  await using server = await startRedis();
  const options = { ...PATIENT, heartbeatMs: 1000, ttlMs: 200 };
  const [slow, looking] = [new RedisPresence(server.url, options), new RedisPresence(server.url, PATIENT)];
  slow.add("room:a", ADA);
  await until(async () => (await looking.list("room:a")).length === 1);
  await until(async () => (await looking.list("room:a")).length === 0);
  await until(async () => (await looking.list("room:a")).length === 1);
  await Promise.all([slow.close(), looking.close()]);
});

redisTest("thousands of entries return after Redis lost them", async () => {
  await using server = await startRedis();
  await withNodes(server.url, {}, async ({ here, there }) => {
    for (let index = 0; index < 3000; index++) here.add(`room:${index % 3}`, { user: "ada", client: `c${index}` });
    const isComplete = async (): Promise<boolean> => (await there.list("room:2")).length === 1000;
    await until(isComplete);
    await server.stop();
    await server.start();
    await until(isComplete);
  });
});

/** How often entries were refused there. */
async function countRefusals(url: string): Promise<number> {
  const stats = String(await sendRedisCommand(url, "INFO", "commandstats"));
  return Number(/cmdstat_set:.*rejected_calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

function sorted(infos: ClientInfo[]): ClientInfo[] {
  return infos.toSorted((a, b) => a.client.localeCompare(b.client));
}

async function withMemory(body: (nodes: Nodes) => Promise<void>): Promise<void> {
  const presence = new MemoryPresence();
  await body({ here: presence, there: presence });
  await presence.close();
}

async function withNodes(
  url: string,
  options: RedisPresenceOptions,
  body: (nodes: Nodes) => Promise<void>,
): Promise<void> {
  const [here, there] = [1, 2].map(() => new RedisPresence(url, { ...PATIENT, ...options }));
  assert.ok(here && there);
  try {
    await body({ here, there });
  } finally {
    await Promise.all([here.close(), there.close()]);
  }
}
