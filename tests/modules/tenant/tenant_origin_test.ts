// Origins allowed by a tenant: for its own tokens only, on every endpoint that browsers use.
import assert from "node:assert/strict";
import { HocuspocusProvider, HocuspocusProviderWebsocket } from "npm:@hocuspocus/provider@4.8.0";
import type { WebSocket } from "npm:ws@8.23.0";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type ApiResponse, type Harness, openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { serveGateway, webSocketWithOrigin } from "../http_server.ts";
import { assertProblem, ok } from "../fixtures.ts";
import { REFRESH, TOKENS } from "../identity/refresh_token_fixture.ts";

const TENANT = "/v1/collaboration/tenant";
const ME = "/v1/collaboration/me";
const APP_ORIGIN = "https://app.acme.example";
const OPERATOR_ORIGIN = "https://operator.example";

async function allow(gateway: Harness, tenant: string, allowedOrigins: unknown): Promise<ApiResponse> {
  return await (await gateway.as("boss", { tenant, role: "owner" })).patch(TENANT, { allowedOrigins });
}

function preflight(gateway: Harness, origin: string): Promise<Response> {
  const headers = { Origin: origin, "Access-Control-Request-Method": "POST" };
  const request = new Request(`http://gateway.test${ME}`, { method: "OPTIONS", headers });
  return Promise.resolve(gateway.app.fetch(request, "127.0.0.1")).then(async (response) => {
    await response.body?.cancel();
    return response;
  });
}

async function isAllowed(gateway: Harness, origin: string): Promise<boolean> {
  return (await preflight(gateway, origin)).status === 204;
}

/** Opens `/ws` as a page of the origin does, and connects; resolves to `connected`, or to why not. */
function connect(url: string, origin: string, token: string): Promise<{ socket: WebSocket; said: string }> {
  const socket = new (webSocketWithOrigin(origin))(`${url}/ws`);
  return new Promise((resolve) => {
    socket.on("open", () => socket.send(JSON.stringify({ id: 1, connect: { token } })));
    socket.on("message", (data) => String(data).includes(`"connect"`) && resolve({ socket, said: "connected" }));
    socket.on("close", (code, reason) => resolve({ socket, said: `${code} ${reason}` }));
    socket.on("error", ({ message }) => resolve({ socket, said: message }));
  });
}

testOnEngines("origins allowed by a tenant can call that tenant only", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_CORS_ALLOW_ORIGINS: OPERATOR_ORIGIN });
  const acme = await gateway.as("alice", { tenant: "acme" });
  const other = await gateway.as("olga", { tenant: "other" });
  assert.equal(await isAllowed(gateway, APP_ORIGIN), false);
  const changed = ok(await allow(gateway, "acme", [APP_ORIGIN]));
  assert.deepEqual(changed.allowedOrigins, [APP_ORIGIN]);
  await until(() => isAllowed(gateway, APP_ORIGIN), "the origin to be let in");

  const own = await acme.get(ME, { Origin: APP_ORIGIN });
  assert.deepEqual(ok(own).tenant.allowedOrigins, [APP_ORIGIN]);
  assert.equal(own.headers.get("access-control-allow-origin"), APP_ORIGIN);
  assert.equal(own.headers.get("vary"), "Origin");
  const theirs = await other.get(ME, { Origin: APP_ORIGIN });
  assertProblem(theirs, 403, "origin_not_allowed");
  assert.ok(theirs.body.detail.startsWith(`The origin ${APP_ORIGIN} is not allowed`), theirs.body.detail);
  // So that the page can read why.
  assert.equal(theirs.headers.get("access-control-allow-origin"), APP_ORIGIN);
  assertProblem(await other.get("/v1/collaboration/calendar/feeds", { Origin: APP_ORIGIN }), 403, "origin_not_allowed");
  for (const caller of [acme, other]) {
    ok(await caller.get(ME));
    const operator = await caller.get(ME, { Origin: OPERATOR_ORIGIN });
    assert.equal(ok(operator) && operator.headers.get("access-control-allow-origin"), OPERATOR_ORIGIN);
    for (const stranger of ["https://app.acme.example.evil.test", "http://app.acme.example", "null"]) {
      assert.equal((await caller.get(ME, { Origin: stranger })).headers.get("access-control-allow-origin"), null);
      assert.equal(await isAllowed(gateway, stranger), false);
    }
  }

  for (const none of [null, []]) {
    ok(await allow(gateway, "acme", [APP_ORIGIN]));
    await until(() => isAllowed(gateway, APP_ORIGIN), "the origin to be let in again");
    assert.deepEqual(ok(await allow(gateway, "acme", none)).allowedOrigins, []);
    await until(async () => !await isAllowed(gateway, APP_ORIGIN), "the origin to be refused");
    assert.equal((await acme.get(ME, { Origin: APP_ORIGIN })).headers.get("access-control-allow-origin"), null);
  }
});

