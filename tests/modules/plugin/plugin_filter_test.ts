// Filters of messages: pass, replace, refuse; what happens when they fail; and that other rooms have nothing to do with them.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";
import { allEnded, eventually, pause, until } from "../../wait.ts";
import { AgentFixture, callTools } from "../agent/agent_fixture.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, readTexts, sendMessage } from "../fixtures.ts";
import {
  ALLOW,
  installPlugin,
  manifestOf,
  PLUGINS,
  PluginServer,
  PluginSocket,
  refuseOrMask,
} from "./plugin_fixture.ts";

const ID = "org.example.filter";

type Fixture = { admin: Caller; alice: Caller; roomId: string; otherId: string };

function filterManifest(server: PluginServer | undefined, hook: Record<string, unknown> = {}, more = {}) {
  return manifestOf({
    id: ID,
    name: "Filter",
    commands: [],
    actions: [],
    scopes: ["message.read"],
    hooks: [{ on: "message.before_send", ...hook }],
    ...server === undefined ? {} : { transport: "http", endpoint: server.url },
    ...more,
  });
}

async function openFixture(gateway: Harness, manifest: Record<string, unknown>): Promise<Fixture & { token: string }> {
  const admin = await gateway.as("admin", { role: "admin" });
  const { alice } = await createCallers(gateway, "alice", "bob");
  const [roomId, otherId] = [await createRoom(alice, ["bob"]), await createRoom(alice, ["bob"])];
  const { token } = await installPlugin(admin, manifest);
  ok(await alice.put(`/v1/rooms/${roomId}/filters/${ID}`));
  return { admin, alice, roomId, otherId, token };
}

/** What posts texts to a new hook of the room. */
async function openHook(
  gateway: Harness,
  who: Caller,
  roomId: string,
): Promise<(body: string) => Promise<ApiResponse>> {
  const { path } = ok(await who.post("/v1/collaboration/incoming", { roomId, displayName: "CI" }));
  const headers = { "content-type": "text/plain" };
  return (body) => gateway.send(new Request(`http://gateway.test${path}`, { method: "POST", headers, body }));
}

testOnEngines(
  "a filter passes, replaces or refuses messages and edits, only in rooms that enabled it",
  async (environment) => {
    await using server = new PluginServer();
    await using gateway = await openGateway({ ...environment, ...ALLOW });
    const { alice, roomId, otherId } = await openFixture(gateway, filterManifest(server));
    server.respond = refuseOrMask;
    const passed = await sendMessage(alice, roomId, "Hello");
    assert.deepEqual([passed.text, passed.metadata], ["Hello", {}]);
    assert.equal((await sendMessage(alice, roomId, "Card 4111")).text, "Card ****");
    const refused = await alice.post("/v1/messages", { roomId, text: "forbidden" });
    assertProblem(refused, 422, "plugin_refused");
    assert.match(refused.body.detail, /Not here/);
    assertProblem(await alice.patch(`/v1/messages/${passed.id}`, { text: "forbidden" }), 422, "plugin_refused");
    assert.equal(ok(await alice.patch(`/v1/messages/${passed.id}`, { text: "Now 4111" })).text, "Now ****");
    assertProblem(
      await alice.post("/v1/messages", { roomId, text: "forbidden", sendAt: "2026-03-02T12:00:00Z" }),
      422,
      "plugin_refused",
    );
    const asked = server.calls.length;
    assert.equal((await sendMessage(alice, otherId, "forbidden 4111")).text, "forbidden 4111");
    assert.equal(server.calls.length, asked);
    // Nobody who may not send makes the gateway call.
    const carol = await gateway.as("carol");
    assertProblem(await carol.post("/v1/messages", { roomId, text: "forbidden" }), 404, "not_found");
    assert.equal(server.calls.length, asked);
    // A repeat is one, whatever the filter says the second time.
    const first = await sendMessage(alice, roomId, "Card 4111", { clientMessageId: "one" });
    server.respond = () => ({ kind: "replace", text: "Something else" });
    const again = await sendMessage(alice, roomId, "Card 4111", { clientMessageId: "one" });
    assert.deepEqual([again.id, again.text], [first.id, "Card ****"]);
    // The same with a key: the filter is asked before the transaction that stores the response.
    const keyed = () => alice.post("/v1/messages", { roomId, text: "x" }, { "idempotency-key": "k" });
    const stored = ok(await keyed());
    assert.equal(stored.text, "Something else");
    server.respond = () => ({ kind: "refuse", reason: "Not any more" });
    assert.equal(ok(await keyed()).id, stored.id);
    const edit = await alice.patch(`/v1/messages/${stored.id}`, { text: "y" }, { "idempotency-key": "l" });
    assertProblem(edit, 422, "plugin_refused");
    ok(await alice.delete(`/v1/rooms/${roomId}/filters/${ID}`));
    assert.equal((await sendMessage(alice, roomId, "forbidden")).text, "forbidden");
  },
);

