// Signing in at an identity provider: who is admitted, how long a session lasts, and what each failure says to the person.
import assert from "node:assert/strict";
import { DAY_MS } from "@/core/time/clock.ts";
import { type ApiResponse, type Harness, openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { captureLog } from "../../log_capture.ts";
import { FakeProvider } from "../../identity_provider.ts";
import { until } from "../../wait.ts";
import { assertProblem, ok } from "../fixtures.ts";

const START = "/v1/collaboration/auth/sign-in";
const PUBLIC_URL = "https://chat.example.com/gateway";

function settingsOf(provider: FakeProvider, more: Record<string, string> = {}): Record<string, string> {
  return {
    SVC_PUBLIC_URL: PUBLIC_URL,
    SVC_OIDC_ISSUER: provider.issuer,
    SVC_OIDC_CLIENT_ID: provider.clientId,
    SVC_OIDC_CLIENT_SECRET: provider.clientSecret,
    SVC_LIMIT_TOKEN_HOURS: "12",
    ...more,
  };
}

function cookieOf({ headers }: ApiResponse): string {
  return headers.get("set-cookie")?.split(";")[0] ?? "";
}

/** The address at which the browser arrives in the end. */
function arrivalOf({ status, headers }: ApiResponse): string {
  assert.equal(status, 302);
  return headers.get("location") ?? "";
}

/** What the browser of each gateway's person has after its last return. */
const cookies = new WeakMap<Harness, string>();

/** Opens the provider and returns, like a browser; the address at which it arrives. */
async function signIn(gateway: Harness, provider: FakeProvider): Promise<string> {
  const browser = gateway.withToken(undefined);
  const started = await browser.get(START);
  const back = provider.authorize(arrivalOf(started));
  const returned = await browser.get(pathOf(back), { cookie: cookieOf(started) });
  cookies.set(gateway, cookieOf(returned));
  return arrivalOf(returned);
}

/** The path of an address of the gateway, as a proxy passes it on. */
function pathOf(address: string): string {
  assert.ok(address.startsWith(`${PUBLIC_URL}/`), address);
  return address.slice(PUBLIC_URL.length);
}

async function join(gateway: Harness, arrival: string, cookie = cookies.get(gateway) ?? ""): Promise<ApiResponse> {
  const code = new URLSearchParams(new URL(arrival).hash.slice(1)).get("code");
  return await gateway.withToken(undefined).post("/v1/collaboration/auth/join", { code }, { cookie });
}

testOnEngines("people sign in at the provider, and are those whom its tokens name", async (environment) => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway({ ...environment, ...settingsOf(provider) });
  provider.person = { sub: "ada-1", name: "Ada Lovelace" };
  const started = await gateway.withToken(undefined).get(START);
  const asked = new URL(arrivalOf(started));
  assert.equal(asked.searchParams.get("redirect_uri"), `${PUBLIC_URL}/v1/collaboration/auth/callback`);
  assert.equal(asked.searchParams.get("code_challenge_method"), "S256");
  const attributes = (started.headers.get("set-cookie") ?? "").split("; ").slice(1);
  const path = "Path=/gateway/v1/collaboration/auth";
  assert.deepEqual(attributes, [path, "Max-Age=600", "HttpOnly", "SameSite=Lax", "Secure"]);

  const arrival = await signIn(gateway, provider);
  assert.ok(arrival.startsWith(`${PUBLIC_URL}/#code=`), arrival);
  const { body, status } = await join(gateway, arrival);
  assert.equal(status, 201);
  assert.deepEqual([body.principal.id, body.principal.displayName, body.principal.role], [
    "ada-1",
    "Ada Lovelace",
    "member",
  ]);
  assert.equal(Date.parse(body.expiresAt) - gateway.clock.now(), DAY_MS / 2, "then the provider is asked again");
  assert.equal((await join(gateway, arrival)).status, 401, "a code is worth one session");
  const ada = gateway.withToken(body.token);
  ok(await ada.post("/v1/rooms", { name: "garden" }));
  provider.person = { sub: "ada-1", name: "Ada King" };
  const again = await join(gateway, await signIn(gateway, provider));
  assert.equal(again.body.principal.displayName, "Ada King");

  const owner = await gateway.as("olga", { role: "owner" });
  ok(await owner.patch("/v1/collaboration/principals/ada-1", { disabled: true }));
  assertProblem(await ada.get("/v1/collaboration/me"), 401, "token_revoked");
  assert.equal(await signIn(gateway, provider), `${PUBLIC_URL}/#failed=disabled`);
});

