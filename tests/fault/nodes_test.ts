// Two nodes as one: a removal holds on every node at once, presence spans them and drops dead nodes, and both return the same.
import assert from "node:assert/strict";
import { eventually, pause, until } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { printLine, printReport } from "./report.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "eve"];
const PER_SECOND = 200;
const PRESENCE_TIMEOUT_MS = 30_000;
const POLL_MS = 250;
/** Between two sends of each, while nodes start. */
const PAUSE_MS = 25;

Deno.test({ name: "three nodes, one of which dies", ignore: !hasServers }, async (t) => {
  await using cluster = await Cluster.openShared({ nodes: 3 });
  const history = await History.open(cluster, PEOPLE);
  const clients = await Promise.all(PEOPLE.map((name, at) => cluster.connect(name, at % 3)));
  const [ann, bob, cid, eve] = clients;
  assert.ok(ann && bob && cid && eve);
  for (const [at, name] of PEOPLE.entries()) {
    const client = clients[at];
    if (client !== undefined) await history.watch(client, name);
  }
  const channel = `room:${history.roomId}`;
  const present = async (): Promise<string[]> => {
    const { clients } = await ann.getSubscription(channel)?.presence() ?? { clients: {} };
    return Object.values(clients).map(({ user }) => user).sort();
  };
  await t.step("presence.list names the clients of all nodes", async () => {
    await eventually(async () => assert.deepEqual(await present(), PEOPLE));
  });

  await t.step("a node dies with a client on it", async () => {
    await cluster.node(2).stop("SIGKILL");
    // Its client does not return either.
    cid.disconnect();
    history.views.splice(2, 1);
  });

  await t.step(
    `member.remove during a burst of ${PER_SECOND}/s: nothing reaches the removed one from then on`,
    async () => {
      const view = history.views.find(({ name }) => name === "eve");
      assert.ok(view);
      const ended = new Promise((resolve) => eve.getSubscription(channel)?.on("unsubscribed", resolve));
      // Eve is on node 0; those who talk and the one who removes are on node 1.
      for (let sender = 0; sender < 4; sender++) history.sendOverSocket(bob, `burst${sender}`, 4000 / PER_SECOND);
      await history.waitForAcknowledged(PER_SECOND);
      await cluster.call(1, "ann", "DELETE", `/v1/rooms/${history.roomId}/members/eve`);
      await ended;
      // The others go on talking.
      await history.waitForAcknowledged(PER_SECOND / 2);
      await history.stopSending();
      const left = await findLeaveSeq(cluster, history.roomId, "eve");
      assert.ok((view.seen.at(-1)?.seq ?? 0) <= left, "heard an event from after the removal");
      history.views.splice(history.views.indexOf(view), 1);
      printLine(`removed at ${left}, last heard ${view.seen.at(-1)?.seq}`);
    },
  );

  await t.step("nodes agree on log, rooms and unread counts", async () => {
    await cluster.node(2).start();
    printReport("three nodes, one killed", history, await history.verify());
    for (const name of ["ann", "bob", "cid"]) {
      const [first, ...others] = await Promise.all(
        [0, 1, 2].map((node) => cluster.call(node, name, "GET", "/v1/rooms")),
      );
      for (const other of others) assert.deepEqual(other, first);
    }
  });

  await t.step("SVC_REUSE_PORT: processes on one port come and go under load", sharedPort);

  await t.step("presence.list forgets the clients of a dead node within 30 s", async () => {
    // It has been dead for as long as all steps before took; a busy machine may take its time.
    await until(
      async () => {
        await pause(POLL_MS);
        return (await present()).join() === "ann,bob";
      },
      "the clients of the dead node are forgotten",
      2 * PRESENCE_TIMEOUT_MS,
    );
  });
});

async function sharedPort(): Promise<void> {
  await using cluster = await Cluster.openShared({ nodes: 2, isPortShared: true });
  const history = await History.openWithTraffic(cluster, PEOPLE);
  history.sendOverHttp("ann", "http");
  history.pauseMs = PAUSE_MS;
  for (const at of [0, 1]) {
    await history.waitForAcknowledged(50);
    await cluster.node(at).stop("SIGTERM");
    await history.waitForAcknowledged(50);
    await cluster.node(at).start();
  }
  await history.waitForAcknowledged(50);
  printReport("one port, 2 orderly restarts", history, await history.verify());
}

/** Place of the event that says that somebody left. */
async function findLeaveSeq(cluster: Cluster, roomId: string, name: string): Promise<number> {
  for (let after = 0;;) {
    const page = await cluster.call(0, "ann", "GET", `/v1/rooms/${roomId}/events?after=${after}&limit=300`);
    for (const { seq, type, data } of page.events) {
      if (type === "member.left" && JSON.stringify(data).includes(`"${name}"`)) return seq;
      after = seq;
    }
    assert.ok(!page.complete, `${name} never left`);
  }
}
