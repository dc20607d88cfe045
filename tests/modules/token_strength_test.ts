// A token cannot turn what a stronger one created to its own ends.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../engines.ts";
import { eventually, until } from "../wait.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "./fixtures.ts";
import { installPlugin, manifestOf, PLUGINS, PluginServer } from "./plugin/plugin_fixture.ts";
import { AgentFixture, callTools } from "./agent/agent_fixture.ts";
import { createWebhook, Endpoint, openWithEndpoints, untilWebhook, WEBHOOKS } from "./webhook/webhook_fixture.ts";

const AGENTS = "/v1/collaboration/agents";
const RUNS = "/v1/collaboration/ai/runs";
const SKILLS = "/v1/collaboration/skills";

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** A room with an agent of Alice, which has a daily schedule there. */
async function openScheduled(
  environment: Record<string, string>,
  answer?: Parameters<typeof AgentFixture.open>[0],
): Promise<{ fixture: AgentFixture; path: string; nextRun: (status?: string) => Promise<Body> }> {
  const fixture = await AgentFixture.open(answer, {
    environment,
    agent: { instructions: "Be kind", tools: ["task.*"], askFirst: ["task.create"] },
  });
  const { alice, agentId, roomId, gateway } = fixture;
  const path = `${AGENTS}/${agentId}`;
  const schedule = { rrule: "FREQ=DAILY", startAt: "2026-03-02T12:00", timeZone: "UTC", roomId, input: "Greet" };
  ok(await alice.patch(path, { schedule }));
  const runs = async (): Promise<Body[]> =>
    ok(await (await gateway.as("alice")).get(`${RUNS}?roomId=${roomId}&limit=200`)).items;
  const nextRun = async (status = "succeeded") => {
    const count = (await runs()).length;
    gateway.clock.advance(DAY_MS);
    await gateway.runJobs();
    return await eventually(async () => {
      const [last, ...earlier] = await runs();
      assert.deepEqual([earlier.length, last?.status], [count, status], JSON.stringify(last));
      return last;
    });
  };
  return { fixture, path, nextRun };
}

testOnEngines("a webhook is directed only by tokens with the scopes that it delivers with", async (environment) => {
  await using gateway = await openWithEndpoints(environment);
  await using own = new Endpoint();
  await using foreign = new Endpoint();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { seq } = await sendMessage(alice, roomId, "before");
  const { id } = await createWebhook(alice, own.url, { roomIds: [roomId], events: ["message.created"] });
  await sendMessage(alice, roomId, "one");
  await until(() => own.texts.length === 1);
  const path = `${WEBHOOKS}/${id}`;
  const { items: [delivery] } = await eventually(async () => {
    const listed = ok(await alice.get(`${path}/deliveries`));
    assert.equal(listed.items.length, 1);
    return listed;
  });

  for (const scope of ["webhook.*", "webhook.* room.read message.read"]) {
    const weak = await gateway.as("alice", { scope });
    for (
      const refused of [
        weak.patch(path, { url: foreign.url }),
        weak.patch(path, { events: ["*"] }),
        weak.patch(path, { roomIds: [roomId] }),
        weak.patch(path, { enabled: true, description: "Mine" }),
        weak.post(`${path}/rotate`),
        weak.put(`${path}/cursor`, { stream: `room:${roomId}`, seq: 0 }),
        weak.post(`${path}/deliveries/${delivery.id}/replay`),
        weak.post(`${path}/parked/replay`),
      ]
    ) assertProblem(await refused, 403, "scope_missing");
    assert.equal(ok(await weak.patch(path, { description: "Of Alice" })).description, "Of Alice");
    assert.equal(ok(await weak.patch(path, { enabled: false })).enabled, false);
    assert.equal(ok(await alice.patch(path, { enabled: true })).enabled, true);
    // Its own webhook it directs as it likes.
    const { id: ownId } = await createWebhook(weak, "https://hooks.example.com/", { roomIds: [roomId] });
    const ownPath = `${WEBHOOKS}/${ownId}`;
    ok(await weak.patch(ownPath, { url: "https://elsewhere.example.com/", enabled: false }));
    ok(await weak.put(`${ownPath}/cursor`, { stream: `room:${roomId}`, seq }));
    ok(await weak.post(`${ownPath}/rotate`));
    assert.equal((await weak.delete(ownPath)).status, 204);
  }

  await sendMessage(alice, roomId, "two");
  await until(() => own.texts.length === 2);
  assert.deepEqual(own.texts, ["one", "two"]);
  assert.equal(foreign.requests.length, 0);
  const strong = await gateway.as("alice", { scope: "*" });
  ok(await strong.patch(path, { url: foreign.url }));
  ok(await strong.put(`${path}/cursor`, { stream: `room:${roomId}`, seq: 0 }));
  await until(() => foreign.texts.includes("before"));
  await untilWebhook(alice, id, ({ state }) => state === "active");
});

