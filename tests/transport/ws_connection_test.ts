// One connection: its commands, their order and limits, and how it ends.
import assert from "node:assert/strict";
import { DISCONNECT, isPlainReason } from "@/transport/shared/disconnect.ts";
import type { WsLimits } from "@/transport/shared/socket_limits.ts";
import { encodeFrame } from "@/transport/ws/protobuf.ts";
import { ReplySchema } from "@/transport/ws/client_pb.js";
import { captureLog } from "../log_capture.ts";
import { allEnded, eventually, pause, until } from "../wait.ts";
import { authenticate, createHubHarness, FakeSocket, sendCommand, TENANT, TEST_LIMITS } from "./ws_harness.ts";
import { parseCommand } from "@/transport/ws/protocol.ts";

Deno.test("connect replies with all connection data and subscribes to the principal's own stream", async () => {
  const { hub, connect, log } = createHubHarness({
    clock: { now: () => 1_000_000 },
    authenticate: async (token) => ({ ...await authenticate(token), expiresAt: 1_060_000 }),
  });
  log.append("principal:alice");
  const { socket } = await connect();
  const [reply] = socket.messages;
  assert.equal(reply.id, 1);
  assert.equal(reply.connect.ping, 25);
  assert.equal(reply.connect.pong, true);
  assert.equal(reply.connect.version, "9.9.9");
  assert.equal(reply.connect.expires, true);
  assert.equal(reply.connect.ttl, 55); // A new token arrives before the old one expires: no call fails meanwhile.
  assert.deepEqual(reply.connect.data, { principal: "alice" });
  const ownStream = reply.connect.subs["principal:alice"];
  assert.equal(ownStream.offset, 1);
  assert.equal(ownStream.recoverable, true);
  await hub.drain();
});

Deno.test("connect without an expiry has no ttl", async () => {
  const { hub, connect } = createHubHarness();
  const { socket } = await connect();
  assert.equal("expires" in socket.messages[0].connect, false);
  assert.equal("ttl" in socket.messages[0].connect, false);
  await hub.drain();
});

Deno.test("connect rejects tokens with the code for each kind of failure", async () => {
  const { hub, connect } = createHubHarness();
  assert.deepEqual((await connect("expired")).socket.messages[0], {
    id: 1,
    error: { code: 109, message: "token expired" },
  });
  const { code, reason = "" } = (await connect("bad")).socket.closedWith ?? {};
  assert.equal(code, 3500);
  assert.match(reason, /^invalid token: ./);
  const missing = "invalid token: Expected an access token in the connect command";
  assert.deepEqual((await connect("")).socket.closedWith, { code: 3500, reason: missing });
  assert.equal((await connect("revoked")).socket.closedWith?.code, 3503);
  assert.equal((await connect("away")).socket.messages[0].error.temporary, true);
  await hub.drain();
});

Deno.test("a connect that fails by the store is logged, one with an invalid token is not", async () => {
  const { hub, connect } = createHubHarness();
  const records = await captureLog(["gateway", "ws"], async () => {
    for (const token of ["away", "bad", "expired"]) await connect(token);
  });
  const failures = records.filter(({ rawMessage }) => rawMessage === "request failed");
  const logged = failures.map(({ level, properties: { method, code } }) => [level, method, code]);
  assert.deepEqual(logged, [["warning", "connect", "unavailable"]]);
  assert.match(String(failures[0]?.properties["requestId"]), /^[0-9a-f-]{36}-1$/);
  await hub.drain();
});

Deno.test("connect revalidates the actor once no event can be missed", async () => {
  const { hub, connect } = createHubHarness({ revalidate: () => Promise.resolve(undefined) });
  assert.equal((await connect()).socket.closedWith?.code, 3503);
  assert.deepEqual(hub.stats().channels, { principal: 0 });
  await hub.drain();
});

Deno.test("after an error reply to connect input is ignored, and the deadline closes the socket", async () => {
  const clock = { at: Date.now(), now: () => clock.at };
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, authTimeoutMs: 60 }, clock });
  const peer = await connect("expired");
  peer.connection.receive(`{"id":2,"rpc":{"method":"test.echo","data":{"text":"x"}}}`);
  await pause(20);
  assert.equal(peer.socket.messages.length, 1);
  assert.ok(peer.socket.isOpen);
  clock.at += 60;
  hub.tick();
  assert.equal(peer.socket.closedWith?.code, 3502);
  await hub.drain();
});

