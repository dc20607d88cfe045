// Tokens with the claims that identity providers issue: what they say to others grants nothing here, and denies nothing.
import assert from "node:assert/strict";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { createProviderKeys } from "@/modules/identity/provider_keys.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway, SECRET } from "../../harness.ts";
import { signClaims } from "../../tokens.ts";
import { FakeSocket, pushesOn } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import {
  assertProblem,
  completeSearch,
  createCallers,
  createRoom,
  ok,
  readRoomEvents,
  sendMessage,
} from "../fixtures.ts";
import { comparableRecords, exportTenant, importArchive } from "../transfer/transfer_fixture.ts";

const ME = "/v1/collaboration/me";
const { publicKey, privateKey } = await generateKeyPair("RS256");

/** A gateway that accepts the tokens of a provider, and callers with tokens that this one has signed. */
async function withProvider(
  environment: Record<string, string>,
  test: (as: (claims: Record<string, unknown>) => Promise<Caller>, gateway: Harness) => Promise<void>,
): Promise<void> {
  const keys = { keys: [{ ...await exportJWK(publicKey), kid: "k1", alg: "RS256", use: "sig" }] };
  await using provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => Response.json(keys));
  const address = `http://127.0.0.1:${provider.addr.port}/jwks.json`;
  await using gateway = await openGateway({ SVC_JWKS_URL: address, ...environment });
  await test(async (claims) => {
    const now = Math.floor(gateway.clock.now() / 1000);
    const token = new SignJWT({ iat: now, exp: now + 300, ...claims });
    return gateway.withToken(
      await token.setProtectedHeader({ alg: "RS256", kid: "k1", typ: "JWT" }).sign(privateKey),
    );
  }, gateway);
}

Deno.test("tokens with unknown keys fetch those of the provider once, also while that fails", async () => {
  let fetches = 0;
  const known = { keys: [{ ...await exportJWK(publicKey), kid: "k1", alg: "RS256", use: "sig" }] };
  for (const status of [200, 500]) {
    fetches = 0;
    const outbound = Object.assign(() => {
      fetches++;
      return Promise.resolve(Response.json(known, { status }));
    }, { assertAllowed() {} });
    const keys = createProviderKeys("https://id.example.com/keys", outbound, { retryMs: 600_000 });
    const token = { payload: "", signature: "" };
    for (let n = 0; n < 20; n++) await assert.rejects(async () => await keys({ alg: "RS256", kid: `none${n}` }, token));
    assert.equal(fetches, 1, `status ${status}`);
  }
});

/** Access tokens as their makers document them, without what differs from person to person. */
const PROVIDERS: Record<string, { audience?: string; claims: Record<string, unknown> }> = {
  Keycloak: {
    audience: "collaboration-gateway",
    claims: {
      jti: "onrtac:5c1d9b0e-6f3c-4f0b-9c58-8a5e4a4f6f3e",
      iss: "https://id.example.com/realms/main",
      aud: ["collaboration-gateway", "account"],
      sub: "6f0c9a4e-0d7c-4c3e-8f3b-2f6a3b1f7c55",
      typ: "Bearer",
      azp: "web",
      sid: "0f7d2f0e-7f0f-4f29-8a7b-6d6d1f0d9a11",
      acr: "1",
      "allowed-origins": ["https://app.example.com"],
      realm_access: { roles: ["default-roles-main", "offline_access", "uma_authorization"] },
      resource_access: { account: { roles: ["manage-account", "view-profile"] } },
      scope: "openid profile email",
      email_verified: true,
      name: "Ada Lovelace",
      preferred_username: "ada",
      email: "ada@example.com",
    },
  },
  Auth0: {
    audience: "collaboration-gateway",
    claims: {
      iss: "https://team.eu.auth0.com/",
      sub: "auth0|65f1c0ffee0123456789abcd",
      aud: ["collaboration-gateway", "https://team.eu.auth0.com/userinfo"],
      azp: "my_client_id",
      scope: "openid profile email address phone offline_access",
    },
  },
  Cognito: {
    claims: {
      iss: "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_EXAMPLE",
      sub: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
      "cognito:groups": ["staff"],
      client_id: "xxxxxxxxxxxxexample",
      origin_jti: "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee",
      jti: "cccccccc-bbbb-cccc-dddd-eeeeeeeeeeee",
      token_use: "access",
      scope: "aws.cognito.signin.user.admin openid profile email",
      username: "ada",
    },
  },
  Entra: {
    audience: "11111111-2222-3333-4444-555555555555",
    claims: {
      iss: "https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/v2.0",
      aud: "11111111-2222-3333-4444-555555555555",
      sub: "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
      tid: "72f988bf-86f1-41af-91ab-2d7cd011db47",
      oid: "00000000-0000-0000-66f3-3332eca7ea81",
      name: "Ada Lovelace",
      roles: ["Staff"],
      scp: "access_as_user",
      ver: "2.0",
    },
  },
  Supabase: {
    audience: "authenticated",
    claims: {
      iss: "https://abcdefghijklmnopqrst.supabase.co/auth/v1",
      aud: "authenticated",
      sub: "123e4567-e89b-12d3-a456-426614174000",
      role: "authenticated",
      email: "ada@example.com",
      phone: "",
      app_metadata: { provider: "email", providers: ["email"] },
      user_metadata: { name: "Ada Lovelace" },
      aal: "aal1",
      amr: [{ method: "password", timestamp: 1_772_366_400 }],
      session_id: "123e4567-e89b-12d3-a456-426614174001",
      is_anonymous: false,
    },
  },
};

