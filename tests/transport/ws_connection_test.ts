// What one connection may send, in which order it is answered, and how it ends.
import assert from "node:assert/strict";
import { CLOSE } from "@/transport/ws/close.ts";
import { encodeFrame } from "@/transport/ws/protobuf.ts";
import { Reply } from "@/transport/ws/protobuf_message.ts";
import { logged } from "../logged.ts";
import { eventually, pause, until } from "../wait.ts";
import { ask, FakeSocket, rig, SMALL, TENANT } from "./ws_rig.ts";

Deno.test("connect answers with everything a client needs and subscribes it to itself", async () => {
  const { hub, connect, log } = rig();
  log.append("principal:alice");
  const { socket } = await connect("alice/60");
  const [reply] = socket.lines;
  assert.equal(reply.id, 1);
  assert.equal(reply.connect.ping, 25);
  assert.equal(reply.connect.pong, true);
  assert.equal(reply.connect.version, "9.9.9");
  assert.equal(reply.connect.expires, true);
  assert.ok(reply.connect.ttl >= 59 && reply.connect.ttl <= 60);
  assert.deepEqual(reply.connect.data, { principal: "alice" });
  const self = reply.connect.subs["principal:alice"];
  assert.equal(self.offset, 1);
  assert.equal(self.recoverable, true);
  await hub.drain();
});

Deno.test("connect without an expiry says nothing of expiry", async () => {
  const { hub, connect } = rig();
  const { socket } = await connect();
  assert.equal("expires" in socket.lines[0].connect, false);
  assert.equal("ttl" in socket.lines[0].connect, false);
  await hub.drain();
});

Deno.test("connect refuses tokens the way each kind of client failure asks for", async () => {
  const { hub, connect } = rig();
  assert.deepEqual((await connect("expired")).socket.lines[0], {
    id: 1,
    error: { code: 109, message: "token expired" },
  });
  assert.equal((await connect("bad")).socket.closedWith?.code, 3500);
  assert.equal((await connect("")).socket.closedWith?.code, 3500);
  assert.equal((await connect("revoked")).socket.closedWith?.code, 3503);
  assert.equal((await connect("away")).socket.lines[0].error.temporary, true);
  await hub.drain();
});

Deno.test("a connect that fails for want of the store is in the log, one with a token of no use is not", async () => {
  const { hub, connect } = rig();
  const records = await logged(["gateway", "ws"], async () => {
    for (const token of ["away", "bad", "expired"]) await connect(token);
  });
  const failures = records.filter(({ rawMessage }) => rawMessage === "failed");
  const told = failures.map(({ level, properties: { method, code } }) => [level, method, code]);
  assert.deepEqual(told, [["warning", "connect", "unavailable"]]);
  assert.match(String(failures[0]?.properties["requestId"]), /^[0-9a-f-]{36}-1$/);
  await hub.drain();
});

Deno.test("connect asks once more whether the actor may stay when nothing can be missed any more", async () => {
  const { hub, connect } = rig({ revalidate: () => Promise.resolve(undefined) });
  assert.equal((await connect()).socket.closedWith?.code, 3503);
  assert.deepEqual(hub.stats().channels, { principal: 0 });
  await hub.drain();
});

Deno.test("nothing is heard after an error reply to connect, and the deadline ends the socket", async () => {
  const { hub, connect } = rig({ limits: { ...SMALL, authTimeoutMs: 60 } });
  const peer = await connect("expired");
  peer.connection.receive(`{"id":2,"rpc":{"method":"test.echo","data":{"text":"x"}}}`);
  await pause(20);
  assert.equal(peer.socket.lines.length, 1);
  await until(() => peer.socket.closedWith !== undefined);
  assert.equal(peer.socket.closedWith?.code, 3502);
  await hub.drain();
});