Deno.test("silent and trickling sockets are closed at the authentication deadline", async () => {
  const { hub } = createHubHarness({
    limits: { ...TEST_LIMITS, authTimeoutMs: 60 },
    authenticate: () => new Promise(() => {}),
  });
  const silent = new FakeSocket();
  const slow = new FakeSocket();
  hub.open(silent, { ip: "::1" });
  hub.open(slow, { ip: "::1" }).receive(`{"id":1,"connect":{"token":"x"}}`);
  await until(() => silent.closedWith !== undefined && slow.closedWith !== undefined);
  assert.deepEqual(silent.closedWith, { code: 3502, reason: "not authenticated in time" });
  assert.equal(slow.closedWith?.code, 3502);
  await hub.drain();
});

Deno.test("subscribes in the connect frame run after it", async () => {
  const { hub } = createHubHarness();
  const socket = new FakeSocket();
  const connection = hub.open(socket, { ip: "::1" });
  connection.receive(
    `{"id":1,"connect":{"token":"alice"}}\n{"id":2,"subscribe":{"channel":"room:a"}}\n{"id":3,"subscribe":{"channel":"room:b"}}\n`,
  );
  connection.receive(`{"id":4,"subscribe":{"channel":"room:c"}}`);
  await until(() => socket.messages.length === 4);
  assert.deepEqual(socket.messages.map((line) => Object.keys(line)), [
    ["id", "connect"],
    ["id", "subscribe"],
    ["id", "subscribe"],
    ["id", "subscribe"],
  ]);
  assert.deepEqual(socket.messages.map((line) => line.id), [1, 2, 3, 4]);
  await hub.drain();
});

Deno.test("frames that violate the protocol close the connection", async () => {
  const { hub, connect } = createHubHarness();
  const cases: [unknown, number][] = [
    ["", 3501],
    ["\n", 3501],
    ["not json", 3501],
    ["1", 3501],
    ["null", 3501],
    ["[]", 3501],
    [`{"rpc":{}}`, 3501],
    [`{"id":0,"ping":{}}`, 3501],
    [`{"id":-1,"ping":{}}`, 3501],
    [`{"id":4294967296,"ping":{}}`, 3501],
    [`{"id":"1","ping":{}}`, 3501],
    [`{"id":2,"ping":{},"rpc":{}}`, 3501],
    [`{"id":2}`, 3501],
    [`{"":{}}`, 3501],
    [`{"id":2,"connect":{"token":"alice"}}`, 3501],
    [new Uint8Array(1), 3501],
    [new Blob(["{}"]), 3501],
    [`{"send":{"data":1}}`, 3508],
    [`"${"x".repeat(64 * 1024)}"`, 1009],
    [`"${"€".repeat(22 * 1024)}"`, 1009],
  ];
  await allEnded(cases.map(async ([frame, code], index) => {
    const { socket, connection } = await connect(`p${index}`);
    connection.receive(frame);
    await until(() => !socket.isOpen);
    assert.equal(socket.closedWith?.code, code, String(frame).slice(0, 40));
  }));
  await hub.drain();
});

Deno.test("an unauthenticated client may only send connect, of a bounded size", async () => {
  const { hub } = createHubHarness();
  const cases: [string, number][] = [
    ["{}", 3501],
    [`{"id":1,"subscribe":{"channel":"room:a"}}`, 3501],
    [`{"id":1,"unknown":{}}`, 3501],
    [`{"id":1,"connect":{"token":"${"x".repeat(16 * 1024)}"}}`, 1009],
  ];
  for (const [frame, code] of cases) {
    const socket = new FakeSocket();
    hub.open(socket, { ip: "::1" }).receive(frame);
    await until(() => !socket.isOpen);
    assert.equal(socket.closedWith?.code, code, frame.slice(0, 40));
  }
  const socket = new FakeSocket();
  const connection = hub.open(socket, { ip: "::1" });
  connection.receive(`{"id":1,"connect":{"token":"alice"}}`);
  for (let id = 2; id < 100; id++) {
    connection.receive(`{"id":${id},"rpc":{"method":"${"x".repeat(4000)}"}}`);
  }
  await until(() => !socket.isOpen);
  assert.equal(socket.closedWith?.code, 3013);
  await hub.drain();
});

