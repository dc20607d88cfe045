// Authorizations of applications: what is issued, to whom, and what ends it.
import assert from "node:assert/strict";
import { DAY_MS, MINUTE_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { ok } from "../fixtures.ts";
import {
  allow,
  APPLICATIONS,
  authorize,
  authorizeQuery,
  exchange,
  postForm,
  PUBLIC_URL,
  REDIRECT_URI,
  refresh,
  register,
  requestIdOf,
  REQUESTS,
  RESOURCE,
} from "./oauth_fixture.ts";

const SETTINGS = { SVC_PUBLIC_URL: PUBLIC_URL };

Deno.test("the documents name the gateway as the authorization server of /mcp", async () => {
  await using gateway = await openGateway(SETTINGS);
  const anyone = gateway.withToken(undefined);
  for (const path of ["", "/mcp"]) {
    const resource = ok(await anyone.get(`/.well-known/oauth-protected-resource${path}`));
    assert.equal(resource.resource, RESOURCE);
    assert.deepEqual(resource.authorization_servers, [PUBLIC_URL]);
    assert.ok(resource.scopes_supported.includes("message.write"));
    assert.ok(!resource.scopes_supported.some((scope: string) => scope.endsWith(".manage")));
  }
  const server = ok(await anyone.get("/.well-known/oauth-authorization-server"));
  assert.equal(server.issuer, PUBLIC_URL);
  assert.deepEqual(server.code_challenge_methods_supported, ["S256"]);
});

Deno.test("an identity provider is named instead of the gateway, which then issues nothing", async () => {
  const provider = "https://login.example";
  await using gateway = await openGateway({
    ...SETTINGS,
    SVC_JWKS_URL: `${provider}/keys`,
    SVC_JWT_ISSUER: provider,
  });
  const anyone = gateway.withToken(undefined);
  const resource = ok(await anyone.get("/.well-known/oauth-protected-resource/mcp"));
  assert.deepEqual(resource.authorization_servers, [provider]);
  assert.equal((await anyone.get("/.well-known/oauth-authorization-server")).status, 404);
  assert.equal((await anyone.post("/oauth/register", { redirect_uris: [REDIRECT_URI] })).status, 404);
});

Deno.test("without a public address, only the machine itself can authorize", async () => {
  await using gateway = await openGateway();
  assert.equal((await gateway.withToken(undefined).get("/.well-known/oauth-authorization-server")).status, 404);
  const local = await gateway.app.fetch(
    new Request("http://127.0.0.1:8080/.well-known/oauth-authorization-server"),
    "127.0.0.1",
  );
  assert.equal((await local.json()).issuer, "http://127.0.0.1:8080");
});

testOnEngines("a person allows an application, which gets tokens that the API refuses", async (settings) => {
  await using gateway = await openGateway({ ...SETTINGS, ...settings });
  const alice = await gateway.as("alice");
  const clientId = await register(gateway);
  const id = requestIdOf(await authorize(gateway, authorizeQuery(clientId)));
  const request = ok(await alice.get(`${REQUESTS}/${id}`));
  assert.equal(request.clientName, "Desk");
  assert.equal(request.clientHost, null);
  assert.equal(request.redirectHost, "127.0.0.1:7777");
  assert.deepEqual(request.scopes, ["message.read", "message.write", "room.read"]);

  const tokens = ok(await exchange(gateway, await allow(gateway, alice, clientId, ["room.read", "message.read"])));
  assert.equal(tokens.token_type, "Bearer");
  assert.equal(tokens.scope, "room.read message.read");
  for (const token of [tokens.access_token, tokens.refresh_token]) {
    assert.equal((await gateway.withToken(token).get("/v1/rooms")).body.code, "unauthenticated");
  }
  const other = await gateway.withToken(undefined).post("/v1/collaboration/auth/refresh", {
    refreshToken: tokens.refresh_token,
  });
  assert.equal(other.status, 401);

  const { items: [application] } = ok(await alice.get(APPLICATIONS));
  assert.equal(application.clientName, "Desk");
  assert.deepEqual(application.scopes, ["room.read", "message.read"]);
  assert.deepEqual(ok(await (await gateway.as("bob")).get(APPLICATIONS)).items, []);
  assert.equal((await (await gateway.as("bob")).delete(`${APPLICATIONS}/${application.id}`)).status, 404);
  assert.equal((await alice.delete(`${APPLICATIONS}/${application.id}`)).status, 204);
  assert.deepEqual(ok(await alice.get(APPLICATIONS)).items, []);
  assert.equal((await refresh(gateway, clientId, tokens.refresh_token)).body.error, "invalid_grant");
});

testOnEngines("a code is for one use: the second one ends what the first one got", async (settings) => {
  await using gateway = await openGateway({ ...SETTINGS, ...settings });
  const alice = await gateway.as("alice");
  const code = await allow(gateway, alice);
  const [one, two] = await Promise.all([exchange(gateway, code), exchange(gateway, code)]);
  assert.deepEqual([one.status, two.status].toSorted(), [200, 400]);
  const tokens = one.status === 200 ? one.body : two.body;
  assert.equal((await refresh(gateway, code.clientId, tokens.refresh_token)).body.error, "invalid_grant");
  assert.deepEqual(ok(await alice.get(APPLICATIONS)).items, []);
});

Deno.test("a code that is tried with anything wrong is spent", async () => {
  await using gateway = await openGateway(SETTINGS);
  const alice = await gateway.as("alice");
  const other = await register(gateway, { client_name: "Other", redirect_uris: [REDIRECT_URI] });
  const wrong: [Record<string, string>, string][] = [
    [{ code_verifier: "w".repeat(43) }, "invalid_grant"],
    [{ code_verifier: "short" }, "invalid_grant"],
    [{ client_id: other }, "invalid_grant"],
    [{ redirect_uri: "http://127.0.0.1:7777/elsewhere" }, "invalid_grant"],
    [{ resource: "https://elsewhere.example/mcp" }, "invalid_target"],
  ];
  for (const [changes, error] of wrong) {
    const code = await allow(gateway, alice);
    const refused = await exchange(gateway, code, changes);
    assert.equal(refused.status, 400);
    assert.equal(refused.body.error, error, JSON.stringify(changes));
    assert.equal((await exchange(gateway, code)).body.error, "invalid_grant", JSON.stringify(changes));
    gateway.clock.advance(2 * MINUTE_MS);
  }
  const late = await allow(gateway, alice);
  gateway.clock.advance(MINUTE_MS);
  assert.equal((await exchange(gateway, late)).body.error, "invalid_grant");
});

testOnEngines("programs that share a refresh token may use it at once; later its use is a theft", async (settings) => {
  await using gateway = await openGateway({ ...SETTINGS, ...settings });
  const alice = await gateway.as("alice");
  const { clientId, ...code } = await allow(gateway, alice);
  const first = ok(await exchange(gateway, { clientId, ...code })).refresh_token;
  const answers = await Promise.all([1, 2, 3].map(() => refresh(gateway, clientId, first)));
  const [second, ...same] = answers.map((answer) => ok(answer).refresh_token);
  assert.deepEqual(same, [second, second]);
  assert.notEqual(second, first);
  gateway.clock.advance(MINUTE_MS);
  assert.equal(ok(await refresh(gateway, clientId, first)).refresh_token, second);
  const third = ok(await refresh(gateway, clientId, second)).refresh_token;
  gateway.clock.advance(MINUTE_MS + 1);
  assert.equal((await refresh(gateway, clientId, second)).body.error, "invalid_grant");
  assert.equal((await refresh(gateway, clientId, third)).body.error, "invalid_grant");
  assert.deepEqual(ok(await alice.get(APPLICATIONS)).items, []);
});

Deno.test("a refresh token is bound to its client, its person and its time", async () => {
  await using gateway = await openGateway(SETTINGS);
  const boss = await gateway.as("boss", { role: "owner" });
  const alice = await gateway.as("alice");
  const { clientId, ...code } = await allow(gateway, alice);
  const token = ok(await exchange(gateway, { clientId, ...code })).refresh_token;
  const other = await register(gateway, { client_name: "Other", redirect_uris: [REDIRECT_URI] });
  assert.equal((await refresh(gateway, other, token)).body.error, "invalid_grant");
  const next = ok(await refresh(gateway, clientId, token)).refresh_token;
  assert.equal((await boss.patch("/v1/collaboration/principals/alice", { disabled: true })).status, 200);
  assert.equal((await refresh(gateway, clientId, next)).body.error, "invalid_grant");
  ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: false }));
  const last = ok(await refresh(gateway, clientId, next)).refresh_token;
  gateway.clock.advance(31 * DAY_MS);
  assert.equal((await refresh(gateway, clientId, last)).body.error, "invalid_grant");
  await gateway.app.runMaintenance();
  assert.equal((await refresh(gateway, clientId, last)).body.error, "invalid_grant");
});

