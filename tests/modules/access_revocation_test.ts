// Revoked rights end on open connections and for stored responses as well.
import assert from "node:assert/strict";
import { MessageStore } from "@/modules/message/store.ts";
import { testOnEngines, testOnPostgres } from "../engines.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { FakeSocket, sendCommand } from "../transport/ws_harness.ts";
import { pause, until } from "../wait.ts";
import { assertProblem, completeSearch, createCaller, createCallers, createRoom, ok, sendMessage } from "./fixtures.ts";

/** An authenticated socket, and a way to call operations over it. */
async function connect(gateway: Harness, who: Caller) {
  const socket = new FakeSocket();
  const connection = gateway.app.hub.open(socket, { ip: "127.0.0.1" });
  let id = 1;
  connection.receive(JSON.stringify({ id, connect: { token: who.token } }));
  await until(() => socket.messages.length > 0);
  async function call(method: string, data: unknown) {
    const at = ++id;
    connection.receive(JSON.stringify({ id: at, rpc: { method, data } }));
    await until(() => socket.messages.some((line) => line.id === at));
    return socket.messages.find((line) => line.id === at);
  }
  return { socket, connection, call };
}

Deno.test("a lowered tenant role applies to open sockets as well", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const carol = await gateway.as("carol", { role: "admin" });
  const { call, connection } = await connect(gateway, carol);
  const roomId = await createRoom(boss, [], { visibility: "public" });
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

Deno.test("a newer token with a lower role lowers older tokens and their sockets", async () => {
  await using gateway = await openGateway();
  const before = await gateway.as("carol", { role: "admin" });
  const { connection } = await connect(gateway, before);
  gateway.clock.advance(2000);
  await createCaller(gateway, "carol", { role: "guest" });
  await until(() => connection.actor?.role === "guest");
  assertProblem(await before.post("/v1/rooms", { name: "x" }), 403, "forbidden");
});

Deno.test("an agent's sockets end when its owner is disabled", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const robo = await connect(gateway, await gateway.as("robo", { kind: "agent", owner: "alice" }));
  const other = await connect(gateway, await gateway.as("other", { kind: "agent", owner: "boss" }));
  ok(await boss.patch("/v1/collaboration/principals/alice", { disabled: true }));
  await until(() => robo.connection.isClosed);
  assert.equal(robo.socket.closedWith?.code, 3503);
  assert.ok(!other.connection.isClosed);
  assertProblem(await alice.get("/v1/collaboration/me"), 401, "token_revoked");
});

Deno.test("an agent cannot create agents, which would outlive its owner's rights", async () => {
  await using gateway = await openGateway();
  await createCallers(gateway, "alice");
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  const heir = { kind: "agent", displayName: "Heir" };
  assertProblem(await robo.post("/v1/collaboration/principals", heir), 422, "validation_failed");
  const boss = await gateway.as("boss", { role: "admin" });
  assertProblem(
    await boss.post("/v1/collaboration/principals", { ...heir, ownerId: "robo" }),
    422,
    "validation_failed",
  );
});

Deno.test("a stored response is not returned to a token that lacks the scope", async () => {
  await using gateway = await openGateway();
  const once = { "idempotency-key": "one" };
  const body = { name: "bot", scopes: ["message.read"] };
  const { token } = ok(await (await gateway.as("alice")).post("/v1/collaboration/tokens", body, once));
  assert.ok(token);
  const weak = await gateway.as("alice", { scope: "room.read" });
  assertProblem(await weak.post("/v1/collaboration/tokens", body, once), 403, "scope_missing");
});

Deno.test("a stored secret is not returned to a token with other rights than the one that created it", async () => {
  await using gateway = await openGateway();
  await createCaller(gateway, "alice", { role: "admin" });
  const once = { "idempotency-key": "one" };
  const body = { name: "bot", scopes: ["*"] };
  const maker = await gateway.as("alice", { role: "admin", jti: "1" });
  const { token } = ok(await maker.post("/v1/collaboration/tokens", body, once));
  const iat = gateway.clock.now() / 1000 - 60;
  for (const less of [{ scope: "token.manage" }, { role: "guest", iat } as const]) {
    const weak = await gateway.as("alice", less);
    assertProblem(await weak.post("/v1/collaboration/tokens", body, once), 422, "idempotency_key_reused");
  }
  const again = await gateway.as("alice", { role: "admin", jti: "2" });
  assert.equal(ok(await again.post("/v1/collaboration/tokens", body, once)).token, token);
});