Deno.test("a first frame other than connect closes with the expected frame as reason", async () => {
  const { hub } = createHubHarness();
  const frames = [
    "hello",
    "",
    "{}",
    "[]",
    `{"token":"alice"}`,
    `{"id":1,"rpc":{"method":"room.list"}}`,
    `{"id":1,"subscribe":{"channel":"room:a"}}`,
    `{"send":{}}`,
    new Uint8Array([1, 2, 3]).buffer,
  ];
  for (const frame of frames) {
    const socket = new FakeSocket();
    hub.open(socket, { ip: "::1" }).receive(frame);
    await until(() => !socket.isOpen);
    const { code, reason = "" } = socket.closedWith ?? {};
    assert.equal(code, 3501, String(frame));
    assert.match(reason, /\{"id":1,"connect":\{"token":/);
    assert.ok(isPlainReason(reason));
  }
  await hub.drain();
});

Deno.test("invalid bodies get an error and do not close the connection", async () => {
  const { hub, connect } = createHubHarness();
  const peer = await connect();
  const deep = "[".repeat(40) + "]".repeat(40);
  assert.equal((await sendCommand(peer, 2, { subscribe: {} })).error.code, 107);
  assert.equal((await sendCommand(peer, 3, { subscribe: { channel: `room:${"x".repeat(255)}` } })).error.code, 107);
  assert.equal((await sendCommand(peer, 4, { subscribe: { channel: "room:ä" } })).error.code, 107);
  assert.equal((await sendCommand(peer, 5, { unknown: {} })).error.code, 104);
  assert.equal((await sendCommand(peer, 13, { "": {} })).error.code, 104);
  assert.equal((await sendCommand(peer, 6, { rpc: { method: "test.echo", data: JSON.parse(deep) } })).error.code, 107);
  assert.equal((await sendCommand(peer, 7, { rpc: { method: "test.echo", data: { text: "a\0b" } } })).error.code, 422);
  assert.equal(
    (await sendCommand(peer, 8, { rpc: { method: "test.echo", data: { text: "\ud800" } } })).error.code,
    422,
  );
  assert.equal((await sendCommand(peer, 9, { ping: {} })).error.code, 108);
  assert.equal((await sendCommand(peer, 10, { sub_refresh: { channel: "room:a", token: "x" } })).error.code, 108);
  assert.deepEqual((await sendCommand(peer, 11, { unsubscribe: { channel: "room:never" } })).unsubscribe, {});
  assert.deepEqual((await sendCommand(peer, 12, { rpc: { method: "test.echo", data: { text: "é" } } })).rpc.data, {
    text: "é",
  });
  await hub.drain();
});

/** A harness with a fake clock and low limits: a burst of two commands, two more that wait, three rejections. */
function createSlowHarness() {
  const clock = { at: 1_000_000, now: () => clock.at };
  const limits: WsLimits = {
    ...TEST_LIMITS,
    rate: { perSecond: 1, burst: 2 },
    publishRate: { perSecond: 1, burst: 2 },
    commandWaitMs: 2000,
    refusedRate: { perSecond: 1, burst: 3 },
    subscriptionsMax: 4,
  };
  return { ...createHubHarness({ limits, clock }), clock };
}

Deno.test("commands beyond the rate wait, then are rejected, and only persistent abuse is closed", async () => {
  const { hub, connect, metrics, clock } = createSlowHarness();
  const { socket, connection } = await connect();
  const echo = (id: number) => connection.receive(`{"id":${id},"rpc":{"method":"test.echo","data":{"text":"${id}"}}}`);
  const replies = () => socket.messages.slice(1).map(({ id, rpc, error }) => rpc === undefined ? [id, error] : [id]);
  for (let id = 2; id < 8; id++) echo(id);
  await until(() => replies().length === 2);
  assert.deepEqual(replies(), [[2], [3]]);
  clock.at += 1000;
  await until(() => replies().length === 3);
  clock.at += 1000;
  await until(() => replies().length === 6);
  const rejection = { code: 111, message: "too many requests", temporary: true };
  assert.deepEqual(replies(), [[2], [3], [4], [5], [6, rejection], [7, rejection]], "in order");
  assert.match(await metrics.registry.metrics(), /svc_commands_refused_total 2\n/);
  // After two seconds two commands are available again, and one rejection fewer.
  for (let id = 8; id < 13; id++) echo(id);
  assert.ok(socket.isOpen);
  for (let id = 13; id < 17; id++) echo(id);
  clock.at += 60_000;
  await until(() => !socket.isOpen);
  assert.equal(socket.closedWith?.code, 3013);
  await hub.drain();
});

Deno.test("commands about channels have their own rate, and unsubscribe is never rejected", async () => {
  const { hub, connect, clock } = createSlowHarness();
  const peer = await connect();
  for (let id = 2; id < 6; id++) await sendCommand(peer, id, { subscribe: { channel: `room:${id}` } });
  for (let id = 6; id < 10; id++) {
    assert.ok((await sendCommand(peer, id, { presence: { channel: `room:${id - 4}` } })).presence);
  }
  for (let id = 10; id < 14; id++) {
    assert.ok((await sendCommand(peer, id, { history: { channel: `room:${id - 8}` } })).history);
  }
  for (let id = 14; id < 16; id++) peer.connection.receive(`{"id":${id},"presence":{"channel":"room:2"}}`);
  peer.connection.receive(`{"id":16,"unsubscribe":{"channel":"room:2"}}`);
  peer.connection.receive(`{"id":17,"history":{"channel":"room:3","limit":300}}`);
  clock.at += 2000;
  await until(() => peer.socket.messages.some(({ id }) => id === 17));
  assert.deepEqual(peer.socket.messages.find(({ id }) => id === 16), { id: 16, unsubscribe: {} });
  assert.equal(peer.socket.messages.find(({ id }) => id === 17).error.code, 111);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("a clock set back does not delay queued commands", async () => {
  const { hub, connect, clock } = createSlowHarness();
  const { socket, connection } = await connect();
  for (let id = 2; id < 6; id++) connection.receive(`{"id":${id},"presence_stats":{"channel":"x"}}`);
  for (let id = 6; id < 10; id++) connection.receive(`{"id":${id},"rpc":{"method":"none"}}`);
  clock.at -= 3_600_000;
  await until(() => socket.messages.some(({ id }) => id === 9));
  await hub.drain();
});

Deno.test("rejections for a client that does not read are bounded", async () => {
  const limits: WsLimits = { ...TEST_LIMITS, inboxMaxBytes: 2048, outboxMaxBytes: 512 };
  const { hub, connect } = createHubHarness({ limits });
  const { socket, connection } = await connect();
  socket.isStalled = true;
  socket.bufferedAmount = 512;
  let sent = 0;
  for (; connection.acceptsInput && sent < 1000; sent++) {
    connection.receive(`{"id":${sent + 2},"rpc":{"method":"test.echo","data":{"text":"${"x".repeat(500)}"}}}`);
  }
  assert.ok(sent < 20, `${sent} commands were accepted`);
  connection.close(DISCONNECT.shutdown);
  await hub.drain();
});

Deno.test("without a rate limit commands are not limited", async () => {
  const { rate: _, ...free } = TEST_LIMITS;
  const { hub, connect } = createHubHarness({ limits: free });
  const { socket, connection } = await connect();
  for (let id = 2; id < 1002; id++) connection.receive(`{"id":${id},"unsubscribe":{"channel":"x"}}`);
  await until(() => socket.messages.length === 1001);
  await hub.drain();
});

Deno.test("rpc replies with the operation's output or its fault as a protocol error", async () => {
  const { hub, connect } = createHubHarness();
  const peer = await connect();
  const fail = async (id: number, code: string) =>
    (await sendCommand(peer, id, { rpc: { method: "test.fail", data: { code } } })).error;
  assert.deepEqual(await sendCommand(peer, 2, { rpc: { method: "test.nothing" } }), { id: 2, rpc: {} });
  assert.deepEqual(await fail(3, "not_found"), { code: 404, message: "not_found: As requested" });
  assert.deepEqual(await fail(4, "version_mismatch"), { code: 412, message: "version_mismatch: As requested" });
  assert.deepEqual(await fail(5, "rate_limited"), {
    code: 111,
    message: "rate_limited: As requested",
    temporary: true,
  });
  assert.match((await fail(6, "unavailable")).message, /^unavailable: As requested \(request [\w-]+-6\)$/);
  const bug = await fail(7, "bug");
  assert.equal(bug.code, 100);
  assert.equal(bug.temporary, true);
  assert.equal(JSON.stringify(bug).includes("secret"), false);
  const invalid = (await sendCommand(peer, 8, { rpc: { method: "test.echo", data: { text: 1, more: 2 } } })).error;
  assert.equal(invalid.code, 422);
  assert.equal((await sendCommand(peer, 9, { rpc: { method: "no.such" } })).error.code, 104);
  assert.match(
    (await sendCommand(peer, 11, { rpc: { method: "test.ehco" } })).error.message,
    /did you mean test\.echo\?/,
  );
  assert.equal((await sendCommand(peer, 10, { rpc: {} })).error.code, 104);
  await hub.drain();
});

Deno.test("commands run in order; only calls of one concurrent operation overlap", async () => {
  const { hub, connect, trace } = createHubHarness();
  const { connection } = await connect();
  const call = (id: number, method: string, name: string) =>
    connection.receive(JSON.stringify({ id, rpc: { method, data: { name } } }));
  call(2, "test.slow", "a");
  call(3, "test.slow", "b");
  call(4, "test.other", "c");
  call(5, "test.alone", "d");
  call(6, "test.alone", "e");
  await eventually(() => assert.deepEqual(trace.steps, ["start a", "start b"]));
  trace.finish("b");
  await eventually(() => assert.deepEqual(trace.steps.slice(2), ["end b"]));
  trace.finish("a");
  await eventually(() => assert.deepEqual(trace.steps.slice(3), ["end a", "start c"]));
  trace.finish("c");
  await eventually(() => assert.deepEqual(trace.steps.slice(5), ["end c", "start d"]));
  trace.finish("d");
  await until(() => trace.steps.includes("start e"));
  trace.finish("e");
  await eventually(() => assert.deepEqual(trace.steps.slice(7), ["end d", "start e", "end e"]));
  await hub.drain();
});

Deno.test("concurrent calls are limited", async () => {
  const { hub, connect, trace } = createHubHarness({ limits: { ...TEST_LIMITS, maxConcurrent: 2 } });
  const { connection } = await connect();
  for (const [index, name] of ["a", "b", "c"].entries()) {
    connection.receive(JSON.stringify({ id: index + 2, rpc: { method: "test.slow", data: { name } } }));
  }
  await eventually(() => assert.deepEqual(trace.steps, ["start a", "start b"]));
  trace.finish("a");
  await eventually(() => assert.deepEqual(trace.steps.slice(2), ["end a", "start c"]));
  trace.finish("b");
  trace.finish("c");
  await pause(5);
  await hub.drain();
});

Deno.test("pings are sent, and a client without pong is closed", async () => {
  const clock = { at: Date.now(), now: () => clock.at };
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, pingMs: 60, pongTimeoutMs: 40 }, clock });
  const pass = (ms: number): void => {
    clock.at += ms;
    hub.tick();
  };
  const alive = await connect("alice");
  const dead = await connect("bob");
  let pings = 0;
  alive.socket.send = (data) => {
    if (data === "{}") queueMicrotask(() => alive.connection.receive("{}"));
    pings++;
  };
  pass(60);
  await until(() => dead.socket.frames.includes("{}"));
  assert.equal(pings, 1);
  assert.equal(dead.socket.closedWith, undefined);
  pass(40);
  assert.deepEqual(dead.socket.closedWith, { code: 3012, reason: "no pong" });
  pass(60);
  await until(() => pings > 1);
  assert.ok(alive.socket.isOpen);
  await hub.drain();
});

Deno.test("an expired token closes the connection after its grace, unless it was refreshed", async () => {
  // Tokens expire by the clock of the machine.
  const clock = { at: Date.now(), now: () => clock.at };
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, refreshGraceMs: 300_000 }, clock });
  const renewed = await connect("alice/600");
  const ended = await connect("bob/600");
  const reply = await sendCommand(renewed, 2, { refresh: { token: "alice/3600" } });
  assert.equal(reply.refresh.expires, true);
  assert.ok(reply.refresh.ttl > 3500);
  clock.at += 890_000;
  hub.tick();
  assert.equal(ended.socket.closedWith, undefined);
  clock.at += 600_000;
  hub.tick();
  assert.deepEqual(ended.socket.closedWith, { code: 3005, reason: "connection expired" });
  assert.ok(renewed.socket.isOpen);
  await hub.drain();
});

