// PostgreSQL is restarted under load: no crash, answers that say "later", recovery by itself, and what was acknowledged is stored.
import assert from "node:assert/strict";
import { TcpProxy } from "../conformance/tcp_proxy.ts";
import { eventually, pause } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { hasPostgresServer, PostgresServer } from "./postgres_server.ts";
import { report } from "./report.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const AWAY_MS = 1500;
const PROMPT_MS = 5000;
const LANES = 4;
const SILENT_MS = 40_000;

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

Deno.test({
  name: "postgres behind a network that swallows: the node says so promptly, and works again over new connections",
  ignore: !hasServers || !hasPostgresServer,
  async fn() {
    await using server = await PostgresServer.open();
    await using proxy = new TcpProxy(server.url);
    await using cluster = await Cluster.shared({ nodes: 1, databaseUrl: proxy.url });
    const read = () => cluster.ask(0, "ann", "GET", "/v1/rooms");
    assert.ok((await Promise.all(Array.from({ length: 16 }, read))).every(({ status }) => status === 200));
    proxy.swallow();
    const asked = performance.now();
    const [metrics, ...answers] = await Promise.all([
      fetch(`${cluster.node(0).url}/metrics`),
      ...Array.from({ length: LANES }, () => cluster.readiness(0)),
    ]);
    assert.ok(performance.now() - asked < PROMPT_MS, `answered after ${performance.now() - asked} ms`);
    assert.match(await metrics.text(), /^svc_connections_total/m);
    // Lanes that had not been used before open connections that work.
    assert.ok(answers.some(({ status, body }) => status === 503 && body.checks.store === false));
    await eventually(async () => {
      assert.equal((await cluster.readiness(0)).status, 200);
      assert.ok((await Promise.all(Array.from({ length: 16 }, read))).every(({ status }) => status === 200));
    }, SILENT_MS);
  },
});
