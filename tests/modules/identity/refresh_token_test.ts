// Refresh tokens: each can be used once; reuse revokes the whole family.
import assert from "node:assert/strict";
import { SignJWT } from "jose";
import { testOnEngines } from "../../engines.ts";
import { openGateway, SECRET } from "../../harness.ts";
import { FakeSocket } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { DAY, ME, outcomeOf, postRefresh, REFRESH, SECOND, TokenFamily, TOKENS } from "./refresh_token_fixture.ts";
import { assertProblem, ok } from "../fixtures.ts";
import { assertNoTenantScan, recordQueries } from "../query_log.ts";

testOnEngines(
  "a refresh token is exchanged for the next pair, and the session remains one entry",
  async (environment) => {
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
    assertProblem(await gateway.withToken(token).get(ME), 401, "token_expired");
    const answer = await postRefresh(gateway, refreshToken);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("cache-control"), "no-store");
    const { body } = answer;
    assert.deepEqual(Object.keys(body).sort(), ["accessToken", "expiresAt", "refreshExpiresAt", "refreshToken"]);
    assert.equal(Date.parse(body.expiresAt), now + DAY + 15 * 60 * SECOND);
    assert.equal(Date.parse(body.refreshExpiresAt), now + 31 * DAY);
    assert.equal(outcomeOf(await gateway.withToken(body.accessToken).get(ME)), "200");
    const later = await gateway.as("alice");
    assert.deepEqual(ok(await later.get(TOKENS)).items, [{
      ...entry,
      expiresAt: body.expiresAt,
      refreshExpiresAt: body.refreshExpiresAt,
      lastUsedAt: new Date(now + DAY).toISOString(),
    }]);
  },
);

testOnEngines(
  "reuse of a refresh token revokes its family, its access tokens and their sockets",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const family = await TokenFamily.logIn(gateway);
    const other = await TokenFamily.logIn(gateway);
    const second = await family.rotate();
    const third = await family.rotate(second);
    const socket = new FakeSocket();
    const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
    connection.receive(JSON.stringify({ id: 1, connect: { token: second.accessToken } }));
    await until(() => socket.messages.length > 0);
    assert.ok(socket.isOpen);
    for (const pair of [family.initial, second, third]) assert.equal(await family.accessOutcome(pair), "200");

    assertProblem(await family.refresh(family.initial.refreshToken), 401, "token_revoked");
    await until(() => connection.isClosed, "the end of the socket");
    assert.deepEqual(socket.closedWith, { code: 3503, reason: "token revoked" });
    for (const pair of [family.initial, second, third]) {
      assert.equal(await family.accessOutcome(pair), "401 token_revoked");
      assertProblem(await family.refresh(pair.refreshToken), 401, "unauthenticated");
    }
    assert.equal(await other.accessOutcome(other.initial), "200");
    const alice = await gateway.as("alice");
    assert.deepEqual(ok(await alice.get(TOKENS)).items.map(({ id }: { id: string }) => id), [other.id]);
  },
);

testOnEngines("a rotation whose response was lost can be repeated until its successor is used", async (environment) => {
  await using gateway = await openGateway(environment);
  const family = await TokenFamily.logIn(gateway);
  const lost = await family.rotate();
  gateway.clock.advance(29 * SECOND);
  const found = await family.rotate();
  const third = await family.rotate(found);
  assert.equal(await family.accessOutcome(third), "200");
  // A replaced successor is an old token: only another client can have it.
  assertProblem(await family.refresh(lost.refreshToken), 401, "token_revoked");
  assertProblem(await family.refresh(third.refreshToken), 401, "unauthenticated");

  const used = await TokenFamily.logIn(gateway);
  await used.rotate(await used.rotate());
  assertProblem(await used.refresh(used.initial.refreshToken), 401, "token_revoked");

  const late = await TokenFamily.logIn(gateway);
  await late.rotate();
  gateway.clock.advance(20 * SECOND);
  await late.rotate();
  // Counted from the first time: repeating does not keep a token alive.
  gateway.clock.advance(11 * SECOND);
  assertProblem(await late.refresh(late.initial.refreshToken), 401, "token_revoked");
});

