// The door itself: a real server on a free port, and the real SDK of the protocol as its client.
import assert from "node:assert/strict";
import { Centrifuge, type PublicationContext, UnauthorizedError } from "npm:centrifuge@5.8.0";
import { MemoryBus } from "@/adapters/bus_memory.ts";
import { Admission } from "@/transport/ws/admission.ts";
import { openGateway } from "../harness.ts";
import { pause, until } from "../wait.ts";
import { SMALL } from "./ws_rig.ts";
import { serve, type Served } from "./ws_served.ts";

const room = "room:a";

/** Opens a bare socket and tells how it ended. */
function ended(
  url: string,
  protocols?: string[],
  say?: string | Uint8Array<ArrayBuffer>,
): Promise<{ code: number; reason: string }> {
  const socket = new WebSocket(url, protocols);
  if (say !== undefined) socket.onopen = () => socket.send(say);
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

Deno.test("the SDK connects, subscribes, hears, publishes, calls, looks around and reads history", async () => {
  await using served = serve(Centrifuge);
  const [alice, bob] = [served.client("alice"), served.client("bob")];
  const heard: PublicationContext[] = [];
  const own: PublicationContext[] = [];
  const joins: string[] = [];
  const sub = alice.newSubscription(room, { joinLeave: true });
  sub.on("publication", (context) => heard.push(context));
  sub.on("join", ({ info }) => joins.push(info.user));
  alice.on("publication", (context) => own.push(context));
  const connected = new Promise<{ client: string; data?: unknown }>((resolve) => alice.on("connected", resolve));
  sub.subscribe();
  alice.connect();
  const bobSub = bob.newSubscription(room);
  bobSub.subscribe();
  bob.connect();
  await Promise.all([sub.ready(2000), bobSub.ready(2000)]);
  const { client, data } = await connected;
  assert.match(client, /^[0-9a-f-]{36}$/);
  assert.deepEqual(data, { principal: "alice" });

  await bobSub.publish({ type: "typing", data: { isTyping: true } });
  served.emit(room, "hello");
  served.emit("principal:alice", "for me");
  await until(() => heard.length === 2 && own.length === 1 && joins.includes("bob"));
  assert.equal(heard[0]?.info?.user, "bob");
  assert.equal(heard[0]?.offset, undefined);
  assert.deepEqual([heard[1]?.offset, heard[1]?.data.data], [1, "hello"]);
  assert.deepEqual([own[0]?.channel, own[0]?.data.data], ["principal:alice", "for me"]);

  assert.deepEqual((await alice.rpc("test.echo", { text: "hi" })).data, { text: "hi" });
  assert.deepEqual((await alice.rpc("test.nothing", {})).data, undefined);
  await assert.rejects(alice.rpc("test.fail", { code: "not_found" }), { code: 404, message: "not_found: As told" });
  await assert.rejects(sub.publish({ type: "message.created" }), { code: 103 });
  assert.equal(Object.keys((await sub.presence()).clients).length, 2);
  assert.deepEqual(await sub.presenceStats(), { numClients: 2, numUsers: 2 });
  const history = await sub.history({ limit: 10 });
  assert.deepEqual(history.publications.map((publication) => publication.offset), [1]);
  assert.equal(history.offset, 1);
});

Deno.test("the SDK recovers what it missed after a forced reconnect, in order and once", async () => {
  const bus = new MemoryBus();
  await using served = serve(Centrifuge, { ...SMALL, pingMs: 25_000 }, { bus });
  const client = served.client();
  const seen: number[] = [];
  const recovered: boolean[] = [];
  const sub = client.newSubscription(room);
  sub.on("publication", ({ offset }) => seen.push(offset ?? 0));
  sub.on("subscribed", (context) => context.wasRecovering && recovered.push(context.recovered));
  sub.subscribe();
  client.connect();
  await sub.ready(2000);
  for (let round = 0; round < 5; round++) {
    served.emit(room);
    // The gateway loses its socket in the middle of a burst: the client is told to come back.
    for (let i = 0; i < 20; i++) {
      served.emit(room);
      if (i === 10) closeAll(served, round);
    }
    await until(() => recovered.length === round + 1, "recovery");
    served.emit(room);
  }
  await until(() => seen.length >= 5 * 22);
  assert.deepEqual(seen, Array.from({ length: 5 * 22 }, (_, i) => i + 1));
  assert.deepEqual(recovered, [true, true, true, true, true]);
});

/** Ends every socket as a hole in a principal's stream would, which clients answer by coming back. */
function closeAll(served: Served<Centrifuge>, round: number): void {
  served.log.append("principal:alice", round, { kind: "evict", principalIds: "*", reason: "x", resubscribe: true });
  served.bus.onRecovered();
}

Deno.test("the SDK renews an expired token at connect and on the living connection", async () => {
  await using served = serve(Centrifuge);
  const tokens = ["alice/1", "alice/60"];
  let asked = 0;
  const client = served.client("expired", { getToken: () => Promise.resolve(tokens[asked++] ?? "bad") });
  client.connect();
  await client.ready(2000);
  assert.equal(asked, 1);
  await until(() => asked === 2, "the refresh at the token's end");
  assert.equal((await client.rpc("test.echo", { text: "still here" })).data.text, "still here");
  assert.equal(client.state, "connected");
});

Deno.test("the SDK gives up on an invalid token and on a revoked one", async () => {
  await using served = serve(Centrifuge);
  for (const [token, code] of [["bad", 3500], ["revoked", 3503]] as const) {
    const client = served.client(token);
    const disconnected = new Promise<{ code: number }>((resolve) => client.on("disconnected", resolve));
    client.connect();
    assert.equal((await disconnected).code, code);
  }
  const client = served.client("", {
    getToken: () => {
      throw new UnauthorizedError("no");
    },
  });
  client.connect();
  await until(() => client.state === "disconnected");
});

Deno.test("a token in the URL still works, and everybody concerned is told that it should not be there", async () => {
  await using served = serve(Centrifuge);
  const socket = new WebSocket(`${served.url}?token=alice`);
  const first = await new Promise<MessageEvent>((resolve) => {
    socket.onopen = () => socket.send(`{"id":1,"connect":{}}`);
    socket.onmessage = resolve;
  });
  const { data } = JSON.parse(first.data).connect;
  assert.equal(data.principal, "alice");
  assert.equal(data.deprecations[0].code, "legacy_query_token");
  assert.equal(first.data.includes(`"token"`), false);
  assert.match(await served.metrics.registry.metrics(), /svc_connection_errors\{type="legacy_query_token"\} 1\n/);
  socket.close();
  await new Promise((resolve) => socket.onclose = resolve);
  assert.equal((await ended(`${served.url}?token=bad`, undefined, `{"id":1,"connect":{}}`)).code, 3500);
});

Deno.test("the upgrade looks at the page's origin, the protocol and the request", async () => {
  await using served = serve(Centrifuge);
  const { host } = new URL(served.url);
  const status = async (headers: Record<string, string>, query = "") =>
    (await handshake(served.url + query, headers)).slice(9, 12);
  assert.equal(await status({ Origin: "https://evil.example" }), "403");
  assert.equal(await status({ Origin: "https://good.example.evil.example" }), "403");
  assert.equal(await status({ Origin: "null" }), "403");
  assert.equal(await status({ Origin: "https://good.example" }), "101");
  assert.equal(await status({ Origin: `http://${host}` }), "101");
  assert.equal(await status({}), "101");
  assert.equal(await status({ Upgrade: "h2c" }), "400");
  assert.match(await handshake(served.url, { "Sec-WebSocket-Protocol": "centrifuge-json" }), /centrifuge-json/i);
  assert.doesNotMatch(await handshake(served.url, { "Sec-WebSocket-Protocol": "evil" }), /evil/);
  assert.match(await handshake(served.url, { Origin: "https://evil.example" }), /"code":"origin_not_allowed"/);
  assert.match(await served.metrics.registry.metrics(), /svc_connection_errors\{type="origin"\} 4\n/);
});

Deno.test("frames no client would send end a real socket as well", async () => {
  await using served = serve(Centrifuge);
  assert.equal((await ended(served.url, undefined, "x".repeat(64 * 1024 + 1))).code, 1009);
  assert.equal((await ended(served.url, undefined, "no json")).code, 3501);
  assert.equal((await ended(served.url, undefined, new Uint8Array(10))).code, 3501);
});

Deno.test("addresses of one IPv6 network count as one, for one customer has them all", () => {
  const admission = new Admission({ ...SMALL, unauthenticatedPerAddress: 2 });
  const admit = (ip: string) => typeof admission.admit(ip) === "string" ? "refused" : "admitted";
  const network = ["2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3"];
  assert.deepEqual(network.map(admit), ["admitted", "admitted", "refused"]);
  assert.deepEqual(["2001:db8:0:2::1", "192.0.2.1", "192.0.2.2"].map(admit), ["admitted", "admitted", "admitted"]);
});

Deno.test("an address has so many sockets, and so many that have not said who they are", async () => {
  await using served = serve(Centrifuge, { ...SMALL, connectionsPerAddress: 3, unauthenticatedPerAddress: 2 });
  const open = async (say?: string) => {
    const socket = new WebSocket(served.url);
    await new Promise((resolve) => socket.onopen = resolve);
    if (say !== undefined) {
      socket.send(say);
      await new Promise((resolve) => socket.onmessage = resolve);
    }
    return socket;
  };
  const sockets = [await open(), await open()];
  assert.match(await handshake(served.url, {}), /^HTTP\/1.1 429/);
  for (const [index, socket] of sockets.entries()) {
    socket.send(`{"id":1,"connect":{"token":"p${index}"}}`);
    await new Promise((resolve) => socket.onmessage = resolve);
  }
  sockets.push(await open(`{"id":1,"connect":{"token":"p2"}}`));
  assert.deepEqual(await ended(served.url), { code: 4429, reason: "connection limit" });
  sockets[0]?.close();
  await until(() => served.hub.stats().connections === 2);
  sockets.push(await open(`{"id":1,"connect":{"token":"p3"}}`));
  for (const socket of sockets) socket.close();
  await until(() => served.hub.stats().connections === 0);
});

Deno.test("a socket that dies without a word leaves nothing behind", async () => {
  await using served = serve(Centrifuge);
  const { hostname, port } = new URL(served.url);
  const client = served.client("bob");
  client.connect();
  await client.ready(2000);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  await connection.write(
    new TextEncoder().encode(
      `GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    ),
  );
  await until(() => served.hub.stats().connections === 2);
  connection.close();
  await until(() => served.hub.stats().connections === 1);
  assert.equal(served.hub.stats().zombies, 0);
});

Deno.test("a peer that does not let go is dropped, with the unfinished message that it was sending", async () => {
  await using served = serve(Centrifuge, { ...SMALL, authTimeoutMs: 50, lingerMs: 50 });
  const { hostname, port } = new URL(served.url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  await connection.write(
    new TextEncoder().encode(
      `GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    ),
  );
  // A text frame and those that continue it, masked with zeros, of which none is the last.
  await connection.write(new Uint8Array([0x01, 0x81, 0, 0, 0, 0, 0x61]));
  const more = new Uint8Array([0x00, 0x81, 0, 0, 0, 0, 0x61]);
  await until(() => served.hub.stats().zombies === 1);
  await assert.rejects(async () => {
    for (const end = performance.now() + 2000; performance.now() < end;) {
      await connection.write(more);
      await pause(5);
    }
  });
  await until(() => served.hub.stats().zombies === 0);
});

Deno.test("a shutdown sends the SDK to reconnect, and new sockets elsewhere", async () => {
  const served = serve(Centrifuge);
  const client = served.client();
  const codes: number[] = [];
  client.on("connecting", ({ code }) => codes.push(code));
  client.connect();
  await client.ready(2000);
  await served.hub.drain();
  await until(() => codes.includes(3001));
  assert.match(await handshake(served.url, {}), /^HTTP\/1.1 503/);
  await served[Symbol.asyncDispose]();
});

Deno.test("who comes to /ws without an upgrade gets a problem like everywhere", async () => {
  await using gateway = await openGateway();
  const { status, body } = await gateway.withToken(undefined).get("/ws");
  assert.deepEqual([status, body.code, body.instance], [400, "bad_request", "/ws"]);
  assert.ok(body.requestId);
});

Deno.test("the SDK over the cap of its principal or its address is told so and comes in by itself once there is room", async () => {
  for (
    const [cap, word] of [
      [{ connectionsPerPrincipal: 2 }, "limit exceeded: 2 connections"],
      // Closed before it has connected, the SDK shows nothing but that.
      [{ connectionsPerAddress: 2 }, "connection closed"],
    ] as const
  ) {
    await using served = serve(Centrifuge, { ...SMALL, ...cap });
    // Those of a network that is gone count until they miss a pong.
    const old = [served.client(), served.client()];
    for (const client of old) client.connect();
    await Promise.all(old.map((client) => client.ready(2000)));
    const client = served.client();
    const errors: string[] = [];
    client.on("error", ({ error }) => errors.push(error.message));
    client.connect();
    await until(() => client.state === "disconnected" || errors.length > 1, "tries in vain");
    assert.equal(errors[0], word);
    old[0]?.disconnect();
    await client.ready(2000);
  }
});

Deno.test("the SDK that asks for more channels than it may have is told so for each, stays, and leaves them all at once", async () => {
  await using served = serve(Centrifuge, { ...SMALL, subscriptionsMax: 100 });
  const client = served.client();
  const connecting: number[] = [];
  client.on("connecting", ({ code }) => connecting.push(code));
  client.connect();
  await client.ready(2000);
  // Most SDKs ask for the first time here, in a frame for each channel, and so again whenever they come back.
  const refused: number[] = [];
  const subs = Array.from({ length: 300 }, (_, at) => {
    const sub = client.newSubscription(`room:${at}`);
    sub.on("unsubscribed", ({ code }) => refused.push(code));
    sub.subscribe();
    return sub;
  });
  await until(() => connecting.length > 1 || subs.every(({ state }) => state !== "subscribing"), "an answer for each");
  assert.deepEqual(new Set(refused), new Set([106]));
  assert.equal(refused.length, 200);
  for (const sub of subs) sub.unsubscribe();
  assert.deepEqual((await client.rpc("test.echo", { text: "still here" })).data, { text: "still here" });
  assert.deepEqual(connecting, [0]);
});

Deno.test("a client over its rate gets its replies and the reason, though it has written more at once", async () => {
  await using served = serve(Centrifuge);
  const socket = new WebSocket(served.url);
  const replies = new Set<number>();
  socket.onopen = () => socket.send(JSON.stringify({ id: 1, connect: { token: "alice" } }));
  const end = new Promise<{ code: number; reason: string }>((resolve) => socket.onclose = resolve);
  socket.onmessage = ({ data }) => {
    const ids = String(data).split("\n").flatMap((line): number[] => JSON.parse(line).id ?? []);
    for (const id of ids) replies.add(id);
    if (!ids.includes(1)) return;
    const { burst } = SMALL.rate ?? { burst: 0 };
    for (let id = 2; id < 2 + burst + 200; id++) {
      socket.send(JSON.stringify({ id, rpc: { method: "test.echo", data: { text: "x".repeat(2000) } } }));
    }
  };
  const { code, reason } = await end;
  assert.deepEqual({ code, reason }, { code: 3013, reason: "too many requests" });
  assert.ok(replies.size >= 1 + (SMALL.rate?.burst ?? Infinity), `${replies.size} replies`);
});