Deno.test("a token without the scope for messages does not receive them in room events, live or later", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const roomId = await createRoom(alice, []);
  const channel = `room:${roomId}`;
  const narrow = await gateway.as("alice", { scope: "room.*" });
  ok(await narrow.get(`/v1/rooms/${roomId}`));
  assertProblem(await narrow.get(`/v1/rooms/${roomId}/events?after=0`), 403, "scope_missing");
  const peer = await connect(gateway, narrow);
  assert.equal((await peer.call("room.events", { id: roomId, after: 0 })).error.code, 403);
  assert.equal((await sendCommand(peer, 50, { subscribe: { channel } })).error.code, 103);
  assert.equal((await sendCommand(peer, 51, { history: { channel, limit: -1 } })).error.code, 103);
  const wide = await connect(gateway, await gateway.as("alice", { scope: "room.read message.read" }));
  assert.ok((await sendCommand(wide, 50, { subscribe: { channel } })).subscribe);
});

Deno.test("a token without the scope for rooms receives no room events on its own stream, before or after a refresh, but its end", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const invite = (name: string) => createRoom(alice, ["bob"], { name });
  await invite("Alpha");
  const wide = await connect(gateway, bob);
  const narrow = await connect(gateway, await gateway.as("bob", { scope: "task.read" }));
  await invite("Beta");
  await until(() => JSON.stringify(wide.socket.messages).includes("Beta"));
  const { history } = await sendCommand(narrow, 50, { history: { channel: "principal:bob", limit: -1 } });
  assert.deepEqual(
    new Set(history.publications.map(({ data }: { data: { type: string } }) => data.type)),
    new Set(["message.hidden"]),
  );
  assert.ok(!JSON.stringify(narrow.socket.messages).includes("Beta"));

  const { token } = await gateway.as("bob", { scope: "task.read" });
  await sendCommand(wide, 51, { refresh: { token } });
  await invite("Gamma");
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.patch("/v1/collaboration/principals/bob", { disabled: true }));
  await until(() => wide.connection.isClosed && narrow.connection.isClosed);
  for (const { socket } of [wide, narrow]) assert.ok(!JSON.stringify(socket.messages).includes("Gamma"));
});

Deno.test("members cannot choose ids of agents, so that a later person never becomes one", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const agent = { kind: "agent", displayName: "Bot" };
  assertProblem(await alice.post("/v1/collaboration/principals", { ...agent, id: "newcomer" }), 403, "forbidden");
  assert.match(ok(await alice.post("/v1/collaboration/principals", agent)).id, /^prn_/);
  const boss = await gateway.as("boss", { role: "admin" });
  const chosen = ok(await boss.post("/v1/collaboration/principals", { ...agent, id: "bot", ownerId: "alice" }));
  assert.deepEqual([chosen.id, chosen.ownerId], ["bot", "alice"]);
});

Deno.test("a token never exceeds the lower role of the token that created it", async () => {
  await using gateway = await openGateway();
  await createCaller(gateway, "carol", { role: "admin" });
  await createCaller(gateway, "robo", { kind: "agent", owner: "carol", role: "admin" });
  // Older than the role, so it bounds nothing but itself.
  const low = await gateway.as("carol", { role: "guest", iat: gateway.clock.now() / 1000 - 60 });
  assert.deepEqual(ok(await low.get("/v1/collaboration/me")).roles, ["guest"]);
  const input = { name: "laptop", scopes: ["*"] };
  for (const principalId of ["me", "robo"]) {
    assertProblem(await low.post("/v1/collaboration/tokens", { ...input, principalId }), 403, "forbidden");
    const { token } = ok(await low.post("/v1/collaboration/tokens", { ...input, principalId, refreshable: true }));
    assert.deepEqual(ok(await gateway.withToken(token).get("/v1/collaboration/me")).roles, ["guest"]);
  }
  const full = await gateway.as("carol", { role: "admin" });
  for (const principalId of ["me", "robo"]) ok(await full.post("/v1/collaboration/tokens", { ...input, principalId }));
});

