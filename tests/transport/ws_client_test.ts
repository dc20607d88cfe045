// A real server on a free port, with the real SDK of the protocol as its client.
import assert from "node:assert/strict";
import { Centrifuge, type PublicationContext, UnauthorizedError } from "npm:centrifuge@5.8.0";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { ConnectionLimiter } from "@/transport/shared/connection_limiter.ts";
import { openGateway } from "../harness.ts";
import { repeatFor, until, WAIT_MS } from "../wait.ts";
import { authenticate, TEST_LIMITS } from "./ws_harness.ts";
import { type HubServer, serveHub } from "./ws_server.ts";
import { encodeUpgradeRequest } from "../upgrade_request.ts";

const room = "room:a";

/** Opens a plain socket and returns its close code and reason. */
function waitForClose(
  url: string,
  protocols?: string[],
  frame?: string | Uint8Array<ArrayBuffer>,
): Promise<{ code: number; reason: string }> {
  const socket = new WebSocket(url, protocols);
  if (frame !== undefined) socket.onopen = () => socket.send(frame);
  return new Promise((resolve) => socket.onclose = ({ code, reason }) => resolve({ code, reason }));
}

/** The status of an upgrade with the headers of a browser. */
async function handshake(url: string, headers: Record<string, string>): Promise<string> {
  const { hostname, port, pathname, search } = new URL(url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const lines = Object.entries({
    Host: `${hostname}:${port}`,
    Upgrade: "websocket",
    Connection: "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  await connection.write(new TextEncoder().encode(`GET ${pathname}${search} HTTP/1.1\r\n${lines.join("")}\r\n`));
  const buffer = new Uint8Array(4096);
  const read = await connection.read(buffer);
  return new TextDecoder().decode(buffer.subarray(0, read ?? 0));
}

Deno.test("the SDK connects, subscribes, receives, publishes, calls, and reads presence and history", async () => {
  await using server = serveHub(Centrifuge);
  const [alice, bob] = [server.client("alice"), server.client("bob")];
  const received: PublicationContext[] = [];
  const principalEvents: PublicationContext[] = [];
  const joins: string[] = [];
  const sub = alice.newSubscription(room, { joinLeave: true });
  sub.on("publication", (context) => received.push(context));
  sub.on("join", ({ info }) => joins.push(info.user));
  alice.on("publication", (context) => principalEvents.push(context));
  const connected = new Promise<{ client: string; data?: unknown }>((resolve) => alice.on("connected", resolve));
  sub.subscribe();
  alice.connect();
  const bobSub = bob.newSubscription(room);
  bobSub.subscribe();
  bob.connect();
  await Promise.all([sub.ready(WAIT_MS), bobSub.ready(WAIT_MS)]);
  const { client, data } = await connected;
  assert.match(client, /^[0-9a-f-]{36}$/);
  assert.deepEqual(data, { principal: "alice" });

  await bobSub.publish({ type: "typing", data: { typing: true } });
  server.emit(room, "hello");
  server.emit("principal:alice", "for me");
  await until(() => received.length === 2 && principalEvents.length === 1 && joins.includes("bob"));
  assert.equal(received[0]?.info?.user, "bob");
  assert.equal(received[0]?.offset, undefined);
  assert.deepEqual([received[1]?.offset, received[1]?.data.data], [1, "hello"]);
  assert.deepEqual([principalEvents[0]?.channel, principalEvents[0]?.data.data], ["principal:alice", "for me"]);

  assert.deepEqual((await alice.rpc("test.echo", { text: "hi" })).data, { text: "hi" });
  assert.deepEqual((await alice.rpc("test.nothing", {})).data, undefined);
  await assert.rejects(alice.rpc("test.fail", { code: "not_found" }), {
    code: 404,
    message: "not_found: As requested",
  });
  await assert.rejects(sub.publish({ type: "message.created" }), { code: 103 });
  assert.equal(Object.keys((await sub.presence()).clients).length, 2);
  assert.deepEqual(await sub.presenceStats(), { numClients: 2, numUsers: 2 });
  const history = await sub.history({ limit: 10 });
  assert.deepEqual(history.publications.map((publication) => publication.offset), [1]);
  assert.equal(history.offset, 1);
});

Deno.test("the SDK recovers missed events after a forced reconnect, in order and once", async () => {
  const bus = new MemoryBus();
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, pingMs: 25_000 }, { bus });
  const client = server.client();
  const offsets: number[] = [];
  const recovered: boolean[] = [];
  const sub = client.newSubscription(room);
  sub.on("publication", ({ offset }) => offsets.push(offset ?? 0));
  sub.on("subscribed", (context) => context.wasRecovering && recovered.push(context.recovered));
  sub.subscribe();
  client.connect();
  await sub.ready(WAIT_MS);
  for (let round = 0; round < 5; round++) {
    server.emit(room);
    // The socket is closed in the middle of a burst, with a reconnect code.
    for (let i = 0; i < 20; i++) {
      server.emit(room);
      if (i === 10) closeAll(server, round);
    }
    await until(() => recovered.length === round + 1, "recovery");
    server.emit(room);
  }
  await until(() => offsets.length >= 5 * 22);
  assert.deepEqual(offsets, Array.from({ length: 5 * 22 }, (_, i) => i + 1));
  assert.deepEqual(recovered, [true, true, true, true, true]);
});

/** Closes every socket like a gap in a principal's stream does: clients reconnect. */
function closeAll(server: HubServer<Centrifuge>, round: number): void {
  server.log.append("principal:alice", round, { kind: "evict", principalIds: "*", reason: "x", resubscribe: true });
  server.bus.onRecovered();
}

Deno.test("the SDK refreshes an expired token at connect and on an open connection", async () => {
  await using server = serveHub(Centrifuge);
  const tokens = ["alice/1", "alice/60"];
  let tokenRequests = 0;
  const client = server.client("expired", { getToken: () => Promise.resolve(tokens[tokenRequests++] ?? "bad") });
  client.connect();
  await client.ready(WAIT_MS);
  assert.equal(tokenRequests, 1);
  await until(() => tokenRequests === 2, "the refresh at the token's end");
  assert.equal((await client.rpc("test.echo", { text: "still here" })).data.text, "still here");
  assert.equal(client.state, "connected");
});

Deno.test("the SDK does not reconnect with an invalid or a revoked token", async () => {
  await using server = serveHub(Centrifuge);
  for (const [token, code] of [["bad", 3500], ["revoked", 3503]] as const) {
    const client = server.client(token);
    const disconnected = new Promise<{ code: number }>((resolve) => client.on("disconnected", resolve));
    client.connect();
    assert.equal((await disconnected).code, code);
  }
  const client = server.client("", {
    getToken: () => {
      throw new UnauthorizedError("no");
    },
  });
  client.connect();
  await until(() => client.state === "disconnected");
});

Deno.test("a token in the URL is accepted, counted and reported as deprecated", async () => {
  await using server = serveHub(Centrifuge);
  const socket = new WebSocket(`${server.url}?token=alice`);
  const first = await new Promise<MessageEvent>((resolve) => {
    socket.onopen = () => socket.send(`{"id":1,"connect":{}}`);
    socket.onmessage = resolve;
  });
  const { data } = JSON.parse(first.data).connect;
  assert.equal(data.principal, "alice");
  assert.equal(data.deprecations[0].code, "legacy_query_token");
  assert.equal(first.data.includes(`"token"`), false);
  assert.match(await server.metrics.registry.metrics(), /svc_connection_errors\{type="legacy_query_token"\} 1\n/);
  socket.close();
  await new Promise((resolve) => socket.onclose = resolve);
  assert.equal((await waitForClose(`${server.url}?token=bad`, undefined, `{"id":1,"connect":{}}`)).code, 3500);
});

Deno.test("the upgrade checks the web origin, the subprotocol and the request", async () => {
  await using server = serveHub(Centrifuge);
  const { host } = new URL(server.url);
  const status = async (headers: Record<string, string>, query = "") =>
    (await handshake(server.url + query, headers)).slice(9, 12);
  assert.equal(await status({ Origin: "https://evil.example" }), "403");
  assert.equal(await status({ Origin: "https://good.example.evil.example" }), "403");
  assert.equal(await status({ Origin: "null" }), "403");
  assert.equal(await status({ Origin: "https://good.example" }), "101");
  assert.equal(await status({ Origin: `http://${host}` }), "101");
  assert.equal(await status({}), "101");
  assert.equal(await status({ Upgrade: "h2c" }), "400");
  assert.match(await handshake(server.url, { "Sec-WebSocket-Protocol": "centrifuge-json" }), /centrifuge-json/i);
  assert.doesNotMatch(await handshake(server.url, { "Sec-WebSocket-Protocol": "evil" }), /evil/);
  assert.match(await handshake(server.url, { Origin: "https://evil.example" }), /"code":"origin_not_allowed"/);
  assert.match(await server.metrics.registry.metrics(), /svc_connection_errors\{type="origin"\} 4\n/);
});

Deno.test("invalid frames close a real socket as well", async () => {
  await using server = serveHub(Centrifuge);
  assert.equal((await waitForClose(server.url, undefined, "x".repeat(64 * 1024 + 1))).code, 1009);
  assert.equal((await waitForClose(server.url, undefined, "no json")).code, 3501);
  assert.equal((await waitForClose(server.url, undefined, new Uint8Array(10))).code, 3501);
});

Deno.test("addresses of one IPv6 /64 share a limit", () => {
  const limiter = new ConnectionLimiter({ ...TEST_LIMITS, unauthenticatedPerAddress: 2 });
  const acquire = (ip: string) => typeof limiter.acquire(ip) === "string" ? "refused" : "admitted";
  const network = ["2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3"];
  assert.deepEqual(network.map(acquire), ["admitted", "admitted", "refused"]);
  assert.deepEqual(["2001:db8:0:2::1", "192.0.2.1", "192.0.2.2"].map(acquire), ["admitted", "admitted", "admitted"]);
});

Deno.test("an address whose sockets end without authentication opens no more; others do, and so do those with expired tokens", async () => {
  // The third is one too many, whatever comes back meanwhile.
  const failedPerAddress = { perSecond: 0.0001, burst: 2.5 };
  const limiter = new ConnectionLimiter({ ...TEST_LIMITS, failedPerAddress });
  for (let n = 0; n < 3; n++) {
    const slot = limiter.acquire("192.0.2.1");
    assert.ok(typeof slot !== "string");
    slot.release();
    slot.release();
  }
  assert.equal(limiter.acquire("192.0.2.1"), "reject");
  assert.ok(typeof limiter.acquire("192.0.2.2") !== "string");
  let verifications = 0;
  const verify = (token: string) => {
    verifications++;
    return authenticate(token);
  };
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, failedPerAddress }, { authenticate: verify });
  const closeCodes: number[] = [];
  for (const token of ["alice", "expired", "away", "bob", "expired", "bad", "bad", "bad"]) {
    const socket = new WebSocket(server.url);
    await new Promise((resolve) => socket.onopen = resolve);
    const closed = new Promise<number>((resolve) => socket.onclose = ({ code }) => resolve(code));
    const replied = new Promise((resolve) => socket.onmessage = resolve);
    socket.send(JSON.stringify({ id: 1, connect: { token } }));
    if (token !== "bad") {
      await replied;
      socket.close();
    }
    closeCodes.push(await closed);
  }
  assert.deepEqual(closeCodes.slice(-3), [3500, 3500, 3500]);
  await until(() => server.hub.stats().connections === 0 && server.hub.stats().lingeringSockets === 0);
  assert.match(await handshake(server.url, {}), /^HTTP\/1.1 429/);
  assert.equal(verifications, 8);
});