testOnEngines("an unused refresh token expires, and is deleted", async (environment) => {
  await using gateway = await openGateway({ ...environment, SVC_LIMIT_REFRESH_TOKEN_DAYS: "2" });
  const [family, used] = [await TokenFamily.logIn(gateway), await TokenFamily.logIn(gateway)];
  gateway.clock.advance(DAY);
  const renewed = await used.rotate();
  gateway.clock.advance(DAY);
  assertProblem(await family.refresh(family.initial.refreshToken), 401, "token_expired");
  gateway.clock.advance(SECOND);
  const statements = await recordQueries(() => gateway.app.runMaintenance());
  if (gateway.app.store.dialect === "sqlite") {
    const tables = ["api_token", "token_family", "revoked_jti"];
    const deletions = statements.filter(({ sql }) => tables.some((table) => sql.startsWith(`delete from "${table}"`)));
    assert.equal(deletions.length, 3);
    for (const statement of deletions) {
      for (const table of tables) await assertNoTenantScan(gateway, statement, table);
    }
  }
  assertProblem(await family.refresh(family.initial.refreshToken), 401, "unauthenticated");
  await used.rotate(renewed);
  const { db } = gateway.app.store;
  assert.deepEqual(await db.selectFrom("token_family").select("token_id").execute(), [{ token_id: used.id }]);
  assert.deepEqual(await db.selectFrom("api_token").select("id").execute(), [{ id: used.id }]);
});

testOnEngines(
  "a disabled principal, a logged-out session and a revoked token get no new tokens",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const boss = await gateway.as("boss", { role: "owner" });
    ok(await boss.get(ME));
    const family = await TokenFamily.logIn(gateway);
    ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: true }));
    assertProblem(await family.refresh(family.initial.refreshToken), 401, "token_revoked");
    assert.equal(await family.accessOutcome(family.initial), "401 token_revoked");
    ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: false }));
    const pair = await family.rotate();
    ok(await boss.delete(`${TOKENS}/${family.id}`));
    assertProblem(await family.refresh(pair.refreshToken), 401, "unauthenticated");
    assert.equal(await family.accessOutcome(pair), "401 token_revoked");

    // Whatever else the token is good for.
    const session = await TokenFamily.logIn(gateway, "alice", { scopes: ["room.read"] });
    ok(await gateway.withToken(session.initial.accessToken).post("/v1/collaboration/auth/logout"));
    assertProblem(await session.refresh(session.initial.refreshToken), 401, "unauthenticated");
    assert.equal(await session.accessOutcome(session.initial), "401 token_revoked");

    const { id } = ok(
      await (await gateway.as("alice")).post("/v1/collaboration/principals", { kind: "agent", displayName: "Bot" }),
    );
    const bot = await TokenFamily.logIn(gateway, "alice", { principalId: id });
    assert.equal(ok(await gateway.withToken(bot.initial.accessToken).get(ME)).principal.id, id);
    ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: true }));
    assertProblem(await bot.refresh(bot.initial.refreshToken), 401, "token_revoked");
    assert.deepEqual(await gateway.app.store.db.selectFrom("token_family").select("token_id").execute(), [
      { token_id: bot.id },
    ]);
  },
);

Deno.test("an access token never exceeds the current rights of its principal, or the granted ones", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.get(ME));
  const role = async (token: string) => ok(await gateway.withToken(token).get(ME)).roles[0];
  const setRole = async (to: string) => ok(await boss.patch("/v1/collaboration/principals/bob", { role: to }));
  ok(await (await gateway.as("bob", { role: "member" })).get(ME));
  const family = await TokenFamily.logIn(gateway, "bob", { scopes: ["principal.read", "token.manage"] });
  await setRole("admin");
  const raised = await family.rotate();
  assert.equal(await role(raised.accessToken), "member");
  await setRole("guest");
  gateway.clock.advance(5000);
  const lowered = await family.rotate(raised);
  for (const { accessToken } of [raised, lowered]) assert.equal(await role(accessToken), "guest");
  // A new token says nothing about the principal: the role stays as it was set.
  assert.equal(ok(await boss.get("/v1/collaboration/principals/bob")).role, "guest");

  const weak = gateway.withToken(lowered.accessToken);
  assertProblem(await weak.post("/v1/rooms", { name: "x" }), 403, "scope_missing");
  const beyond = { name: "x", scopes: ["room.read"], refreshable: true };
  assertProblem(await weak.post(TOKENS, beyond), 403, "scope_missing");
  // A token with fewer rights than its principal creates a family with those rights.
  await setRole("admin");
  const stated = await gateway.as("bob", { role: "guest", iat: gateway.clock.now() / 1000 - 3600 });
  const { token } = ok(await stated.post(TOKENS, { ...beyond, scopes: ["*"] }));
  assert.equal(await role(token), "guest");
});