Deno.test("a browser is sent to no address that the client did not register", async () => {
  await using gateway = await openGateway(SETTINGS);
  const clientId = await register(gateway);
  for (
    const redirect_uri of [
      "https://evil.example/callback",
      "http://127.0.0.1:7777/callback/../other",
      "http://127.0.0.1:7777/callback?x=1",
      "http://localhost:7777/callback",
      "http://127.0.0.1.evil.example/callback",
      "http://user@127.0.0.1:7777/callback",
      "javascript:alert(1)",
      "",
    ]
  ) {
    const refused = await authorize(gateway, authorizeQuery(clientId, { redirect_uri }));
    assert.equal(refused.status, 400, redirect_uri);
    assert.equal(refused.headers.get("location"), null);
  }
  const otherPort = { redirect_uri: "http://127.0.0.1:9/callback" };
  requestIdOf(await authorize(gateway, authorizeQuery(clientId, otherPort)));
  const unknown = await authorize(gateway, authorizeQuery("dcr_unknown"));
  assert.equal(unknown.status, 401);
  assert.equal(unknown.headers.get("location"), null);
  const twice = await authorize(gateway, `${authorizeQuery(clientId)}&redirect_uri=https://evil.example`);
  assert.equal(twice.status, 400);
});

Deno.test("errors after the redirect address was checked are sent there", async () => {
  await using gateway = await openGateway(SETTINGS);
  const clientId = await register(gateway);
  const wrong: [Record<string, string | undefined>, string][] = [
    [{ response_type: "token" }, "unsupported_response_type"],
    [{ code_challenge: undefined }, "invalid_request"],
    [{ code_challenge_method: "plain" }, "invalid_request"],
    [{ resource: "https://elsewhere.example/mcp" }, "invalid_target"],
    [{ scope: "everything" }, "invalid_scope"],
    [{ scope: "token.manage" }, "invalid_scope"],
    [{ scope: "erasure.manage" }, "invalid_scope"],
  ];
  for (const [changes, error] of wrong) {
    const { status, headers } = await authorize(gateway, authorizeQuery(clientId, changes));
    assert.equal(status, 302);
    const back = new URL(headers.get("location") ?? "");
    assert.equal(`${back.origin}${back.pathname}`, REDIRECT_URI);
    assert.equal(back.searchParams.get("error"), error, JSON.stringify(changes));
    assert.equal(back.searchParams.get("iss"), PUBLIC_URL);
    assert.equal(back.searchParams.get("state"), "s1");
  }
});