testOnEngines(
  "a plugin is changed and enabled only by tokens with the scopes that it was granted",
  async (environment) => {
    await using gateway = await openWithEndpoints(environment);
    await using own = new PluginServer();
    await using foreign = new PluginServer();
    const { alice } = await createCallers(gateway, "alice");
    const admin = await gateway.as("admin", { role: "admin" });
    const roomId = await createRoom(alice, []);
    const manifest = (url: string) =>
      manifestOf({
        transport: "http",
        endpoint: url,
        scopes: ["command.read", "message.write", "message.read", "room.read"],
        events: ["message.created"],
        hooks: [{ on: "message.before_send" }],
        configSchema: [{ kind: "text", name: "forwardTo", label: "Forward to" }],
      });
    own.respond = ({ type }) => type === "message.before_send" ? { kind: "pass" } : { kind: "ephemeral", text: "Done" };
    const { id, principalId } = await installPlugin(admin, manifest(own.url), [[alice, roomId]]);
    const path = `${PLUGINS}/${id}`;
    ok(await alice.put(`/v1/rooms/${roomId}/filters/${id}`));

    for (const scope of ["plugin.*", "plugin.* command.* room.* message.write"]) {
      const weak = await gateway.as("admin", { role: "admin", scope });
      assertProblem(await weak.patch(path, { manifest: manifest(foreign.url) }), 403, "scope_missing");
      assertProblem(await weak.patch(path, { config: { forwardTo: foreign.url } }), 403, "scope_missing");
      // Also while it is disabled: it would act once it is enabled.
      assert.equal(ok(await weak.post(`${path}/disable`)).state, "disabled");
      assertProblem(await weak.patch(path, { manifest: manifest(foreign.url) }), 403, "scope_missing");
      assertProblem(await weak.post(`${path}/enable`), 403, "scope_missing");
      ok(await admin.post(`${path}/enable`));
    }
    await sendMessage(alice, roomId, "Secret");
    ok(await alice.post("/v1/collaboration/commands/run", { roomId, text: "/poll Lunch?" }));
    await until(() => own.calls.some(({ type }) => type === "message.created"));
    assert.deepEqual(foreign.calls, []);

    // What it was granted can be taken away; then it is changed, and granted again by who has the scopes.
    const weak = await gateway.as("admin", { role: "admin", scope: "plugin.* command.*" });
    assert.equal(ok(await weak.post(`${path}/grant`, { scopes: ["command.read"] })).state, "paused");
    assert.equal(ok(await weak.patch(path, { manifest: manifest(foreign.url) })).state, "paused");
    assertProblem(await weak.post(`${path}/enable`), 403, "grant_missing");
    await sendMessage(alice, roomId, "Not for it");
    assert.deepEqual(foreign.calls, []);
    const strong = await gateway.as("admin", { role: "admin", scope: "plugin.* command.* room.* message.*" });
    assert.equal(ok(await strong.post(`${path}/grant`, { scopes: manifest("")["scopes"] })).state, "enabled");
    ok(await strong.patch(path, { config: { forwardTo: "#general" } }));

    // Only a token with all that was granted reads the configuration as the plugin.
    const narrow = await gateway.as(principalId, { scope: "command.read" });
    assertProblem(await narrow.get("/v1/collaboration/plugin"), 403, "scope_missing");
    const whole = await gateway.as(principalId);
    assert.deepEqual(ok(await whole.get("/v1/collaboration/plugin")).config, { forwardTo: "#general" });
  },
);