Deno.test("an agent can restore a room only if its owner can", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
  const roomId = await createRoom(alice, ["bob"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, { role: "owner" }));
  ok(await alice.delete(`/v1/rooms/${roomId}`));
  assertProblem(await robo.post(`/v1/rooms/${roomId}/restore`), 403, "forbidden");
  ok(await alice.post(`/v1/rooms/${roomId}/restore`));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  ok(await alice.delete(`/v1/rooms/${roomId}`));
  assertProblem(await robo.post(`/v1/rooms/${roomId}/restore`), 404, "not_found");
});

Deno.test("a room created by an agent belongs to its owner as well", async () => {
  await using gateway = await openGateway();
  const { bob } = await createCallers(gateway, "bob", "carol");
  const robo = await gateway.as("robo", { kind: "agent", owner: "bob" });
  const room = ok(await robo.post("/v1/rooms", { name: "Reports", memberIds: ["carol"] }));
  assert.equal(room.myRole, "owner");
  assert.equal(room.memberCount, 3);
  assert.equal(ok(await bob.get(`/v1/rooms/${room.id}`)).myRole, "owner");
  const direct = ok(await robo.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["bob"] }));
  assert.equal(ok(await bob.post("/v1/rooms", { name: "d", kind: "direct", memberIds: ["robo"] })).id, direct.id);
});

testOnPostgres("what was read of a principal just before it was disabled is not cached", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await createCaller(gateway, "boss", { role: "owner" });
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
    for (const token of tokens) assertProblem(await token.get("/v1/collaboration/me"), 401, "token_revoked");
  }
});

Deno.test("search returns only resources of types that the token may read", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const roomId = await createRoom(alice, []);
  ok(await alice.post("/v1/messages", { roomId, text: "papaya" }));
  ok(await alice.post("/v1/collaboration/tasks", { roomId, title: "papaya" }));
  const narrow = await gateway.as("alice", { scope: "search.read task.read" });
  assertProblem(await narrow.get("/v1/search?q=papaya"), 403, "scope_missing");
  assertProblem(await narrow.get("/v1/search?q=papaya&types=task&types=message"), 403, "scope_missing");
  for (const kind of ["document", "event"]) {
    assertProblem(
      await narrow.post("/v1/search", { query: "papaya", filters: { types: [kind] } }),
      403,
      "scope_missing",
    );
  }
  assert.equal((await completeSearch(() => narrow.get("/v1/search?q=papaya&types=task"))).items.length, 1);
  const wide = await gateway.as("alice", { scope: "search.read message.read" });
  assert.equal((await completeSearch(() => wide.get("/v1/search?q=papaya"))).items.length, 1);
});

testOnEngines(
  "a read that is interrupted after its check returns nothing that was written after a removal",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const { log } = gateway.app.store;
    const [page, read, now] = [MessageStore.prototype.page, log.read, performance.now];
    for (const path of ["/v1/messages?roomId=ROOM", "/v1/rooms/ROOM/events?after=0"]) {
      const roomId = await createRoom(alice, ["bob"]);
      let isInterrupted = false;
      const interrupt = async (): Promise<void> => {
        if (isInterrupted) return;
        isInterrupted = true;
        await freeze(roomId);
      };
      MessageStore.prototype.page = async function (this: MessageStore, ...args) {
        await interrupt();
        return await page.apply(this, args);
      };
      log.read = async (...args) => {
        await interrupt();
        return await read.apply(log, args);
      };
      try {
        assertProblem(await bob.get(path.replace("ROOM", roomId)), 404, "not_found");
        assert.ok(isInterrupted);
      } finally {
        Object.assign(MessageStore.prototype, { page });
        Object.assign(log, { read });
        Reflect.deleteProperty(performance, "now");
      }
    }

    /** What others do while the process of the read is frozen for a minute. */
    async function freeze(roomId: string): Promise<void> {
      ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
      await sendMessage(alice, roomId, "without bob");
      Object.defineProperty(performance, "now", { configurable: true, value: () => now.call(performance) + 60_000 });
    }
  },
);
