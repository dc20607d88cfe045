// Forged, malformed and unusual tokens: only configured ones are accepted, and none causes an internal error.
import assert from "node:assert/strict";
import { createHmac, createSign, generateKeyPairSync } from "node:crypto";
import { Buffer } from "node:buffer";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { HOUR_SECONDS, systemClock } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf } from "@/core/log.ts";
import { Authenticator } from "@/modules/identity/authenticator.ts";
import { Claims } from "@/modules/identity/mod.ts";
import { IdentityStore } from "@/modules/identity/store.ts";
import { createProviderKeys } from "@/modules/identity/provider_keys.ts";
import { TokenVerifier } from "@/modules/identity/verifier.ts";
import { TenantService } from "@/modules/tenant/service.ts";
import type { Outbound } from "@/ports/outbound.ts";
import { type Harness, openGateway, SECRET } from "../../harness.ts";
import { FakeSocket } from "../../transport/ws_harness.ts";
import { pause, until } from "../../wait.ts";

const ME = "/v1/collaboration/me";

/** A token of these very parts, signed by `secret` whatever its header says. */
function forge(header: unknown, payload: unknown, secret = SECRET): string {
  const encode = (part: unknown): string =>
    Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url");
  const signed = `${encode(header)}.${encode(payload)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

const HS256 = { alg: "HS256", typ: "JWT" };

/** Accepts the tokens of a provider whose keys are at this address; the operator allows no other private host. */
function verifierOf(address: string, outbound: Outbound = createOutbound({ allow: [] })): TokenVerifier {
  const providerKeys = createProviderKeys(address, outbound);
  return new TokenVerifier({ clock: systemClock, secrets: [], requiresExpiry: true, providerKeys });
}

/** Good claims, and others in their place. */
function claims(gateway: Harness, other: Record<string, unknown> = {}): Record<string, unknown> {
  return { sub: "alice", exp: gateway.clock.now() / 1000 + 60, ...other };
}

async function codeOf(gateway: Harness, token: string): Promise<string> {
  const { status, body } = await gateway.withToken(token).get(ME);
  return status === 200 ? "ok" : `${status} ${body.code}`;
}

Deno.test("a token is accepted only with a configured algorithm, key and header", async () => {
  await using gateway = await openGateway();
  const good = claims(gateway);
  assert.equal(await codeOf(gateway, forge(HS256, good)), "ok");
  assert.equal(await codeOf(gateway, forge({ alg: "HS256", kid: "../../etc/passwd" }, good)), "ok");
  for (const typ of ["at+jwt", "application/at+jwt", "Application/JWT"]) {
    assert.equal(await codeOf(gateway, forge({ alg: "HS256", typ }, good)), "ok", typ);
  }
  const refused = [
    forge(HS256, good, "another secret, also of 32 bytes or more"),
    forge({ alg: "none" }, good),
    `${forge({ alg: "none" }, good).split(".").slice(0, 2).join(".")}.`,
    ...["None", "hs256", "HS384", "HS512", "RS256", "ES256", "EdDSA", "", null, ["HS256"]]
      .map((alg) => forge({ alg }, good)),
    ...[
      { crit: ["exp"] },
      { crit: [] },
      { crit: ["b64"], b64: false },
      { jwk: { kty: "oct", k: "AA" } },
      { jku: "https://evil.test/keys" },
      { x5u: "https://evil.test/cert" },
      { x5c: ["AA"] },
      { typ: "refresh" },
      { typ: 1 },
    ].map((field) => forge({ ...HS256, ...field }, good)),
    forge("null", good),
    forge("[]", good),
    forge(HS256, "{"),
    forge(HS256, "null"),
    forge(HS256, "[]"),
    `${forge(HS256, good)}.x`,
  ];
  for (const token of refused) assert.equal(await codeOf(gateway, token), "401 unauthenticated", token);
});

Deno.test("an invalid claim is rejected, however extreme its value", async () => {
  await using gateway = await openGateway();
  const now = gateway.clock.now() / 1000;
  const refused: Record<string, readonly unknown[]> = {
    exp: ["9999999999", null, true, 1e300, 1e15, gateway.clock.now() + 60_000],
    nbf: [now + 3600, "0"],
    iat: [now + 3600, -1, -1e13, -1e300],
    sub: [1, "", null, ["alice"], "a/b", "a\0b", "x".repeat(129)],
    tenant: ["", null, ["default"], "a/b", "a:b", "x".repeat(65)],
    role: ["root", "OWNER", ["owner"]],
    kind: ["robot"],
    name: [1, "a\0b", "\ud800", "x".repeat(1001)],
    scope: [1, ["*"], "x".repeat(4097)],
    jti: ["", 1, "a\0b", "\udc00", "x".repeat(201)],
  };
  for (const [name, values] of Object.entries(refused)) {
    for (const value of values) {
      const token = forge(HS256, claims(gateway, { [name]: value }));
      assert.equal(await codeOf(gateway, token), "401 unauthenticated", `${name} ${JSON.stringify(value)}`);
    }
  }
  assert.equal(await codeOf(gateway, forge(HS256, claims(gateway, { exp: now }))), "401 token_expired");
  assert.equal(await codeOf(gateway, forge(HS256, claims(gateway, { exp: -1 }))), "401 unauthenticated");
});

Deno.test("a long name is truncated between characters, not within one", async () => {
  await using gateway = await openGateway();
  const { body } = await (await gateway.as("alice", { name: `${"a".repeat(99)}😀` })).get(ME);
  assert.equal(body.principal.displayName, "a".repeat(99));
});

Deno.test("Bearer is case-insensitive, and two tokens are rejected", async () => {
  await using gateway = await openGateway();
  const token = forge(HS256, claims(gateway));
  const status = async (authorization: string): Promise<number> =>
    (await gateway.withToken(undefined).get(ME, { authorization })).status;
  for (const scheme of ["bearer", "BEARER", "bEaReR"]) assert.equal(await status(`${scheme} ${token}`), 200);
  for (const header of [token, `Basic ${token}`, `Bearer ${token},Bearer ${token}`, `Bearer ${token} x`, "Bearer"]) {
    assert.equal(await status(header), 401, header);
  }
});

Deno.test("unavailable keys of an identity provider do not invalidate the token", async () => {
  const now = Math.floor(Date.now() / 1000);
  const { publicKey, privateKey } = await generateKeyPair("ES256");
  const payload = { sub: "alice", exp: now + HOUR_SECONDS };
  const sign = () => new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid: "k1" }).sign(privateKey);
  let answer = (): Response => new Response(null, { status: 503 });
  await using provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => answer());
  const address = `http://127.0.0.1:${provider.addr.port}/keys`;
  const outcome = async (token: string) =>
    await verifierOf(address).verify(token).then(({ sub }) => sub, (fault: Fault) => fault.code);
  assert.equal(await outcome(await sign()), "unavailable");
  answer = () => new Response("{");
  assert.equal(await outcome(await sign()), "unavailable");
  answer = () => Response.json({ keys: "none" });
  assert.equal(await outcome(await sign()), "unavailable");
  answer = () => Response.json({ keys: [] });
  assert.equal(await outcome(await sign()), "unauthenticated");
  const jwk = { ...await exportJWK(publicKey), kid: "k1" };
  answer = () => Response.json({ keys: [jwk] });
  assert.equal(await outcome(await sign()), "alice");
  assert.equal(await outcome(forge({ alg: "HS256", kid: "k1" }, payload, JSON.stringify(jwk))), "unauthenticated");
  assert.equal(await outcome(`${(await sign()).slice(0, -4)}AAAA`), "unauthenticated");
  // A key that is too short is not a failure to fetch keys.
  const short = generateKeyPairSync("rsa", { modulusLength: 1024 });
  answer = () => Response.json({ keys: [jwk, { ...short.publicKey.export({ format: "jwk" }), kid: "k2" }] });
  const signed = forge({ alg: "RS256", kid: "k2" }, payload).replace(/\.[^.]*$/, "");
  const signature = createSign("sha256").update(signed).sign(short.privateKey, "base64url");
  assert.equal(await outcome(`${signed}.${signature}`), "unauthenticated");
  assert.equal(await outcome(await sign()), "alice");
});