testOnEngines(
  "a message that was scheduled before its room had a filter is filtered when it is sent",
  async (environment) => {
    await using server = new PluginServer();
    await using gateway = await openGateway({ ...environment, ...ALLOW });
    const { alice, roomId } = await openFixture(gateway, filterManifest(server, { failure: "closed" }));
    const filter = `/v1/rooms/${roomId}/filters/${ID}`;
    ok(await alice.delete(filter));
    const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
    const schedule = (text: string) => alice.post("/v1/messages", { roomId, text, sendAt, clientMessageId: text });
    const [masked, refused] = [ok(await schedule("Card 4111")), ok(await schedule("forbidden"))];
    ok(await alice.put(filter));
    server.respond = refuseOrMask;
    gateway.clock.advance(60_000);
    await gateway.runJobs();
    const { items } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
    assert.deepEqual(items.map(({ text }: { text: string }) => text), ["Card ****"]);
    const failed = ok(await alice.get("/v1/messages/scheduled")).items;
    assert.deepEqual(failed.map(({ id, failure: { code } }: { id: string; failure: { code: string } }) => [id, code]), [
      [refused.id, "plugin_refused"],
    ]);
    assertProblem(await alice.get(`/v1/messages/scheduled/${masked.id}`), 404, "not_found");
    // A repeat of the call returns the message that was sent.
    server.respond = () => ({ kind: "pass" });
    assert.deepEqual(ok(await schedule("Card 4111")).id, items[0].id);
  },
);

testOnEngines("a scheduled message is marked by what its filter did when it was sent", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server));
  const [passes, fails] = [() => ({ kind: "pass" }), () => new Response(null, { status: 500 })];
  type Respond = PluginServer["respond"];
  const send = async (text: string, whenScheduled: Respond, whenSent: Respond) => {
    const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
    server.respond = whenScheduled;
    const { message } = ok(await alice.post("/v1/messages", { roomId, text, metadata: { mine: 1 }, sendAt }));
    server.respond = whenSent;
    gateway.clock.advance(60_000);
    await gateway.runJobs();
    const sent = ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items.at(-1);
    const events = await gateway.app.store.log.read("default", `room:${roomId}`, 0, 100);
    const { data } = JSON.parse(events.findLast(({ type }) => type === "message.created")?.json ?? "");
    assert.deepEqual([sent.text, data.message.text, data.message.metadata], [text, text, sent.metadata]);
    return [message.metadata, sent.metadata];
  };
  const [whole, marked] = [{ mine: 1 }, { mine: 1, unfiltered: [ID] }];
  assert.deepEqual(await send("First", fails, passes), [marked, whole]);
  assert.deepEqual(await send("Second", passes, fails), [whole, marked]);
});