Deno.test("sockets and unauthenticated sockets are limited per address", async () => {
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, connectionsPerAddress: 3, unauthenticatedPerAddress: 2 });
  const open = async (frame?: string) => {
    const socket = new WebSocket(server.url);
    await new Promise((resolve) => socket.onopen = resolve);
    if (frame !== undefined) {
      socket.send(frame);
      await new Promise((resolve) => socket.onmessage = resolve);
    }
    return socket;
  };
  const sockets = [await open(), await open()];
  assert.match(await handshake(server.url, {}), /^HTTP\/1.1 429/);
  for (const [index, socket] of sockets.entries()) {
    socket.send(`{"id":1,"connect":{"token":"p${index}"}}`);
    await new Promise((resolve) => socket.onmessage = resolve);
  }
  sockets.push(await open(`{"id":1,"connect":{"token":"p2"}}`));
  assert.deepEqual(await waitForClose(server.url), { code: 4429, reason: "connection limit" });
  sockets[0]?.close();
  await until(() => server.hub.stats().connections === 2);
  sockets.push(await open(`{"id":1,"connect":{"token":"p3"}}`));
  for (const socket of sockets) socket.close();
  await until(() => server.hub.stats().connections === 0);
});

Deno.test("a socket that ends without a close frame is released", async () => {
  await using server = serveHub(Centrifuge);
  const { hostname, port } = new URL(server.url);
  const client = server.client("bob");
  client.connect();
  await client.ready(WAIT_MS);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  await connection.write(encodeUpgradeRequest("/ws"));
  await until(() => server.hub.stats().connections === 2);
  connection.close();
  await until(() => server.hub.stats().connections === 1);
  assert.equal(server.hub.stats().lingeringSockets, 0);
});

