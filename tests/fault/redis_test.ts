// Redis goes and comes back under load, is made a replica, or is not there at the start: nodes serve on, say so, and catch up from the log.
import assert from "node:assert/strict";
import { ownRedis } from "../conformance/redis_server.ts";
import { eventually } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { report } from "./report.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const OUTAGES = 2;

Deno.test({
  name: "redis.stop under load: both nodes serve on, readiness shows it and clears, nobody misses anything",
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.shared({});
    const history = await everybodyTalks(cluster);
    for (let outage = 0; outage < OUTAGES; outage++) {
      await history.progress(100);
      await cluster.redis.stop();
      await bothReady(cluster, false);
      await history.progress(300);
      await allSeeEachOther(history);
      await cluster.redis.start();
      await bothReady(cluster, true);
    }
    await history.progress(100);
    report(`Redis away ${OUTAGES} times`, history, await history.verify());
  },
});

Deno.test({
  name: "redis.demote under load: both nodes leave the replica, serve on and say so, and nobody misses anything",
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.shared({});
    await using master = await ownRedis();
    const history = await everybodyTalks(cluster);
    for (let outage = 0; outage < OUTAGES; outage++) {
      await history.progress(100);
      await cluster.redis.demote(master);
      await bothReady(cluster, false);
      await history.progress(300);
      await allSeeEachOther(history);
      await cluster.redis.promote();
      await bothReady(cluster, true);
    }
    await history.progress(100);
    report(`Redis a replica ${OUTAGES} times`, history, await history.verify());
  },
});

Deno.test({
  name: "redis absent at the start: nodes serve without it and take it up when it comes",
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.shared({}, () => Promise.resolve());
    const history = await everybodyTalks(cluster);
    await bothReady(cluster, false);
    await history.progress(200);
    await cluster.redis.start();
    await bothReady(cluster, true);
    await history.progress(100);
    report("Redis absent at the start", history, await history.verify());
  },
});

function everybodyTalks(cluster: Cluster): Promise<History> {
  return History.busy(cluster, PEOPLE, (at) => at % 2);
}

/** Readiness of both nodes, and that it is the bus that decides. */
async function bothReady(cluster: Cluster, isReady: boolean): Promise<void> {
  for (const node of [0, 1]) {
    await eventually(async () => {
      const { status, body } = await cluster.readiness(node);
      assert.equal(status, isReady ? 200 : 503);
      assert.equal(body.checks.bus, isReady);
      assert.equal(body.checks.store, true);
    });
  }
}

/** What one node commits reaches the clients of the other without Redis, a little later. */
async function allSeeEachOther(history: History): Promise<void> {
  const head = Math.max(...history.acknowledged.values());
  await eventually(() => assert.ok(history.views.every(({ seen }) => (seen.at(-1)?.seq ?? 0) >= head)));
}
