// What every bus promises, and what the Redis one also promises when Redis stops and restarts.
import assert from "node:assert/strict";
import { configure, type LogRecord, reset } from "@logtape/logtape";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { FLUSH_MAX_MS, RedisBus } from "@/adapters/bus/redis.ts";
import { RedisConnection } from "@/adapters/redis.ts";
import { compareSecrets } from "@/adapters/bus/secret_comparison.ts";
import { type Bus, type BusMessage, CONTROL_TOPIC } from "@/ports/bus.ts";
import { captureLog } from "../log_capture.ts";
import { pause, repeatFor, until } from "../wait.ts";
import { TcpProxy } from "./tcp_proxy.ts";
import { hasRedis, hasRedisServer, sendRedisCommand, startRedis, withRedis } from "./redis_server.ts";

/** Two nodes on one bus; on the memory bus both are the same. */
type Nodes = { here: Bus; there: Bus };

const BACKENDS: { name: string; ignore: boolean; run: (body: (nodes: Nodes) => Promise<void>) => Promise<void> }[] = [
  { name: "memory", ignore: false, run: withMemory },
  { name: "redis", ignore: !hasRedis, run: (body) => withRedis((url, prefix) => withNodes(url, prefix, body)) },
];

for (const { name, ignore, run } of BACKENDS) {
  const test = (title: string, body: (nodes: Nodes) => Promise<void>): void =>
    Deno.test({ name: `bus ${name}: ${title}`, ignore, fn: () => run(body) });

  test("messages of one topic arrive on every node in the order they were published", async ({ here, there }) => {
    const [atHere, atThere] = [await record(here, "room:a"), await record(there, "room:a")];
    const sent = Array.from({ length: 500 }, (_, index) => ephemeral(`${index}`));
    for (const message of sent) here.publish("room:a", message);
    await until(() => atHere.length >= 500 && atThere.length >= 500);
    assert.deepEqual(atHere, sent);
    assert.deepEqual(atThere, sent);
  });

  test("every node has received what was published before a flush", async ({ here, there }) => {
    const heard = await record(there, "room:a");
    for (let n = 1; n <= 50; n++) {
      here.publish("room:a", ephemeral(`${n}`));
      await here.flush();
      assert.equal(heard.length, n);
    }
  });

  test("what is published right before the end still arrives", async ({ here, there }) => {
    const heard = await record(there, "room:a");
    const sent = [ephemeral("1"), ephemeral("2")];
    for (const message of sent) here.publish("room:a", message);
    if (here !== there) await here.close();
    await until(() => heard.length >= sent.length);
    assert.deepEqual(heard, sent);
  });

  test("every kind of message arrives as it was sent", async ({ here, there }) => {
    const heard = await record(there, "control");
    const event = {
      tenantId: "t",
      stream: "room:a",
      epoch: "e",
      seq: 7,
      type: "message.sent",
      json: '{"text":"ü\\n"}',
    };
    const sent: BusMessage[] = [
      {
        kind: "events",
        events: [event, { ...event, seq: 8, effect: { kind: "evict", principalIds: "*", reason: "r" } }],
      },
      { kind: "ephemeral", event: { tenantId: "t", channel: "room:a", json: "{}", principalIds: ["ada"] } },
    ];
    for (const message of sent) here.publish("control", message);
    await until(() => heard.length >= sent.length);
    assert.deepEqual(heard, sent);
  });

  test("nodes with different secrets say so, both of them, and those with the same or the one before do not", async (nodes) => {
    const secretOf = (text: string): Uint8Array => new TextEncoder().encode(text);
    const [old, current, foreign] = [secretOf("old"), secretOf("current"), secretOf("foreign")] as const;
    const heard = [await record(nodes.here, CONTROL_TOPIC), await record(nodes.there, CONTROL_TOPIC)];
    // Those who compare listen after these, so they have read what these have received.
    const warned = (join: () => Promise<void>, signals: number) => {
      for (const list of heard) list.length = 0;
      return captureLog(["gateway", "main"], async () => {
        await join();
        await until(() => heard.every((list) => list.length >= signals));
      });
    };
    const joinAll = async (): Promise<void> => {
      await compareSecrets(nodes.here, [old]);
      await compareSecrets(nodes.there, [old]);
    };
    assert.equal((await warned(joinAll, 2)).length, 0);
    // The nodes with the old secret do not know the new one, but the other way around it is known.
    assert.equal((await warned(() => compareSecrets(nodes.there, [current, old]), 3)).length, 2);
    // Three nodes report the secret of this one, and it reports two others.
    assert.equal((await warned(() => compareSecrets(nodes.there, [foreign]), 4)).length, 3 + 2);
  });

  test("a subscription is active once it resolves, and only for its topic", async ({ here, there }) => {
    const other = await record(there, "room:b");
    for (let round = 0; round < 20; round++) {
      const heard = await record(there, `room:${round}`);
      here.publish(`room:${round}`, ephemeral("first"));
      await until(() => heard.length > 0);
    }
    assert.deepEqual(other, []);
  });

  test("listeners of one topic end one by one", async ({ here, there }) => {
    const counts = [0, 0];
    const first = await there.subscribe("room:a", () => counts[0] = (counts[0] ?? 0) + 1);
    const second = await there.subscribe("room:a", () => counts[1] = (counts[1] ?? 0) + 1);
    here.publish("room:a", ephemeral("both"));
    await until(() => counts[0] === 1 && counts[1] === 1);
    first.close();
    first.close();
    here.publish("room:a", ephemeral("second alone"));
    await until(() => counts[1] === 2);
    second.close();
    const marker = await record(there, "room:b");
    here.publish("room:a", ephemeral("nobody"));
    here.publish("room:b", ephemeral("marker"));
    await until(() => marker.length > 0);
    const again = await record(there, "room:a");
    here.publish("room:a", ephemeral("again"));
    await until(() => again.length > 0);
    assert.deepEqual(counts, [1, 2]);
    assert.deepEqual(again, [ephemeral("again")]);
  });

  test("a listener that throws does not keep a message from others", async ({ here, there }) => {
    await there.subscribe("room:a", () => {
      throw new Error("on purpose");
    });
    const heard = await record(there, "room:a");
    here.publish("room:a", ephemeral("1"));
    here.publish("room:a", ephemeral("2"));
    await until(() => heard.length >= 2);
  });
}