Deno.test("refresh with another principal's, an invalid or an expired token closes the connection", async () => {
  const { hub, connect } = createHubHarness();
  for (const [token, code] of [["bob", 3500], ["bad", 3500], ["revoked", 3503], ["expired", 3005]] as const) {
    const peer = await connect();
    await sendCommand(peer, 2, { refresh: { token } });
    assert.equal(peer.socket.closedWith?.code, code, token);
  }
  const peer = await connect();
  assert.equal((await sendCommand(peer, 2, { refresh: { token: "away" } })).error.temporary, true);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("connections of a principal are limited", async () => {
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, connectionsPerPrincipal: 2 } });
  await connect("alice");
  const second = await connect("alice");
  const third = await connect("alice");
  assert.deepEqual(third.socket.messages, [
    { id: 1, error: { code: 106, message: "limit exceeded: at most 2 connections of a principal", temporary: true } },
  ]);
  assert.ok(!third.connection.acceptsInput);
  second.connection.onSocketClosed();
  assert.ok((await connect("alice")).socket.isOpen);
  assert.ok((await connect("bob")).socket.isOpen);
  await hub.drain();
});

Deno.test("a client that stops reading is closed as slow, its pushes counted as dropped", async () => {
  const { hub, connect, emit, metrics } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 4000 } });
  const slow = await connect("alice");
  const quick = await connect("bob");
  for (const peer of [slow, quick]) await sendCommand(peer, 2, { subscribe: { channel: "room:a" } });
  slow.socket.isStalled = true;
  while (slow.socket.isOpen) {
    emit("room:a", "x".repeat(200));
    await pause(5);
  }
  assert.deepEqual(slow.socket.closedWith, { code: 3008, reason: "slow" });
  const { bufferedAmount } = slow.socket;
  assert.ok(bufferedAmount > 3600 && bufferedAmount <= 4000, `${bufferedAmount} bytes sent without reading`);
  assert.ok(quick.socket.isOpen);
  const text = await metrics.registry.metrics();
  assert.match(text, /svc_pool_messages_dropped_total 1\n/);
  assert.match(text, /svc_connection_errors\{type="slow_consumer"\} 1\n/);
  assert.equal(hub.stats().lingeringSockets, 1);
  slow.connection.onSocketClosed();
  slow.connection.onSocketClosed();
  assert.equal(hub.stats().lingeringSockets, 0);
  await hub.drain();
});