Deno.test("keys are fetched from the operator's host only, even a private one, and within bounds", async () => {
  const { publicKey, privateKey } = await generateKeyPair("ES256");
  const payload = { sub: "alice", exp: Math.floor(Date.now() / 1000) + HOUR_SECONDS };
  const token = await new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid: "k1" }).sign(privateKey);
  const keys = { keys: [{ ...await exportJWK(publicKey), kid: "k1" }] };
  const long = JSON.stringify({ ...keys, more: "x".repeat(256 * 1024) });
  const asked: string[] = [];
  await using provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname, origin } = new URL(request.url);
    asked.push(pathname);
    if (pathname === "/moved") return Response.redirect(`${origin}/keys`);
    if (pathname === "/long") return new Response(long);
    // Without a length in advance.
    if (pathname === "/long-stream") return new Response(new Blob([long]).stream());
    return Response.json(keys);
  });
  const origin = `http://127.0.0.1:${provider.addr.port}`;
  const failure = async (verifier: TokenVerifier) => {
    const thrown = await verifier.verify(token).then(() => assert.fail("it was accepted"), (error: unknown) => error);
    assert.ok(thrown instanceof Fault && thrown.code === "unavailable");
    // What the log says.
    return failureOf(thrown).cause?.split("\n")[0];
  };

  const verifier = verifierOf(`${origin}/keys`);
  const { now } = Date;
  try {
    // After half a minute, an unknown key would be asked for.
    const startedAt = now();
    Date.now = () => startedAt;
    for (let n = 0; n < 2; n++) assert.equal((await verifier.verify(token)).sub, "alice");
    const other = new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid: "unknown" }).sign(privateKey);
    await assert.rejects(verifier.verify(await other), { code: "unauthenticated" });
  } finally {
    Date.now = now;
  }
  assert.deepEqual(asked, ["/keys"], "keys are kept, and not asked for again at once");
  assert.equal((await verifierOf(`http://localhost:${provider.addr.port}/keys`).verify(token)).sub, "alice");

  assert.match(await failure(verifierOf(`${origin}/moved`)) ?? "", /answered with status 302 instead of 200$/);
  assert.ok(!asked.slice(asked.indexOf("/moved")).includes("/keys"), "a redirect was followed");
  for (const path of ["/long", "/long-stream"]) {
    const cause = await failure(verifierOf(origin + path));
    assert.equal(cause, "OutboundError: The response is longer than 262144 bytes", path);
  }

  // Hosts as URLs write them.
  const { assertAllowed } = createOutbound({ allow: [] });
  const respond = (...[url, , options]: Parameters<Outbound>): Promise<Response> => {
    assertAllowed(url, options);
    assert.throws(() => assertAllowed("http://10.0.0.9/keys", options), { code: "address_not_allowed" });
    return Promise.resolve(Response.json(keys));
  };
  const unconnected: Outbound = Object.assign(respond, { assertAllowed });
  for (const host of ["10.0.0.1", "[fd00::1]", "id.internal", "id.internal."]) {
    assert.equal((await verifierOf(`http://${host}/keys`, unconnected).verify(token)).sub, "alice", host);
  }
});