testOnEngines(
  "a change of what an agent does makes the caller responsible for its schedule, within its token",
  async (environment) => {
    const { fixture: opened, path, nextRun } = await openScheduled(environment);
    await using fixture = opened;
    const { gateway, roomId } = fixture;
    const as = (name: string, scope?: string, role?: "admin") =>
      gateway.as(name, { ...scope === undefined ? {} : { scope }, ...role === undefined ? {} : { role } });
    const first = await nextRun();
    assert.deepEqual([first.askerIds, first.scopes], [["alice"], null]);
    const stored = ok(await (await as("alice")).get(path));

    // What does not decide what it does, or changes nothing, leaves the schedule alone.
    const same = { instructions: stored.instructions, tools: stored.tools, askFirst: stored.askFirst, paused: false };
    ok(await (await as("alice", "agent.*")).patch(path, { ...same, displayName: "Kind helper", maxSteps: 3 }));
    assert.equal((await nextRun()).scopes, null);

    const decisive = [
      { instructions: "Be evil" },
      { tools: ["*"] },
      { askFirst: [] },
      { memoryScopes: ["tenant"] },
      { model: "small" },
    ];
    for (const change of decisive) {
      ok(await (await as("alice", "agent.* task.*")).patch(path, change));
      const run = await nextRun();
      assert.deepEqual([run.askerIds, run.scopes], [["alice"], ["agent.*", "task.*"]], JSON.stringify(change));
      // Who sets the schedule again does so with their own token.
      ok(await (await as("alice")).patch(path, { schedule: stored.schedule }));
      assert.equal((await nextRun()).scopes, null);
    }
    ok(await (await as("alice", "agent.*")).patch(path, { paused: true }));
    ok(await (await as("alice", "agent.* task.*")).patch(path, { paused: false }));
    assert.deepEqual((await nextRun()).scopes, ["agent.*", "task.*"]);
    // It has no more scopes for a stronger token.
    ok(await (await as("alice")).patch(path, { instructions: "Be kind again" }));
    assert.deepEqual((await nextRun()).scopes, ["agent.*", "task.*"]);

    // An admin is responsible only for runs in rooms that it is a member of.
    const refused = await (await as("adam", undefined, "admin")).patch(path, { instructions: "Be evil" });
    assertProblem(refused, 403, "forbidden");
    assert.match(refused.body.detail, /schedule/);
    ok(await (await as("adam", undefined, "admin")).patch(path, { paused: true }));
    assertProblem(await (await as("adam", undefined, "admin")).patch(path, { paused: false }), 403, "forbidden");
    assert.equal(ok(await (await as("alice")).get(path)).instructions, "Be kind again");
    ok(await (await as("alice")).put(`/v1/rooms/${roomId}/members/adam`));
    ok(await (await as("adam", undefined, "admin")).patch(path, { instructions: "Be fair", paused: false }));
    assert.deepEqual((await nextRun()).askerIds, ["adam"]);
    ok(await (await as("alice")).delete(`/v1/rooms/${roomId}/members/adam`));
    const { instructions, schedule } = ok(
      await (await as("adam", undefined, "admin")).patch(path, { instructions: "Be silent", schedule: null }),
    );
    assert.deepEqual([instructions, schedule], ["Be silent", null]);
  },
);

testOnEngines("a run of a schedule that waits is bounded by a change of its agent, too", async (environment) => {
  const { fixture: opened, path, nextRun } = await openScheduled(
    environment,
    ({ messages, toolNames }) =>
      messages.at(-1)?.role === "tool" ? toolNames.join(" ") : callTools(["ask_user", { question: "Shall I?" }]),
  );
  await using fixture = opened;
  const { gateway } = fixture;
  const { id } = await nextRun("waiting_input");
  ok(await (await gateway.as("alice", { scope: "agent.*" })).patch(path, { schedule: null, tools: ["*"] }));
  const alice = await gateway.as("alice");
  ok(await alice.post(`${RUNS}/${id}/reply`, { text: "Yes" }));
  const run = await eventually(async () => {
    const found = ok(await alice.get(`${RUNS}/${id}`));
    assert.equal(found.status, "succeeded");
    return found;
  });
  assert.deepEqual(run.scopes, ["agent.*"]);
  const { text } = ok(await alice.get(`/v1/messages/${run.outputMessageId}`));
  assert.equal(text, "ask_user");
});

