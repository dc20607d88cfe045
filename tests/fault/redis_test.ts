// Redis stops and restarts under load, becomes a replica, or is missing at the start: nodes continue to serve, say so,
// and catch up from the log.
import assert from "node:assert/strict";
import { startRedis } from "../conformance/redis_server.ts";
import { eventually } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { printReport } from "./report.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const OUTAGES = 2;
/** Between two sends of each: what is waited for here takes seconds, whatever is sent meanwhile. */
const PAUSE_MS = 25;

Deno.test({ name: "redis fails under load, and nobody misses anything", ignore: !hasServers }, async (t) => {
  await using cluster = await Cluster.openShared({}, () => Promise.resolve());
  await using master = await startRedis();
  const history = await History.openWithTraffic(cluster, PEOPLE, (at) => at % 2);
  history.pauseMs = PAUSE_MS;

  await t.step("redis absent at the start: nodes serve without it and take it up when it comes", async () => {
    await waitForBus(cluster, false);
    await history.waitForAcknowledged(200);
    await cluster.redis.start();
    await waitForBus(cluster, true);
    await history.waitForAcknowledged(100);
  });

  await t.step("redis.stop: both nodes serve on and stay ready, and readiness shows it", async () => {
    for (let outage = 0; outage < OUTAGES; outage++) {
      await cluster.redis.stop();
      await waitForBus(cluster, false);
      await history.waitForAcknowledged(100);
      await waitForPresence(history);
      await cluster.redis.start();
      await waitForBus(cluster, true);
      await history.waitForAcknowledged(100);
    }
  });

  await t.step("redis.demote: both nodes leave the replica, serve on and say so", async () => {
    for (let outage = 0; outage < OUTAGES; outage++) {
      await cluster.redis.demote(master);
      await waitForBus(cluster, false);
      await history.waitForAcknowledged(100);
      await waitForPresence(history);
      await cluster.redis.promote();
      await waitForBus(cluster, true);
      await history.waitForAcknowledged(100);
    }
  });

  const faults = `Redis absent at the start, away ${OUTAGES} times, a replica ${OUTAGES} times`;
  printReport(faults, history, await history.verify());
});

/** What readiness of both nodes says of the bus. They are ready in any case: a load balancer would leave none. */
async function waitForBus(cluster: Cluster, isHealthy: boolean): Promise<void> {
  for (const node of [0, 1]) {
    await eventually(async () => {
      const { status, body } = await cluster.readReadiness(node);
      assert.equal(body.checks.bus, isHealthy);
      assert.deepEqual([status, body.ready, body.checks.store], [200, true, true]);
    });
  }
}

/** What one node commits reaches the clients of the other without Redis, a little later. */
async function waitForPresence(history: History): Promise<void> {
  const head = Math.max(...history.acknowledged.values());
  await eventually(() => assert.ok(history.views.every(({ seen }) => (seen.at(-1)?.seq ?? 0) >= head)));
}