Deno.test("a name that is not in the ID token is read at the provider, and so is a required claim", async () => {
  await using provider = new FakeProvider();
  provider.clientSecret = "";
  const { SVC_OIDC_CLIENT_SECRET: _none, ...settings } = settingsOf(provider, {
    SVC_OIDC_REQUIRE: "groups=chat users",
  });
  await using gateway = await openGateway(settings);
  provider.person = { sub: "bob-1", role: "admin", tid: "acme" };
  provider.userInfo = { preferred_username: "bob", groups: ["staff", "chat users"] };
  const { body } = await join(gateway, await signIn(gateway, provider));
  assert.deepEqual([body.principal.displayName, body.principal.role], ["bob", "admin"]);
  const me = ok(await gateway.withToken(body.token).get("/v1/collaboration/me"));
  assert.equal(me.tenant.id, "acme");
  provider.userInfo = { groups: ["staff", "chat"] };
  assert.equal(await signIn(gateway, provider), `${PUBLIC_URL}/#failed=denied`);
  provider.userInfo = { groups: "chat users", name: "Bob" };
  assert.match(await signIn(gateway, provider), /#code=/);
});

Deno.test("a person is whom the claim names that identifies people", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider, { SVC_OIDC_SUBJECT: "oid" }));
  provider.person = { sub: "of-this-application", oid: "ada-1", name: "Ada" };
  const { body } = await join(gateway, await signIn(gateway, provider));
  assert.equal(body.principal.id, "ada-1");
  provider.person = { sub: "of-this-application" };
  assert.equal(await signIn(gateway, provider), `${PUBLIC_URL}/#failed=refused`);
});

Deno.test("an address that the provider has not verified identifies nobody", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider, { SVC_OIDC_SUBJECT: "email" }));
  for (const verified of [false, "false"]) {
    provider.person = { sub: "mallory", email: "ada@example.com", email_verified: verified };
    assert.equal(await signIn(gateway, provider), `${PUBLIC_URL}/#failed=denied`);
  }
  for (const verified of [true, undefined]) {
    provider.person = { sub: "ada", email: "ada@example.com", email_verified: verified };
    const { body } = await join(gateway, await signIn(gateway, provider));
    assert.equal(body.principal.id, "ada@example.com");
  }
});