Deno.test("tokens of one kind are rejected where another kind is expected", async () => {
  await using gateway = await openGateway();
  const family = await TokenFamily.logIn(gateway);
  const alice = await gateway.as("alice");
  const { refreshToken, accessToken } = family.initial;
  const [line = "", secret = ""] = refreshToken.split(".");
  assert.ok(secret.length >= 22 && line.length >= 22, "at least 128 random bits each");
  const plain = ok(await alice.post(TOKENS, { name: "api", scopes: ["*"] }));
  assert.deepEqual([plain.refreshExpiresAt, "refreshToken" in plain], [null, false]);
  const feed = ok(await alice.post("/v1/collaboration/calendar/feeds", { name: "Mine" }));
  const feedSecret = feed.path.split("/").at(-1).replace(".ics", "");

  for (const bearer of [refreshToken, line, secret, `svcpat_${secret}`]) {
    assert.equal(outcomeOf(await gateway.withToken(bearer).get(ME)), "401 unauthenticated");
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
    assert.equal(outcomeOf(await postRefresh(gateway, token)), "401 unauthenticated", token);
  }
  // None of that was taken for an old token of the family.
  await family.rotate();
});

Deno.test("access tokens have the issuer and audience that the gateway requires", async () => {
  await using gateway = await openGateway({ SVC_JWT_ISSUER: "https://id.example", SVC_JWT_AUDIENCE: "gateway" });
  const now = Math.floor(gateway.clock.now() / 1000);
  const token = await new SignJWT({ iss: "https://id.example", aud: "gateway", sub: "alice", iat: now, exp: now + 60 })
    .setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(SECRET));
  const made = ok(await gateway.withToken(token).post(TOKENS, { name: "page", scopes: ["*"], refreshable: true }));
  assert.equal(outcomeOf(await gateway.withToken(made.token).get(ME)), "200");
  const { accessToken } = ok(await postRefresh(gateway, made.refreshToken));
  assert.equal(outcomeOf(await gateway.withToken(accessToken).get(ME)), "200");
});

Deno.test("the endpoint of refresh tokens says what is wrong with its input", async () => {
  await using gateway = await openGateway();
  const nobody = gateway.withToken(undefined);
  for (const body of [{}, { refreshToken: 1 }, { refreshToken: "" }, { refreshToken: null }]) {
    const answer = await nobody.post(REFRESH, body);
    assertProblem(answer, 422, "validation_failed");
    assert.equal(answer.body.errors[0].pointer, "/refreshToken");
  }
  assertProblem(await nobody.post(REFRESH, { refreshToken: "x", scope: "*" }), 422, "unknown_field");
  assertProblem(await nobody.post(REFRESH, "{"), 400, "invalid_json");
  const alice = await gateway.as("alice");
  const long = await alice.post(TOKENS, { name: "x", scopes: ["*"], refreshable: true, expiresInSeconds: 86_401 });
  assertProblem(long, 422, "validation_failed");
  assert.equal(long.body.errors[0].pointer, "/expiresInSeconds");
});

Deno.test("one address can use refresh tokens ten times a minute", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const family = await TokenFamily.logIn(gateway);
  let pair = family.initial;
  for (let turn = 0; turn < 10; turn++) pair = await family.rotate(pair);
  const answer = await family.refresh(pair.refreshToken);
  assertProblem(answer, 429, "rate_limited");
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