Deno.test("/openapi.json documents every claim that is read", async () => {
  await using gateway = await openGateway();
  const { body } = await gateway.withToken(undefined).get("/openapi.json");
  const description = String(body.components.securitySchemes.bearer.description);
  assert.deepEqual(Object.keys(Claims.shape).filter((name) => !description.includes(`\`${name}\``)), []);
});

Deno.test("a payload without claims is rejected with a fitting message", async () => {
  await using gateway = await openGateway();
  for (const payload of [[], null, 5]) {
    const { status, body } = await gateway.withToken(forge(HS256, payload)).get(ME);
    assert.equal(status, 401);
    assert.match(body.detail, /^The token's payload is not valid: expected object/);
  }
});

Deno.test("a claim that is missing, or a time in milliseconds, is rejected with what is expected", async () => {
  await using gateway = await openGateway();
  const { sub: _sub, ...without } = claims(gateway);
  for (
    const [payload, detail] of [
      [without, "The token's claim sub is not valid: required, expected string"],
      [
        claims(gateway, { exp: gateway.clock.now() + 60_000 }),
        "The token's claim exp is not valid: expected seconds since 1970, not milliseconds",
      ],
    ] as const
  ) {
    const { status, body } = await gateway.withToken(forge(HS256, payload)).get(ME);
    assert.deepEqual([status, body.detail], [401, detail]);
  }
});

Deno.test("no principal can have the id me", async () => {
  await using gateway = await openGateway();
  for (const sub of [".", "..", "__proto__"]) {
    for (const wrong of [{ sub }, { tenant: sub }, { kind: "agent", owner: sub }]) {
      assert.equal(
        await codeOf(gateway, forge(HS256, claims(gateway, wrong))),
        "401 unauthenticated",
        JSON.stringify(wrong),
      );
    }
  }
  for (const sub of ["...", ".a", "a.", "a..b"]) {
    assert.equal(await codeOf(gateway, forge(HS256, claims(gateway, { sub }))), "ok", sub);
  }
  const { status, body } = await gateway.withToken(forge(HS256, claims(gateway, { sub: "me" }))).get(ME);
  assert.deepEqual([status, body.code], [401, "unauthenticated"]);
  assert.match(body.detail, /claim sub .*`me`/);
  const owner = await gateway.as("olga", { role: "owner" });
  for (const field of ["id", "handle"]) {
    const refused = await owner.post("/v1/collaboration/principals", {
      kind: "human",
      displayName: "M",
      [field]: "me",
    });
    assert.deepEqual([refused.status, refused.body.errors[0].pointer], [422, `/${field}`]);
  }
});

Deno.test("a role set through the API is not changed by a token issued at the same moment", async () => {
  await using gateway = await openGateway();
  const owner = await gateway.as("olga", { role: "owner" });
  await (await gateway.as("bob", { role: "member", iat: gateway.clock.now() / 1000 - 60 })).get(ME);
  assert.equal((await owner.patch("/v1/collaboration/principals/bob", { role: "guest" })).status, 200);
  const now = await gateway.as("bob", { role: "admin" });
  assert.deepEqual((await now.get(ME)).body.roles, ["guest"]);
  gateway.clock.advance(1000);
  const later = await gateway.as("bob", { role: "admin" });
  assert.deepEqual((await later.get(ME)).body.roles, ["admin"]);
});

Deno.test("a token can be logged out whatever its jti looks like, and is valid until then", async () => {
  await using gateway = await openGateway();
  const caller = await gateway.as("alice", { jti: "tok_42" });
  assert.equal((await caller.get(ME)).status, 200);
  const socket = new FakeSocket();
  const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: caller.token } }));
  await until(() => socket.messages.length > 0);
  gateway.app.hub.revalidatePrincipal("default", "alice");
  await pause(20);
  assert.equal(connection.isClosed, false);
  assert.equal((await caller.post("/v1/collaboration/auth/logout")).status, 204);
  assert.equal((await caller.get(ME)).body.code, "token_revoked");
});

