// Rights that end while somebody is connected, or while an answer of theirs is kept, end there as well.
import assert from "node:assert/strict";
import { onPostgres } from "../engines.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { ask, FakeSocket } from "../transport/ws_rig.ts";
import { pause, until } from "../wait.ts";
import { ok, people, refused, roomOf } from "./team.ts";

/** A socket on which somebody was let in, and a way to call operations over it. */
async function connect(gateway: Harness, who: Caller) {
  const socket = new FakeSocket();
  const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  let id = 1;
  connection.receive(JSON.stringify({ id, connect: { token: who.token } }));
  await until(() => socket.lines.length > 0);
  async function call(method: string, data: unknown) {
    const at = ++id;
    connection.receive(JSON.stringify({ id: at, rpc: { method, data } }));
    await until(() => socket.lines.some((line) => line.id === at));
    return socket.lines.find((line) => line.id === at);
  }
  return { socket, connection, call };
}

Deno.test("who loses a role of the tenant has lost it on open sockets as well", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const carol = await gateway.as("carol", { role: "admin" });
  const { call, connection } = await connect(gateway, carol);
  const roomId = await roomOf(boss, [], { visibility: "public" });
  connection.receive(JSON.stringify({ id: 100, subscribe: { channel: `room:${roomId}` } }));
  const newcomer = { kind: "human", displayName: "Newcomer" };
  assert.equal((await call("principal.create", newcomer)).error, undefined);
  assert.ok(connection.subscriptions.has(`room:${roomId}`));
  ok(await boss.patch("/v1/collaboration/principals/carol", { role: "guest" }));
  await until(() => connection.actor?.role === "guest");
  assert.equal((await call("principal.create", newcomer)).error.code, 403);
  await until(() => !connection.subscriptions.has(`room:${roomId}`));
  assert.ok(!connection.isClosed);
});

Deno.test("a newer token that states a lower role lowers the older ones and their sockets", async () => {
  await using gateway = await openGateway();
  const before = await gateway.as("carol", { role: "admin" });
  const { connection } = await connect(gateway, before);
  gateway.clock.advance(2000);
  ok(await (await gateway.as("carol", { role: "guest" })).get("/v1/collaboration/me"));
  await until(() => connection.actor?.role === "guest");
  refused(await before.post("/v1/rooms", { name: "x" }), 403, "forbidden");
});

Deno.test("an agent's sockets end when its owner is disabled", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.get("/v1/collaboration/me"));
  const robo = await connect(gateway, await gateway.as("robo", { kind: "agent", owner: "alice" }));
  const other = await connect(gateway, await gateway.as("other", { kind: "agent", owner: "boss" }));
  ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: true }));
  await until(() => robo.connection.isClosed);
  assert.equal(robo.socket.closedWith?.code, 3503);
  assert.ok(!other.connection.isClosed);
  refused(await alice.get("/v1/collaboration/me"), 401, "token_revoked");
});

Deno.test("an agent makes no agents of its own, which would outlive its owner's rights", async () => {
  await using gateway = await openGateway();
  await people(gateway, "alice");
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  const heir = { kind: "agent", displayName: "Heir" };
  refused(await robo.post("/v1/collaboration/principals", heir), 422, "validation_failed");
  const boss = await gateway.as("boss", { role: "admin" });
  refused(await boss.post("/v1/collaboration/principals", { ...heir, ownerId: "robo" }), 422, "validation_failed");
});

Deno.test("a kept answer is not given to a token that lacks the scope", async () => {
  await using gateway = await openGateway();
  const once = { "idempotency-key": "one" };
  const body = { name: "bot", scopes: ["message.read"] };
  const { token } = ok(await (await gateway.as("alice")).post("/v1/collaboration/tokens", body, once));
  assert.ok(token);
  const weak = await gateway.as("alice", { scope: "room.read" });
  refused(await weak.post("/v1/collaboration/tokens", body, once), 403, "scope_missing");
});