const redisTest = (title: string, fn: () => Promise<void>): void =>
  Deno.test({ name: `bus redis: ${title}`, ignore: !hasRedisServer, fn });

redisTest("subscriptions outlive a restart of Redis, each node is told of the loss, and to catch up", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ here, there }) => {
    const heard = await record(there, "room:a");
    const recoveries = { here: 0, there: 0 };
    const lost = new Set<string>();
    here.onLost = () => lost.add("here");
    there.onLost = () => lost.add("there");
    here.onRecovered = () => recoveries.here++;
    there.onRecovered = () => recoveries.there++;
    await server.stop();
    await until(() => !here.isHealthy && !there.isHealthy);
    assert.deepEqual(lost, new Set(["here", "there"]));
    const late = await record(there, "room:b");
    await server.start();
    await until(() => here.isHealthy && there.isHealthy && recoveries.here > 0 && recoveries.there > 0);
    here.publish("room:a", ephemeral("a"));
    here.publish("room:b", ephemeral("b"));
    await until(() => heard.length > 0 && late.length > 0);
    assert.deepEqual([heard, late], [[ephemeral("a")], [ephemeral("b")]]);
  });
});

redisTest("while Redis is away messages reach this node, are lost to others, and none is kept for later", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ here, there }) => {
    const [atHere, atThere] = [await record(here, "room:a"), await record(there, "room:a")];
    await server.stop();
    await until(() => !here.isHealthy && !there.isHealthy);
    for (let index = 0; index < 1000; index++) here.publish("room:a", ephemeral("away"));
    assert.equal(atHere.length, 1000);
    await server.start();
    await until(() => here.isHealthy && there.isHealthy);
    here.publish("room:a", ephemeral("back"));
    await until(() => atThere.length > 0 && atHere.length > 1000);
    assert.deepEqual(atThere, [ephemeral("back")]);
  });
});

redisTest("a node that lost messages tells nodes that noticed nothing", async () => {
  await using server = await startRedis();
  await sendRedisCommand(server.url, "ACL", "SETUSER", "loser", "on", ">secret", "~*", "&*", "+@all");
  const url = new URL(server.url);
  [url.username, url.password] = ["loser", "secret"];
  await withNodes(url.href, "svc:", async ({ here }) => {
    const there = new RedisBus(server.url, { prefix: "svc:" });
    let recoveries = 0;
    there.onRecovered = () => recoveries++;
    (await there.subscribe("warm-up", () => {})).close();
    await sendRedisCommand(server.url, "CLIENT", "KILL", "TYPE", "normal", "USER", "loser");
    await until(() => !here.isHealthy);
    here.publish("room:a", ephemeral("lost"));
    await until(() => recoveries > 0);
    await there.close();
  });
});