testOnEngines("a repeat of a scheduled message is one, whatever filters make of it", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server));
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  const schedule = (text: string) => alice.post("/v1/messages", { roomId, text, sendAt, clientMessageId: "once" });
  server.respond = () => new Response(null, { status: 500 });
  const first = ok(await schedule("Card 4111"));
  server.respond = refuseOrMask;
  const repeated = await schedule("Card 4111");
  assert.deepEqual([repeated.status, repeated.body], [202, first]);
  // Not what another text becomes.
  assertProblem(await schedule("Card ****"), 409, "client_message_id_conflict");
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  const { items: [sent] } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
  assert.equal(sent.text, "Card ****");
  server.respond = () => ({ kind: "pass" });
  assert.equal(ok(await schedule("Card 4111")).id, sent.id);
  assertProblem(await schedule("Card ****"), 409, "client_message_id_conflict");
});

testOnEngines("a scheduled message waits for a filter that does not respond", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server, { failure: "closed" }));
  server.respond = () => ({ kind: "pass" });
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  ok(await alice.post("/v1/messages", { roomId, text: "later", sendAt }));
  const texts = () => readTexts(alice, roomId);
  server.respond = () => new Response(null, { status: 500 });
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.deepEqual(await texts(), []);
  server.respond = () => ({ kind: "pass" });
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  assert.deepEqual(await texts(), ["later"]);
});

Deno.test("a room's owner enables filters, every member sees them, and a room has three at most", async () => {
  await using gateway = await openGateway();
  const { admin, alice, roomId } = await openFixture(gateway, filterManifest(undefined));
  const bob = await gateway.as("bob");
  const path = `/v1/rooms/${roomId}/filters`;
  const { items } = ok(await bob.get(path));
  assert.deepEqual(items, [{
    pluginId: ID,
    name: "Filter",
    active: true,
    failure: "open",
    enabledBy: "alice",
    createdAt: "2026-03-01T12:00:00.000Z",
  }]);
  assertProblem(await bob.delete(`${path}/${ID}`), 403, "forbidden");
  // Admins of the tenant have no say in rooms that they are not in.
  assertProblem(await admin.get(path), 404, "not_found");
  assertProblem(await admin.put(`${path}/${ID}`), 404, "not_found");
  assertProblem(await alice.put(`${path}/org.example.none`), 404, "not_found");
  for (let n = 0; n < 3; n++) {
    const id = `org.example.f${n}`;
    await installPlugin(admin, filterManifest(undefined, {}, { id }));
    const answer = await alice.put(`${path}/${id}`);
    assert.equal(answer.status, n < 2 ? 204 : 409, JSON.stringify(answer.body));
  }
  await installPlugin(admin, manifestOf());
  assertProblem(await alice.put(`${path}/org.example.poll`), 409, "conflict");
});

Deno.test("while a filter fails, open rooms send and mark messages, closed ones refuse them; a filter paused is not passed by", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { admin, alice, roomId, otherId } = await openFixture(gateway, filterManifest(server));
  server.respond = () => new Response("broken", { status: 500 });
  const marked = await sendMessage(alice, roomId, "Open", { metadata: { mine: 1 } });
  assert.deepEqual(marked.metadata, { mine: 1, unfiltered: [ID] });
  const edited = ok(await alice.patch(`/v1/messages/${marked.id}`, { text: "Edited" }));
  assert.deepEqual([edited.text, edited.metadata], ["Edited", { mine: 1, unfiltered: [ID] }]);
  server.respond = () => ({ kind: "pass" });
  const checked = ok(await alice.patch(`/v1/messages/${marked.id}`, { text: "Checked" }));
  assert.deepEqual([checked.text, checked.metadata], ["Checked", { mine: 1 }]);
  server.respond = () => new Response("broken", { status: 500 });
  const manifest = filterManifest(server, { failure: "closed" }, { version: "2.0.0" });
  ok(await admin.patch(`${PLUGINS}/${ID}`, { manifest }));
  const refused = await alice.post("/v1/messages", { roomId, text: "Closed" });
  assertProblem(refused, 503, "plugin_unavailable");
  assert.ok(Number(refused.headers.get("retry-after")) > 0);
  // Elsewhere nothing has changed.
  ok(await alice.post("/v1/messages", { roomId: otherId, text: "Elsewhere" }));
  // The breaker opens: no more calls, the same answer.
  for (let n = 0; n < 6; n++) {
    assertProblem(await alice.post("/v1/messages", { roomId, text: "x" }), 503, "plugin_unavailable");
  }
  const { length } = server.calls;
  assertProblem(await alice.post("/v1/messages", { roomId, text: "x" }), 503, "plugin_unavailable");
  assert.equal(server.calls.length, length);
  server.respond = () => ({ kind: "pass" });
  gateway.clock.advance(31_000);
  ok(await alice.post("/v1/messages", { roomId, text: "Works again" }));
  // Paused by an upgrade, it still guards the room; disabled by an admin, it does not.
  ok(
    await admin.patch(`${PLUGINS}/${ID}`, {
      manifest: { ...manifest, version: "3.0.0", scopes: ["message.read", "room.read"] },
    }),
  );
  assertProblem(await alice.post("/v1/messages", { roomId, text: "Paused" }), 503, "plugin_unavailable");
  ok(await admin.post(`${PLUGINS}/${ID}/disable`));
  ok(await alice.post("/v1/messages", { roomId, text: "Disabled" }));
});

