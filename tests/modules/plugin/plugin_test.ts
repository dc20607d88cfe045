// The life of plugins: installed, granted, enabled, upgraded, disabled, uninstalled; and what they may do meanwhile.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { installPlugin, manifestOf, PLUGINS } from "./plugin_fixture.ts";

const ID = "org.example.poll";
const ONE = `${PLUGINS}/${ID}`;

async function openFixture(gateway: Harness): Promise<{ admin: Caller; alice: Caller; roomId: string }> {
  const admin = await gateway.as("admin", { role: "admin" });
  const { alice } = await createCallers(gateway, "alice");
  return { admin, alice, roomId: await createRoom(alice, []) };
}

/** Types of the events of a principal. */
async function eventTypes({ app }: Harness, principalId: string): Promise<string[]> {
  return (await app.store.log.read("default", `principal:${principalId}`, 0, 100)).map(({ type }) => type);
}

testOnEngines("a plugin has no rights until it is granted and enabled, and none once it ends", async (environment) => {
  await using gateway = await openGateway(environment);
  const { admin, alice, roomId } = await openFixture(gateway);
  const installed = ok(await admin.post(PLUGINS, { manifest: manifestOf() }));
  assert.equal(installed.state, "disabled");
  assert.deepEqual(installed.missingScopes, ["command.read", "message.write"]);
  const plugin = gateway.withToken(installed.token);
  const send = () => plugin.post("/v1/messages", { roomId, text: "Hello" });
  assertProblem(await send(), 401, "token_revoked");
  assertProblem(await admin.post(`${ONE}/enable`), 403, "grant_missing");
  assert.deepEqual(ok(await admin.post(`${ONE}/grant`, { scopes: ["message.write"] })).missingScopes, ["command.read"]);
  assertProblem(await admin.post(`${ONE}/enable`), 403, "grant_missing");
  ok(await admin.post(`${ONE}/grant`, { scopes: ["command.read", "message.write"] }));
  assert.equal(ok(await admin.post(`${ONE}/enable`)).state, "enabled");
  ok(await alice.put(`/v1/rooms/${roomId}/members/plugin:${ID}`, { role: "member" }));
  const message = ok(await send());
  assert.deepEqual([message.senderId, message.senderKind], [`plugin:${ID}`, "service"]);
  // What was not granted.
  assertProblem(await plugin.get(`/v1/messages?roomId=${roomId}`), 403, "scope_missing");
  assert.deepEqual(ok(await plugin.get("/v1/collaboration/plugin")).scopes, ["command.read", "message.write"]);
  assertProblem(await alice.get("/v1/collaboration/plugin"), 404, "not_found");

  assert.equal(ok(await admin.post(`${ONE}/disable`)).state, "disabled");
  assertProblem(await send(), 401, "token_revoked");
  ok(await admin.post(`${ONE}/enable`));
  ok(await send());
  ok(await admin.delete(ONE));
  assert.equal((await send()).status, 401);
  assert.equal(ok(await alice.get(`/v1/messages/${message.id}`)).text, "Hello");
  assertProblem(await admin.get(ONE), 404, "not_found");
  assert.deepEqual((await eventTypes(gateway, "admin")).filter((type) => type.startsWith("plugin.")), [
    "plugin.enabled",
    "plugin.disabled",
    "plugin.enabled",
    "plugin.disabled",
  ]);
  // Installed again, it is as new.
  const again = ok(await admin.post(PLUGINS, { manifest: manifestOf() }));
  assert.deepEqual(again.grantedScopes, []);
  assert.equal((await gateway.withToken(installed.token).get("/v1/collaboration/me")).status, 401);
});

