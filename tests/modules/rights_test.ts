// Rights that end while somebody is connected, or while an answer of theirs is kept, end there as well.
import assert from "node:assert/strict";
import { onPostgres } from "../engines.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { FakeSocket, until } from "../transport/ws_rig.ts";
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
      await new Promise((resolve) => setTimeout(resolve, n / 4));
      await token.get("/v1/collaboration/me");
    });
    ok(await boss.patch(`/v1/collaboration/principals/${sub}`, { disabled: true }));
    await Promise.all(calls);
    for (const token of tokens) refused(await token.get("/v1/collaboration/me"), 401, "token_revoked");
  }
});
