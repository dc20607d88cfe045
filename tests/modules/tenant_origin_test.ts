// Origins that a tenant lets in: for its own pages and tokens, on every door that browsers use, and not for those of others.
import assert from "node:assert/strict";
import { HocuspocusProvider, HocuspocusProviderWebsocket } from "npm:@hocuspocus/provider@4.8.0";
import type { WebSocket } from "npm:ws@8.23.0";
import { onEngines, onPostgres } from "../engines.ts";
import { type Answer, type Harness, openGateway } from "../harness.ts";
import { until } from "../wait.ts";
import { pageSocket, serveGateway } from "./served.ts";
import { ok, refused } from "./team.ts";
import { REFRESH, TOKENS } from "./token_family_world.ts";

const TENANT = "/v1/collaboration/tenant";
const ME = "/v1/collaboration/me";
const PAGE = "https://app.acme.example";
const OPERATOR = "https://operator.example";

async function allow(gateway: Harness, tenant: string, allowedOrigins: unknown): Promise<Answer> {
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

async function isLetIn(gateway: Harness, origin: string): Promise<boolean> {
  return (await preflight(gateway, origin)).status === 204;
}

/** Opens `/ws` as a page of the origin does, and connects; resolves to `connected`, or to why not. */
function connect(url: string, origin: string, token: string): Promise<{ socket: WebSocket; said: string }> {
  const socket = new (pageSocket(origin))(`${url}/ws`);
  return new Promise((resolve) => {
    socket.on("open", () => socket.send(JSON.stringify({ id: 1, connect: { token } })));
    socket.on("message", (data) => String(data).includes(`"connect"`) && resolve({ socket, said: "connected" }));
    socket.on("close", (code, reason) => resolve({ socket, said: `${code} ${reason}` }));
    socket.on("error", ({ message }) => resolve({ socket, said: message }));
  });
}

onEngines("pages that a tenant lets in call for that tenant alone", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_CORS_ALLOW_ORIGINS: OPERATOR });
  const acme = await gateway.as("alice", { tenant: "acme" });
  const other = await gateway.as("olga", { tenant: "other" });
  assert.equal(await isLetIn(gateway, PAGE), false);
  const changed = ok(await allow(gateway, "acme", [PAGE]));
  assert.deepEqual(changed.allowedOrigins, [PAGE]);
  await until(() => isLetIn(gateway, PAGE), "the origin to be let in");

  const own = await acme.get(ME, { Origin: PAGE });
  assert.deepEqual(ok(own).tenant.allowedOrigins, [PAGE]);
  assert.equal(own.headers.get("access-control-allow-origin"), PAGE);
  assert.equal(own.headers.get("vary"), "Origin");
  const theirs = await other.get(ME, { Origin: PAGE });
  refused(theirs, 403, "origin_not_allowed");
  // So that the page can read why.
  assert.equal(theirs.headers.get("access-control-allow-origin"), PAGE);
  refused(await other.get("/v1/collaboration/calendar/feeds", { Origin: PAGE }), 403, "origin_not_allowed");
  for (const caller of [acme, other]) {
    ok(await caller.get(ME));
    const operator = await caller.get(ME, { Origin: OPERATOR });
    assert.equal(ok(operator) && operator.headers.get("access-control-allow-origin"), OPERATOR);
    for (const stranger of ["https://app.acme.example.evil.test", "http://app.acme.example", "null"]) {
      assert.equal((await caller.get(ME, { Origin: stranger })).headers.get("access-control-allow-origin"), null);
      assert.equal(await isLetIn(gateway, stranger), false);
    }
  }

  for (const none of [null, []]) {
    ok(await allow(gateway, "acme", [PAGE]));
    await until(() => isLetIn(gateway, PAGE), "the origin to be let in again");
    assert.deepEqual(ok(await allow(gateway, "acme", none)).allowedOrigins, []);
    await until(async () => !await isLetIn(gateway, PAGE), "the origin to be refused");
    assert.equal((await acme.get(ME, { Origin: PAGE })).headers.get("access-control-allow-origin"), null);
  }
});

Deno.test("the same origin may be let in by several tenants, and what else is changed leaves it", async () => {
  await using gateway = await openGateway();
  for (const tenant of ["acme", "globex"]) ok(await allow(gateway, tenant, [PAGE]));
  await until(() => isLetIn(gateway, PAGE), "the origin to be let in");
  const boss = await gateway.as("boss", { tenant: "acme", role: "owner" });
  assert.deepEqual(ok(await boss.patch(TENANT, { name: "Acme" })).allowedOrigins, [PAGE]);
  ok(await allow(gateway, "globex", null));
  const globex = await gateway.as("gus", { tenant: "globex" });
  await until(async () => (await globex.get(ME, { Origin: PAGE })).status === 403, "globex to refuse it");
  ok(await boss.get(ME, { Origin: PAGE }));
});