Deno.test("a peer that does not close is dropped, with its unfinished message", async () => {
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, closeTimeoutMs: 50 });
  const { hostname, port } = new URL(server.url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  await connection.write(encodeUpgradeRequest("/ws"));
  await until(() => server.hub.stats().connections === 1);
  // A text frame and its continuations without end, masked with zeros.
  await connection.write(new Uint8Array([0x01, 0x81, 0, 0, 0, 0, 0x61]));
  const continuation = new Uint8Array([0x00, 0x81, 0, 0, 0, 0, 0x61]);
  await server.hub.drain();
  assert.equal(server.hub.stats().lingeringSockets, 1);
  await assert.rejects(repeatFor(20_000, () => connection.write(continuation)));
  await until(() => server.hub.stats().lingeringSockets === 0);
});

Deno.test("a shutdown makes the SDK reconnect, and rejects new sockets", async () => {
  const server = serveHub(Centrifuge);
  const client = server.client();
  const codes: number[] = [];
  client.on("connecting", ({ code }) => codes.push(code));
  client.connect();
  await client.ready(WAIT_MS);
  await server.hub.drain();
  await until(() => codes.includes(3001));
  assert.match(await handshake(server.url, {}), /^HTTP\/1.1 503/);
  await server[Symbol.asyncDispose]();
});