Deno.test("who signs out is sent to the provider, if the session came from there", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider));
  const browser = gateway.withToken(undefined);
  const finish = async (): Promise<string> => {
    const started = await browser.get(START);
    const { headers } = await browser.get(pathOf(provider.authorize(arrivalOf(started))), {
      cookie: cookieOf(started),
    });
    const session = headers.getSetCookie().find((cookie) => cookie.startsWith("svc_signed_in=")) ?? "";
    assert.deepEqual(session.split("; ").slice(1), [
      "Path=/gateway/v1/collaboration/auth",
      "HttpOnly",
      "SameSite=Strict",
      "Secure",
    ]);
    return session.split(";")[0] ?? "";
  };
  const signOut = async (cookie: string): Promise<URL> => {
    const left = await browser.get("/v1/collaboration/auth/sign-out", { cookie });
    // A link of another site has no cookie with it, and ends none.
    const ends = cookie.startsWith("svc_signed_in=") ? /^svc_signed_in=; .*Max-Age=0/ : /^$/;
    assert.match(left.headers.get("set-cookie") ?? "", ends);
    return new URL(arrivalOf(left));
  };
  const { origin, pathname, searchParams } = await signOut(await finish());
  assert.equal(`${origin}${pathname}`, `${provider.issuer}/logout`);
  const { id_token_hint: token = "", ...query } = Object.fromEntries(searchParams);
  assert.ok(provider.secrets.has(token));
  assert.deepEqual(query, { client_id: provider.clientId, post_logout_redirect_uri: `${PUBLIC_URL}/` });
  for (const cookie of ["", "svc_signed_in=AAAA", "svc_sign_in=x"]) {
    assert.equal((await signOut(cookie)).href, `${PUBLIC_URL}/`, cookie);
  }
  provider.person = { sub: "ada", groups: Array.from({ length: 400 }, (_, n) => `group-${n}`) };
  const long = await signOut(await finish());
  assert.deepEqual([...long.searchParams.keys()].toSorted(), ["client_id", "post_logout_redirect_uri"]);

  provider.endsSessions = false;
  gateway.clock.advance(DAY_MS);
  assert.equal((await signOut(await finish())).href, `${PUBLIC_URL}/`);
});

Deno.test("who did not begin here, or not lately, is not signed in", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider));
  const browser = gateway.withToken(undefined);
  const [first, second] = [await browser.get(START), await browser.get(START)];
  const back = pathOf(provider.authorize(arrivalOf(first)));
  const expired = `${PUBLIC_URL}/#failed=expired`;
  for (const cookie of ["", "svc_sign_in=", "svc_sign_in=AAAA", `x${cookieOf(first)}`, cookieOf(second)]) {
    const answer = await browser.get(back, { cookie });
    assert.equal(arrivalOf(answer), expired, cookie);
    assert.match(answer.headers.get("set-cookie") ?? "", /^svc_sign_in=; .*Max-Age=0/);
  }
  const refused = `${PUBLIC_URL}/#failed=refused`;
  assert.equal(arrivalOf(await browser.get(`${back}&state=other`, { cookie: cookieOf(first) })), refused);
  assert.equal(provider.exchanges, 0, "the provider is not asked about any of them");
  const other = `a=b; ${cookieOf(first)}; c=d`;
  assert.match(arrivalOf(await browser.get(back, { cookie: other })), /#code=/);
  assert.equal(
    arrivalOf(await browser.get(back, { cookie: other })),
    refused,
    "the provider's code is worth one exchange",
  );
  gateway.clock.advance(600_000);
  const late = pathOf(provider.authorize(arrivalOf(second)));
  assert.equal(arrivalOf(await browser.get(late, { cookie: cookieOf(second) })), expired);
});

testOnEngines("an address with a code signs in nobody but the browser that it was made for", async (environment) => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway({ ...environment, ...settingsOf(provider) });
  provider.person = { sub: "mallory", name: "Mallory" };
  const arrival = await signIn(gateway, provider);
  const own = cookies.get(gateway);
  for (const cookie of ["", "svc_sign_in=AAAA", cookieOf(await gateway.withToken(undefined).get(START))]) {
    assertProblem(await join(gateway, arrival, cookie), 401, "unauthenticated");
  }
  await signIn(gateway, provider);
  assertProblem(await join(gateway, arrival), 401, "unauthenticated");
  assert.equal((await join(gateway, arrival, own)).status, 201);

  const invitation = { name: "Team", role: "member", uses: 1, expiresInSeconds: 3600 };
  const owner = await gateway.as("olga", { role: "owner" });
  const { code } = ok(await owner.post("/v1/collaboration/invitations", invitation));
  const given = { code, displayName: "Ada" };
  const joined = await gateway.withToken(undefined).post("/v1/collaboration/auth/join", given, { cookie: own ?? "" });
  assert.equal(joined.status, 201, "an invitation needs no cookie, and may come with one");
});