for (const [name, { audience, claims }] of Object.entries(PROVIDERS)) {
  Deno.test(`a person of ${name} is a member who reads and writes`, async () => {
    const environment = {
      SVC_JWT_ISSUER: String(claims.iss),
      ...audience === undefined ? {} : { SVC_JWT_AUDIENCE: audience },
    };
    await withProvider(environment, async (as) => {
      const caller = await as(claims);
      const { principal, roles } = ok(await caller.get(ME));
      assert.deepEqual([principal.id, principal.kind, roles], [claims.sub, "human", ["member"]]);
      const roomId = await createRoom(caller, []);
      assert.equal((await sendMessage(caller, roomId, "hello")).senderId, claims.sub);
    });
  });
}

Deno.test("OpenID Connect's scopes are ignored in a provider's token, and every other scope counts", async () => {
  await withProvider({}, async (as, gateway) => {
    const statuses = async (caller: Caller) => [
      (await caller.get("/v1/rooms")).status,
      (await caller.post("/v1/rooms", { name: "Room" })).status,
    ];
    const scopes: [string, number[]][] = [
      ["openid", [200, 201]],
      [" openid  email ", [200, 201]],
      ["openid room.read", [200, 403]],
      ["room.* openid profile", [200, 201]],
      // A typo, another word of the provider, and a claim without any word must not give every right.
      ["openid room.raed", [403, 403]],
      ["openid groups", [403, 403]],
      ["OPENID", [403, 403]],
      ["", [403, 403]],
      [" ", [403, 403]],
    ];
    for (const [scope, expected] of scopes) {
      assert.deepEqual(await statuses(await as({ sub: "ada", scope })), expected, JSON.stringify(scope));
    }
    const own = await signClaims(SECRET, { sub: "ada", scope: "openid", exp: gateway.clock.now() / 1000 + 60 });
    assert.deepEqual(await statuses(gateway.withToken(own)), [403, 403], "a token of ours");
  });
});

Deno.test("a role that is none of ours is refused in a provider's token, except that of everyone who is signed in", async () => {
  await withProvider({}, async (as, gateway) => {
    ok(await (await as({ sub: "ada", role: "admin" })).get(ME));
    gateway.clock.advance(1000);
    const { roles } = ok(await (await as({ sub: "ada", role: "authenticated" })).get(ME));
    assert.deepEqual(roles, ["admin"], "it says nothing about the role");
    for (const role of ["anon", "service_role", "Authenticated", "root", "", null, ["authenticated"], ["admin"]]) {
      const refused = await (await as({ sub: "ada", role })).get(ME);
      assertProblem(refused, 401, "unauthenticated");
      assert.match(refused.body.detail, /claim role .*owner, admin, auditor, member or guest.*map .* or omit/);
    }
    const own = { sub: "ada", role: "authenticated", exp: gateway.clock.now() / 1000 + 60 };
    assertProblem(await gateway.withToken(await signClaims(SECRET, own)).get(ME), 401, "unauthenticated");
  });
});