Deno.test("a filter that hangs delays the messages of its room, in their order, and no other message", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { alice, roomId, otherId } = await openFixture(gateway, filterManifest(server, { timeoutMs: 1500 }));
  const slow = Promise.withResolvers<void>();
  server.respond = async ({ data }) => {
    if (data.text === "First") await slow.promise;
    return { kind: "pass" };
  };
  const first = sendMessage(alice, roomId, "First");
  await until(() => server.calls.length === 1);
  const second = sendMessage(alice, roomId, "Second");
  await until(() => server.calls.length === 2);
  await allEnded(Array.from({ length: 20 }, (_, n) => sendMessage(alice, otherId, `Elsewhere ${n}`)));
  await pause(20);
  assert.deepEqual(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items, []);
  slow.resolve();
  const messages = await allEnded([first, second]);
  assert.ok(messages[0].seq < messages[1].seq);
  assert.deepEqual(messages.map(({ metadata }) => metadata), [{}, {}]);
});

Deno.test("a message is sent unfiltered after the deadline of a filter that never responds", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW, { timeoutFactor: 1 });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server));
  server.respond = () => server.hang();
  const late = await sendMessage(alice, roomId, "Late");
  assert.deepEqual(late.metadata, { unfiltered: [ID] });
});

Deno.test("a filter over a socket is asked without storing anything", async () => {
  await using gateway = await openGateway();
  const { alice, roomId, token } = await openFixture(gateway, filterManifest(undefined));
  const socket = new PluginSocket(gateway);
  await socket.connect({ id: ID, principalId: `plugin:${ID}`, token, secret: null });
  const sending = sendMessage(alice, roomId, "Psst");
  await until(() => socket.calls.length === 1);
  const [call] = socket.calls;
  assert.deepEqual([call?.call, call?.data.text, call?.data.senderId], ["message.before_send", "Psst", "alice"]);
  await socket.rpc("plugin.respond", { id: call?.id, response: { kind: "replace", text: "Hush" } });
  assert.equal((await sending).text, "Hush");
  const stored = await gateway.app.store.log.read("default", `plugin:${ID}`, 0, 10);
  assert.deepEqual(stored, []);
});