Deno.test("commands of a client that does not read its replies are paused", async () => {
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 1000 } });
  const peer = await connect();
  peer.socket.isStalled = true;
  for (let id = 2; peer.socket.bufferedAmount <= 500; id++) {
    await sendCommand(peer, id, { rpc: { method: "test.echo", data: { text: "x".repeat(100) } } });
  }
  const count = peer.socket.messages.length;
  peer.connection.receive(`{"id":99,"rpc":{"method":"test.echo","data":{"text":"later"}}}`);
  await pause(40);
  assert.equal(peer.socket.messages.length, count);
  peer.socket.bufferedAmount = 0;
  await until(() => peer.socket.messages.length === count + 1);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("drain closes all connections for reconnect, also new ones, waits for running commands, then accepts none", async () => {
  const { hub, connect, trace } = createHubHarness({ limits: { ...TEST_LIMITS, drainMs: 200 } });
  const idle = await connect("alice");
  const busy = await connect("bob");
  busy.connection.receive(JSON.stringify({ id: 2, rpc: { method: "test.alone", data: { name: "a" } } }));
  await until(() => trace.steps.includes("start a"));
  const drained = hub.drain();
  // A client that was closed first may come back to a node that is still there.
  await until(() => !idle.socket.isOpen);
  const back = await connect("alice");
  assert.deepEqual([hub.isDraining, back.socket.isOpen], [false, true]);
  trace.finish("a");
  await drained;
  assert.equal(back.socket.closedWith?.code, 3001);
  const late = new FakeSocket();
  hub.open(late, { ip: "::1" });
  assert.deepEqual([hub.isDraining, late.closedWith?.code], [true, 3001]);
  assert.deepEqual(idle.socket.closedWith, { code: 3001, reason: "shutdown" });
  assert.deepEqual(busy.socket.closedWith, { code: 3001, reason: "shutdown" });
  assert.ok(busy.socket.messages.some((line) => line.id === 2), "the running command got its reply");
  assert.equal(hub.stats().connections, 0);
});

