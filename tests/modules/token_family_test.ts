// Refresh tokens: good once, for one line of descent; an old one ends all that came of the log-in.
import assert from "node:assert/strict";
import { SignJWT } from "jose";
import { onEngines } from "../engines.ts";
import { openGateway, SECRET } from "../harness.ts";
import { FakeSocket } from "../transport/ws_rig.ts";
import { until } from "../wait.ts";
import { DAY, Family, ME, REFRESH, refresh, said, SECOND, TOKENS } from "./token_family_world.ts";
import { ok, refused } from "./team.ts";

onEngines("a refresh token is changed for the next pair, and the log-in stays one entry", async (environment) => {
  await using gateway = await openGateway(environment);
  const alice = await gateway.as("alice");
  const now = gateway.clock.now();
  const made = await alice.post(TOKENS, { name: "phone", scopes: ["principal.read"], refreshable: true });
  assert.equal(made.status, 201);
  const { token, refreshToken, ...entry } = made.body;
  assert.equal(Date.parse(entry.expiresAt), now + 15 * 60 * SECOND);
  assert.equal(Date.parse(entry.refreshExpiresAt), now + 30 * DAY);
  assert.deepEqual(ok(await alice.get(TOKENS)).items, [entry]);
  const me = ok(await gateway.withToken(token).get(ME));
  assert.deepEqual([me.principal.id, me.scopes, me.tokenExpiresAt], ["alice", ["principal.read"], entry.expiresAt]);

  gateway.clock.advance(DAY);
  refused(await gateway.withToken(token).get(ME), 401, "token_expired");
  const answer = await refresh(gateway, refreshToken);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const { body } = answer;
  assert.deepEqual(Object.keys(body).sort(), ["accessToken", "expiresAt", "refreshExpiresAt", "refreshToken"]);
  assert.equal(Date.parse(body.expiresAt), now + DAY + 15 * 60 * SECOND);
  assert.equal(Date.parse(body.refreshExpiresAt), now + 31 * DAY);
  assert.equal(said(await gateway.withToken(body.accessToken).get(ME)), "200");
  const later = await gateway.as("alice");
  assert.deepEqual(ok(await later.get(TOKENS)).items, [{
    ...entry,
    expiresAt: body.expiresAt,
    refreshExpiresAt: body.refreshExpiresAt,
    lastUsedAt: new Date(now + DAY).toISOString(),
  }]);
});

onEngines("an old refresh token ends its family, its access tokens and their sockets", async (environment) => {
  await using gateway = await openGateway(environment);
  const family = await Family.of(gateway);
  const other = await Family.of(gateway);
  const second = await family.next();
  const third = await family.next(second);
  const socket = new FakeSocket();
  const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: second.accessToken } }));
  await until(() => socket.lines.length > 0);
  assert.ok(socket.isOpen);
  for (const pair of [family.first, second, third]) assert.equal(await family.says(pair), "200");

  refused(await family.use(family.first.refreshToken), 401, "token_revoked");
  await until(() => connection.isClosed, "the end of the socket");
  assert.deepEqual(socket.closedWith, { code: 3503, reason: "token revoked" });
  for (const pair of [family.first, second, third]) {
    assert.equal(await family.says(pair), "401 token_revoked");
    refused(await family.use(pair.refreshToken), 401, "unauthenticated");
  }
  assert.equal(await other.says(other.first), "200");
  const alice = await gateway.as("alice");
  assert.deepEqual(ok(await alice.get(TOKENS)).items.map(({ id }: { id: string }) => id), [other.id]);
});

onEngines("a rotation whose answer was lost may be repeated until its successor is used", async (environment) => {
  await using gateway = await openGateway(environment);
  const family = await Family.of(gateway);
  const lost = await family.next();
  gateway.clock.advance(29 * SECOND);
  const found = await family.next();
  const third = await family.next(found);
  assert.equal(await family.says(third), "200");
  // The successor in whose place another came is an old token: only somebody else can have it now.
  refused(await family.use(lost.refreshToken), 401, "token_revoked");
  refused(await family.use(third.refreshToken), 401, "unauthenticated");

  const used = await Family.of(gateway);
  await used.next(await used.next());
  refused(await used.use(used.first.refreshToken), 401, "token_revoked");

  const late = await Family.of(gateway);
  await late.next();
  gateway.clock.advance(20 * SECOND);
  await late.next();
  // Counted from the first time: repeating does not keep a token alive.
  gateway.clock.advance(11 * SECOND);
  refused(await late.use(late.first.refreshToken), 401, "token_revoked");
});

