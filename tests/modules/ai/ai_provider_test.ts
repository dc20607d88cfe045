// Providers that tenants configure, and the models they offer.
import assert from "node:assert/strict";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { ok } from "../fixtures.ts";

const AI = "/v1/collaboration/ai";
const KEY = "sk-very-secret-key";
const provider = (rest: Record<string, unknown> = {}) => ({
  kind: "openai",
  baseUrl: "https://models.example.com/v1/",
  apiKey: KEY,
  models: [{ id: "small", inputPrice: 1, outputPrice: 2 }],
  ...rest,
});
const complete = (caller: Caller, rest: Record<string, unknown> = {}): Promise<ApiResponse> =>
  caller.post(`${AI}/completions`, { messages: [{ role: "user", text: "Hello?" }], ...rest });

Deno.test("provider.put stores a provider whose key is never returned", async () => {
  const models = new ScriptedModels();
  await using gateway = await openGateway({}, { models });
  const admin = await gateway.as("admin", { role: "admin" });
  const put = await admin.put(`${AI}/providers/main`, provider());
  assert.equal(put.status, 201);
  assert.equal(put.body.hasKey, true);
  assert.equal(put.body.baseUrl, "https://models.example.com/v1");
  assert.doesNotMatch(JSON.stringify([put.body, (await admin.get(`${AI}/providers`)).body]), /secret/);
  const [row] = await gateway.app.store.db.selectFrom("ai_provider").selectAll().execute();
  assert.doesNotMatch(JSON.stringify(row), /secret/);
  assert.equal((await complete(admin)).status, 200);
  assert.equal(models.calls[0]?.endpoint.apiKey, KEY);
  // It stays unless it is replaced or removed.
  await admin.put(`${AI}/providers/main`, provider({ apiKey: undefined, priority: 1 }));
  await complete(admin);
  assert.equal(models.calls[1]?.endpoint.apiKey, KEY);
  await admin.put(`${AI}/providers/main`, provider({ apiKey: null }));
  await complete(admin);
  assert.equal(models.calls[2]?.endpoint.apiKey, undefined);
});

Deno.test("provider.put sends a stored key to no other address", async () => {
  await using gateway = await openGateway();
  const admin = await gateway.as("admin", { role: "admin" });
  await admin.put(`${AI}/providers/main`, provider());
  for (const change of [{ baseUrl: "https://attacker.example.com/v1" }, { kind: "anthropic" }]) {
    const moved = await admin.put(`${AI}/providers/main`, provider({ apiKey: undefined, ...change }));
    assert.equal(moved.status, 422);
    assert.equal(moved.body.errors[0].pointer, "/apiKey");
  }
  const again = provider({ baseUrl: "https://other.example.com/v1", apiKey: "sk-another" });
  assert.equal((await admin.put(`${AI}/providers/main`, again)).status, 200);
});

Deno.test("provider.put refuses private addresses unless the operator allows them", async () => {
  await using gateway = await openGateway({ SVC_AI_ALLOW_HOSTS: "models.internal,10.1.0.0/16" });
  const admin = await gateway.as("admin", { role: "admin" });
  const refused = [
    "https://127.0.0.1/v1",
    "https://169.254.169.254/latest",
    "https://[::ffff:10.0.0.1]/",
    "http://models.example.com/v1",
    "https://user:password@models.example.com/v1",
  ];
  for (const baseUrl of refused) {
    const answer = await admin.put(`${AI}/providers/main`, provider({ baseUrl }));
    assert.equal(answer.body.code, "address_not_allowed", baseUrl);
    assert.equal(answer.body.errors[0].pointer, "/baseUrl");
  }
  for (const baseUrl of ["http://models.internal:11434/v1", "http://10.1.2.3/v1", "https://1.1.1.1/v1"]) {
    assert.ok((await admin.put(`${AI}/providers/main`, provider({ baseUrl }))).status < 300, baseUrl);
  }
  for (const baseUrl of ["file:///etc/passwd", "https://models.example.com/?key=1", "models.example.com"]) {
    assert.equal((await admin.put(`${AI}/providers/main`, provider({ baseUrl }))).status, 422, baseUrl);
  }
  assert.equal((await admin.put(`${AI}/providers/operator`, provider())).status, 422);
});