Deno.test("what is wrong in a response of the provider is refused, and the log says what it was", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider));
  const cases: [change: () => void, failed: string, logged: RegExp][] = [
    [() => provider.deny = "access_denied", "denied", /denied access/],
    [() => provider.deny = "login_required", "refused", /login_required/],
    [() => provider.clientSecret = "another", "refused", /invalid_client/],
    [() => provider.claims = { nonce: "another" }, "refused", /not valid/],
    [() => provider.claims = { aud: "another" }, "refused", /not valid/],
    [() => provider.claims = { iss: "https://other.example" }, "refused", /not valid/],
    [() => provider.claims = { exp: Math.floor(Date.now() / 1000) - 3600 }, "refused", /not valid/],
    [() => provider.claims = { role: "editor" }, "refused", /claim role/],
    [() => provider.signsWithAnotherKey = true, "refused", /not valid/],
    [() => provider.tokenStatus = 503, "unavailable", /503/],
  ];
  for (const [change, failed, logged] of cases) {
    provider.reset();
    change();
    const records = await captureLog(["gateway", "identity"], async () => {
      assert.equal(await signIn(gateway, provider), `${PUBLIC_URL}/#failed=${failed}`, String(change));
    });
    const text = JSON.stringify(records);
    assert.match(text, logged);
    for (const secret of provider.secrets) assert.ok(!text.includes(secret), String(change));
  }
  provider.reset();
  assert.match(await signIn(gateway, provider), /#code=/);
});

Deno.test("a provider that cannot be reached leaves the gateway running, and is asked again", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider));
  provider.discoveryStatus = 500;
  const unavailable = await gateway.withToken(undefined).get(START);
  assert.equal(arrivalOf(unavailable), `${PUBLIC_URL}/#failed=unavailable`);
  provider.reset();
  assert.match(await signIn(gateway, provider), /#code=/);
});

Deno.test("a provider that is slow is asked for few people at once", async () => {
  await using provider = new FakeProvider();
  await using gateway = await openGateway(settingsOf(provider));
  const browser = gateway.withToken(undefined);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  provider.held = held;
  const started = await browser.get(START);
  const back = pathOf(provider.authorize(arrivalOf(started)));
  const returns = Array.from({ length: 101 }, () => browser.get(back, { cookie: cookieOf(started) }));
  assert.equal(arrivalOf(await Promise.race(returns)), `${PUBLIC_URL}/#failed=unavailable`);
  await until(() => provider.exchanges === 4);
  release();
  const codes = (await Promise.all(returns)).map(arrivalOf).filter((arrival) => arrival.includes("#code="));
  assert.equal(codes.length, 1);
  assert.equal(provider.exchanges, 100);
});

Deno.test("without a provider there is nothing to sign in at, and the page does not offer it", async () => {
  await using gateway = await openGateway({ SVC_PUBLIC_URL: PUBLIC_URL });
  const browser = gateway.withToken(undefined);
  assertProblem(await browser.get(START), 404, "not_found");
  assertProblem(await browser.get("/v1/collaboration/auth/callback?code=a&state=b"), 404, "not_found");
  assert.ok(!(await browser.get("/", { accept: "text/html" })).body.includes("sign-in"));
  await using provider = new FakeProvider();
  await using other = await openGateway(settingsOf(provider, { SVC_OIDC_NAME: `<i>"Team"` }));
  const page = (await other.withToken(undefined).get("/", { accept: "text/html" })).body;
  assert.ok(page.includes(`<meta name="sign-in" content="&lt;i&gt;&quot;Team&quot;">`), page);
  const { modules } = ok(await (await other.as("ada")).get("/v1/collaboration/capabilities"));
  assert.deepEqual(modules.sign_in, { enabled: true, provider: `<i>"Team"` });
});