Deno.test("several tenants can allow the same origin, and other changes do not affect it", async () => {
  await using gateway = await openGateway();
  for (const tenant of ["acme", "globex"]) ok(await allow(gateway, tenant, [APP_ORIGIN]));
  await until(() => isAllowed(gateway, APP_ORIGIN), "the origin to be let in");
  const boss = await gateway.as("boss", { tenant: "acme", role: "owner" });
  assert.deepEqual(ok(await boss.patch(TENANT, { name: "Acme" })).allowedOrigins, [APP_ORIGIN]);
  ok(await allow(gateway, "globex", null));
  const globex = await gateway.as("gus", { tenant: "globex" });
  await until(async () => (await globex.get(ME, { Origin: APP_ORIGIN })).status === 403, "globex to refuse it");
  ok(await boss.get(ME, { Origin: APP_ORIGIN }));
});

Deno.test("a tenant that lists the gateway's own origin does not take it from others", async () => {
  await using gateway = await openGateway({ SVC_PUBLIC_URL: "https://collab.example" });
  const other = await gateway.as("olga", { tenant: "other" });
  ok(await allow(gateway, "acme", ["https://gateway.test", "https://collab.example", APP_ORIGIN]));
  await until(() => isAllowed(gateway, APP_ORIGIN), "the origins to be let in");
  for (const origin of ["https://gateway.test", "https://collab.example"]) {
    ok(await other.get(ME, { Origin: origin, Host: "gateway.test" }));
  }
});

Deno.test("allowedOrigins are exact origins, stored as browsers send them", async () => {
  await using gateway = await openGateway();
  const given = ["https://App.Acme.example:443", `${APP_ORIGIN}/`, "https://a.example:8443", "http://localhost:5173"];
  const more = ["http://127.0.0.1:3000", "http://[::1]", "http://app.localhost", "https://bücher.example"];
  assert.deepEqual(ok(await allow(gateway, "acme", [...given, ...more])).allowedOrigins, [
    APP_ORIGIN,
    "https://a.example:8443",
    "http://localhost:5173",
    ...more.slice(0, 3),
    "https://xn--bcher-kva.example",
  ]);
  const bad = [
    "*",
    "null",
    "",
    "app.acme.example",
    "http://app.acme.example",
    "https://*.acme.example",
    `${APP_ORIGIN}/app`,
  ];
  const worse = [
    `${APP_ORIGIN}?`,
    `${APP_ORIGIN}#`,
    "https://user@acme.example",
    "ftp://acme.example",
    "http://localhost.evil.test",
  ];
  for (const origin of [...bad, ...worse, "https://", "javascript:alert(1)", 1, `https://${"a".repeat(300)}.example`]) {
    const answer = await allow(gateway, "acme", [APP_ORIGIN, origin]);
    assertProblem(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].pointer, "/allowedOrigins/1", String(origin));
  }
  const many = Array.from({ length: 51 }, (_, at) => `https://a${at}.example`);
  assertProblem(await allow(gateway, "acme", many), 422, "validation_failed");
  ok(await allow(gateway, "acme", many.slice(1)));
  const member = await gateway.as("alice", { tenant: "acme" });
  assertProblem(await member.patch(TENANT, { allowedOrigins: [] }), 403, "forbidden");
});