Deno.test("the signal of an rpc aborts when the client disconnects", async () => {
  let signal: AbortSignal | undefined;
  const { hub, connect } = createHubHarness({
    dispatch: (_operation, call) => {
      signal = call.signal;
      return new Promise(() => {});
    },
  });
  const { connection } = await connect();
  connection.receive(`{"id":2,"rpc":{"method":"test.echo","data":{"text":"x"}}}`);
  await until(() => signal !== undefined);
  assert.equal(signal?.aborted, false);
  connection.onSocketClosed();
  assert.equal(signal?.aborted, true);
  await hub.drain();
});

Deno.test("a command with a null body gets a readable error", async () => {
  const { hub, connect } = createHubHarness();
  const peer = await connect();
  peer.connection.receive(`{"id":2,"rpc":null}`);
  await until(() => peer.socket.messages.some(({ id }) => id === 2));
  const { error } = peer.socket.messages.find(({ id }) => id === 2);
  assert.deepEqual(error, { code: 107, message: "bad request: expected object, received null" });
  await hub.drain();
});

Deno.test("commands before an invalid frame are executed, later ones ignored", async () => {
  const { hub, connect, trace } = createHubHarness();
  const { socket, connection } = await connect();
  const call = (id: number, name: string) =>
    connection.receive(JSON.stringify({ id, rpc: { method: "test.alone", data: { name } } }));
  call(2, "first");
  call(3, "second");
  connection.receive("no json");
  call(4, "third");
  await pause(150);
  assert.ok(socket.isOpen);
  trace.finish("first");
  await until(() => trace.steps.includes("start second"));
  trace.finish("second");
  await until(() => !socket.isOpen);
  assert.equal(socket.closedWith?.code, 3501);
  assert.deepEqual(trace.steps, ["start first", "end first", "start second", "end second"]);
  assert.deepEqual(socket.messages.map((line) => line.id), [1, 2, 3]);
  await hub.drain();
});