testOnEngines("a person whose id has a | is that person everywhere", async (environment) => {
  await using gateway = await openGateway(environment);
  const [id, ...others] = ["auth0|65f1", "auth0:65f1", "auth065f1", "65f1", "auth0"] as const;
  const people = await createCallers(gateway, id, ...others);
  const ada = people[id];
  const { auth0: bob } = people;
  const boss = await gateway.as("boss", { role: "owner" });

  // In paths, as clients encode it and as `curl` sends it.
  for (const path of ["auth0%7C65f1", "auth0|65f1"]) {
    assert.equal(ok(await bob.get(`/v1/collaboration/principals/${path}`)).id, id);
  }
  const created = await boss.post("/v1/collaboration/principals", { id: "waad|7", kind: "human", displayName: "W" });
  assert.equal(created.headers.get("location"), "/v1/collaboration/principals/waad%7C7");
  const { items } = ok(await bob.get("/v1/collaboration/principals?ids=auth0%7C65f1,65f1"));
  assert.deepEqual(items.map((one: { id: string }) => one.id).sort(), ["65f1", id]);

  // On a socket: its own stream, and a room.
  const socket = new FakeSocket();
  const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  connection.receive(JSON.stringify({ id: 1, connect: { token: ada.token } }));
  await until(() => socket.messages.length > 0);
  const stream = `principal:${id}`;
  assert.deepEqual(Object.keys(socket.messages[0].connect.subs), [stream]);
  const roomId = await createRoom(bob, [], { visibility: "private" });
  assertProblem(await ada.get(`/v1/rooms/${roomId}`), 404, "not_found");
  assert.equal((await bob.put(`/v1/rooms/${roomId}/members/auth0%7C65f1`)).status, 201);
  await until(() => pushesOn(socket, stream).some(({ data }) => data.type === "member.joined"));
  for (const other of others.filter((one) => one !== "auth0")) {
    assertProblem(await people[other].get(`/v1/rooms/${roomId}`), 404, "not_found");
  }

  // Mentions, search by person, tasks, direct rooms, feeds.
  const mentions = { principalIds: [id], room: false };
  const { id: messageId } = await sendMessage(bob, roomId, "plans", { mentions });
  await sendMessage(ada, roomId, "plans of mine");
  await gateway.runJobs();
  const notified = ok(await ada.get("/v1/collaboration/notifications")).items;
  assert.deepEqual(notified.map((one: { kind: string }) => one.kind).sort(), ["invitation", "mention"]);
  const found = await completeSearch(() => bob.get("/v1/search?q=plans&senderId=auth0%7C65f1"));
  assert.deepEqual(found.items.map((one: { message: { senderId: string } }) => one.message.senderId), [id]);
  ok(await bob.post("/v1/collaboration/tasks", { roomId, title: "Plan", assigneeIds: [id] }));
  const tasks = ok(await bob.get("/v1/collaboration/tasks?assigneeId=auth0%7C65f1"));
  assert.deepEqual(tasks.items.map((one: { assigneeIds: string[] }) => one.assigneeIds), [[id]]);
  const direct = { kind: "direct", memberIds: [id] };
  const first = await bob.post("/v1/rooms", direct);
  assert.deepEqual([first.status, (await bob.post("/v1/rooms", direct)).body.id], [201, first.body.id]);
  assert.notEqual(ok(await bob.post("/v1/rooms", { kind: "direct", memberIds: ["auth0:65f1"] })).id, first.body.id);
  const event = { title: "Call", start: { date: "2026-03-02" } };
  ok(await bob.post("/v1/collaboration/calendar/events", { ...event, attendees: [{ principalId: id }] }));
  const feed = ok(await ada.post("/v1/collaboration/calendar/feeds", {}));
  assert.match(ok(await gateway.withToken(undefined).get(feed.path)), /SUMMARY:Call/);

  // Out and in again, and no access after the removal.
  const archive = await exportTenant(gateway, boss);
  await using second = await openGateway();
  const importer = await second.as("boss", { role: "owner" });
  assert.equal((await importArchive(second, importer, "gateway", archive)).state, "done");
  assert.deepEqual(comparableRecords(await exportTenant(second, importer)), comparableRecords(archive));
  assert.equal(ok(await (await second.as(id)).get(`/v1/messages/${messageId}`)).mentions.principalIds[0], id);
  assert.equal((await bob.delete(`/v1/rooms/${roomId}/members/auth0%7C65f1`)).status, 204);
  assertProblem(await ada.get(`/v1/rooms/${roomId}`), 404, "not_found");
  assert.equal((await readRoomEvents(bob, roomId)).at(-1)?.data.principalId, id);
});