Deno.test("a page cannot use a refresh token of a tenant that does not allow its origin", async () => {
  await using gateway = await openGateway();
  ok(await allow(gateway, "acme", [APP_ORIGIN]));
  await until(() => isAllowed(gateway, APP_ORIGIN), "the origin to be let in");
  for (const [tenant, status] of [["other", 403], ["acme", 200]] as const) {
    const caller = await gateway.as("alice", { tenant });
    const { refreshToken } = ok(await caller.post(TOKENS, { name: "page", scopes: ["*"], refreshable: true }));
    const nobody = gateway.withToken(undefined);
    const answer = await nobody.post(REFRESH, { refreshToken }, { Origin: APP_ORIGIN });
    assert.equal(answer.status, status);
    if (status === 200) continue;
    assert.equal(answer.body.code, "origin_not_allowed");
    ok(await nobody.post(REFRESH, { refreshToken }));
  }
});

Deno.test("a page's socket stays open while its tenant allows the origin", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  const acme = await gateway.as("alice", { tenant: "acme" });
  const other = await gateway.as("olga", { tenant: "other" });
  assert.match((await connect(url, APP_ORIGIN, acme.token)).said, /403/);
  ok(await allow(gateway, "acme", [APP_ORIGIN]));
  await until(() => isAllowed(gateway, APP_ORIGIN), "the origin to be let in");

  const { socket, said } = await connect(url, APP_ORIGIN, acme.token);
  assert.equal(said, "connected");
  assert.equal((await connect(url, APP_ORIGIN, other.token)).said, "3507 origin not allowed");
  const ownPage = await connect(url, url.replace("ws:", "http:"), other.token);
  assert.equal(ownPage.said, "connected");
  assert.match((await connect(url, "https://evil.test", acme.token)).said, /403/);
  const ended = new Promise<string>((resolve) => socket.on("close", (code, reason) => resolve(`${code} ${reason}`)));
  ok(await allow(gateway, "acme", null));
  assert.equal(await ended, "3507 origin not allowed");
  assert.equal(ownPage.socket.readyState, ownPage.socket.OPEN);
  const { body } = await gateway.withToken(undefined).get("/metrics");
  assert.match(body, /svc_connection_errors\{type="origin"\} 4/);
  const closed = new Promise((resolve) => ownPage.socket.on("close", resolve));
  ownPage.socket.close();
  await closed;
});

Deno.test("a page can edit documents of the tenant that allows its origin", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  ok(await allow(gateway, "acme", [APP_ORIGIN]));
  await until(() => isAllowed(gateway, APP_ORIGIN), "the origin to be let in");
  for (const [tenant, expected] of [["acme", "read-write"], ["other", "origin-not-allowed"]] as const) {
    const caller = await gateway.as("alice", { tenant });
    const roomId = ok(await caller.post("/v1/rooms", { name: "Pages" })).id;
    const { id } = ok(await caller.post("/v1/collaboration/documents", { roomId, title: "Notes" }));
    const websocketProvider = new HocuspocusProviderWebsocket({
      url: `${url}/v1/collaboration/documents/sync`,
      WebSocketPolyfill: webSocketWithOrigin(APP_ORIGIN),
    });
    const outcome = Promise.withResolvers<string>();
    const provider = new HocuspocusProvider({
      websocketProvider,
      name: id,
      token: caller.token,
      onAuthenticated: ({ scope }) => outcome.resolve(scope),
      onAuthenticationFailed: ({ reason }) => outcome.resolve(reason),
    });
    provider.attach();
    assert.equal(await outcome.promise, expected);
    provider.destroy();
    websocketProvider.destroy();
  }
});

testOnPostgres("a gateway that misses the signal of a change reloads by itself", async (environment) => {
  await using one = await openGateway(environment);
  await using two = await openGateway(environment);
  ok(await allow(one, "acme", [APP_ORIGIN]));
  await until(() => isAllowed(one, APP_ORIGIN), "the origin to be let in");
  assert.equal(await isAllowed(two, APP_ORIGIN), false);
  two.clock.advance(30_000);
  await until(() => isAllowed(two, APP_ORIGIN), "the other gateway to let it in");
});