Deno.test("keys survive a rotation of the gateway's secret, and end with the secret", async () => {
  const models = new ScriptedModels();
  await using folder = await createTemporaryFolder();
  const database = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db` };
  const [first, second] = ["a".repeat(40), "b".repeat(40)];
  const tokenOf = async (settings: Record<string, string>, run: (admin: Caller) => Promise<unknown>) => {
    await using gateway = await openGateway({ ...database, ...settings }, { models });
    const { SignJWT } = await import("jose");
    const iat = Math.floor(gateway.clock.now() / 1000);
    const token = await new SignJWT({ sub: "admin", role: "admin", iat, exp: iat + 3600 })
      .setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(settings.SVC_JWT_SECRET));
    await run(gateway.withToken(token));
  };
  await tokenOf({ SVC_JWT_SECRET: first }, (admin) => admin.put(`${AI}/providers/main`, provider()));
  await tokenOf({ SVC_JWT_SECRET: second, SVC_JWT_SECRET_PREVIOUS: first }, complete);
  await tokenOf({ SVC_JWT_SECRET: second }, complete);
  assert.deepEqual(models.calls.map(({ endpoint }) => endpoint.apiKey), [KEY, undefined]);
});

Deno.test("provider.put is for admins, has a version and bounds", async () => {
  await using gateway = await openGateway();
  const admin = await gateway.as("admin", { role: "admin" });
  const member = await gateway.as("member");
  assert.equal((await member.put(`${AI}/providers/main`, provider())).status, 403);
  assert.equal((await member.get(`${AI}/providers`)).status, 403);
  await admin.put(`${AI}/providers/main`, provider());
  const stale = await admin.put(`${AI}/providers/main`, provider(), { "If-Match": '"7"' });
  assert.equal(stale.body.code, "version_mismatch");
  const twice = provider({ models: [{ id: "small" }, { id: "small" }] });
  assert.equal((await admin.put(`${AI}/providers/main`, twice)).body.errors[0].pointer, "/models/1/id");
  for (let n = 1; n < 10; n++) assert.equal((await admin.put(`${AI}/providers/p${n}`, provider())).status, 201);
  assert.equal((await admin.put(`${AI}/providers/p10`, provider())).body.code, "limit_reached");
  assert.equal((await admin.delete(`${AI}/providers/p1`)).status, 204);
  assert.equal((await admin.delete(`${AI}/providers/p1`)).status, 404);
  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  assert.deepEqual((await stranger.get(`${AI}/providers`)).body.items, []);
  assert.equal((await stranger.post(`${AI}/providers/main/test`)).status, 404);
});

Deno.test("model.list has each model once, with the providers that offer it in their order", async () => {
  const settings = {
    SVC_AI_BASE_URL: "http://models.test/v1",
    SVC_AI_MODEL: "small, large",
    SVC_AI_EMBEDDING_MODEL: "v",
  };
  await using gateway = await openGateway(settings);
  const admin = await gateway.as("admin", { role: "admin" });
  await admin.put(`${AI}/providers/second`, provider({ priority: 2 }));
  await admin.put(
    `${AI}/providers/first`,
    provider({ priority: 1, models: [{ id: "own", providerModel: "own-1" }, { id: "small" }] }),
  );
  const { items } = ok(await (await gateway.as("member")).get(`${AI}/models`));
  assert.deepEqual(
    items.map(({ id, default: isDefault, providers }: Record<string, unknown>) => [id, isDefault, providers]),
    [
      ["own", true, ["first"]],
      ["small", false, ["first", "second", "operator"]],
      ["large", false, ["operator"]],
      ["v", true, ["operator"]],
    ],
  );
  assert.doesNotMatch(JSON.stringify(items), /models\.test|own-1/);
  const stranger = await gateway.as("stranger", { tenant: "elsewhere" });
  assert.equal((await stranger.get(`${AI}/models`)).body.items.length, 3);
});

Deno.test("provider.test says why a provider does not respond", async () => {
  const models = new ScriptedModels();
  await using gateway = await openGateway({}, { models });
  const admin = await gateway.as("admin", { role: "admin" });
  await admin.put(`${AI}/providers/main`, provider());
  const works = ok(await admin.post(`${AI}/providers/main/test`));
  assert.deepEqual([works.ok, works.model, works.code, works.detail], [true, "small", null, null]);
  models.script = () => ({ error: "bad_key" });
  const fails = ok(await admin.post(`${AI}/providers/main/test`));
  assert.deepEqual([fails.ok, fails.code, fails.detail], [
    false,
    "bad_key",
    "The model provider refused the API key",
  ]);
  models.script = () => ({ error: "request_refused", reply: 'model "small" not found' });
  const refused = ok(await admin.post(`${AI}/providers/main/test`));
  assert.equal(refused.detail, 'The model provider refused the request: model "small" not found');
});

Deno.test("another provider with the same model takes over before the first part, and only then", async () => {
  const models = new ScriptedModels(({ endpoint }) =>
    endpoint.baseUrl.includes("down") ? { error: "bad_key" } : { parts: ["Hi"] }
  );
  await using gateway = await openGateway({}, { models });
  const admin = await gateway.as("admin", { role: "admin" });
  await admin.put(`${AI}/providers/first`, provider({ baseUrl: "https://down.example.com", priority: 1 }));
  await admin.put(`${AI}/providers/second`, provider({ priority: 2 }));
  assert.equal(ok(await complete(admin)).text, "Hi");
  assert.equal(models.calls.length, 2);
  models.script = ({ endpoint }) => endpoint.baseUrl.includes("down") ? { error: "timed_out" } : { parts: ["Hi"] };
  assert.equal(ok(await complete(admin)).text, "Hi");
  assert.equal(models.calls.length, 4, "nobody waits for the first while there is a second");
  models.script = () => ({ parts: ["Hi"], error: "stream_broken" });
  const broken = await complete(admin);
  assert.deepEqual([broken.status, broken.body.code], [503, "unavailable"]);
  assert.equal(models.calls.length, 5);
});

Deno.test("labels of metrics are bounded: those of tenants are one", async () => {
  const settings = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_MODEL: "small" };
  await using gateway = await openGateway({ ...settings, SVC_METRICS_TOKEN: "" });
  const member = await gateway.as("member");
  ok(await complete(member));
  const admin = await gateway.as("admin", { role: "admin", tenant: "elsewhere" });
  await admin.put(`${AI}/providers/own-name`, provider({ models: [{ id: "own-model" }] }));
  ok(await complete(admin));
  const { body: metrics } = await gateway.withToken(undefined).get("/metrics");
  assert.match(metrics, /svc_ai_requests_total\{provider="operator",model="small"\} 1/);
  assert.match(metrics, /svc_ai_requests_total\{provider="tenant",model="other"\} 1/);
  assert.match(metrics, /svc_ai_tokens_total\{provider="operator",model="small",direction="output"\} 5/);
  assert.match(metrics, /svc_ai_first_part_seconds_count\{provider="operator",model="small"\} 1/);
  assert.doesNotMatch(metrics, /own-/);
});
