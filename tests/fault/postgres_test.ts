// PostgreSQL is restarted under load: no crash, answers that say "later", recovery by itself, and what was acknowledged is stored.
import assert from "node:assert/strict";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { hasPostgresServer, PostgresServer } from "./postgres_server.ts";
import { report } from "./report.ts";
import { eventually, pause } from "./wait.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const AWAY_MS = 1500;

Deno.test({
  name: "postgres restarted under load: no crash, unavailable while it is away, nothing acknowledged is lost",
  ignore: !hasServers || !hasPostgresServer,
  async fn() {
    await using server = await PostgresServer.open();
    await using cluster = await Cluster.shared({ databaseUrl: server.url });
    const history = await History.of(cluster, PEOPLE);
    const clients = await Promise.all(PEOPLE.map((name, at) => cluster.connect(name, at % 2)));
    for (const [at, name] of PEOPLE.entries()) {
      const client = clients[at];
      if (client === undefined) continue;
      await history.watch(client, name);
      if (at < 2) history.sendThrough(client, name);
      else history.sendOver(name, name);
    }
    const pids = cluster.nodes.map(({ pid }) => pid);
    for (const mode of ["fast", "immediate", "fast", "immediate"] as const) {
      await history.progress(100);
      await server.stop(mode);
      const gone = performance.now();
      await eventually(async () => {
        const { status, body } = await cluster.readiness(0);
        assert.equal(status, 503);
        assert.equal(body.checks.store, false);
      });
      const body = { roomId: history.roomId, text: `while away ${mode}`, clientMessageId: `away ${gone}` };
      const refused = await cluster.ask(1, "ann", "POST", "/v1/messages", body);
      assert.equal(refused.status, 503, JSON.stringify(refused.body));
      assert.equal(refused.body.code, "unavailable");
      const error = await clients[1]?.rpc("message.send", body).then(() => undefined, (thrown) => thrown);
      assert.equal(error?.temporary, true, JSON.stringify(error));
      await pause(Math.max(0, AWAY_MS - (performance.now() - gone)));
      await server.start();
      await eventually(async () => assert.equal((await cluster.readiness(0)).status, 200));
      await eventually(async () => assert.equal((await cluster.readiness(1)).status, 200));
    }
    await history.progress(100);
    assert.deepEqual(cluster.nodes.map(({ pid }) => pid), pids);
    report("PostgreSQL restarted 4 times", history, await history.verify());
  },
});
