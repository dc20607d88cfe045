// `kill -9` of a gateway on SQLite, in a loop while clients send: what was acknowledged is there once, in order, for everybody.
import { Cluster, killCount } from "./cluster.ts";
import { History } from "./history.ts";
import { printReport } from "./report.ts";

const KILLS = killCount(6);
const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const ACKNOWLEDGED = 30;

Deno.test(`kill -9 of a node on SQLite, ${KILLS} times under load, loses, doubles and swaps nothing`, async () => {
  await using cluster = await Cluster.openSingle();
  const history = await History.openWithTraffic(cluster, PEOPLE);
  for (let kill = 0; kill < KILLS; kill++) {
    await history.waitForAcknowledged(ACKNOWLEDGED);
    await cluster.node(0).stop("SIGKILL");
    await cluster.node(0).start();
  }
  printReport(`SQLite, ${KILLS} kills`, history, await history.verify());
});