testOnEngines("no token of a plugin has more than the grant", async (environment) => {
  await using gateway = await openGateway(environment);
  const { admin, alice, roomId } = await openFixture(gateway);
  await installPlugin(admin, manifestOf(), [[alice, roomId]]);
  await sendMessage(alice, roomId, "Secret");
  const body = { principalId: `plugin:${ID}`, name: "wide", scopes: ["*"] };
  const { token } = ok(await admin.post("/v1/collaboration/tokens", body));
  for (
    const wide of [
      gateway.withToken(token),
      await gateway.as(`plugin:${ID}`),
      await gateway.as(`plugin:${ID}`, { scope: "*" }),
    ]
  ) {
    ok(await wide.post("/v1/messages", { roomId, text: "Hi" }));
    assertProblem(await wide.get(`/v1/messages?roomId=${roomId}`), 403, "scope_missing");
    assertProblem(await wide.get(`/v1/rooms/${roomId}`), 403, "scope_missing");
    assertProblem(
      await wide.post("/v1/collaboration/tokens", { name: "x", scopes: ["message.read"] }),
      403,
      "scope_missing",
    );
  }
  const narrow = await gateway.as(`plugin:${ID}`, { scope: "message.read command.*" });
  assertProblem(await narrow.post("/v1/messages", { roomId, text: "Hi" }), 403, "scope_missing");
  // A grant needs the scopes itself, and nothing beyond the manifest can be granted.
  assertProblem(await admin.post(`${ONE}/grant`, { scopes: ["message.read"] }), 422, "validation_failed");
  const limited = await gateway.as("admin", { role: "admin", scope: "plugin.manage command.read" });
  assertProblem(
    await limited.post(`${ONE}/grant`, { scopes: ["command.read", "message.write"] }),
    403,
    "scope_missing",
  );
});

testOnEngines("an upgrade that needs further scopes pauses the plugin until they are granted", async (environment) => {
  await using gateway = await openGateway(environment);
  const { admin, alice, roomId } = await openFixture(gateway);
  const { token } = await installPlugin(admin, manifestOf(), [[alice, roomId]]);
  const plugin = gateway.withToken(token);
  const upgrade = (version: string, scopes: string[], more = {}) =>
    admin.patch(ONE, { manifest: manifestOf({ version, scopes, ...more }) });
  assert.equal(ok(await upgrade("1.0.1", ["command.read", "message.write"])).state, "enabled");
  ok(await plugin.post("/v1/messages", { roomId, text: "Still here" }));
  const wider = ["command.read", "message.write", "message.read"];
  const paused = ok(await upgrade("1.1.0", wider));
  assert.deepEqual([paused.state, paused.missingScopes, paused.grantedScopes], ["paused", ["message.read"], [
    "command.read",
    "message.write",
  ]]);
  assertProblem(await plugin.post("/v1/messages", { roomId, text: "Paused" }), 401, "token_revoked");
  const { items } = ok(await alice.get(`/v1/collaboration/commands?roomId=${roomId}`));
  assert.deepEqual(items, []);
  assert.equal(ok(await admin.post(`${ONE}/grant`, { scopes: wider })).state, "enabled");
  ok(await plugin.get(`/v1/messages?roomId=${roomId}`));
  assert.equal(ok(await plugin.get("/v1/collaboration/plugin")).version, "1.1.0");
  // What a version does not ask for, the plugin has no longer.
  const narrower = ["command.read", "message.write"];
  assert.deepEqual(ok(await upgrade("1.1.1", narrower)).grantedScopes, narrower);
  assertProblem(await plugin.get(`/v1/messages?roomId=${roomId}`), 403, "scope_missing");
  // A narrower grant pauses it, too.
  assert.equal(ok(await admin.post(`${ONE}/grant`, { scopes: ["command.read"] })).state, "paused");
  assertProblem(await upgrade("1.2.0", wider, { id: "org.example.other" }), 422, "validation_failed");
  assertProblem(
    await upgrade("1.2.0", wider, { transport: "http", endpoint: "https://example.com/" }),
    422,
    "validation_failed",
  );
  assertProblem(
    await admin.patch(ONE, { manifest: manifestOf({ version: "2.0.0" }), version: 1 }),
    412,
    "version_mismatch",
  );
  assert.ok((await eventTypes(gateway, "admin")).includes("plugin.upgraded"));
});

Deno.test("plugin.update stores a configuration that fits, and only the plugin reads it", async () => {
  await using gateway = await openGateway();
  const { admin, alice } = await openFixture(gateway);
  const configSchema = [{ kind: "text", name: "apiKey", label: "Key", required: true }, {
    kind: "number",
    name: "days",
    label: "Days",
    max: 7,
  }];
  const { token } = ok(await admin.post(PLUGINS, { manifest: manifestOf({ configSchema }) }));
  ok(await admin.post(`${ONE}/grant`, { scopes: manifestOf()["scopes"] }));
  assertProblem(await admin.post(`${ONE}/enable`), 409, "conflict");
  for (const config of [{}, { apiKey: "k", days: 8 }, { apiKey: "k", other: 1 }, { apiKey: 1 }]) {
    assertProblem(await admin.patch(ONE, { config }), 422, "validation_failed");
  }
  const updated = ok(await admin.patch(ONE, { config: { apiKey: "very-secret", days: 3 } }));
  assert.deepEqual(updated.configured, ["apiKey", "days"]);
  assert.doesNotMatch(JSON.stringify(updated), /very-secret/);
  const rows = await gateway.app.store.db.selectFrom("plugin").selectAll().execute();
  assert.doesNotMatch(JSON.stringify(rows), /very-secret/);
  ok(await admin.post(`${ONE}/enable`));
  assert.deepEqual(ok(await gateway.withToken(token).get("/v1/collaboration/plugin")).config, {
    apiKey: "very-secret",
    days: 3,
  });
  assertProblem(await alice.get(ONE), 403, "forbidden");
});