testOnEngines("a skill of an agent is a change of what it does", async (environment) => {
  const { fixture: opened, path, nextRun } = await openScheduled(environment);
  await using fixture = opened;
  const { gateway, agentId } = fixture;
  const content = "---\nname: greetings\ndescription: Greets. Use it for greetings.\n---\n\nGreet everybody.\n";
  const admin = await gateway.as("adam", { role: "admin" });
  const { version: { digest } } = ok(await admin.post(SKILLS, { files: [{ path: "SKILL.md", content }] }));
  ok(await admin.post(`${SKILLS}/greetings/approve`, { digest }));
  const of = { kind: "agent", subjectId: agentId };
  assertProblem(await admin.post(`${SKILLS}/greetings/attach`, { ...of, digest }), 403, "forbidden");
  const { schedule } = ok(await fixture.alice.get(path));
  for (const [change, body] of [["attach", { ...of, digest }], ["detach", of]] as const) {
    const weak = await gateway.as("alice", { scope: "skill.* task.read" });
    ok(await weak.post(`${SKILLS}/greetings/${change}`, body));
    assert.deepEqual((await nextRun()).scopes, ["skill.*", "task.read"], change);
    ok(await (await gateway.as("alice")).patch(path, { schedule }));
    // What is attached already changes nothing.
    if (change === "attach") {
      ok(await (await gateway.as("alice", { scope: "skill.*" })).post(`${SKILLS}/greetings/attach`, body));
    }
    assert.equal((await nextRun()).scopes, null);
  }
});

testOnEngines(
  "what hooks and commands ask of agents is within the token that gave them their address",
  async (environment) => {
    await using fixture = await AgentFixture.open(() => "Done", {
      environment: { SVC_OUTBOUND_ALLOW: "127.0.0.1", ...environment },
      agent: { tools: ["task.*"] },
    });
    const { alice, gateway, roomId } = fixture;
    await using endpoint = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      () => Response.json({ response_type: "in_channel", text: "/helper go on" }),
    );
    let count = 0;
    const lastRun = async (): Promise<Body> => {
      await gateway.runJobs();
      return await fixture.settled("succeeded", ++count);
    };
    const asked = async (path: string): Promise<Body> => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ text: "/helper go on" });
      const answer = await gateway.send(new Request(`http://gateway.test${path}`, { method: "POST", headers, body }));
      assert.equal(answer.body, "ok");
      return (await lastRun()).scopes;
    };
    const weak = await gateway.as("alice", { scope: "webhook.* message.read" });
    const bounded = ["webhook.*", "message.read", "message.write"];
    const hooks = "/v1/collaboration/incoming";
    const hook = ok(await alice.post(hooks, { roomId, displayName: "CI" }));
    assert.equal(await asked(hook.path), null);
    assert.deepEqual(await asked(ok(await weak.post(`${hooks}/${hook.id}/rotate`)).path), bounded);
    assert.equal(await asked(ok(await alice.post(`${hooks}/${hook.id}/rotate`)).path), null);
    assert.deepEqual(await asked(ok(await weak.post(hooks, { roomId, displayName: "Other" })).path), bounded);

    const commands = "/v1/collaboration/slash-commands";
    const url = (path: string) => `http://127.0.0.1:${endpoint.addr.port}/${path}`;
    const input = { roomId, name: "deploy", description: "Deploy", displayName: "CI", url: url("one") };
    const command = ok(await alice.post(commands, input));
    const run = async (): Promise<Body> => {
      const { response } = ok(await fixture.bob.post("/v1/collaboration/commands/run", { roomId, text: "/deploy" }));
      assert.equal(response.kind, "message");
      return (await lastRun()).scopes;
    };
    assert.equal(await run(), null);
    ok(await weak.patch(`${commands}/${command.id}`, { description: "Deploy it" }));
    assert.equal(await run(), null);
    ok(await weak.patch(`${commands}/${command.id}`, { url: url("two") }));
    assert.deepEqual(await run(), bounded);
    ok(await alice.post(`${commands}/${command.id}/rotate`));
    assert.deepEqual(await run(), bounded);
    // A moderator who gives it another address is responsible for it.
    ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "moderator" }));
    assert.equal(ok(await fixture.bob.patch(`${commands}/${command.id}`, { url: url("three") })).responsibleId, "bob");
    assert.equal(await run(), null);
    ok(await weak.post(`${commands}/${command.id}/rotate`));
    assert.deepEqual(await run(), bounded);
  },
);
