// Claims besides the subject: a name that changes, and aliases of our claims.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import { IdentityStore } from "@/modules/identity/store.ts";
import { hasRedis, withRedis } from "../../conformance/redis_server.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Claims, type Harness, openGateway, SECRET } from "../../harness.ts";
import { signClaims } from "../../tokens.ts";
import { assertProblem, ok } from "../fixtures.ts";

const BASE = "/v1/collaboration";

/** The caller with this name in a token that is issued now. */
async function named(gateway: Harness, name: string, claims: Claims = {}) {
  gateway.clock.advance(1000);
  return await gateway.as("alice", { name, ...claims });
}

const nameOf = async (caller: Awaited<ReturnType<typeof named>>) =>
  ok(await caller.get(`${BASE}/me`)).principal.displayName;

testOnEngines("the name in a newer token takes effect everywhere, in an older one it does not", async (environment) => {
  await using gateway = await openGateway(environment);
  const old = Math.floor(gateway.clock.now() / 1000) - 60;
  const first = await named(gateway, "Alice");
  const room = ok(await first.post("/v1/rooms", { name: "Room" }));
  assert.equal(await nameOf(first), "Alice");
  const married = await named(gateway, "Alice Jones");
  assert.equal(await nameOf(married), "Alice Jones");
  assert.equal(await nameOf(await named(gateway, "Alice before", { iat: old })), "Alice Jones");
  assert.equal(await nameOf(await named(gateway, "\u200b ")), "Alice Jones", "no name is no statement");
  await gateway.runJobs();
  const { items } = ok(await married.get(`/v1/rooms/${room.id}/members`));
  assert.equal(items[0].displayName, "Alice Jones");
});

testOnEngines("a name set through the API is not changed by tokens", async (environment) => {
  await using gateway = await openGateway(environment);
  const alice = await named(gateway, "Alice");
  ok(await alice.patch(`${BASE}/me`, { displayName: "Al" }));
  const later = await named(gateway, "Alice Jones");
  assert.equal(await nameOf(later), "Al");
  const prefs = { notificationPrefs: { mentions: false } };
  ok(await later.patch(`${BASE}/me`, prefs));
  assert.equal(await nameOf(await named(gateway, "Alice Miller")), "Al");
});

Deno.test("an alias of a claim is rejected by name, unless the claim itself is present", async () => {
  await using gateway = await openGateway();
  const iat = Math.floor(gateway.clock.now() / 1000);
  const me = async (claims: Record<string, unknown>) => {
    const token = await signClaims(SECRET, { sub: "alice", iat, exp: iat + 60, ...claims });
    return await gateway.withToken(token).get(`${BASE}/me`);
  };
  for (
    const [claim, meant] of [
      ["tenant_id", "tenant"],
      ["tenantId", "tenant"],
      ["member_type", "kind"],
      ["displayName", "name"],
      ["roles", "role"],
      ["owner-id", "owner"],
      ["scopes", "scope"],
    ] as const
  ) {
    const { status, body } = await me({ [claim]: "acme" });
    assert.deepEqual([status, body.code], [401, "unauthenticated"], claim);
    assert.equal(body.detail, `The claim ${claim} of the token is not supported: did you mean ${meant}?`);
  }
  assert.equal((await me({ tenant_id: "other", tenant: "acme" })).status, 200);
  assert.equal((await me({ tenantId: "other", tid: "acme" })).status, 200);
  assert.equal((await me({ department: "sales", email: "a@b.test" })).status, 200);
});

Deno.test("an agent whose owner cannot be read now gets a retryable error", async () => {
  await using gateway = await openGateway();
  await nameOf(await gateway.as("alice"));
  const { countAgents } = IdentityStore.prototype;
  IdentityStore.prototype.countAgents = () => Promise.reject(new Fault("unavailable", "The database cannot serve now"));
  const agent = await gateway.as("robo", { kind: "agent", owner: "alice" });
  try {
    assertProblem(await agent.get(`${BASE}/me`), 503, "unavailable");
  } finally {
    IdentityStore.prototype.countAgents = countAgents;
  }
  ok(await agent.get(`${BASE}/me`));
});

testOnPostgres("another node accepts no call with what was ended before the response", async (environment) => {
  await withRedis(async (SVC_REDIS_URL) => {
    await using here = await openGateway({ ...environment, SVC_REDIS_URL });
    await using there = await openGateway({ ...environment, SVC_REDIS_URL });
    const [alice, root] = [await here.as("alice"), await here.as("root", { role: "owner" })];
    for (let n = 0; n < 10; n++) {
      const { id, token } = ok(await alice.post(`${BASE}/tokens`, { name: "x", scopes: ["principal.read"] }));
      const elsewhere = there.withToken(token);
      ok(await elsewhere.get(`${BASE}/me`));
      assert.equal((await alice.delete(`${BASE}/tokens/${id}`)).status, 204);
      assert.equal((await elsewhere.get(`${BASE}/me`)).status, 401);
      const person = await there.as(`person-${n}`);
      ok(await person.get(`${BASE}/me`));
      ok(await root.patch(`${BASE}/principals/person-${n}`, { disabled: true }));
      assert.equal((await person.get(`${BASE}/me`)).status, 401);
    }
  });
}, { ignore: !hasRedis });