Deno.test("an API token can read while writes fail", async () => {
  await using gateway = await openGateway();
  const { body } = await (await gateway.as("alice")).post("/v1/collaboration/tokens", { name: "bot", scopes: ["*"] });
  gateway.app.store.write = () => Promise.reject(new Fault("unavailable", "The disk is full"));
  assert.equal((await gateway.withToken(body.token).get(ME)).status, 200);
});

Deno.test("a scope that no operation has is refused, with the one that was meant", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const create = (...scopes: string[]) => alice.post("/v1/collaboration/tokens", { name: "bot", scopes });
  assert.equal((await create("room.*", "message.write", "token.manage", "*")).status, 201);
  const cases = { "mesage.write": "; did you mean message.write?", "romo.*": "; did you mean room.*?", "xyz.read": "" };
  for (const [scope, hint] of Object.entries(cases)) {
    const { status, body } = await create("room.read", scope);
    assert.deepEqual([status, body.detail], [422, `/scopes/1: no scope ${scope}${hint}`]);
  }
});

Deno.test("tokens that have expired are neither listed nor counted", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const draft = { name: "job", scopes: ["room.read"], expiresInSeconds: 60 };
  for (let made = 0; made < 50; made++) {
    assert.equal((await alice.post("/v1/collaboration/tokens", draft)).status, 201);
  }
  assert.equal((await alice.post("/v1/collaboration/tokens", draft)).body.code, "limit_reached");
  gateway.clock.advance(60_000);
  assert.deepEqual((await alice.get("/v1/collaboration/tokens")).body.items, []);
  assert.equal((await alice.post("/v1/collaboration/tokens", draft)).status, 201);
});