testOnEngines("a filter decides on what an agent says, and on replies to its questions", async (environment) => {
  await using server = new PluginServer();
  await using fixture = await AgentFixture.open(
    ({ last }) =>
      last.includes("close")
        ? callTools(["ask_user", { question: "Which of 4111?" }])
        : last.includes("curse")
        ? "forbidden"
        : `You said: ${last}`,
    { environment: { ...environment, ...ALLOW } },
  );
  const { alice, bob, roomId, gateway } = fixture;
  server.respond = refuseOrMask;
  await installPlugin(await gateway.as("admin", { role: "admin" }), filterManifest(server));
  ok(await alice.put(`/v1/rooms/${roomId}/filters/${ID}`));
  await fixture.mention(bob, "Please close it");
  const { id } = await fixture.settled("waiting_input");
  const path = `/v1/collaboration/ai/runs/${id}/reply`;
  assertProblem(await bob.post(path, { text: "forbidden" }), 422, "plugin_refused");
  ok(await bob.post(path, { text: "That of 4111" }));
  await gateway.runJobs();
  await fixture.settled();
  assert.deepEqual(await fixture.texts(), [
    "Please close it",
    "Which of ****?",
    "That of ****",
    "You said: That of ****",
  ]);
  await fixture.mention(bob, "Please curse");
  assert.equal((await fixture.settled("failed", 2)).error.code, "plugin_refused");
  assert.equal((await fixture.texts()).at(-1), "I could not finish this: The response could not be posted: Not here");
});

testOnEngines("a filter decides on what tools of an agent send and edit", async (environment) => {
  await using server = new PluginServer();
  let sentId = "";
  await using fixture = await AgentFixture.open(
    ({ last, number }) =>
      number === 1
        ? callTools(["message_send", { text: "It is 4111" }])
        : number === 2
        ? callTools(["message_update", { id: sentId = JSON.parse(last).id, text: "It was 4111" }])
        : number === 3
        ? callTools(["message_send", { text: "forbidden" }])
        : last.includes("plugin_refused")
        ? "Refused"
        : last,
    { environment: { ...environment, ...ALLOW }, agent: { tools: ["message.send", "message.update"] } },
  );
  const { alice, roomId, gateway } = fixture;
  server.respond = refuseOrMask;
  await installPlugin(await gateway.as("admin", { role: "admin" }), filterManifest(server));
  ok(await alice.put(`/v1/rooms/${roomId}/filters/${ID}`));
  await fixture.mention(alice, "Say it");
  await fixture.settled();
  assert.deepEqual(await fixture.texts(), ["Say it", "It was ****", "Refused"]);
  assert.equal(ok(await alice.get(`/v1/messages/${sentId}`)).text, "It was ****");
});

testOnEngines("a filter decides on what hooks post", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server));
  server.respond = refuseOrMask;
  const post = await openHook(gateway, alice, roomId);
  assert.equal((await post("It is 4111")).body, "ok");
  assertProblem(await post("forbidden"), 422, "plugin_refused");
  assert.deepEqual(await readTexts(alice, roomId), ["It is ****"]);
});

