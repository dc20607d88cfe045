// `kill -9` in a loop while clients send: nothing that was acknowledged is lost, doubled or out of order, for anybody.
import { Cluster, hasServers, killCount } from "./cluster.ts";
import { History } from "./history.ts";
import { printReport } from "./report.ts";
import { allEnded } from "../wait.ts";

const NODE_KILLS = killCount(6);
const ROOMS = 2;
const PEOPLE = 6;
/** What has to be acknowledged between two kills. */
const ACKNOWLEDGED = 30;
/** While a node starts, which takes as long as hundreds of messages. */
const START_PAUSE_MS = 100;

Deno.test({
  name: `kill -9 of one of two nodes, ${NODE_KILLS} times under load, loses, doubles and swaps nothing`,
  ignore: !hasServers,
  async fn() {
    await using cluster = await Cluster.openShared({ nodes: 2 });
    const histories = await allEnded(Array.from({ length: ROOMS }, (_, room) => startTraffic(cluster, room)));
    for (let kill = 0; kill < NODE_KILLS; kill++) {
      await allEnded(histories.map((history) => history.waitForAcknowledged(ACKNOWLEDGED)));
      const node = cluster.node(kill % 2);
      await node.stop("SIGKILL");
      // The other one serves everybody for a while before this one is back.
      await allEnded(histories.map((history) => history.waitForAcknowledged(ACKNOWLEDGED)));
      for (const history of histories) history.pauseMs = START_PAUSE_MS;
      await node.start();
      for (const history of histories) history.pauseMs = 0;
    }
    for (const history of histories) printReport(`two nodes, ${NODE_KILLS} kills`, history, await history.verify());
  },
});

/** A room whose members all listen and all send, half of them at home on each node. */
async function startTraffic(cluster: Cluster, room: number): Promise<History> {
  const [first = "", ...others] = Array.from(
    { length: PEOPLE },
    (_, at) => `r${room}p${at}-${crypto.randomUUID().slice(0, 8)}`,
  );
  const people: [string, ...string[]] = [first, ...others];
  const history = await History.open(cluster, people);
  for (const [at, name] of people.entries()) {
    const client = await cluster.connect(name, at % cluster.nodes.length);
    await history.watch(client, name);
    if (at % 3 === 2) history.sendOverHttp(name, name);
    else history.sendOverSocket(client, name);
  }
  return history;
}