redisTest(
  "a Redis that becomes a replica is disconnected: health shows it, this node serves itself, and all catch up afterwards",
  async () => {
    await using server = await startRedis();
    await using master = await startRedis();
    await withNodes(server.url, "svc:", async ({ here, there }) => {
      const [atHere, atThere] = [await record(here, "room:a"), await record(there, "room:a")];
      const recoveries = { here: 0, there: 0 };
      await server.demote(master);
      await until(() => !here.isHealthy && !there.isHealthy);
      await repeatFor(1500, () => assert.ok(!here.isHealthy && !there.isHealthy));
      here.publish("room:a", ephemeral("alone"));
      assert.deepEqual(atHere, [ephemeral("alone")]);
      here.onRecovered = () => recoveries.here++;
      there.onRecovered = () => recoveries.there++;
      await server.promote();
      await until(() => here.isHealthy && there.isHealthy && recoveries.here > 0 && recoveries.there > 0);
      here.publish("room:a", ephemeral("together"));
      await until(() => atThere.length > 0 && atHere.length > 1);
      assert.deepEqual([atHere, atThere], [[ephemeral("alone"), ephemeral("together")], [ephemeral("together")]]);
    });
  },
);

redisTest("nodes go to the server that has the name by now, and listen where they send", async () => {
  await using before = await startRedis();
  await using after = await startRedis();
  await after.demote(before);
  await using name = new TcpProxy(before.url);
  await withNodes(name.url, "svc:", async ({ here, there }) => {
    const heard = await record(there, "room:a");
    let recoveries = 0;
    there.onRecovered = () => recoveries++;
    await after.promote();
    await before.demote(after);
    name.routeTo(after.url);
    await until(() => recoveries > 0 && here.isHealthy && there.isHealthy);
    const listeners = (url: string): Promise<unknown> => sendRedisCommand(url, "PUBSUB", "NUMSUB", "svc:bus:room:a");
    await until(async () => String(await listeners(after.url)) === "svc:bus:room:a,1");
    assert.deepEqual(await listeners(before.url), ["svc:bus:room:a", 0]);
    here.publish("room:a", ephemeral("moved"));
    await until(() => heard.length > 0);
    assert.deepEqual(heard, [ephemeral("moved")]);
  });
});

redisTest("what went to a replica before that was known is told as lost", async () => {
  await using before = await startRedis();
  await using after = await startRedis();
  await using name = new TcpProxy(before.url);
  await withNodes(name.url, "svc:", async ({ here }) => {
    const heard = await record(here, "room:a");
    await before.demote(after);
    name.routeTo(after.url);
    let notices = 0;
    const elsewhere = new RedisBus(after.url, { prefix: "svc:" });
    await (await elsewhere.subscribe("room:a", () => {})).close();
    elsewhere.onRecovered = () => notices++;
    here.publish("room:a", ephemeral("unnoticed"));
    await until(() => heard.length > 0 && notices > 0);
    await elsewhere.close();
  });
  // Closed while it is disconnected, the package keeps a timer for this long.
  await pause(1100);
});

redisTest("a Redis that has no memory for more is still one to speak through", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ here, there }) => {
    const heard = await record(there, "room:a");
    await until(() => here.isHealthy && there.isHealthy);
    await sendRedisCommand(server.url, "CONFIG", "SET", "maxmemory", "1");
    await repeatFor(1500, () => assert.ok(here.isHealthy && there.isHealthy));
    here.publish("room:a", ephemeral("small"));
    await until(() => heard.length > 0);
  });
});

redisTest("a node that starts without Redis serves itself and joins when Redis comes", async () => {
  await using server = await startRedis();
  await server.stop();
  await withNodes(server.url, "svc:", async ({ here, there }) => {
    const [atHere, atThere] = [await record(here, "room:a"), await record(there, "room:a")];
    assert.equal(here.isHealthy, false);
    here.publish("room:a", ephemeral("alone"));
    assert.deepEqual(atHere, [ephemeral("alone")]);
    await server.start();
    await until(() => here.isHealthy && there.isHealthy);
    here.publish("room:a", ephemeral("together"));
    await until(() => atThere.length > 0);
    assert.deepEqual(atThere, [ephemeral("together")]);
  });
});

