// A node is cut from Redis, and then from PostgreSQL as well, while people are removed on the other: removed members receive
// nothing more there, and the others still receive each other's messages.
import assert from "node:assert/strict";
import type { PublicationContext } from "npm:centrifuge@5.8.0";
import { TcpProxy } from "../conformance/tcp_proxy.ts";
import { Editor } from "../modules/document/document_editor.ts";
import { allEnded, eventually, pause, until } from "../wait.ts";
import { Cluster, hasServers } from "./cluster.ts";

const DOCUMENTS = "/v1/collaboration/documents";
/** Of the two nodes, the one that is cut. */
const PARTITIONED = 1;
const PEOPLE = ["ann", "bob", "cid", "dee"];

/** Two nodes, of which one reaches its servers through proxies that can cut and stall. */
class PartitionedCluster {
  readonly cluster: Cluster;
  readonly redis: TcpProxy;
  readonly postgres: TcpProxy;

  private constructor(cluster: Cluster, redis: TcpProxy, postgres: TcpProxy) {
    this.cluster = cluster;
    this.redis = redis;
    this.postgres = postgres;
  }

  static async open(): Promise<PartitionedCluster> {
    const proxies: TcpProxy[] = [];
    const cluster = await Cluster.openShared({
      nodeEnvironment(node, { redisUrl, databaseUrl }) {
        if (node !== PARTITIONED) return {};
        const [redis, postgres] = [new TcpProxy(redisUrl), new TcpProxy(databaseUrl)];
        proxies.push(redis, postgres);
        return { SVC_REDIS_URL: redis.url, SVC_DATABASE_URL: postgres.url };
      },
    });
    const [redis, postgres] = proxies;
    if (redis === undefined || postgres === undefined) throw new TypeError("Expected two proxies");
    return new PartitionedCluster(cluster, redis, postgres);
  }

  /** Returns once the node knows. */
  async partition(): Promise<void> {
    this.redis.refuse();
    await this.#untilBus(false);
  }

  async heal(): Promise<void> {
    this.redis.accept();
    await this.#untilBus(true);
  }

  async editor(sub: string, document: string): Promise<Editor> {
    const url = `ws://127.0.0.1:${this.cluster.node(PARTITIONED).port}${DOCUMENTS}/sync`;
    const editor = new Editor({ url, document, token: await this.cluster.token(sub) });
    await until(() => editor.provider.isSynced, `${sub} is in sync`);
    return editor;
  }

  async #untilBus(isHealthy: boolean): Promise<void> {
    await eventually(async () =>
      assert.equal((await this.cluster.readReadiness(PARTITIONED)).body.checks.bus, isHealthy)
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
    for (const proxy of [this.redis, this.postgres]) await proxy[Symbol.asyncDispose]();
  }
}

Deno.test({
  name: "on a node cut from Redis the removed hear no typing from the moment of their removal, and the others do",
  ignore: !hasServers,
  async fn() {
    await using world = await PartitionedCluster.open();
    const { cluster } = world;
    const roomId = await cluster.createRoom(PEOPLE);
    const [bob, cid, dee] = await Promise.all(["bob", "cid", "dee"].map(async (sub) => {
      const heard: PublicationContext[] = [];
      const subscription = (await cluster.connect(sub, PARTITIONED)).newSubscription(`room:${roomId}`);
      subscription.on("publication", (context) => context.data.type === "typing" && heard.push(context));
      subscription.subscribe();
      await subscription.ready();
      return { subscription, heard };
    }));
    assert.ok(bob && cid && dee);
    const type = () => cid.subscription.publish({ type: "typing", data: { typing: true } });
    await world.partition();
    await type();
    await until(() => bob.heard.length === 1 && dee.heard.length === 1);
    await cluster.call(0, "ann", "DELETE", `/v1/rooms/${roomId}/members/bob`);
    for (let count = 0; count < 40; count++) {
      await type();
      await pause(10);
    }
    await until(() => dee.heard.length === 41);
    assert.equal(bob.heard.length, 1);
    await world.heal();
    await type();
    await until(() => dee.heard.length === 42);
    assert.equal(bob.heard.length, 1);
  },
});

Deno.test({
  name: "on a node cut from Redis the removed get no text typed after their removal, and the others do",
  ignore: !hasServers,
  async fn() {
    await using world = await PartitionedCluster.open();
    const { cluster } = world;
    const roomId = await cluster.createRoom(PEOPLE);
    const { id } = await cluster.call(0, "ann", "POST", DOCUMENTS, { roomId, title: "Live", text: "" });
    const [bob, cid, dee] = await allEnded(["bob", "cid", "dee"].map((sub) => world.editor(sub, id)));
    assert.ok(bob && cid && dee);
    await world.partition();
    cid.insert(0, "before ");
    await until(() => [bob, dee].every(({ text }) => text === "before "));
    await cluster.call(0, "ann", "DELETE", `/v1/rooms/${roomId}/members/bob`);
    for (let count = 0; count < 40; count++) {
      cid.insert(cid.text.length, "x");
      cid.provider.setAwarenessField("typed", count);
      await pause(10);
    }
    await until(() => dee.text === cid.text);
    assert.equal(bob.text, "before ");
    const states = [...bob.provider.awareness?.getStates().values() ?? []];
    assert.ok(states.every(({ typed }) => typed === undefined));
    await Promise.all([bob, cid, dee].map((editor) => editor.close()));
  },
});

Deno.test({
  name: "a node that was cut from Redis and stalled by PostgreSQL gives the removed nothing when both are back",
  ignore: !hasServers,
  async fn() {
    await using world = await PartitionedCluster.open();
    const { cluster } = world;
    const roomId = await cluster.createRoom(PEOPLE);
    const { id } = await cluster.call(0, "ann", "POST", DOCUMENTS, { roomId, title: "Live", text: "before" });
    const [bob, dee] = await allEnded(["bob", "dee"].map((sub) => world.editor(sub, id)));
    assert.ok(bob && dee);
    await until(() => bob.text === "before");
    await world.partition();
    world.postgres.stall();
    await cluster.call(0, "ann", "DELETE", `/v1/rooms/${roomId}/members/bob`);
    for (let count = 0; count < 20; count++) {
      const edits = [{ op: "append", text: "x" }];
      await cluster.call(0, "ann", "PATCH", `${DOCUMENTS}/${id}/content`, {
        baseRevision: 1,
        onStale: "rebase",
        edits,
      });
    }
    world.redis.accept();
    await pause(300);
    const edits = [{ op: "append", text: " after" }];
    await cluster.call(0, "ann", "PATCH", `${DOCUMENTS}/${id}/content`, { baseRevision: 1, onStale: "rebase", edits });
    world.postgres.resume();
    await until(() => dee.text.endsWith(" after"));
    assert.equal(bob.text, "before");
    await Promise.all([bob, dee].map((editor) => editor.close()));
  },
});