Deno.test("a socket that says nothing is closed when its time is up, and one that trickles as well", async () => {
  const { hub } = rig({
    limits: { ...SMALL, authTimeoutMs: 60 },
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

Deno.test("the connect frame may carry subscribes, which wait for it and are answered after it", async () => {
  const { hub } = rig();
  const socket = new FakeSocket();
  const connection = hub.open(socket, { ip: "::1" });
  connection.receive(
    `{"id":1,"connect":{"token":"alice"}}\n{"id":2,"subscribe":{"channel":"room:a"}}\n{"id":3,"subscribe":{"channel":"room:b"}}\n`,
  );
  connection.receive(`{"id":4,"subscribe":{"channel":"room:c"}}`);
  await until(() => socket.lines.length === 4);
  assert.deepEqual(socket.lines.map((line) => Object.keys(line)), [
    ["id", "connect"],
    ["id", "subscribe"],
    ["id", "subscribe"],
    ["id", "subscribe"],
  ]);
  assert.deepEqual(socket.lines.map((line) => line.id), [1, 2, 3, 4]);
  await hub.drain();
});

Deno.test("frames that break the protocol end the connection", async () => {
  const { hub, connect } = rig();
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
  await Promise.all(cases.map(async ([frame, code], index) => {
    const { socket, connection } = await connect(`p${index}`);
    connection.receive(frame);
    await until(() => !socket.isOpen);
    assert.equal(socket.closedWith?.code, code, String(frame).slice(0, 40));
  }));
  await hub.drain();
});

Deno.test("a stranger may say connect, of a bounded size, and nothing else", async () => {
  const { hub } = rig();
  const cases: [string, number][] = [
    ["{}", 3501],
    [`{"id":1,"subscribe":{"channel":"room:a"}}`, 3501],
    [`{"id":1,"unheard":{}}`, 3501],
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

Deno.test("bad bodies are answered and do not end the connection", async () => {
  const { hub, connect } = rig();
  const peer = await connect();
  const deep = "[".repeat(40) + "]".repeat(40);
  assert.equal((await ask(peer, 2, { subscribe: {} })).error.code, 107);
  assert.equal((await ask(peer, 3, { subscribe: { channel: `room:${"x".repeat(255)}` } })).error.code, 107);
  assert.equal((await ask(peer, 4, { subscribe: { channel: "room:ä" } })).error.code, 107);
  assert.equal((await ask(peer, 5, { unheard: {} })).error.code, 104);
  assert.equal((await ask(peer, 13, { "": {} })).error.code, 104);
  assert.equal((await ask(peer, 6, { rpc: { method: "test.echo", data: JSON.parse(deep) } })).error.code, 107);
  assert.equal((await ask(peer, 7, { rpc: { method: "test.echo", data: { text: "a\0b" } } })).error.code, 422);
  assert.equal((await ask(peer, 8, { rpc: { method: "test.echo", data: { text: "\ud800" } } })).error.code, 422);
  assert.equal((await ask(peer, 9, { ping: {} })).error.code, 108);
  assert.equal((await ask(peer, 10, { sub_refresh: { channel: "room:a", token: "x" } })).error.code, 108);
  assert.deepEqual((await ask(peer, 11, { unsubscribe: { channel: "room:never" } })).unsubscribe, {});
  assert.deepEqual((await ask(peer, 12, { rpc: { method: "test.echo", data: { text: "é" } } })).rpc.data, {
    text: "é",
  });
  await hub.drain();
});

Deno.test("more commands than the rate allows end the connection, channels have an allowance of their own", async () => {
  const { hub, connect } = rig();
  const { socket, connection } = await connect();
  for (let id = 2; id < 202; id++) connection.receive(`{"id":${id},"subscribe":{"channel":"room:${id}"}}`);
  assert.ok(socket.isOpen);
  for (let id = 2; id < 202; id++) connection.receive(`{"id":${id},"unsubscribe":{"channel":"room:${id}"}}`);
  assert.ok(socket.isOpen);
  for (let id = 300; id < 360; id++) connection.receive(`{"id":${id},"presence":{"channel":"x"}}`);
  assert.ok(socket.isOpen);
  for (let id = 400; id < 404; id++) connection.receive(`{}`);
  await until(() => !socket.isOpen);
  assert.equal(socket.closedWith?.code, 3013);
  await hub.drain();
});

Deno.test("without a rate a connection may send as it likes", async () => {
  const { rate: _, ...free } = SMALL;
  const { hub, connect } = rig({ limits: free });
  const { socket, connection } = await connect();
  for (let id = 2; id < 1002; id++) connection.receive(`{"id":${id},"unsubscribe":{"channel":"x"}}`);
  await until(() => socket.lines.length === 1001);
  await hub.drain();
});

Deno.test("rpc answers with the operation's output, or with its fault in the words of the protocol", async () => {
  const { hub, connect } = rig();
  const peer = await connect();
  const fail = async (id: number, code: string) =>
    (await ask(peer, id, { rpc: { method: "test.fail", data: { code } } })).error;
  assert.deepEqual(await ask(peer, 2, { rpc: { method: "test.nothing" } }), { id: 2, rpc: {} });
  assert.deepEqual(await fail(3, "not_found"), { code: 404, message: "not_found: As told" });
  assert.deepEqual(await fail(4, "version_mismatch"), { code: 412, message: "version_mismatch: As told" });
  assert.deepEqual(await fail(5, "rate_limited"), { code: 111, message: "rate_limited: As told", temporary: true });
  assert.match((await fail(6, "unavailable")).message, /^unavailable: As told \(request [\w-]+-6\)$/);
  const bug = await fail(7, "bug");
  assert.equal(bug.code, 100);
  assert.equal(bug.temporary, true);
  assert.equal(JSON.stringify(bug).includes("secret"), false);
  const invalid = (await ask(peer, 8, { rpc: { method: "test.echo", data: { text: 1, more: 2 } } })).error;
  assert.equal(invalid.code, 422);
  assert.equal((await ask(peer, 9, { rpc: { method: "no.such" } })).error.code, 104);
  assert.equal((await ask(peer, 10, { rpc: {} })).error.code, 104);
  await hub.drain();
});

Deno.test("commands run in order; only calls of one overlapping operation overlap, and nothing passes them", async () => {
  const { hub, connect, trace } = rig();
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

Deno.test("no more than the cap of overlapping calls run at once", async () => {
  const { hub, connect, trace } = rig({ limits: { ...SMALL, overlapMax: 2 } });
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

Deno.test("pings go out, and a client that does not answer is closed", async () => {
  const { hub, connect } = rig({ limits: { ...SMALL, pingMs: 60, pongTimeoutMs: 40 } });
  const alive = await connect("alice");
  const dead = await connect("bob");
  let pings = 0;
  alive.socket.send = (data) => {
    if (data === "{}") queueMicrotask(() => alive.connection.receive("{}"));
    pings++;
  };
  await until(() => dead.socket.closedWith !== undefined);
  assert.deepEqual(dead.socket.closedWith, { code: 3012, reason: "no pong" });
  assert.ok(dead.socket.frames.includes("{}"));
  assert.ok(alive.socket.isOpen);
  await until(() => pings > 1);
  await hub.drain();
});

Deno.test("a token that ended is closed after its grace, unless it was renewed", async () => {
  const { hub, connect } = rig({ limits: { ...SMALL, refreshGraceMs: 150 } });
  const renewed = await connect("alice/0.1");
  const ended = await connect("bob/0.1");
  const reply = await ask(renewed, 2, { refresh: { token: "alice/60" } });
  assert.equal(reply.refresh.expires, true);
  assert.ok(reply.refresh.ttl > 50);
  await until(() => ended.socket.closedWith !== undefined);
  assert.deepEqual(ended.socket.closedWith, { code: 3005, reason: "connection expired" });
  assert.ok(renewed.socket.isOpen);
  await hub.drain();
});

Deno.test("refresh with another's, a bad or an expired token ends the connection", async () => {
  const { hub, connect } = rig();
  for (const [token, code] of [["bob", 3500], ["bad", 3500], ["revoked", 3503], ["expired", 3005]] as const) {
    const peer = await connect();
    await ask(peer, 2, { refresh: { token } });
    assert.equal(peer.socket.closedWith?.code, code, token);
  }
  const peer = await connect();
  assert.equal((await ask(peer, 2, { refresh: { token: "away" } })).error.temporary, true);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("a principal has so many connections and not one more", async () => {
  const { hub, connect } = rig({ limits: { ...SMALL, connectionsPerPrincipal: 2 } });
  await connect("alice");
  const second = await connect("alice");
  const third = await connect("alice");
  assert.deepEqual(third.socket.lines, [
    { id: 1, error: { code: 106, message: "limit exceeded: 2 connections", temporary: true } },
  ]);
  assert.ok(!third.connection.isHeard);
  second.connection.gone();
  assert.ok((await connect("alice")).socket.isOpen);
  assert.ok((await connect("bob")).socket.isOpen);
  await hub.drain();
});

Deno.test("a reader that stops is closed as slow, its broadcasts counted as dropped", async () => {
  const { hub, connect, emit, metrics } = rig({ limits: { ...SMALL, outboxMaxBytes: 4000 } });
  const slow = await connect("alice");
  const quick = await connect("bob");
  for (const peer of [slow, quick]) await ask(peer, 2, { subscribe: { channel: "room:a" } });
  slow.socket.isStuck = true;
  while (slow.socket.isOpen) {
    emit("room:a", "x".repeat(200));
    await pause(5);
  }
  assert.deepEqual(slow.socket.closedWith, { code: 3008, reason: "slow" });
  const { bufferedAmount } = slow.socket;
  assert.ok(bufferedAmount > 3600 && bufferedAmount <= 4000, `given ${bufferedAmount} bytes that it does not drain`);
  assert.ok(quick.socket.isOpen);
  const text = await metrics.registry.metrics();
  assert.match(text, /svc_pool_messages_dropped_total 1\n/);
  assert.match(text, /svc_connection_errors\{type="slow_consumer"\} 1\n/);
  assert.equal(hub.stats().zombies, 1);
  slow.connection.gone();
  slow.connection.gone();
  assert.equal(hub.stats().zombies, 0);
  await hub.drain();
});

Deno.test("a client that does not read its replies is not given more to do until it does", async () => {
  const { hub, connect } = rig({ limits: { ...SMALL, outboxMaxBytes: 1000 } });
  const peer = await connect();
  peer.socket.isStuck = true;
  for (let id = 2; peer.socket.bufferedAmount <= 500; id++) {
    await ask(peer, id, { rpc: { method: "test.echo", data: { text: "x".repeat(100) } } });
  }
  const answered = peer.socket.lines.length;
  peer.connection.receive(`{"id":99,"rpc":{"method":"test.echo","data":{"text":"later"}}}`);
  await pause(40);
  assert.equal(peer.socket.lines.length, answered);
  peer.socket.bufferedAmount = 0;
  await until(() => peer.socket.lines.length === answered + 1);
  assert.ok(peer.socket.isOpen);
  await hub.drain();
});

Deno.test("drain tells everybody to come back, waits for running commands, and takes nobody in", async () => {
  const { hub, connect, trace } = rig({ limits: { ...SMALL, drainMs: 200 } });
  const idle = await connect("alice");
  const busy = await connect("bob");
  busy.connection.receive(JSON.stringify({ id: 2, rpc: { method: "test.alone", data: { name: "a" } } }));
  await pause(5);
  const drained = hub.drain();
  const late = new FakeSocket();
  hub.open(late, { ip: "::1" });
  assert.equal(late.closedWith?.code, 3001);
  trace.finish("a");
  await drained;
  assert.deepEqual(idle.socket.closedWith, { code: 3001, reason: "shutdown" });
  assert.deepEqual(busy.socket.closedWith, { code: 3001, reason: "shutdown" });
  assert.ok(busy.socket.lines.some((line) => line.id === 2), "the running command was answered");
  assert.equal(hub.stats().connections, 0);
});

Deno.test("an rpc learns that its caller went away", async () => {
  let signal: AbortSignal | undefined;
  const { hub, connect } = rig({
    dispatch: (_operation, call) => {
      signal = call.signal;
      return new Promise(() => {});
    },
  });
  const { connection } = await connect();
  connection.receive(`{"id":2,"rpc":{"method":"test.echo","data":{"text":"x"}}}`);
  await until(() => signal !== undefined);
  assert.equal(signal?.aborted, false);
  connection.gone();
  assert.equal(signal?.aborted, true);
  await hub.drain();
});

Deno.test("a command whose body is none at all is told so in plain words", async () => {
  const { hub, connect } = rig();
  const peer = await connect();
  peer.connection.receive(`{"id":2,"rpc":null}`);
  await until(() => peer.socket.lines.some(({ id }) => id === 2));
  const { error } = peer.socket.lines.find(({ id }) => id === 2);
  assert.deepEqual(error, { code: 107, message: "bad request: Invalid input: expected object, received null" });
  await hub.drain();
});

Deno.test("what was accepted before a frame too many is done and answered, nothing after it is heard", async () => {
  const { hub, connect, trace } = rig();
  const { socket, connection } = await connect();
  const say = (id: number, name: string) =>
    connection.receive(JSON.stringify({ id, rpc: { method: "test.alone", data: { name } } }));
  say(2, "first");
  say(3, "second");
  connection.receive("no json");
  say(4, "third");
  await pause(150);
  assert.ok(socket.isOpen);
  trace.finish("first");
  await until(() => trace.steps.includes("start second"));
  trace.finish("second");
  await until(() => !socket.isOpen);
  assert.equal(socket.closedWith?.code, 3501);
  assert.deepEqual(trace.steps, ["start first", "end first", "start second", "end second"]);
  assert.deepEqual(socket.lines.map((line) => line.id), [1, 2, 3]);
  await hub.drain();
});

Deno.test("a client that goes on and on after its last word is closed all the same", async () => {
  const { hub, connect } = rig();
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

Deno.test("commands that come with the connect count against the rate as well", async () => {
  const { hub } = rig();
  const socket = new FakeSocket();
  const lines = Array.from({ length: 200 }, (_, at) => `{"id":${at + 2},"presence":{"channel":"x"}}`);
  hub.open(socket, { ip: "::1" }).receive([`{"id":1,"connect":{"token":"alice"}}`, ...lines].join("\n"));
  await until(() => !socket.isOpen || socket.lines.length === 201);
  assert.equal(socket.closedWith?.code, 3013);
  assert.equal(socket.lines.length, 1 + (SMALL.rate?.burst ?? 0));
  await hub.drain();
});

Deno.test("an answer that is too long for the socket is an error and not the end of it", async () => {
  const { hub, connect } = rig({ limits: { ...SMALL, outboxMaxBytes: 4000 } });
  const peer = await connect();
  const echo = (id: number, length: number) =>
    ask(peer, id, { rpc: { method: "test.echo", data: { text: "x".repeat(length) } } });
  assert.equal((await echo(2, 3000)).rpc.data.text.length, 3000);
  const reply = await echo(3, 4000);
  assert.equal(peer.socket.closedWith, undefined);
  assert.equal(reply.error.code, 413);
  assert.match(reply.error.message, /^payload_too_large: .*4055 bytes/);
  // One that would fit is only waiting for what is before it to be read.
  peer.socket.isStuck = true;
  assert.ok((await echo(4, 1900)).rpc);
  const waiting = echo(5, 2200);
  await pause(40);
  assert.equal(peer.socket.lines.at(-1).id, 4);
  peer.socket.bufferedAmount = 0;
  assert.equal((await waiting).rpc.data.text.length, 2200);
  await hub.drain();
});

Deno.test("whatever a client asked for waits for room in its outbox, which pushes filled while the answer was made", async () => {
  const { hub, connect, emit, log, rooms } = rig({ limits: { ...SMALL, outboxMaxBytes: 8000 } });
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
    await ask(peer, 2, { subscribe: { channel: "room:a" } });
    const [asked, going] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    rooms.beforeCheck = log.beforeRead = () => (asked.resolve(), going.promise);
    const answer = ask(peer, 3, { [method]: body });
    await asked.promise;
    peer.socket.isStuck = true;
    // Up to the brim, but for less than any answer needs.
    for (const upTo of [4000, 7980]) {
      emit("room:a", "z".repeat(upTo - peer.socket.bufferedAmount - 110));
      await pause(5);
    }
    assert.ok(peer.socket.bufferedAmount > 7950 && peer.socket.isOpen, `${peer.socket.bufferedAmount} bytes wait`);
    going.resolve();
    await pause(40);
    assert.equal(peer.socket.closedWith, undefined, method);
    assert.equal(peer.socket.lines.some(({ id }) => id === 3), false);
    peer.socket.bufferedAmount = 0;
    peer.socket.isStuck = false;
    assert.ok((await answer)[method], method);
    rooms.beforeCheck = log.beforeRead = () => Promise.resolve();
    peer.connection.close(CLOSE.shutdown);
  }
  await hub.drain();
});

Deno.test("a token that ends in thousands of years is told in seconds that every client can count", async () => {
  const { hub, connect } = rig();
  const peer = await connect("alice/99999999999");
  assert.equal(peer.socket.lines[0].connect.ttl, 2 ** 31 - 1);
  assert.equal((await ask(peer, 2, { refresh: { token: "alice/99999999999" } })).refresh.ttl, 2 ** 31 - 1);
  for (const frame of peer.socket.frames) assert.ok(encodeFrame(frame, Reply).length > 0);
  await hub.drain();
});