Deno.test("a kept secret is not given to a token with other rights than the one that made it", async () => {
  await using gateway = await openGateway();
  ok(await (await gateway.as("alice", { role: "admin" })).get("/v1/collaboration/me"));
  const once = { "idempotency-key": "one" };
  const body = { name: "bot", scopes: ["*"] };
  const maker = await gateway.as("alice", { role: "admin", jti: "1" });
  const { token } = ok(await maker.post("/v1/collaboration/tokens", body, once));
  const iat = gateway.clock.now() / 1000 - 60;
  for (const less of [{ scope: "token.manage" }, { role: "guest", iat } as const]) {
    const weak = await gateway.as("alice", less);
    refused(await weak.post("/v1/collaboration/tokens", body, once), 422, "idempotency_key_reused");
  }
  const again = await gateway.as("alice", { role: "admin", jti: "2" });
  assert.equal(ok(await again.post("/v1/collaboration/tokens", body, once)).token, token);
});

Deno.test("a token that may not read messages reads them in no room's events either, live or later", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const roomId = await roomOf(alice, []);
  const channel = `room:${roomId}`;
  const narrow = await gateway.as("alice", { scope: "room.*" });
  ok(await narrow.get(`/v1/rooms/${roomId}`));
  refused(await narrow.get(`/v1/rooms/${roomId}/events?after=0`), 403, "scope_missing");
  const peer = await connect(gateway, narrow);
  assert.equal((await peer.call("room.events", { id: roomId, after: 0 })).error.code, 403);
  assert.equal((await ask(peer, 50, { subscribe: { channel } })).error.code, 103);
  assert.equal((await ask(peer, 51, { history: { channel, limit: -1 } })).error.code, 103);
  const wide = await connect(gateway, await gateway.as("alice", { scope: "room.read message.read" }));
  assert.ok((await ask(wide, 50, { subscribe: { channel } })).subscribe);
});

Deno.test("a token that may not read messages hears nothing of its own stream, before or after a refresh, but its end", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await people(gateway, "alice", "bob");
  const invite = (name: string) => roomOf(alice, ["bob"], { name });
  await invite("Alpha");
  const wide = await connect(gateway, bob);
  const narrow = await connect(gateway, await gateway.as("bob", { scope: "task.read" }));
  await invite("Beta");
  await until(() => JSON.stringify(wide.socket.lines).includes("Beta"));
  const { history } = await ask(narrow, 50, { history: { channel: "principal:bob", limit: -1 } });
  assert.deepEqual(history.publications, []);
  assert.ok(!JSON.stringify(narrow.socket.lines).includes("Beta"));

  const { token } = await gateway.as("bob", { scope: "task.read" });
  await ask(wide, 51, { refresh: { token } });
  gateway.app.hub.tick();
  await until(() => wide.connection.subscriptions.get("principal:bob")?.hiddenUpTo !== 0);
  const heard = wide.socket.lines.length;
  await invite("Gamma");
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.patch("/v1/collaboration/principals/bob", { disabled: true }));
  await until(() => wide.connection.isClosed && narrow.connection.isClosed);
  assert.equal(wide.socket.lines.length, heard);
});

Deno.test("who comes later is nobody's agent: members do not choose the ids of theirs", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  const agent = { kind: "agent", displayName: "Bot" };
  refused(await alice.post("/v1/collaboration/principals", { ...agent, id: "newcomer" }), 403, "forbidden");
  assert.match(ok(await alice.post("/v1/collaboration/principals", agent)).id, /^prn_/);
  const boss = await gateway.as("boss", { role: "admin" });
  const chosen = ok(await boss.post("/v1/collaboration/principals", { ...agent, id: "bot", ownerId: "alice" }));
  assert.deepEqual([chosen.id, chosen.ownerId], ["bot", "alice"]);
});