onEngines("a refresh token that was not used in its days has expired, and is forgotten", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_LIMIT_REFRESH_TOKEN_DAYS: "2" });
  const [family, kept] = [await Family.of(gateway), await Family.of(gateway)];
  gateway.clock.advance(DAY);
  const renewed = await kept.next();
  gateway.clock.advance(DAY);
  refused(await family.use(family.first.refreshToken), 401, "token_expired");
  gateway.clock.advance(SECOND);
  await gateway.app.housekeep();
  refused(await family.use(family.first.refreshToken), 401, "unauthenticated");
  await kept.next(renewed);
  const { db } = gateway.app.store;
  assert.deepEqual(await db.selectFrom("token_family").select("token_id").execute(), [{ token_id: kept.id }]);
  assert.deepEqual(await db.selectFrom("api_token").select("id").execute(), [{ id: kept.id }]);
});

onEngines("who is disabled, logged out or without the token's entry gets no new tokens", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.get(ME));
  const family = await Family.of(gateway);
  ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: true }));
  refused(await family.use(family.first.refreshToken), 401, "token_revoked");
  assert.equal(await family.says(family.first), "401 token_revoked");
  ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: false }));
  const pair = await family.next();
  ok(await boss.delete(`${TOKENS}/${family.id}`));
  refused(await family.use(pair.refreshToken), 401, "unauthenticated");
  assert.equal(await family.says(pair), "401 token_revoked");

  // Whatever else the token is good for.
  const session = await Family.of(gateway, "alice", { scopes: ["room.read"] });
  ok(await gateway.withToken(session.first.accessToken).post("/v1/collaboration/auth/logout"));
  refused(await session.use(session.first.refreshToken), 401, "unauthenticated");
  assert.equal(await session.says(session.first), "401 token_revoked");

  const { id } = ok(
    await (await gateway.as("alice")).post("/v1/collaboration/principals", { kind: "agent", displayName: "Bot" }),
  );
  const bot = await Family.of(gateway, "alice", { principalId: id });
  assert.equal(ok(await gateway.withToken(bot.first.accessToken).get(ME)).principal.id, id);
  ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: true }));
  refused(await bot.use(bot.first.refreshToken), 401, "token_revoked");
  assert.deepEqual(await gateway.app.store.db.selectFrom("token_family").select("token_id").execute(), [
    { token_id: bot.id },
  ]);
});

Deno.test("an access token is never worth more than its principal is now, nor than what was asked for", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.get(ME));
  const role = async (token: string) => ok(await gateway.withToken(token).get(ME)).roles[0];
  const setRole = async (to: string) => ok(await boss.patch("/v1/collaboration/principals/bob", { role: to }));
  ok(await (await gateway.as("bob", { role: "member" })).get(ME));
  const family = await Family.of(gateway, "bob", { scopes: ["principal.read", "token.manage"] });
  await setRole("admin");
  const raised = await family.next();
  assert.equal(await role(raised.accessToken), "member");
  await setRole("guest");
  gateway.clock.advance(5000);
  const lowered = await family.next(raised);
  for (const { accessToken } of [raised, lowered]) assert.equal(await role(accessToken), "guest");
  // A new token says nothing about the principal: the role stays as it was set.
  assert.equal(ok(await boss.get("/v1/collaboration/principals/bob")).role, "guest");

  const weak = gateway.withToken(lowered.accessToken);
  refused(await weak.post("/v1/rooms", { name: "x" }), 403, "scope_missing");
  const beyond = { name: "x", scopes: ["room.read"], refreshable: true };
  refused(await weak.post(TOKENS, beyond), 403, "scope_missing");
  // Whoever comes with a token that states less than its principal may makes a family of that much.
  await setRole("admin");
  const stated = await gateway.as("bob", { role: "guest", iat: gateway.clock.now() / 1000 - 3600 });
  const { token } = ok(await stated.post(TOKENS, { ...beyond, scopes: ["*"] }));
  assert.equal(await role(token), "guest");
});

