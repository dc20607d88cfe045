// Invitations and the first owner: codes that start sessions, and end when they should.
import assert from "node:assert/strict";
import { HOUR_MS } from "@/core/time/clock.ts";
import { type ApiResponse, type Harness, openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { ok } from "../fixtures.ts";

const PATH = "/v1/collaboration/invitations";

function join(gateway: Harness, code: string, displayName?: string): Promise<ApiResponse> {
  return gateway.withToken(undefined).post("/v1/collaboration/auth/join", {
    code,
    ...(displayName === undefined ? {} : { displayName }),
  });
}

testOnEngines(
  "invitation.join creates a member of the inviter's tenant, as often as the invitation says",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const admin = await gateway.as("ada", { role: "admin", tenant: "acme" });
    const invite = ok(await admin.post(PATH, { name: "Friends", uses: 2 }));
    assert.equal(invite.path, `#invite=${invite.code}`);
    const bob = await join(gateway, invite.code, "Bob Builder");
    assert.equal(bob.status, 201);
    assert.equal(bob.body.principal.role, "member");
    assert.equal(bob.body.principal.handle, "bob-builder");
    const me = ok(await gateway.withToken(bob.body.token).get("/v1/collaboration/me"));
    assert.deepEqual([me.tenant.id, me.principal.displayName], ["acme", "Bob Builder"]);
    const second = await join(gateway, invite.code, "Bob Builder");
    assert.equal(second.body.principal.handle, "bob-builder-2", "handles are unique");
    assert.equal((await join(gateway, invite.code, "Carol")).body.code, "unauthenticated");
    assert.deepEqual(ok(await admin.get(PATH)).items, [], "nothing of it is left");
  },
);

testOnEngines(
  "an invitation that is revoked, expired, or whose inviter lost the right is worthless",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const owner = await gateway.as("olga", { role: "owner" });
    const admin = await gateway.as("ada", { role: "admin" });
    const create = async () => ok(await admin.post(PATH, { uses: 5, expiresInSeconds: 3600 }));
    const [revoked, expired, demoted] = [await create(), await create(), await create()];
    assert.equal((await admin.delete(`${PATH}/${revoked.id}`)).status, 204);
    assert.equal((await admin.delete(`${PATH}/${revoked.id}`)).status, 404);
    assert.equal((await join(gateway, revoked.code, "Eve")).status, 401);
    ok(await owner.patch("/v1/collaboration/principals/ada", { role: "member" }));
    assert.equal((await join(gateway, demoted.code, "Eve")).status, 401);
    ok(await owner.patch("/v1/collaboration/principals/ada", { role: "admin" }));
    assert.equal((await join(gateway, demoted.code, "Eve")).status, 201);
    gateway.clock.advance(HOUR_MS);
    assert.equal((await join(gateway, expired.code, "Eve")).status, 401);
    await gateway.app.runMaintenance();
  },
);

Deno.test("invitation.create grants lower roles only, and requires an admin", async () => {
  await using gateway = await openGateway();
  const [owner, admin, member] = [
    await gateway.as("olga", { role: "owner" }),
    await gateway.as("ada", { role: "admin" }),
    await gateway.as("mia"),
  ];
  assert.equal((await member.post(PATH, {})).body.code, "forbidden");
  assert.equal((await admin.post(PATH, { role: "owner" })).body.code, "forbidden");
  assert.equal((await admin.post(PATH, { role: "guest" })).status, 201);
  const { code } = ok(await owner.post(PATH, { role: "owner" }));
  assert.equal((await join(gateway, code, "Zoe")).body.principal.role, "owner");
});

Deno.test("invitation.list shows no codes, and only those of the caller's tenant", async () => {
  await using gateway = await openGateway();
  const [ada, eve] = [
    await gateway.as("ada", { role: "admin", tenant: "one" }),
    await gateway.as("eve", { role: "admin", tenant: "two" }),
  ];
  const { id, code } = ok(await ada.post(PATH, { name: "Ours" }));
  const list = await ada.get(PATH);
  assert.deepEqual(list.body.items.map((one: { id: string }) => one.id), [id]);
  assert.ok(!JSON.stringify(list.body).includes(code));
  assert.deepEqual(ok(await eve.get(PATH)).items, []);
  assert.equal((await eve.delete(`${PATH}/${id}`)).status, 404);
});

testOnEngines("the code of the first owner works once, and a newer one ends it", async (environment) => {
  await using gateway = await openGateway(environment);
  const [first, second] = [await gateway.app.createOwnerCode(), await gateway.app.createOwnerCode()];
  assert.equal((await join(gateway, first)).status, 401);
  const { status, body } = await join(gateway, second);
  assert.equal(status, 201);
  assert.deepEqual([body.principal.id, body.principal.role], ["owner", "owner"]);
  assert.equal((await join(gateway, second)).status, 401);
  const again = await join(gateway, await gateway.app.createOwnerCode());
  assert.equal(again.body.principal.id, "owner", "the same principal, not another one");
  const late = await gateway.app.createOwnerCode();
  gateway.clock.advance(HOUR_MS / 4 + 1);
  assert.equal((await join(gateway, late)).status, 401);
});

Deno.test("sessions that codes start do not pile up, and signing out ends one", async () => {
  await using gateway = await openGateway();
  const tokens: string[] = [];
  for (let n = 0; n < 25; n++) tokens.push((await join(gateway, await gateway.app.createOwnerCode())).body.token);
  const [oldest = "", newest = ""] = [tokens[0], tokens.at(-1)];
  const me = (token: string) => gateway.withToken(token).get("/v1/collaboration/me");
  assert.equal((await me(oldest)).status, 401);
  assert.equal((await me(newest)).status, 200);
  assert.equal((await gateway.withToken(newest).post("/v1/collaboration/auth/logout")).status, 204);
  assert.equal((await me(newest)).status, 401);
});

Deno.test("a name is required to join with an invitation, and a disabled owner stays out", async () => {
  await using gateway = await openGateway();
  const admin = await gateway.as("ada", { role: "owner" });
  const { code } = ok(await admin.post(PATH, {}));
  const unnamed = await join(gateway, code);
  assert.deepEqual([unnamed.status, unnamed.body.errors[0].pointer], [422, "/displayName"]);
  assert.equal((await join(gateway, code, "\u202eevil")).status, 422);
  assert.equal((await join(gateway, await gateway.app.createOwnerCode())).status, 201);
  ok(await admin.delete("/v1/collaboration/principals/owner"));
  assert.equal((await join(gateway, await gateway.app.createOwnerCode())).body.code, "token_revoked");
});
