// Calls of plugins: commands and actions over HTTP and sockets, and what happens when a plugin hangs, fails or floods.
import assert from "node:assert/strict";
import { Webhook } from "npm:standardwebhooks@1.1.1";
import { startRedis } from "../../conformance/redis_server.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { eventually, pause, until } from "../../wait.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { ALLOW, installPlugin, manifestOf, PLUGINS, PluginServer, PluginSocket } from "./plugin_fixture.ts";

const COMMANDS = "/v1/collaboration/commands";

type Fixture = {
  gateway: Harness;
  admin: Caller;
  alice: Caller;
  roomId: string;
  run: (text: string) => ReturnType<Caller["post"]>;
};

async function openFixture(gateway: Harness): Promise<Fixture> {
  const admin = await gateway.as("admin", { role: "admin" });
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  return { gateway, admin, alice, roomId, run: (text) => alice.post(`${COMMANDS}/run`, { roomId, text }) };
}

const httpManifest = (endpoint: string, more = {}) => manifestOf({ transport: "http", endpoint, ...more });

Deno.test("a plugin over HTTP responds to a command and to the buttons of its message", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  // The library refuses old signatures.
  gateway.clock.advance(Date.now() - gateway.clock.now());
  const { admin, alice, roomId, run } = await openFixture(gateway);
  const { secret, principalId } = await installPlugin(admin, httpManifest(server.url), [[alice, roomId]]);
  const elements = [{ kind: "button", id: "vote-yes", label: "Yes", value: "yes" }];
  server.respond = ({ type, data }) =>
    type === "command.run"
      ? { kind: "message", text: `**${data.text}**`, elements }
      : { kind: "update", text: `${data.value}: 1`, elements: [] };
  const [command] = ok(await alice.get(`${COMMANDS}?roomId=${roomId}`)).items;
  assert.deepEqual([command.name, command.source, command.sourceName], ["poll", "plugin:org.example.poll", "Polls"]);
  const { response } = ok(await run("/poll Lunch?"));
  const message = ok(await alice.get(`/v1/messages/${response.messageId}`));
  assert.deepEqual([message.senderId, message.text], [principalId, "**Lunch?**"]);
  ok(await alice.post(`/v1/messages/${message.id}/elements/vote-yes/action`));
  assert.equal(ok(await alice.get(`/v1/messages/${message.id}`)).text, "yes: 1");
  // Signed as the published library verifies it.
  for (const { headers, body } of server.calls) new Webhook(secret ?? "").verify(body, Object.fromEntries(headers));
  const [first, second] = server.calls;
  assert.deepEqual(Object.keys(first?.data).sort(), [
    "args",
    "callerId",
    "callerName",
    "expiresAt",
    "name",
    "roomId",
    "text",
    "threadId",
  ]);
  assert.deepEqual([second?.data.elementId, second?.data.messageId, second?.data.callerId], [
    "vote-yes",
    message.id,
    "alice",
  ]);
});