Deno.test("only addresses to which a code may go can be registered", async () => {
  await using gateway = await openGateway(SETTINGS);
  const anyone = gateway.withToken(undefined);
  const refused = [
    "http://example.com/cb",
    "javascript:alert(1)",
    "javascript://x/%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "https://a:b@example.com/cb",
    "https://example.com/cb#x",
    "ftp://example.com",
    "not an address",
  ];
  for (const uri of refused) {
    const { status, body } = await anyone.post("/oauth/register", { redirect_uris: [uri] });
    assert.equal(status, 400, uri);
    assert.equal(body.error, "invalid_redirect_uri", uri);
  }
  const allowed = ["https://claude.ai/cb", "http://localhost:1/cb", "cursor://auth/cb", "com.example.app:/cb"];
  await register(gateway, { redirect_uris: allowed });
  for (
    const metadata of [{}, { redirect_uris: [] }, { redirect_uris: "x" }, { redirect_uris: Array(11).fill("x") }, []]
  ) {
    assert.equal((await anyone.post("/oauth/register", metadata)).status, 400);
  }
  // What is no JSON at all is refused before it is read as metadata.
  const { content } = (await anyone.get("/openapi.json")).body.paths["/oauth/register"].post.responses[400];
  assert.deepEqual(Object.keys(content), ["application/json", "application/problem+json"]);
});

Deno.test("the name of an application has no characters that deceive", async () => {
  await using gateway = await openGateway(SETTINGS);
  const alice = await gateway.as("alice");
  const client_name = "Good\u202Elive\u0007 app\n".padEnd(300, "x");
  const clientId = await register(gateway, { client_name, redirect_uris: [REDIRECT_URI] });
  const id = requestIdOf(await authorize(gateway, authorizeQuery(clientId)));
  const { clientName } = ok(await alice.get(`${REQUESTS}/${id}`));
  assert.match(clientName, /^Good live {2}app x{60,}$/);
});

Deno.test("a person can deny; an unknown or expired request is not found", async () => {
  await using gateway = await openGateway(SETTINGS);
  const alice = await gateway.as("alice");
  const clientId = await register(gateway);
  const id = requestIdOf(await authorize(gateway, authorizeQuery(clientId)));
  const { redirectTo } = ok(await alice.post(`${REQUESTS}/${id}/decision`, { decision: "deny" }));
  assert.equal(new URL(redirectTo).searchParams.get("error"), "access_denied");
  for (const other of [clientId.slice(4), id.slice(0, -1), "abc"]) {
    assert.equal((await alice.get(`${REQUESTS}/${other}`)).status, 404);
  }
  gateway.clock.advance(10 * MINUTE_MS);
  assert.equal((await alice.post(`${REQUESTS}/${id}/decision`, { decision: "allow" })).status, 404);
});

