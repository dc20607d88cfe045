// Role hierarchy: all roles, and all operations that grant, revoke or act for one.
import assert from "node:assert/strict";
import { ROOM_ROLES, TENANT_ROLES } from "@/core/actor.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok } from "./fixtures.ts";

/** The roles that each role decides about, written out. */
const BELOW_IN_ROOM: Readonly<Record<string, readonly string[]>> = {
  observer: [],
  member: [],
  moderator: ["observer", "member"],
  owner: ["observer", "member", "moderator", "owner"],
};
const BELOW_IN_TENANT: Readonly<Record<string, readonly string[]>> = {
  guest: [],
  member: [],
  auditor: [],
  admin: ["guest", "member", "auditor"],
  owner: ["guest", "member", "auditor", "admin", "owner"],
};

Deno.test("in a room none can grant, revoke or remove a role that is not below their own, except owners", async () => {
  await using gateway = await openGateway();
  const { boss } = await createCallers(gateway, "boss", "caller", "target", "new");
  const caller = await gateway.as("caller");
  for (const own of ROOM_ROLES) {
    for (const role of ROOM_ROLES) {
      const roomId = await createRoom(boss, ["caller"]);
      const path = `/v1/rooms/${roomId}/members`;
      ok(await boss.put(`${path}/caller`, { role: own }));
      const mayGive = BELOW_IN_ROOM[own]?.includes(role);
      const put = async (target: string, to: string) => (await caller.put(`${path}/${target}`, { role: to })).status;
      assert.equal(await put("new", role), mayGive ? 201 : 403, `a ${own} adds a ${role}`);
      for (const is of ROOM_ROLES) {
        ok(await boss.put(`${path}/target`, { role: is }));
        const may = is === role || (mayGive && BELOW_IN_ROOM[own]?.includes(is));
        const isRefusedAtOnce = own === "observer" || own === "member";
        const expected = may && !isRefusedAtOnce ? 200 : 403;
        assert.equal(await put("target", role), expected, `a ${own} turns a ${is} into a ${role}`);
      }
      ok(await boss.put(`${path}/target`, { role }));
      const answer = await caller.delete(`${path}/target?ban=true`);
      assert.equal(answer.status, mayGive ? 204 : 403, `a ${own} bans a ${role}`);
    }
  }
});

Deno.test("in a tenant none can create, change or act for a role that is not below their own, except owners", async () => {
  await using gateway = await openGateway();
  await createCaller(gateway, "boss", { role: "owner" });
  const API = "/v1/collaboration";
  for (const own of TENANT_ROLES) {
    const caller = await gateway.as(`a-${own}`, { role: own });
    ok(await caller.get(`${API}/me`));
    for (const role of TENANT_ROLES) {
      const id = `b-${own}-${role}`;
      ok(await (await gateway.as(id, { role })).get(`${API}/me`));
      const may = BELOW_IN_TENANT[own]?.includes(role) === true;
      const made = await caller.post(`${API}/principals`, { kind: "human", displayName: "New", role });
      assert.equal(made.status, may ? 201 : 403, `a ${own} makes a ${role}`);
      const named = await caller.patch(`${API}/principals/${id}`, { displayName: "Renamed" });
      assert.equal(named.status, may ? 200 : 403, `a ${own} renames a ${role}`);
      const token = await caller.post(`${API}/tokens`, { principalId: id, name: "t", scopes: ["room.read"] });
      // Guests do not know of others.
      assert.equal(token.status, may ? 201 : own === "guest" ? 404 : 403, `a ${own} makes a token of a ${role}`);
      for (const to of TENANT_ROLES) {
        const subject = `c-${own}-${role}-${to}`;
        ok(await (await gateway.as(subject, { role })).get(`${API}/me`));
        const changed = await caller.patch(`${API}/principals/${subject}`, { role: to });
        const expected = may && (to === role || BELOW_IN_TENANT[own]?.includes(to)) ? 200 : 403;
        assert.equal(changed.status, expected, `a ${own} turns a ${role} into a ${to}`);
      }
      const agent = await caller.post(`${API}/principals`, { kind: "agent", displayName: "Bot", role });
      const mayOwn = own !== "guest" && TENANT_ROLES.indexOf(role) <= TENANT_ROLES.indexOf(own);
      assert.equal(agent.status, mayOwn ? 201 : 403, `a ${own} makes an agent of their own that is ${role}`);
    }
  }
});

/** Everything that one member of a direct room could do to the others. */
const OVER_OTHERS: Readonly<Record<string, (caller: Caller, roomId: string) => Promise<{ status: number }>>> = {
  "removes the other": (caller, id) => caller.delete(`/v1/rooms/${id}/members/bob`),
  "bans the other": (caller, id) => caller.delete(`/v1/rooms/${id}/members/bob?ban=true`),
  "lowers the other": (caller, id) => caller.put(`/v1/rooms/${id}/members/bob`, { role: "observer" }),
  "raises itself": (caller, id) => caller.put(`/v1/rooms/${id}/members/me`, { role: "owner" }),
  "adds a third": (caller, id) => caller.put(`/v1/rooms/${id}/members/dora`),
  "deletes it": (caller, id) => caller.delete(`/v1/rooms/${id}`),
  "purges it": (caller, id) => caller.delete(`/v1/rooms/${id}?purge=true`),
  "sets retention": (caller, id) => caller.patch(`/v1/rooms/${id}`, { retentionDays: 1 }),
  "archives it": (caller, id) => caller.patch(`/v1/rooms/${id}`, { state: "archived" }),
  "hides its history": (caller, id) => caller.patch(`/v1/rooms/${id}`, { historyVisibility: "joined" }),
  "opens it": (caller, id) => caller.patch(`/v1/rooms/${id}`, { visibility: "public" }),
};

Deno.test("in a direct room, also of several members, none decides for the others, and each can leave", async (t) => {
  for (const others of [["bob"], ["bob", "carol"]]) {
    await using gateway = await openGateway();
    const { alice, bob } = await withDirect(gateway);
    const roomId = await createRoom(alice, others, { kind: "direct" });
    for (const [what, attempt] of Object.entries(OVER_OTHERS)) {
      await t.step(`${what}, of ${others.length + 1}`, async () => {
        const { status } = await attempt(alice, roomId);
        assert.ok(status === 403 || status === 409, `${status}`);
      });
    }
    const room = ok(await bob.get(`/v1/rooms/${roomId}?include=members`));
    assert.deepEqual([room.retentionDays, room.state, room.memberCount], [null, "active", others.length + 1]);
    assert.deepEqual(new Set(room.members.map(({ role }: { role: string }) => role)), new Set(["member"]));
    ok(await bob.patch(`/v1/rooms/${roomId}`, { topic: "Ours" }));
    ok(await alice.delete(`/v1/rooms/${roomId}/members/me`));
    ok(await bob.delete(`/v1/rooms/${roomId}/members/me`));
  }
});

Deno.test("room.create rejects a retention for a direct room", async () => {
  await using gateway = await openGateway();
  const { alice } = await withDirect(gateway);
  const room = { kind: "direct", memberIds: ["bob"], retentionDays: 1 };
  assertProblem(await alice.post("/v1/rooms", room), 403, "forbidden");
});

async function withDirect(gateway: Harness) {
  const { bob } = await createCallers(gateway, "bob", "carol", "dora");
  const alice = await createCaller(gateway, "alice", { role: "admin" });
  return { alice, bob };
}