Deno.test("no token outlives the lower role of the token that it is made with", async () => {
  await using gateway = await openGateway();
  ok(await (await gateway.as("carol", { role: "admin" })).get("/v1/collaboration/me"));
  ok(await (await gateway.as("robo", { kind: "agent", owner: "carol", role: "admin" })).get("/v1/collaboration/me"));
  // Older than the role, so it bounds nothing but itself.
  const low = await gateway.as("carol", { role: "guest", iat: gateway.clock.now() / 1000 - 60 });
  assert.deepEqual(ok(await low.get("/v1/collaboration/me")).roles, ["guest"]);
  const asked = { name: "laptop", scopes: ["*"] };
  for (const principalId of ["me", "robo"]) {
    refused(await low.post("/v1/collaboration/tokens", { ...asked, principalId }), 403, "forbidden");
    const { token } = ok(await low.post("/v1/collaboration/tokens", { ...asked, principalId, refreshable: true }));
    assert.deepEqual(ok(await gateway.withToken(token).get("/v1/collaboration/me")).roles, ["guest"]);
  }
  const full = await gateway.as("carol", { role: "admin" });
  for (const principalId of ["me", "robo"]) ok(await full.post("/v1/collaboration/tokens", { ...asked, principalId }));
});

Deno.test("an agent restores a room only as far as its owner may", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice", "bob");
  const robo = await gateway.as("robo", { kind: "agent", owner: "bob" });
  ok(await robo.get("/v1/collaboration/me"));
  const roomId = await roomOf(alice, ["bob"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, { role: "owner" }));
  ok(await alice.delete(`/v1/rooms/${roomId}`));
  refused(await robo.post(`/v1/rooms/${roomId}/restore`), 403, "forbidden");
  ok(await alice.post(`/v1/rooms/${roomId}/restore`));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  ok(await alice.delete(`/v1/rooms/${roomId}`));
  refused(await robo.post(`/v1/rooms/${roomId}/restore`), 404, "not_found");
});

Deno.test("a room that an agent makes belongs to its owner as well", async () => {
  await using gateway = await openGateway();
  const { bob } = await people(gateway, "bob", "carol");
  const robo = await gateway.as("robo", { kind: "agent", owner: "bob" });
  const room = ok(await robo.post("/v1/rooms", { name: "Reports", memberIds: ["carol"] }));
  assert.equal(room.myRole, "owner");
  assert.equal(room.memberCount, 3);
  assert.equal(ok(await bob.get(`/v1/rooms/${room.id}`)).myRole, "owner");
  const direct = ok(await robo.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] }));
  assert.equal(ok(await bob.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["robo"] })).id, direct.id);
});

onPostgres("what was read of a principal just before it was disabled is not remembered", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.get("/v1/collaboration/me"));
  for (let round = 0; round < 15; round++) {
    const sub = `alice${round}`;
    const tokens = await Promise.all(Array.from({ length: 12 }, (_, n) => gateway.as(sub, { jti: `${n}` })));
    for (const first of tokens.slice(0, 1)) ok(await first.get("/v1/collaboration/me"));
    const calls = tokens.map(async (token, n) => {
      await pause(n / 4);
      await token.get("/v1/collaboration/me");
    });
    ok(await boss.patch(`/v1/collaboration/principals/${sub}`, { disabled: true }));
    await Promise.all(calls);
    for (const token of tokens) refused(await token.get("/v1/collaboration/me"), 401, "token_revoked");
  }
});

Deno.test("a token finds only things of the kinds that it may read", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const roomId = await roomOf(alice, []);
  ok(await alice.post("/v1/messages", { roomId, text: "papaya" }));
  ok(await alice.post("/v1/collaboration/tasks", { roomId, title: "papaya" }));
  const narrow = await gateway.as("alice", { scope: "search.read task.read" });
  refused(await narrow.get("/v1/search?q=papaya"), 403, "scope_missing");
  refused(await narrow.get("/v1/search?q=papaya&types=task&types=message"), 403, "scope_missing");
  for (const kind of ["document", "event"]) {
    refused(await narrow.post("/v1/search", { query: "papaya", filters: { types: [kind] } }), 403, "scope_missing");
  }
  assert.equal(ok(await narrow.get("/v1/search?q=papaya&types=task")).items.length, 1);
  const wide = await gateway.as("alice", { scope: "search.read message.read" });
  assert.equal(ok(await wide.get("/v1/search?q=papaya")).items.length, 1);
});