testOnEngines("a filter decides on what an agent outside says", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server));
  server.respond = refuseOrMask;
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "alice", name: "Robo" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`));
  const start = async (text: string): Promise<string> => {
    const { id } = ok(await robo.post("/v1/collaboration/ai/runs", { roomId }));
    ok(await robo.post(`/v1/collaboration/ai/runs/${id}/append`, { step: 0, offset: 0, text }));
    return id;
  };
  const begin = async (text: string) => {
    const id = await start(text);
    return (body: unknown, headers = {}) => robo.post(`/v1/collaboration/ai/runs/${id}/finish`, body, headers);
  };
  assert.equal(typeof ok(await (await begin("It is 4111"))({})).outputMessageId, "string");
  const refused = await begin("forbidden");
  assertProblem(await refused({}), 422, "plugin_refused");
  assert.equal(ok(await refused({ status: "failed" })).outputMessageId, null);
  assert.equal(typeof ok(await (await begin("And 4111"))({}, { "idempotency-key": "k" })).outputMessageId, "string");
  const silent = [await start("It was 4111"), await start("forbidden")];
  gateway.clock.advance(121_000);
  await gateway.runJobs();
  await eventually(async () => {
    for (const id of silent) {
      const { status, error } = ok(await robo.get(`/v1/collaboration/ai/runs/${id}`));
      assert.deepEqual([status, error?.code], ["expired", "expired"]);
    }
  });
  assert.deepEqual(await readTexts(alice, roomId), ["It is ****", "And ****", "It was ****"]);
});

testOnEngines("a filter decides on responses to commands and actions, at once and later", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { admin, alice, roomId } = await openFixture(gateway, filterManifest(server));
  let response: Record<string, unknown> = {};
  server.respond = (call) => {
    if (call.type === "message.before_send") return refuseOrMask(call);
    return response["kind"] === "accepted" ? new Response(null, { status: 202 }) : response;
  };
  const manifest = manifestOf({
    transport: "http",
    endpoint: server.url,
    scopes: ["command.read", "command.write", "message.write"],
  });
  const { token } = await installPlugin(admin, manifest, [[alice, roomId]]);
  const run = () => alice.post("/v1/collaboration/commands/run", { roomId, text: "/poll" });
  const textOf = async (id: string) => ok(await alice.get(`/v1/messages/${id}`)).text;
  response = { kind: "message", text: "It is 4111", elements: [{ kind: "button", id: "vote-a", label: "A" }] };
  const { messageId } = ok(await run()).response;
  assert.equal(await textOf(messageId), "It is ****");
  const press = () => alice.post(`/v1/messages/${messageId}/elements/vote-a/action`);
  response = { kind: "update", text: "Now 4111" };
  ok(await press());
  assert.equal(await textOf(messageId), "Now ****");
  response = { kind: "update", text: "forbidden" };
  const refused = await press();
  assertProblem(refused, 502, "command_failed");
  assert.match(refused.body.detail, /Not here/);
  response = { kind: "ephemeral", text: "Only you: 4111" };
  assert.equal(ok(await run()).response.text, "Only you: 4111");
  response = { kind: "accepted" };
  const poll = gateway.withToken(token);
  for (const path of ["/v1/collaboration/interactions", "/v1/collaboration/plugin-calls"]) {
    const { id } = ok(await run());
    const respond = (text: string) =>
      poll.post(`${path}/${id}/response`, { response: { kind: "message", text } }, {
        "idempotency-key": `${id} ${text}`,
      });
    assertProblem(await respond("forbidden"), 422, "plugin_refused");
    ok(await respond(`Later 4111 of ${id}`));
    assert.equal(ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items.at(-1).text, `Later **** of ${id}`);
    assertProblem(await respond("Twice"), 409, "conflict");
  }
});

testOnEngines("a filter decides on all of a text that becomes a file", async (environment) => {
  await using server = new PluginServer();
  await using gateway = await openGateway({ ...environment, ...ALLOW });
  const { alice, roomId } = await openFixture(gateway, filterManifest(server));
  server.respond = refuseOrMask;
  const post = await openHook(gateway, alice, roomId);
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "alice", name: "Robo" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`));
  const finish = async (text: string) => {
    const { id } = ok(await robo.post("/v1/collaboration/ai/runs", { roomId }));
    return await robo.post(`/v1/collaboration/ai/runs/${id}/finish`, { text });
  };
  const log = `${"a line of 4111\n".repeat(2500)}${"4111 ".repeat(3500)}`.trim();
  assert.equal((await post(log)).body, "ok");
  ok(await finish(log));
  const { items } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
  assert.equal(items.length, 2);
  for (const { text, files: [file], metadata } of items) {
    assert.match(text, /^a line of \*{4}\n.*the whole text is in the file\)$/s);
    assert.equal(ok(await alice.get(`/v1/collaboration/files/${file.id}/content`)), log.replaceAll("4111", "****"));
    assert.equal(metadata.unfiltered, undefined);
  }
  for (const say of [post, finish]) assertProblem(await say(`${log}\nforbidden`), 422, "plugin_refused");
  // A filter that fails is not asked again for the rest of the text.
  const { length } = server.calls;
  server.respond = () => new Response("broken", { status: 500 });
  assert.equal((await post(log)).body, "ok");
  assert.equal(server.calls.length, length + 1);
  const after = ok(await alice.get(`/v1/messages?roomId=${roomId}`)).items;
  assert.deepEqual(after.at(-1).metadata.unfiltered, [ID]);
});