Deno.test("tokens of one kind open no door of another", async () => {
  await using gateway = await openGateway();
  const family = await Family.of(gateway);
  const alice = await gateway.as("alice");
  const { refreshToken, accessToken } = family.first;
  const [line = "", secret = ""] = refreshToken.split(".");
  assert.ok(secret.length >= 22 && line.length >= 22, "at least 128 random bits each");
  const plain = ok(await alice.post(TOKENS, { name: "api", scopes: ["*"] }));
  assert.deepEqual([plain.refreshExpiresAt, "refreshToken" in plain], [null, false]);
  const feed = ok(await alice.post("/v1/collaboration/calendar/feeds", { name: "Mine" }));
  const feedSecret = feed.path.split("/").at(-1).replace(".ics", "");

  for (const bearer of [refreshToken, line, secret, `svcpat_${secret}`]) {
    assert.equal(said(await gateway.withToken(bearer).get(ME)), "401 unauthenticated");
    const socket = new FakeSocket();
    const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
    connection.receive(JSON.stringify({ id: 1, connect: { token: bearer } }));
    await until(() => connection.isClosed);
    assert.equal(socket.closedWith?.code, 3500);
    const read = await gateway.withToken(undefined).get(`/v1/collaboration/calendar/feeds/${bearer}.ics`);
    assert.equal(read.status, 404);
  }
  const others = [
    accessToken,
    plain.token,
    feedSecret,
    alice.token,
    line,
    secret,
    `${line}.`,
    `${line}.${secret}.x`,
    "x",
  ];
  for (const token of [...others, `svcrt_${feedSecret}.${secret}`]) {
    assert.equal(said(await refresh(gateway, token)), "401 unauthenticated", token);
  }
  // None of that was taken for an old token of the family.
  await family.next();
});

Deno.test("access tokens carry the issuer and audience that the gateway asks for", async () => {
  await using gateway = await openGateway({ SVC_JWT_ISSUER: "https://id.example", SVC_JWT_AUDIENCE: "gateway" });
  const now = Math.floor(gateway.clock.now() / 1000);
  const token = await new SignJWT({ iss: "https://id.example", aud: "gateway", sub: "alice", iat: now, exp: now + 60 })
    .setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(SECRET));
  const made = ok(await gateway.withToken(token).post(TOKENS, { name: "page", scopes: ["*"], refreshable: true }));
  assert.equal(said(await gateway.withToken(made.token).get(ME)), "200");
  const { accessToken } = ok(await refresh(gateway, made.refreshToken));
  assert.equal(said(await gateway.withToken(accessToken).get(ME)), "200");
});

Deno.test("the door of refresh tokens says what is wrong with its input", async () => {
  await using gateway = await openGateway();
  const nobody = gateway.withToken(undefined);
  for (const body of [{}, { refreshToken: 1 }, { refreshToken: "" }, { refreshToken: null }]) {
    const answer = await nobody.post(REFRESH, body);
    refused(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].pointer, "/refreshToken");
  }
  refused(await nobody.post(REFRESH, { refreshToken: "x", scope: "*" }), 422, "unknown_field");
  refused(await nobody.post(REFRESH, "{"), 400, "invalid_json");
  const alice = await gateway.as("alice");
  const long = await alice.post(TOKENS, { name: "x", scopes: ["*"], refreshable: true, expiresInSeconds: 86_401 });
  refused(long, 422, "validation_failed");
  assert.equal(long.body.errors[0].pointer, "/expiresInSeconds");
});

Deno.test("one address uses refresh tokens ten times a minute", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const family = await Family.of(gateway);
  let pair = family.first;
  for (let turn = 0; turn < 10; turn++) pair = await family.next(pair);
  const answer = await family.use(pair.refreshToken);
  refused(answer, 429, "rate_limited");
  assert.ok(Number(answer.headers.get("retry-after")) > 0);
  assert.equal(answer.headers.get("ratelimit-limit"), "10");
  const request = new Request(`http://gateway.test${REFRESH}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ refreshToken: pair.refreshToken }),
  });
  const elsewhere = await gateway.app.fetch(request, "192.0.2.7");
  assert.equal(elsewhere.status, 200);
  await elsewhere.body?.cancel();
});