testOnEngines(
  "a plugin over a socket, without a public address, responds to a command and a button",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { admin, alice, roomId, run } = await openFixture(gateway);
    const installed = await installPlugin(admin, manifestOf(), [[alice, roomId]]);
    const socket = new PluginSocket(gateway);
    const { epoch } = await socket.connect(installed);
    const running = run("/poll Lunch?");
    await until(() => socket.calls.length === 1);
    const [command] = socket.calls;
    assert.deepEqual([command?.call, command?.data.text, command?.data.callerId], ["command.run", "Lunch?", "alice"]);
    const elements = [{ kind: "button", id: "vote-yes", label: "Yes", value: "yes" }];
    await socket.rpc("plugin.respond", { id: command?.id, response: { kind: "message", text: "Lunch?", elements } });
    const answer = await running;
    assert.equal(answer.status, 200);
    const { messageId } = answer.body.response;
    const pressing = alice.post(`/v1/messages/${messageId}/elements/vote-yes/action`);
    await until(() => socket.calls.length === 2);
    const action = socket.calls[1];
    assert.deepEqual([action?.call, action?.data.value, action?.data.messageId], ["action.invoke", "yes", messageId]);
    await socket.rpc("plugin.respond", { id: action?.id, response: { kind: "ephemeral", text: "Counted" } });
    assert.deepEqual((await pressing).body.response, { kind: "ephemeral", text: "Counted", format: "markdown" });
    // One response for each call, and none for those of others.
    const again = await socket.rpc("plugin.respond", {
      id: action?.id,
      response: { kind: "ephemeral", text: "Twice" },
    });
    assert.equal(again.error.code, 409);
    const health = ok(await admin.get(`${PLUGINS}/${installed.id}/health`));
    assert.deepEqual([health.state, health.connections, health.calls, health.failures], ["enabled", 1, 2, 0]);

    // No other client receives a plugin's calls.
    const other = await installPlugin(admin, manifestOf({ id: "org.example.other" }));
    const spy = new PluginSocket(gateway);
    await assert.rejects(async () => {
      const subscribed = await spy.connect({ ...other, id: installed.id });
      assert.ok(subscribed);
    });
    assertProblem(
      await gateway.withToken(other.token).post(`/v1/collaboration/plugin-calls/${command?.id}/response`, {
        response: { kind: "ephemeral", text: "Mine" },
      }),
      404,
      "not_found",
    );
    assert.equal(typeof epoch, "string");
  },
);