redisTest(
  "the log says why Redis cannot be used, each reason once for all connections, and never the password",
  async () => {
    const records: LogRecord[] = [];
    await configure({
      sinks: { memory: (record) => void records.push(record) },
      loggers: [
        { category: ["logtape", "meta"], lowestLevel: "error", sinks: [] },
        { category: ["gateway", "redis"], lowestLevel: "info", sinks: ["memory"] },
      ],
    });
    try {
      await using server = await startRedis();
      const url = new URL(server.url);
      url.password = "outdated";
      const connections = Array.from({ length: 3 }, () => new RedisConnection(url.href, { livenessCheckMs: 500 }));
      const areReady = (isReady: boolean) => until(() => connections.every((one) => one.isReady === isReady));
      await areReady(true);
      await server.demote(server);
      await areReady(false);
      await server.promote();
      await areReady(true);
      await sendRedisCommand(server.url, "CONFIG", "SET", "requirepass", "renewed");
      const admin = `redis://:renewed@${url.host}`;
      await sendRedisCommand(admin, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      await areReady(false);
      await until(() => records.some(({ properties }) => /WRONGPASS/.test(String(properties["cause"]))));
      await sendRedisCommand(admin, "CONFIG", "SET", "requirepass", "outdated");
      await areReady(true);
      await Promise.all(connections.map((connection) => connection.close()));
    } finally {
      await reset();
    }
    // What writes at that moment fails in another way, or in two.
    const isCut = ({ properties: { cause } }: LogRecord) =>
      ["connection closed", "ECONNRESET", "EPIPE"].includes(String(cause));
    const first = records.findIndex(isCut);
    const last = records.findLastIndex(isCut);
    assert.ok(
      first === 2 && records.slice(first, last + 1).every(isCut),
      "what was cut off says so at that moment only",
    );
    const said = records.toSpliced(first + 1, last - first);
    assert.deepEqual(said.map((record) => [record.rawMessage, isCut(record) ? "cut" : record.properties.cause]), [
      ["redis unavailable", "READONLY"],
      ["redis reconnected", undefined],
      ["redis unavailable", "cut"],
      ["redis unavailable", "WRONGPASS: check the user and password in SVC_REDIS_URL"],
      ["redis reconnected", undefined],
    ]);
    assert.doesNotMatch(JSON.stringify(records), /outdated|renewed/);
  },
);

redisTest("closing does not wait for a Redis that is away, nor for one that just comes back", async () => {
  await using server = await startRedis();
  for (const pauseMs of [0, 5, 15, 30]) {
    const connection = new RedisConnection(server.url);
    await connection.firstAttempt;
    await server.stop();
    await until(() => !connection.isReady);
    if (pauseMs > 0) await server.start();
    await pause(pauseMs);
    await connection.close();
    if (pauseMs === 0) await server.start();
  }
});

redisTest("a Redis that hangs for so long that it is given up more than once is taken up when it answers", async () => {
  await using server = await startRedis();
  const connections = [false, true].map((isSubscriber) =>
    new RedisConnection(server.url, { livenessCheckMs: 20, isSubscriber })
  );
  await until(() => connections.every(({ isReady }) => isReady));
  server.freeze();
  await until(() => connections.every(({ isReady }) => !isReady));
  await pause(1000);
  assert.ok(connections.every(({ isReady }) => !isReady));
  server.unfreeze();
  await until(() => connections.every(({ isReady }) => isReady));
  await Promise.all(connections.map((connection) => connection.close()));
});

redisTest("while Redis hangs, the bus is not current; it is healthy, for the hang may be short", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ there }) => {
    let losses = 0;
    there.onLost = () => losses++;
    await until(() => there.isCurrent);
    server.freeze();
    await until(() => !there.isCurrent);
    assert.equal(losses, 0);
    server.unfreeze();
    await until(() => there.isCurrent);
  });
});