Deno.test("before signing in, a person sees which application asks, and nothing else", async () => {
  await using gateway = await openGateway({ ...SETTINGS, SVC_RATE_LIMIT: "on" });
  const anyone = gateway.withToken(undefined);
  const id = requestIdOf(await authorize(gateway, authorizeQuery(await register(gateway))));
  const asking = await anyone.get(`${REQUESTS}/${id}/client`);
  assert.deepEqual(ok(asking), { clientName: "Desk", clientHost: null, redirectHost: "127.0.0.1:7777" });
  assert.equal((await anyone.get(`${REQUESTS}/${id}`)).status, 401);
  assert.equal((await anyone.get(`${REQUESTS}/${id.slice(0, -1)}/client`)).status, 404);
  gateway.clock.advance(10 * MINUTE_MS);
  const statuses = [];
  for (let n = 0; n < 31; n++) statuses.push((await anyone.get(`${REQUESTS}/${id}/client`)).status);
  assert.equal(statuses[0], 404, "it has expired");
  assert.equal(statuses.at(-1), 429);
});

Deno.test("only a person decides, and grants no more than was asked for and its own token allows", async () => {
  await using gateway = await openGateway(SETTINGS);
  const alice = await gateway.as("alice");
  const clientId = await register(gateway);
  const id = requestIdOf(await authorize(gateway, authorizeQuery(clientId)));
  const decide = (who: typeof alice, scopes?: string[]) =>
    who.post(`${REQUESTS}/${id}/decision`, { decision: "allow", scopes });
  ok(await alice.get("/v1/collaboration/me"));
  const agent = await gateway.as("bot", { kind: "agent", owner: "alice" });
  assert.equal((await decide(agent)).body.code, "forbidden");
  assert.equal((await decide(await gateway.as("svc", { kind: "service" }))).body.code, "forbidden");
  assert.equal((await decide(alice, ["room.manage"])).body.code, "validation_failed");
  const narrow = await gateway.as("alice", { scope: "token.manage room.read" });
  assert.deepEqual(ok(await narrow.get(`${REQUESTS}/${id}`)).scopes, ["room.read"]);
  assert.equal((await decide(narrow, ["message.read"])).body.code, "scope_missing");
  const code = new URL(ok(await decide(narrow)).redirectTo).searchParams.get("code") ?? "";
  assert.equal(ok(await exchange(gateway, { clientId, code })).scope, "room.read");
});

Deno.test("an application revokes its own token", async () => {
  await using gateway = await openGateway(SETTINGS);
  const alice = await gateway.as("alice");
  for (const field of ["refresh_token", "access_token"]) {
    const { clientId, ...code } = await allow(gateway, alice);
    const tokens = ok(await exchange(gateway, { clientId, ...code }));
    assert.equal((await postForm(gateway, "/oauth/revoke", { token: tokens[field] })).status, 200);
    assert.equal((await refresh(gateway, clientId, tokens.refresh_token)).body.error, "invalid_grant");
  }
  for (const token of ["", "svcmcp_x.y", "svcort_x"]) {
    assert.equal((await postForm(gateway, "/oauth/revoke", { token })).status, 200);
  }
});

Deno.test("hostile forms and bodies are refused before anything reads them", async () => {
  await using gateway = await openGateway(SETTINGS);
  const anyone = gateway.withToken(undefined);
  const form = { "content-type": "application/x-www-form-urlencoded" };
  assert.equal((await anyone.call("POST", "/oauth/token", "x".repeat(9000), form)).status, 413);
  assert.equal((await anyone.post("/oauth/token", { grant_type: "refresh_token" })).status, 415);
  assert.equal((await anyone.call("POST", "/oauth/token", "code=1&code=2", form)).body.error, "invalid_request");
  assert.equal((await anyone.call("POST", "/oauth/token", "__proto__=1", form)).body.error, "invalid_request");
  assert.equal(
    (await anyone.call("POST", "/oauth/token", "grant_type=password", form)).body.error,
    "unsupported_grant_type",
  );
  assert.equal((await anyone.call("POST", "/oauth/register", "x".repeat(20_000))).status, 413);
  const clientId = await register(gateway);
  const long = authorizeQuery(clientId, { state: "x".repeat(1001) });
  assert.equal((await authorize(gateway, long)).status, 400);
  assert.equal((await authorize(gateway, authorizeQuery("x".repeat(5000)))).status, 400);
});

Deno.test("endpoints without a token have rates of one address", async () => {
  await using gateway = await openGateway({ ...SETTINGS, SVC_RATE_LIMIT: "on" });
  const anyone = gateway.withToken(undefined);
  const statuses = [];
  for (let n = 0; n < 21; n++) {
    statuses.push((await anyone.post("/oauth/register", { redirect_uris: [REDIRECT_URI] })).status);
  }
  assert.equal(statuses[0], 201);
  assert.equal(statuses.at(-1), 429);
});