Deno.test("a plugin over HTTP receives the events that it asks for, of rooms that it may read, while it is enabled", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { admin, alice, roomId } = await openFixture(gateway);
  const scopes = ["command.read", "message.read", "room.read"];
  const manifest = httpManifest(server.url, { scopes, events: ["message.created"] });
  await installPlugin(admin, manifest, [[alice, roomId]]);
  const texts = () =>
    server.calls.filter(({ type }) => type === "message.created").map(({ data }) => data.message.text);
  const otherId = await createRoom(alice, []);
  await sendMessage(alice, otherId, "Not for it");
  await sendMessage(alice, roomId, "One");
  await until(() => texts().length === 1);
  ok(await admin.post(`${PLUGINS}/org.example.poll/disable`));
  await sendMessage(alice, roomId, "Two");
  await pause(20);
  assert.deepEqual(texts(), ["One"]);
  // What it missed follows, once.
  ok(await admin.post(`${PLUGINS}/org.example.poll/enable`));
  await sendMessage(alice, roomId, "Three");
  await until(() => texts().length >= 3);
  assert.deepEqual(texts(), ["One", "Two", "Three"]);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/plugin:org.example.poll`));
  await sendMessage(alice, roomId, "Removed");
  ok(await admin.delete(`${PLUGINS}/org.example.poll`));
  await sendMessage(alice, roomId, "Uninstalled");
  await pause(20);
  assert.deepEqual(texts(), ["One", "Two", "Three"]);
});

Deno.test("who installed a plugin learns that the delivery of its events ended, and enables it again", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { admin, alice, roomId } = await openFixture(gateway);
  const scopes = ["command.read", "message.read", "room.read"];
  await installPlugin(admin, httpManifest(server.url, { scopes, events: ["message.created"] }), [[alice, roomId]]);
  server.respond = () => new Response(null, { status: 410 });
  await sendMessage(alice, roomId, "One");
  const [notification] = await eventually(async () => {
    const { items } = ok(await admin.get("/v1/collaboration/notifications"));
    assert.equal(items.length, 1);
    return items;
  });
  assert.deepEqual([notification.kind, notification.title], ["webhook_disabled", "Polls"]);
  const deliveryOf = async () => ok(await admin.get(`${PLUGINS}/org.example.poll/health`)).delivery;
  assert.deepEqual([(await deliveryOf()).state, (await deliveryOf()).disabledReason], ["disabled", "gone"]);
  server.respond = () => new Response(null, { status: 204 });
  const refused = server.calls.length;
  ok(await admin.post(`${PLUGINS}/org.example.poll/enable`));
  await until(() => server.calls.length > refused);
  assert.equal(server.calls.at(-1)?.data.message.text, "One");
  assert.equal((await deliveryOf()).state, "active");
});

Deno.test("a plugin that is not connected finds the commands that it missed, and responds later", async () => {
  await using gateway = await openGateway({}, { timeoutFactor: 1 });
  const { admin, alice, roomId, run } = await openFixture(gateway);
  const installed = await installPlugin(admin, manifestOf(), [[alice, roomId]]);
  const first = new PluginSocket(gateway);
  const { epoch, offset = 0 } = await first.connect(installed);
  ok(await admin.post(`${PLUGINS}/${installed.id}/disable`));
  await until(() => first.socket.closedWith !== undefined);
  ok(await admin.post(`${PLUGINS}/${installed.id}/enable`));
  const accepted = await run("/poll Dinner?");
  assert.equal(accepted.status, 202);
  const later = new PluginSocket(gateway);
  const { publications } = await later.connect(installed, { offset, epoch });
  const missed = publications.map((publication: { data: { data: { call: string; id: string } } }) =>
    publication.data.data
  );
  assert.deepEqual(missed.map(({ id }: { id: string }) => id), [accepted.body.id]);
  await later.rpc("plugin.respond", { id: accepted.body.id, response: { kind: "message", text: "Noodles" } });
  const { items } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
  assert.equal(items.at(-1).text, "Noodles");
});

Deno.test("a plugin that fails, lies or hangs is an error of its own calls, and soon not called", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { admin, alice, roomId, run } = await openFixture(gateway);
  await installPlugin(admin, httpManifest(server.url), [[alice, roomId]]);
  const bodies: [() => Response | Record<string, unknown>, string][] = [
    [() => new Response("no", { status: 500 }), "plugin_failed"],
    [() => new Response("<html>"), "plugin_failed"],
    [() => ({ kind: "ephemeral", text: "x".repeat(70_000) }), "plugin_failed"],
    [() => ({ kind: "surprise" }), "plugin_failed"],
  ];
  for (const [respond, code] of bodies) {
    server.respond = respond;
    assertProblem(await run("/poll x"), 502, code);
  }
  // Deep JSON, and text that no store takes.
  server.respond = () => new Response("[".repeat(60_000), { headers: { "content-type": "application/json" } });
  assertProblem(await run("/poll x"), 502, "plugin_failed");
  // Five failures within 30 s.
  const { length } = server.calls;
  const refused = await run("/poll x");
  assertProblem(refused, 503, "plugin_unavailable");
  assert.equal(server.calls.length, length);
  const health = ok(await admin.get(`${PLUGINS}/org.example.poll/health`));
  assert.deepEqual([health.breakerOpen, health.failures, health.lastError], [true, 6, "plugin_unavailable"]);
  await eventually(async () => {
    const events = await gateway.app.store.log.read("default", "principal:admin", 0, 100);
    assert.ok(events.some(({ type }) => type === "plugin.failed"));
  });
  // After 30 s one call tries it.
  gateway.clock.advance(31_000);
  server.respond = () => ({ kind: "ephemeral", text: "Back" });
  assert.equal(ok(await run("/poll x")).response.text, "Back");
  const text = await (await gateway.app.fetchMetrics(new Request("http://gateway.test/metrics"))).text();
  assert.match(
    text,
    /svc_plugin_calls_total\{plugin="org.example.poll",kind="command.run",outcome="plugin_failed"\} 5/,
  );
  assert.match(text, /svc_plugin_breaker_open 0/);
});

Deno.test("a plugin whose connection breaks in the middle of a response fails, and nothing else does", async () => {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const serving = (async () => {
    for await (const connection of listener) {
      await connection.read(new Uint8Array(65_536));
      const head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n";
      await connection.write(new TextEncoder().encode(`${head}{"kind":`));
      connection.close();
    }
  })();
  try {
    await using gateway = await openGateway(ALLOW);
    const { admin, alice, roomId, run } = await openFixture(gateway);
    await installPlugin(admin, httpManifest(`http://127.0.0.1:${listener.addr.port}/`), [[alice, roomId]]);
    assertProblem(await run("/poll x"), 502, "plugin_failed");
  } finally {
    listener.close();
    await serving;
  }
});

