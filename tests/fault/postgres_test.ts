// PostgreSQL is restarted under load: no crash, responses that say "later", recovery by itself, and what was acknowledged is stored.
import assert from "node:assert/strict";
import type { StreamPosition, SubscribedContext } from "npm:centrifuge@5.8.0";
import postgres from "postgres";
import { TcpProxy } from "../conformance/tcp_proxy.ts";
import { Editor } from "../modules/document/document_editor.ts";
import { eventually, pause, until, WAIT_MS } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";
import { History } from "./history.ts";
import { hasPostgresServer, PostgresServer } from "./postgres_server.ts";
import { printReport } from "./report.ts";

const PEOPLE: [string, ...string[]] = ["ann", "bob", "cid", "dee"];
const OUTAGE_MS = 1500;
const CONNECTIONS = 4;
const PROMPT_TRIES = 3;
const LOST = 5;

Deno.test({
  name: "postgres restarted under load: no crash, unavailable while it is away, nothing acknowledged is lost",
  ignore: !hasServers || !hasPostgresServer,
  async fn() {
    await using server = await PostgresServer.open();
    await using cluster = await Cluster.openShared({ databaseUrl: server.url });
    const history = await History.open(cluster, PEOPLE);
    const clients = await Promise.all(PEOPLE.map((name, at) => cluster.connect(name, at % 2)));
    for (const [at, name] of PEOPLE.entries()) {
      const client = clients[at];
      if (client === undefined) continue;
      await history.watch(client, name);
      if (at < 2) history.sendOverSocket(client, name);
      else history.sendOverHttp(name, name);
    }
    const pids = cluster.nodes.map(({ pid }) => pid);
    for (const mode of ["fast", "immediate"] as const) {
      await history.waitForAcknowledged(100);
      await server.stop(mode);
      const away = pause(OUTAGE_MS);
      await eventually(async () => {
        const { status, body } = await cluster.readReadiness(0);
        assert.equal(status, 503);
        assert.equal(body.checks.store, false);
      });
      const body = {
        roomId: history.roomId,
        text: `while away ${mode}`,
        clientMessageId: `away ${crypto.randomUUID()}`,
      };
      const refused = await cluster.request(1, "ann", "POST", "/v1/messages", body);
      assert.equal(refused.status, 503, JSON.stringify(refused.body));
      assert.equal(refused.body.code, "unavailable");
      const error = await clients[1]?.rpc("message.send", body).then(() => undefined, (thrown) => thrown);
      assert.equal(error?.temporary, true, JSON.stringify(error));
      await away;
      await server.start();
      await eventually(async () => assert.equal((await cluster.readReadiness(0)).status, 200));
      await eventually(async () => assert.equal((await cluster.readReadiness(1)).status, 200));
    }
    await history.waitForAcknowledged(100);
    assert.deepEqual(cluster.nodes.map(({ pid }) => pid), pids);
    printReport("PostgreSQL restarted twice", history, await history.verify());
  },
});

Deno.test({
  name: "postgres behind a network that swallows: the node says so promptly, and works again over new connections",
  ignore: !hasServers || !hasPostgresServer,
  async fn() {
    await using server = await PostgresServer.open();
    await using proxy = new TcpProxy(server.url);
    await using cluster = await Cluster.openShared({ nodes: 1, databaseUrl: proxy.url });
    const read = () => cluster.request(0, "ann", "GET", "/v1/rooms");
    const works = async (): Promise<void> => {
      assert.equal((await cluster.readReadiness(0)).status, 200);
      assert.ok((await Promise.all(Array.from({ length: 16 }, read))).every(({ status }) => status === 200));
    };
    await works();
    // Promptly means before the timeout of the database calls. A machine that is frozen for so long sees both at once.
    for (let isPrompt = false, tries = 0; !isPrompt; tries++) {
      assert.ok(tries < PROMPT_TRIES, "the node says so only after what was asked of the database is given up");
      proxy.blackhole();
      let isGivenUp = false;
      const lost = read().finally(() => isGivenUp = true);
      const [metrics, ...answers] = await Promise.all([
        fetch(`${cluster.node(0).url}/metrics`),
        ...Array.from({ length: CONNECTIONS }, () => cluster.readReadiness(0)),
      ]);
      isPrompt = !isGivenUp;
      await lost;
      assert.match(await metrics.text(), /^svc_connections_total/m);
      // Connections that had not been used before open connections that work.
      assert.ok(answers.some(({ status, body }) => status === 503 && body.checks.store === false));
      await eventually(works);
    }
  },
});

