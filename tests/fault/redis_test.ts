// Redis goes and comes back under load, is made a replica, or is not there at the start: nodes serve on, say so, and catch up from the log.
import assert from "node:assert/strict";
import { startRedis } from "../conformance/redis_server.ts";
import { eventually } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { printReport } from "./report.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const OUTAGES = 2;

Deno.test({
  name: "redis.stop under load: both nodes serve on, readiness shows it and clears, nobody misses anything",
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.openShared({});
    const history = await startTraffic(cluster);
    for (let outage = 0; outage < OUTAGES; outage++) {
      await history.waitForAcknowledged(100);
      await cluster.redis.stop();
      await waitForReadiness(cluster, false);
      await history.waitForAcknowledged(300);
      await waitForPresence(history);
      await cluster.redis.start();
      await waitForReadiness(cluster, true);
    }
    await history.waitForAcknowledged(100);
    printReport(`Redis away ${OUTAGES} times`, history, await history.verify());
  },
});

Deno.test({
  name: "redis.demote under load: both nodes leave the replica, serve on and say so, and nobody misses anything",
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.openShared({});
    await using master = await startRedis();
    const history = await startTraffic(cluster);
    for (let outage = 0; outage < OUTAGES; outage++) {
      await history.waitForAcknowledged(100);
      await cluster.redis.demote(master);
      await waitForReadiness(cluster, false);
      await history.waitForAcknowledged(300);
      await waitForPresence(history);
      await cluster.redis.promote();
      await waitForReadiness(cluster, true);
    }
    await history.waitForAcknowledged(100);
    printReport(`Redis a replica ${OUTAGES} times`, history, await history.verify());
  },
});

Deno.test({
  name: "redis absent at the start: nodes serve without it and take it up when it comes",
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.openShared({}, () => Promise.resolve());
    const history = await startTraffic(cluster);
    await waitForReadiness(cluster, false);
    await history.waitForAcknowledged(200);
    await cluster.redis.start();
    await waitForReadiness(cluster, true);
    await history.waitForAcknowledged(100);
    printReport("Redis absent at the start", history, await history.verify());
  },
});

function startTraffic(cluster: Cluster): Promise<History> {
  return History.openWithTraffic(cluster, PEOPLE, (at) => at % 2);
}

/** Readiness of both nodes, and that it is the bus that decides. */
async function waitForReadiness(cluster: Cluster, isReady: boolean): Promise<void> {
  for (const node of [0, 1]) {
    await eventually(async () => {
      const { status, body } = await cluster.readReadiness(node);
      assert.equal(status, isReady ? 200 : 503);
      assert.equal(body.checks.bus, isReady);
      assert.equal(body.checks.store, true);
    });
  }
}

/** What one node commits reaches the clients of the other without Redis, a little later. */
async function waitForPresence(history: History): Promise<void> {
  const head = Math.max(...history.acknowledged.values());
  await eventually(() => assert.ok(history.views.every(({ seen }) => (seen.at(-1)?.seq ?? 0) >= head)));
}