Deno.test("a tenant that lists the gateway's own address takes it from nobody", async () => {
  await using gateway = await openGateway({ SVC_PUBLIC_URL: "https://collab.example" });
  const other = await gateway.as("olga", { tenant: "other" });
  ok(await allow(gateway, "acme", ["https://gateway.test", "https://collab.example", PAGE]));
  await until(() => isLetIn(gateway, PAGE), "the origins to be let in");
  for (const origin of ["https://gateway.test", "https://collab.example"]) {
    ok(await other.get(ME, { Origin: origin, Host: "gateway.test" }));
  }
});

Deno.test("allowedOrigins are exact origins, kept as browsers send them", async () => {
  await using gateway = await openGateway();
  const given = ["https://App.Acme.example:443", `${PAGE}/`, "https://a.example:8443", "http://localhost:5173"];
  const more = ["http://127.0.0.1:3000", "http://[::1]", "http://app.localhost", "https://bücher.example"];
  assert.deepEqual(ok(await allow(gateway, "acme", [...given, ...more])).allowedOrigins, [
    PAGE,
    "https://a.example:8443",
    "http://localhost:5173",
    ...more.slice(0, 3),
    "https://xn--bcher-kva.example",
  ]);
  const bad = ["*", "null", "", "app.acme.example", "http://app.acme.example", "https://*.acme.example", `${PAGE}/app`];
  const worse = [
    `${PAGE}?`,
    `${PAGE}#`,
    "https://user@acme.example",
    "ftp://acme.example",
    "http://localhost.evil.test",
  ];
  for (const origin of [...bad, ...worse, "https://", "javascript:alert(1)", 1, `https://${"a".repeat(300)}.example`]) {
    const answer = await allow(gateway, "acme", [PAGE, origin]);
    refused(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].pointer, "/allowedOrigins/1", String(origin));
  }
  const many = Array.from({ length: 51 }, (_, at) => `https://a${at}.example`);
  refused(await allow(gateway, "acme", many), 422, "validation_failed");
  ok(await allow(gateway, "acme", many.slice(1)));
  const member = await gateway.as("alice", { tenant: "acme" });
  refused(await member.patch(TENANT, { allowedOrigins: [] }), 403, "forbidden");
});

Deno.test("a page spends no refresh token of a tenant that does not let it in", async () => {
  await using gateway = await openGateway();
  ok(await allow(gateway, "acme", [PAGE]));
  await until(() => isLetIn(gateway, PAGE), "the origin to be let in");
  for (const [tenant, status] of [["other", 403], ["acme", 200]] as const) {
    const caller = await gateway.as("alice", { tenant });
    const { refreshToken } = ok(await caller.post(TOKENS, { name: "page", scopes: ["*"], refreshable: true }));
    const nobody = gateway.withToken(undefined);
    const answer = await nobody.post(REFRESH, { refreshToken }, { Origin: PAGE });
    assert.equal(answer.status, status);
    if (status === 200) continue;
    assert.equal(answer.body.code, "origin_not_allowed");
    ok(await nobody.post(REFRESH, { refreshToken }));
  }
});

Deno.test("a page's socket lives in the tenant that lets it in, for as long as it does", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  const acme = await gateway.as("alice", { tenant: "acme" });
  const other = await gateway.as("olga", { tenant: "other" });
  assert.match((await connect(url, PAGE, acme.token)).said, /403/);
  ok(await allow(gateway, "acme", [PAGE]));
  await until(() => isLetIn(gateway, PAGE), "the origin to be let in");

  const { socket, said } = await connect(url, PAGE, acme.token);
  assert.equal(said, "connected");
  assert.equal((await connect(url, PAGE, other.token)).said, "3507 origin not allowed");
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

Deno.test("a page edits documents of the tenant that lets it in", async () => {
  await using served = await serveGateway();
  const { gateway, url } = served;
  ok(await allow(gateway, "acme", [PAGE]));
  await until(() => isLetIn(gateway, PAGE), "the origin to be let in");
  for (const [tenant, expected] of [["acme", "read-write"], ["other", "origin-not-allowed"]] as const) {
    const caller = await gateway.as("alice", { tenant });
    const roomId = ok(await caller.post("/v1/rooms", { name: "Pages" })).id;
    const { id } = ok(await caller.post("/v1/collaboration/documents", { roomId, title: "Notes" }));
    const websocketProvider = new HocuspocusProviderWebsocket({
      url: `${url}/v1/collaboration/documents/sync`,
      WebSocketPolyfill: pageSocket(PAGE),
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

onPostgres("a gateway that misses the signal of a change finds out by itself", async (environment) => {
  await using one = await openGateway(environment);
  await using two = await openGateway(environment);
  ok(await allow(one, "acme", [PAGE]));
  await until(() => isLetIn(one, PAGE), "the origin to be let in");
  assert.equal(await isLetIn(two, PAGE), false);
  two.clock.advance(30_000);
  await until(() => isLetIn(two, PAGE), "the other gateway to let it in");
});