Deno.test("/ws without an upgrade returns a problem", async () => {
  await using gateway = await openGateway();
  const { status, body } = await gateway.withToken(undefined).get("/ws");
  assert.deepEqual([status, body.code, body.instance], [400, "bad_request", "/ws"]);
  assert.ok(body.requestId);
});

Deno.test("the SDK beyond a connection limit gets the reason and connects once there is capacity", async () => {
  for (
    const [limit, message] of [
      [{ connectionsPerPrincipal: 2 }, "limit exceeded: at most 2 connections of a principal"],
      // The SDK does not show the reason of a close before it is connected.
      [{ connectionsPerAddress: 2 }, "connection closed"],
    ] as const
  ) {
    await using server = serveHub(Centrifuge, { ...TEST_LIMITS, ...limit });
    // Connections of a lost network count until they miss a pong.
    const old = [server.client(), server.client()];
    for (const client of old) client.connect();
    await Promise.all(old.map((client) => client.ready(WAIT_MS)));
    const client = server.client();
    const errors: string[] = [];
    client.on("error", ({ error }) => errors.push(error.message));
    client.connect();
    await until(() => client.state === "disconnected" || errors.length > 1, "failed attempts");
    assert.equal(errors[0], message);
    old[0]?.disconnect();
    await client.ready(WAIT_MS);
  }
});

Deno.test("the SDK with too many subscriptions gets an error for each, and stays connected", async () => {
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, subscriptionsMax: 100 });
  const client = server.client();
  const connecting: number[] = [];
  client.on("connecting", ({ code }) => connecting.push(code));
  client.connect();
  await client.ready(WAIT_MS);
  // Most SDKs subscribe to all channels at once, also after each reconnect.
  const codes: number[] = [];
  const subs = Array.from({ length: 300 }, (_, at) => {
    const sub = client.newSubscription(`room:${at}`);
    sub.on("unsubscribed", ({ code }) => codes.push(code));
    sub.subscribe();
    return sub;
  });
  await until(() => connecting.length > 1 || subs.every(({ state }) => state !== "subscribing"), "a reply for each");
  assert.deepEqual(new Set(codes), new Set([106]));
  assert.equal(codes.length, 200);
  for (const sub of subs) sub.unsubscribe();
  assert.deepEqual((await client.rpc("test.echo", { text: "still here" })).data, { text: "still here" });
  assert.deepEqual(connecting, [0]);
});

Deno.test("a client far beyond its rate gets its replies and the close reason", async () => {
  // What is allowed is not filled up again while a busy machine reads the commands.
  const [rate, refusedRate] = [{ perSecond: 0.001, burst: 60 }, { perSecond: 0.001, burst: 50 }];
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, commandWaitMs: 0, rate, refusedRate });
  const socket = new WebSocket(server.url);
  const replies = new Set<number>();
  socket.onopen = () => socket.send(JSON.stringify({ id: 1, connect: { token: "alice" } }));
  const end = new Promise<{ code: number; reason: string }>((resolve) => socket.onclose = resolve);
  socket.onmessage = ({ data }) => {
    const ids = String(data).split("\n").flatMap((line): number[] => JSON.parse(line).id ?? []);
    for (const id of ids) replies.add(id);
    if (!ids.includes(1)) return;
    for (let id = 2; id < 2 + rate.burst + 200; id++) {
      socket.send(JSON.stringify({ id, rpc: { method: "test.echo", data: { text: "x".repeat(2000) } } }));
    }
  };
  const { code, reason } = await end;
  assert.deepEqual({ code, reason }, { code: 3013, reason: "too many requests" });
  assert.ok(replies.size >= 1 + rate.burst, `${replies.size} replies`);
});