Deno.test("a plugin that hangs delays no other caller, however many of its commands are run", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { admin, alice, roomId, run } = await openFixture(gateway);
  await installPlugin(admin, httpManifest(server.url), [[alice, roomId]]);
  const hanging = Promise.withResolvers<void>();
  server.respond = async () => {
    await hanging.promise;
    return { kind: "ephemeral", text: "Late" };
  };
  const running = Array.from({ length: 30 }, () => run("/poll x"));
  // Four of one caller at once; the others wait for them.
  await until(() => server.calls.length === 4);
  for (let n = 0; n < 20; n++) await sendMessage(alice, roomId, `Message ${n}`);
  await pause(20);
  assert.equal(server.calls.length, 4);
  hanging.resolve();
  const statuses = (await Promise.all(running)).map(({ status }) => status);
  assert.deepEqual([...new Set(statuses)], [200]);
});

Deno.test("a plugin that responds to its own messages forever is bounded by the limits of every sender", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const { admin, alice, roomId } = await openFixture(gateway);
  const { token } = await installPlugin(admin, manifestOf(), [[alice, roomId]]);
  const plugin = gateway.withToken(token);
  // At once: the limit is refilled as time passes.
  const loops = Array.from({ length: 200 }, (_, n) => plugin.post("/v1/messages", { roomId, text: `Loop ${n}` }));
  const statuses = (await Promise.all(loops)).map(({ status }) => status);
  assert.deepEqual([...new Set(statuses)].sort(), [201, 429]);
  ok(await alice.post("/v1/messages", { roomId, text: "Others are not limited by it" }));
});

testOnPostgres(
  "with two nodes, a plugin that is connected to one serves commands and filters of the other",
  async (environment) => {
    await using redis = await startRedis();
    const shared = { ...environment, SVC_REDIS_URL: redis.url };
    await using near = await openGateway(shared);
    await using far = await openGateway(shared);
    const { admin, alice, roomId } = await openFixture(near);
    const hooks = [{ on: "message.before_send", failure: "closed", timeoutMs: 1500 }];
    const manifest = manifestOf({ scopes: ["command.read", "message.write", "message.read"], hooks });
    const installed = await installPlugin(admin, manifest, [[alice, roomId]]);
    ok(await alice.put(`/v1/rooms/${roomId}/filters/${installed.id}`));
    const socket = new PluginSocket(near);
    await socket.connect(installed);
    const answered = new Set<string>();
    const answering = setInterval(() => {
      for (const { id, call } of socket.calls.filter((one) => !answered.has(one.id))) {
        answered.add(id);
        const response = call === "command.run"
          ? { kind: "ephemeral", text: "From the other node" }
          : { kind: "replace", text: "Filtered" };
        void socket.rpc("plugin.respond", { id, response });
      }
    }, 5);
    try {
      const other = await far.as("alice");
      // The other node learns of the filter by a signal.
      await eventually(async () => {
        assert.equal(ok(await other.post("/v1/messages", { roomId, text: "Hello" })).text, "Filtered");
      });
      const { response } = ok(await other.post(`${COMMANDS}/run`, { roomId, text: "/poll Lunch?" }));
      assert.equal(response.text, "From the other node");
    } finally {
      clearInterval(answering);
    }
  },
);