redisTest("a flush waits for a silent node once, and again as soon as that node is current", async () => {
  await using server = await startRedis();
  await using line = new TcpProxy(server.url);
  const [here, there] = [new RedisBus(server.url), new RedisBus(line.url)];
  const areBothCurrent = () => until(() => here.isCurrent && there.isCurrent);
  /** Whether a flush resolves although no timer of its length ends. */
  const resolvesByReplies = async (): Promise<boolean> => {
    const start = globalThis.setTimeout;
    const held: Parameters<typeof setTimeout>[0][] = [];
    globalThis.setTimeout = ((work: () => void, ms?: number) =>
      ms === FLUSH_MAX_MS ? held.push(work) : start(work, ms)) as unknown as typeof setTimeout;
    let isResolved = false;
    const flush = here.flush()?.then(() =>
      isResolved = true
    );
    globalThis.setTimeout = start;
    // Each reply of Redis to another connection gives it time for one to the flush.
    for (let n = 0; n < 20 && !isResolved; n++) await sendRedisCommand(server.url, "PING");
    const wasResolved = isResolved;
    for (const work of held) if (typeof work === "function") work();
    await flush;
    return wasResolved;
  };
  await areBothCurrent();
  assert.ok(await resolvesByReplies());
  for (let round = 0; round < 2; round++) {
    line.stall();
    assert.equal(await resolvesByReplies(), false);
    await until(() => !there.isCurrent);
    await until(resolvesByReplies);
    line.resume();
    await areBothCurrent();
  }
  await Promise.all([here.close(), there.close()]);
});

redisTest("after an outage the bus is current only once listeners have been notified", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ there }) => {
    let recoveries = 0;
    there.onRecovered = () => recoveries++;
    await until(() => there.isCurrent);
    await server.stop();
    await until(() => !there.isCurrent);
    await server.start();
    await until(() => there.isCurrent);
    assert.ok(recoveries > 0);
  });
});

redisTest("what waits for a Redis that hangs is bounded, and the loss is told", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ here, there }) => {
    let recoveries = 0;
    there.onRecovered = () => recoveries++;
    const message = ephemeral("x".repeat(8192));
    server.freeze();
    for (let index = 0; index < 3000; index++) here.publish("room:nobody listens", message);
    server.unfreeze();
    await until(() => recoveries > 0);
    const taken = /cmdstat_publish:calls=(\d+)/.exec(String(await sendRedisCommand(server.url, "INFO", "commandstats")))
      ?.[1];
    const others = Number(taken) - Math.floor(16 * 1024 * 1024 / JSON.stringify(message).length);
    assert.ok(others >= 1 && others < 50, `${others} notices and fences`);
  });
});

redisTest("a message of an unknown kind is passed over", async () => {
  await using server = await startRedis();
  await withNodes(server.url, "svc:", async ({ here, there }) => {
    const heard = await record(there, "room:a");
    for (const text of ["not json", "null", '{"kind":"newer"}']) {
      assert.equal(await sendRedisCommand(server.url, "PUBLISH", "svc:bus:room:a", text), 1);
    }
    here.publish("room:a", ephemeral("known"));
    await until(() => heard.length > 0);
    assert.deepEqual(heard, [ephemeral("known")]);
  });
});

redisTest("a connection that hangs is given up and made anew", async () => {
  await using server = await startRedis();
  let returns = 0;
  const connection = new RedisConnection(server.url, { livenessCheckMs: 30, onReady: () => returns++ });
  await connection.firstAttempt;
  server.freeze();
  await until(() => !connection.isReady);
  server.unfreeze();
  await until(() => connection.isReady && returns >= 2);
  await connection.close();
});

function ephemeral(json: string): BusMessage {
  return { kind: "ephemeral", event: { tenantId: "t", channel: "room:a", json } };
}

/** Everything received on a topic, from now on. */
async function record(bus: Bus, topic: string): Promise<BusMessage[]> {
  const heard: BusMessage[] = [];
  await bus.subscribe(topic, (message) => heard.push(message));
  return heard;
}

async function withMemory(body: (nodes: Nodes) => Promise<void>): Promise<void> {
  const bus = new MemoryBus();
  await body({ here: bus, there: bus });
  await bus.close();
}

async function withNodes(url: string, prefix: string, body: (nodes: Nodes) => Promise<void>): Promise<void> {
  const [here, there] = [new RedisBus(url, { prefix }), new RedisBus(url, { prefix })];
  try {
    // The first subscription waits for the first attempt to connect.
    for (const bus of [here, there]) (await bus.subscribe("warm-up", () => {})).close();
    await body({ here, there });
  } finally {
    await Promise.all([here.close(), there.close()]);
  }
}