Deno.test({
  name:
    "postgres.promote of a standby that lacks the last commits: nobody goes on as if it had them, and editors bring them back",
  ignore: !hasServers || !hasPostgresServer,
  async fn() {
    await using server = await PostgresServer.open();
    await using standby = await server.standby();
    await using proxy = new TcpProxy(server.url);
    await using cluster = await Cluster.openShared({ nodes: 1, databaseUrl: proxy.url });
    const roomId = await cluster.createRoom(["ann"]);
    const say = (text: string) => cluster.call(0, "ann", "POST", "/v1/messages", { roomId, text });
    const follow = async (since?: StreamPosition) => {
      const client = await cluster.connect("ann");
      const heard: SubscribedContext[] = [];
      const subscription = client.newSubscription(`room:${roomId}`, since === undefined ? {} : { since });
      subscription.on("subscribed", (context) => heard.push(context));
      subscription.subscribe();
      await subscription.ready(WAIT_MS);
      return { client, heard };
    };
    await say("kept");
    const documents = "/v1/collaboration/documents";
    const made = await cluster.call(0, "ann", "POST", documents, { roomId, title: "Notes", text: "kept " });
    const url = `ws://127.0.0.1:${cluster.node(0).port}${documents}/sync`;
    const editor = new Editor({ url, document: made.id, token: await cluster.token("ann") });
    await until(() => editor.provider.isSynced);
    // What it has been sent it would still take up.
    await until(() => isCaughtUp(server, standby));
    await query(standby, "alter system set primary_conninfo = ''");
    await query(standby, "select pg_reload_conf()");
    await until(async () => (await query(server, "select 1 from pg_stat_replication")).length === 0);
    for (let lost = 0; lost < LOST; lost++) await say("lost");
    editor.insert(editor.text.length, "lost ");
    await editor.waitUntilSaved();
    const [away, there] = await Promise.all([follow(), follow()]);
    const since = away.heard[0]?.streamPosition;
    assert.ok(since);
    away.client.disconnect();

    proxy.refuse();
    await server.stop("immediate");
    await standby.promote();
    proxy.routeTo(standby.url);
    proxy.accept();
    await eventually(async () => assert.equal((await cluster.readReadiness(0)).status, 200));
    // The line is longer than it was by the time that anybody comes back.
    for (let next = 0; next < 2 * LOST; next++) await say("new");
    const again = await follow(since);
    assert.deepEqual(again.heard.map(({ wasRecovering, recovered }) => [wasRecovering, recovered]), [[true, false]]);
    await eventually(() => assert.deepEqual(there.heard.slice(0, 2).map(({ recovered }) => recovered), [false, false]));
    await eventually(() => assert.match(cluster.node(0).log, /database failover/));
    editor.insert(editor.text.length, "new");
    await eventually(async () => {
      const { text } = await cluster.call(0, "ann", "GET", `${documents}/${made.id}/content`);
      assert.equal(text, "kept lost new");
    });
    await editor.close();
  },
});

/** Whether a standby has taken up all that its server has written. */
async function isCaughtUp(server: PostgresServer, standby: PostgresServer): Promise<boolean> {
  const [written] = await query(server, "select pg_current_wal_lsn()::text as place");
  const [row] = await query(standby, `select pg_last_wal_replay_lsn() >= '${written?.place}' as "isThere"`);
  return row?.isThere === true;
}

async function query(server: PostgresServer, statement: string): Promise<postgres.Row[]> {
  const admin = postgres(server.url, { max: 1 });
  const rows = await admin.unsafe(statement);
  await admin.end();
  return [...rows];
}