Deno.test("a client that keeps sending after an invalid frame is closed", async () => {
  const { hub, connect } = createHubHarness();
  const { socket, connection } = await connect();
  for (let count = 0; count < 1000; count++) connection.receive("no json");
  assert.ok(socket.isOpen);
  for (let count = 0; count < 100; count++) connection.receive("no json");
  assert.equal(socket.closedWith?.code, 3501);
  const large = await connect();
  large.connection.receive("no json");
  large.connection.receive("x".repeat(600_000));
  assert.ok(large.socket.isOpen);
  large.connection.receive("x".repeat(600_000));
  assert.equal(large.socket.closedWith?.code, 3501);
  await hub.drain();
});

Deno.test("commands in the connect frame count against the rate", async () => {
  const { hub, clock } = createSlowHarness();
  const socket = new FakeSocket();
  const lines = Array.from({ length: 6 }, (_, at) => `{"id":${at + 2},"rpc":{"method":"none"}}`);
  hub.open(socket, { ip: "::1" }).receive([`{"id":1,"connect":{"token":"alice"}}`, ...lines].join("\n"));
  await until(() => socket.messages.length === 3);
  clock.at += 2000;
  await until(() => socket.messages.length === 7);
  assert.deepEqual(socket.messages.slice(1).map(({ error }) => error.code), [104, 104, 104, 104, 111, 111]);
  await hub.drain();
});