Deno.test("a token without a role does not change the role set by another one", async () => {
  await using gateway = await openGateway();
  assert.equal((await (await gateway.as("alice")).get(ME)).status, 200);
  const older = await gateway.as("alice", { role: "admin", iat: gateway.clock.now() / 1000 - 60 });
  assert.deepEqual((await older.get(ME)).body.roles, ["admin"]);
});

Deno.test("without a signal a revoked token is accepted for 5 s, and not at all without a bus", async () => {
  await using gateway = await openGateway();
  const { store } = gateway.app;
  const { clock } = gateway;
  // Another node on the same database, which no signal reaches.
  const bus = { isCurrent: true };
  const secrets = [new TextEncoder().encode(SECRET)];
  const elsewhere = new Authenticator({
    store,
    clock,
    bus,
    tenants: new TenantService({ store, clock }),
    verifier: new TokenVerifier({
      clock,
      secrets,
      issuer: undefined,
      audience: undefined,
      requiresExpiry: false,
    }),
    agentsPerOwner: 10,
    jobsOnRename: () => [],
  });
  const mint = async () => {
    const { body } = await (await gateway.as("alice")).post("/v1/collaboration/tokens", { name: "bot", scopes: ["*"] });
    await elsewhere.authenticate(body.token);
    return body;
  };
  const revoke = async (id: string) =>
    assert.equal((await (await gateway.as("alice")).delete(`/v1/collaboration/tokens/${id}`)).status, 204);
  const isServed = async (token: string) => {
    try {
      return await elsewhere.authenticate(token) !== undefined;
    } catch {
      return false;
    }
  };
  // The node of the revocation ended before it sent the signal.
  const { id, token } = await mint();
  await revoke(id);
  clock.advance(4999);
  assert.equal(await isServed(token), true);
  clock.advance(1);
  assert.equal(await isServed(token), false);

  const other = await mint();
  bus.isCurrent = false;
  assert.equal(await isServed(other.token), true);
  await revoke(other.id);
  assert.equal(await isServed(other.token), false);

  // A node that was silent may still be reading what was so before.
  const last = await mint();
  const { tokenByHash } = IdentityStore.prototype;
  const frozen = Promise.withResolvers<void>();
  IdentityStore.prototype.tokenByHash = async function (hash) {
    const row = await tokenByHash.call(this, hash);
    await frozen.promise;
    return row;
  };
  const before = elsewhere.authenticate(last.token);
  IdentityStore.prototype.tokenByHash = tokenByHash;
  await revoke(last.id);
  assert.equal(await isServed(last.token), false);
  frozen.resolve();
  await before;
});