Deno.test("plugin.install refuses manifests that are not complete, not bounded or not reachable", async () => {
  await using gateway = await openGateway();
  const { admin, alice } = await openFixture(gateway);
  const install = (more: Record<string, unknown>) => admin.post(PLUGINS, { manifest: manifestOf(more) });
  const field = { kind: "text", name: "a", label: "A" };
  const bad: Record<string, unknown>[] = [
    { id: "poll" },
    { id: "org.example/poll" },
    { id: "Org.Example.Poll" },
    { version: "1" },
    { apiVersion: 2 },
    { transport: "carrier-pigeon" },
    { scopes: ["*"] },
    { scopes: ["message.write"] },
    { scopes: ["command.*", "command.read"] },
    { endpoint: "https://example.com" },
    { transport: "http" },
    { events: ["message.created"] },
    { commands: [{ name: "Poll", description: "x" }] },
    { commands: [{ name: "a", description: "x" }, { name: "a", description: "y" }] },
    { commands: Array.from({ length: 21 }, (_, n) => ({ name: `c${n}`, description: "x" })) },
    { configSchema: Array.from({ length: 11 }, (_, n) => ({ ...field, name: `f${n}` })) },
    { hooks: [{ on: "message.before_send" }] },
    { hooks: [{ on: "message.before_send", timeoutMs: 1501 }], scopes: ["command.read", "message.read"] },
    { hooks: [{ on: "room.before_delete" }] },
    { surprise: true },
  ];
  for (const more of bad) assert.equal((await install(more)).status, 422, JSON.stringify(more));
  for (
    const endpoint of [
      "http://127.0.0.1/",
      "https://169.254.169.254/",
      "https://[::1]/",
      "ftp://example.com/",
      "http://example.com/",
    ]
  ) {
    const refused = await install({ transport: "http", endpoint });
    assertProblem(refused, 422, "address_not_allowed");
  }
  const withEvents = { transport: "http", endpoint: "https://example.com/", scopes: ["message.read", "room.read"] };
  const unknown = await install({ ...withEvents, commands: [], actions: [], events: ["room.updated", "message.sent"] });
  assertProblem(unknown, 422, "validation_failed");
  assert.match(unknown.body.detail, /^\/manifest\/events\/1: no event/);
  const misspelt = await install({ scopes: ["command.read", "mesage.write"], commands: [], actions: [] });
  assert.match(misspelt.body.detail, /^\/manifest\/scopes\/1: no scope mesage\.write; did you mean message\.write\?$/);
  assert.match((await install({ transport: "http" })).body.detail, /^\/manifest\/endpoint: expected an address/);
  assertProblem(await alice.post(PLUGINS, { manifest: manifestOf() }), 403, "forbidden");
  ok(await install({}));
  assertProblem(await install({}), 409, "conflict");
  for (let n = 1; n < 20; n++) ok(await install({ id: `org.example.p${n}` }));
  assertProblem(await install({ id: "org.example.last" }), 409, "limit_reached");
  assert.equal(ok(await admin.get(PLUGINS)).items.length, 20);
  const elsewhere = await gateway.as("boss", { role: "owner", tenant: "other" });
  assert.deepEqual(ok(await elsewhere.get(PLUGINS)).items, []);
  assertProblem(await elsewhere.get(ONE), 404, "not_found");
});

Deno.test("a person whose token has the id of a plugin is not taken over by it", async () => {
  await using gateway = await openGateway();
  const { admin } = await openFixture(gateway);
  await createCaller(gateway, `plugin:${ID}`);
  assertProblem(await admin.post(PLUGINS, { manifest: manifestOf() }), 409, "conflict");
});
