// A token cannot turn what a stronger one created to its own ends.
import assert from "node:assert/strict";
import { testOnEngines } from "../engines.ts";
import { eventually, until } from "../wait.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "./fixtures.ts";
import { installPlugin, manifestOf, PLUGINS, PluginServer } from "./plugin_fixture.ts";
import { createWebhook, Endpoint, openWithEndpoints, untilWebhook, WEBHOOKS } from "./webhook_fixture.ts";

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