Deno.test("a reply too long for the socket is an error and does not close it", async () => {
  const { hub, connect } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 4000 } });
  const peer = await connect();
  const echo = (id: number, length: number) =>
    sendCommand(peer, id, { rpc: { method: "test.echo", data: { text: "x".repeat(length) } } });
  assert.equal((await echo(2, 3000)).rpc.data.text.length, 3000);
  const reply = await echo(3, 4000);
  assert.equal(peer.socket.closedWith, undefined);
  assert.equal(reply.error.code, 413);
  assert.match(reply.error.message, /^payload_too_large: .*4035 bytes/);
  // A reply that fits waits until earlier ones are read.
  peer.socket.isStalled = true;
  assert.ok((await echo(4, 1900)).rpc);
  const waiting = echo(5, 2200);
  await pause(40);
  assert.equal(peer.socket.messages.at(-1).id, 4);
  peer.socket.bufferedAmount = 0;
  assert.equal((await waiting).rpc.data.text.length, 2200);
  await hub.drain();
});

Deno.test("replies wait for capacity in the outbox", async () => {
  const { hub, connect, emit, log, rooms } = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 8000 } });
  for (let n = 0; n < 10; n++) log.append("room:a", "x".repeat(150));
  for (let n = 0; n < 3; n++) log.append("room:b", "y".repeat(150));
  const epoch = (await log.position(TENANT, "room:b")).epoch;
  const commands = {
    history: { channel: "room:a", limit: 10 },
    presence: { channel: "room:a" },
    subscribe: { channel: "room:b", recover: true, offset: 0, epoch },
  };
  for (const [method, body] of Object.entries(commands)) {
    const peer = await connect();
    await sendCommand(peer, 2, { subscribe: { channel: "room:a" } });
    const [checked, proceed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    rooms.beforeCheck = log.beforeRead = () => (checked.resolve(), proceed.promise);
    const reply = sendCommand(peer, 3, { [method]: body });
    await checked.promise;
    peer.socket.isStalled = true;
    // Almost full: less capacity than any reply needs.
    for (const upTo of [4000, 7980]) {
      const { bufferedAmount } = peer.socket;
      emit("room:a", "z".repeat(upTo - bufferedAmount - 110));
      await until(() => peer.socket.bufferedAmount > bufferedAmount);
    }
    assert.ok(peer.socket.bufferedAmount > 7950 && peer.socket.isOpen, `${peer.socket.bufferedAmount} bytes wait`);
    proceed.resolve();
    await pause(40);
    assert.equal(peer.socket.closedWith, undefined, method);
    assert.equal(peer.socket.messages.some(({ id }) => id === 3), false);
    peer.socket.bufferedAmount = 0;
    peer.socket.isStalled = false;
    assert.ok((await reply)[method], method);
    rooms.beforeCheck = log.beforeRead = () => Promise.resolve();
    peer.connection.close(DISCONNECT.shutdown);
  }
  await hub.drain();
});

Deno.test("a far expiry is capped to a ttl that every client supports", async () => {
  const { hub, connect } = createHubHarness();
  const peer = await connect("alice/99999999999");
  assert.equal(peer.socket.messages[0].connect.ttl, 2 ** 31 - 1);
  assert.equal((await sendCommand(peer, 2, { refresh: { token: "alice/99999999999" } })).refresh.ttl, 2 ** 31 - 1);
  for (const frame of peer.socket.frames) assert.ok(encodeFrame(frame, ReplySchema).length > 0);
  await hub.drain();
});

Deno.test("unsafe text in the input of an rpc is reported by its pointer, as over HTTP", () => {
  const errorOf = (data: string): unknown => {
    const command = parseCommand(`{"id":1,"rpc":{"method":"message.send","data":${data}}}`);
    return typeof command === "object" && command.method === "invalid" ? command.body : command;
  };
  const message = (pointer: string): unknown => ({
    code: 422,
    message: `validation_failed: ${pointer}: text must not contain NUL or a lone surrogate`,
  });
  assert.deepEqual(errorOf('{"roomId":"r","text":"a\\u0000"}'), message("/text"));
  assert.deepEqual(errorOf('{"metadata":{"a/b":["\\ud800"]}}'), message("/metadata/a~1b/0"));
  assert.deepEqual(errorOf('"\\u0000"'), message("input"));
});
