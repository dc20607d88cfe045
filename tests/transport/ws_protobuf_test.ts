// The protobuf flavour: the real SDK that speaks it against a real server, and the bytes that no SDK would send.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { Centrifuge } from "npm:centrifuge@5.8.0/build/protobuf";
import { z } from "@zod/zod";
import { BODIES, parseLine } from "@/transport/ws/frame.ts";
import { decodeFrame, encodeFrame, Protobuf } from "@/transport/ws/protobuf.ts";
import { Command, type Kind, Message, Reply } from "@/transport/ws/protobuf_message.ts";
import { until } from "../wait.ts";
import { ask, rig, SMALL } from "./ws_rig.ts";
import { serve } from "./ws_served.ts";

const room = "room:a";
const FRAME_MAX = SMALL.frameMaxBytes;

/** Data as bytes, which is what these clients send. */
function bytesOf(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

// deno-lint-ignore no-explicit-any -- tests look into whatever came
function valueOf(bytes: Uint8Array): any {
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Opens a bare socket, sends the first frame, after its answer the others, and tells what came and how it ended. */
async function ended(
  url: string,
  [first = "", ...others]: (string | Uint8Array<ArrayBuffer>)[],
): Promise<{ code: number; reason: string; replies: unknown[] }> {
  const socket = new WebSocket(url, "centrifuge-protobuf");
  socket.binaryType = "arraybuffer";
  const replies: unknown[] = [];
  socket.onmessage = ({ data }) => {
    replies.push(...linesIn(data, Reply));
    for (const frame of others.splice(0)) socket.send(frame);
  };
  socket.onopen = () => socket.send(first);
  const { code, reason } = await new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
  return { code, reason, replies };
}

/** The messages of a frame; `BROKEN` where it breaks the protocol. */
function linesIn(data: unknown, message: Message, maxBytes = FRAME_MAX): unknown[] {
  return [...decodeFrame(data, maxBytes, message)].flatMap((lines) =>
    typeof lines === "string" ? lines.split("\n").map((line) => JSON.parse(line)) : ["BROKEN"]
  );
}

function commands(...all: object[]): Uint8Array<ArrayBuffer> {
  return encodeFrame(all.map((one) => JSON.stringify(one)).join("\n"), Command);
}

/** One message of these bytes, after its length. */
function framed(...bytes: (number | number[])[]): ArrayBuffer {
  const body = bytes.flat();
  return new Uint8Array([...varint(body.length), ...body]).buffer;
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [value & 0x7f | 0x80, ...varint(value >>> 7)];
}

Deno.test("the protobuf SDK connects, subscribes, hears, publishes, calls, looks around and reads history", async () => {
  await using served = serve(Centrifuge);
  const [alice, bob] = [served.client("alice"), served.client("bob")];
  // deno-lint-ignore no-explicit-any -- tests look into whatever came
  const heard: any[] = [];
  const own: unknown[] = [];
  const moves: string[] = [];
  const sub = alice.newSubscription(room, { joinLeave: true });
  sub.on("publication", (context) => heard.push(context));
  sub.on("join", ({ info }) => moves.push(`join ${info.user} ${valueOf(info.connInfo).name}`));
  sub.on("leave", ({ info }) => moves.push(`leave ${info.user}`));
  alice.on("publication", ({ channel, data }) => own.push([channel, valueOf(data).data]));
  const connected = new Promise<{ client: string; data?: unknown }>((resolve) => alice.on("connected", resolve));
  sub.subscribe();
  alice.connect();
  const bobSub = bob.newSubscription(room);
  bobSub.subscribe();
  bob.connect();
  await Promise.all([sub.ready(2000), bobSub.ready(2000)]);
  const { client, data } = await connected;
  assert.match(client, /^[0-9a-f-]{36}$/);
  assert.deepEqual(data instanceof Uint8Array && valueOf(data), { principal: "alice" });

  await bobSub.publish(bytesOf({ type: "typing", data: { isTyping: true } }));
  served.emit(room, "größe 🎈");
  served.emit("principal:alice", "for me");
  await until(() => heard.length === 2 && own.length === 1 && moves.includes("join bob BOB"));
  assert.deepEqual([heard[0].info.user, valueOf(heard[0].info.connInfo).kind], ["bob", "human"]);
  assert.equal(valueOf(heard[0].data).type, "typing");
  assert.deepEqual([Number(heard[1].offset), valueOf(heard[1].data).data], [1, "größe 🎈"]);
  assert.deepEqual(own, [["principal:alice", "for me"]]);

  assert.deepEqual(valueOf((await alice.rpc("test.echo", bytesOf({ text: "hi" }))).data), { text: "hi" });
  // As people and formatters write it, on more than one line.
  const pretty = new TextEncoder().encode(`{\r\n  "text": "a\\nb"\r\n}\n`);
  assert.deepEqual(valueOf((await alice.rpc("test.echo", pretty)).data), { text: "a\nb" });
  assert.equal((await alice.rpc("test.nothing", bytesOf({}))).data?.length, 0);
  await assert.rejects(alice.rpc("test.fail", bytesOf({ code: "not_found" })), {
    code: 404,
    message: "not_found: As told",
  });
  await assert.rejects(alice.rpc("test.fail", bytesOf({ code: "unavailable" })), { temporary: true });
  await assert.rejects(alice.rpc("test.echo", new TextEncoder().encode("hello")), { code: 107, message: /JSON/ });
  await assert.rejects(sub.publish(new Uint8Array([0xff])), { code: 107, message: /JSON/ });
  await assert.rejects(sub.publish(bytesOf({ type: "message.created" })), { code: 103 });
  const { clients } = await sub.presence();
  assert.deepEqual(Object.values(clients).map(({ user }) => user).sort(), ["alice", "bob"]);
  assert.equal(valueOf(clients[client]?.connInfo).name, "ALICE");
  assert.deepEqual(await sub.presenceStats(), { numClients: 2, numUsers: 2 });
  served.emit(room, "two");
  const history = await sub.history({ limit: 10, reverse: true });
  assert.deepEqual(history.publications.map(({ offset }) => Number(offset)), [2, 1]);
  assert.equal(Number(history.offset), 2);
  const since = { offset: 1, epoch: history.epoch };
  assert.deepEqual((await sub.history({ limit: -1, since })).publications.map(({ offset }) => Number(offset)), [2]);
  await assert.rejects(sub.history({ limit: 1, since: { offset: 1, epoch: "another" } }), { code: 112 });

  bobSub.unsubscribe();
  await until(() => moves.includes("leave bob"));
  const unsubscribed = new Promise<{ code: number; reason: string }>((resolve) => sub.on("unsubscribed", resolve));
  served.emit(room, null, { kind: "evict", principalIds: ["alice"], reason: "removed" });
  assert.deepEqual((({ code, reason }) => ({ code, reason }))(await unsubscribed), { code: 2000, reason: "removed" });
  assert.equal(alice.state, "connected");
});

Deno.test("the protobuf SDK recovers what it missed after a forced reconnect, in order and once", async () => {
  await using served = serve(Centrifuge, { ...SMALL, pingMs: 25_000 });
  const client = served.client();
  const seen: number[] = [];
  const recovered: boolean[] = [];
  const sub = client.newSubscription(room);
  sub.on("publication", ({ offset }) => seen.push(Number(offset)));
  sub.on("subscribed", (context) => context.wasRecovering && recovered.push(context.recovered));
  sub.subscribe();
  client.connect();
  await sub.ready(2000);
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 20; i++) {
      served.emit(room);
      if (i !== 10) continue;
      // A hole in the principal's own stream, which clients answer by coming back.
      served.log.append("principal:alice", round, { kind: "evict", principalIds: "*", reason: "x", resubscribe: true });
      served.bus.onRecovered();
    }
    await until(() => recovered.length === round + 1, "recovery");
  }
  served.emit(room);
  await until(() => seen.length >= 61);
  assert.deepEqual(seen, Array.from({ length: 61 }, (_, i) => i + 1));
  assert.deepEqual(recovered, [true, true, true]);
  served.log.reset(room);
  served.log.append("principal:alice", 9, { kind: "evict", principalIds: "*", reason: "x", resubscribe: true });
  served.bus.onRecovered();
  await until(() => recovered.length === 4);
  assert.equal(recovered[3], false);
});

Deno.test("the protobuf SDK renews its token, answers pings, gives up where it must and comes back where it may", async () => {
  await using served = serve(Centrifuge, { ...SMALL, pingMs: 40, pongTimeoutMs: 2000 });
  let asked = 0;
  const client = served.client("expired", {
    getToken: () => Promise.resolve(["alice/1", "alice/60"][asked++] ?? "bad"),
  });
  const codes: number[] = [];
  client.on("connecting", ({ code }) => codes.push(code));
  client.connect();
  await client.ready(2000);
  await until(() => asked === 2, "the refresh at the token's end");
  assert.equal(valueOf((await client.rpc("test.echo", bytesOf({ text: "still here" }))).data).text, "still here");
  for (const [token, code] of [["bad", 3500], ["revoked", 3503]] as const) {
    const refused = served.client(token);
    const disconnected = new Promise<{ code: number }>((resolve) => refused.on("disconnected", resolve));
    refused.connect();
    assert.equal((await disconnected).code, code);
  }
  await served.hub.drain();
  await until(() => codes.includes(3001));
});

Deno.test("a client that asks for protobuf in the URL gets it as well, and nobody else does", async () => {
  await using served = serve(Centrifuge);
  for (
    const [query, offered, answered, isBinary] of [
      ["?format=protobuf", [], "", true],
      ["?cf_protocol=protobuf", [], "", true],
      ["?cf_protocol_version=v2", ["centrifuge-protobuf"], "centrifuge-protobuf", true],
      ["", ["centrifuge-json", "centrifuge-protobuf"], "centrifuge-protobuf", true],
      ["?format=json", ["centrifuge-json"], "centrifuge-json", false],
      ["", [], "", false],
    ] as const
  ) {
    const socket = new WebSocket(served.url + query, [...offered]);
    socket.binaryType = "arraybuffer";
    const connect = { id: 7, connect: { token: "alice" } };
    socket.onopen = () => socket.send(isBinary ? commands(connect) : JSON.stringify(connect));
    const { data } = await new Promise<MessageEvent>((resolve) => socket.onmessage = resolve);
    assert.equal(socket.protocol, answered);
    const [reply] = isBinary ? linesIn(data, Reply) : [JSON.parse(data)];
    const { connect: { version, ping, pong, subs } } = z.looseObject({ connect: z.looseObject({ subs: z.unknown() }) })
      .parse(reply);
    assert.deepEqual([version, ping, pong], ["9.9.9", 25, true]);
    assert.ok(JSON.stringify(subs).includes('"principal:alice":{'));
    socket.close();
    await new Promise((resolve) => socket.onclose = resolve);
  }
});

Deno.test("bytes no client would send end a protobuf socket as such lines end others", async () => {
  await using served = serve(Centrifuge);
  const hello = commands({ id: 1, connect: { token: "alice" } });
  const end = async (...say: (string | Uint8Array<ArrayBuffer>)[]) => (await ended(served.url, say)).code;
  assert.equal(await end(new Uint8Array()), 3501);
  assert.equal(await end("text"), 3501);
  assert.equal(await end(`{"id":1,"connect":{"token":"alice"}}`), 3501);
  assert.equal(await end(new Uint8Array([0xff])), 3501);
  assert.equal(await end(commands({ id: 1, rpc: {} })), 3501);
  assert.equal(await end(new Uint8Array(64 * 1024 + 1)), 1009);
  assert.equal(await end(commands({ id: 1, connect: { token: "x".repeat(20_000) } })), 1009);
  assert.equal(await end(hello, new Uint8Array(64 * 1024 + 1)), 1009);
  assert.equal(await end(hello, commands({ send: {} })), 3508);
  // As many pongs as a frame holds are over the rate, and told so.
  assert.equal(await end(hello, new Uint8Array(64 * 1024)), 3013);
  // What came before the broken message is done and answered.
  const rpc = commands({ id: 2, rpc: { method: "test.echo", data: { text: "hi" } } });
  const { code, reason, replies } = await ended(served.url, [hello, new Uint8Array([...rpc, 3, 1])]);
  assert.deepEqual([code, reason], [3501, "bad request"]);
  assert.deepEqual(replies[1], { id: 2, rpc: { data: { text: "hi" } } });
});

Deno.test("hostile frames are broken, never more than that", () => {
  const broken: Record<string, ArrayBuffer> = {
    "a length cut short": new Uint8Array([0x80]).buffer,
    "a length beyond the frame": new Uint8Array([5, 8, 1]).buffer,
    "the longest length": new Uint8Array([0xff, 0xff, 0xff, 0xff, 0x0f]).buffer,
    "a length that never ends": new Uint8Array(20).fill(0xff).buffer,
    "a varint of eleven bytes": framed(8, Array(10).fill(0xff), 1),
    "a varint cut short": framed(8, 0x80),
    "a field that is cut short": framed(0x6a, 9, 1),
    "field number zero": framed(0, 1),
    "a wire type that does not exist": framed(0x0f),
    "the end of a group that has none": framed(0x0c),
    "a group without its end": framed(0xa3, 6, 8, 1),
    "a group that ends as another": framed(0xa3, 6, 0xac, 6),
    "groups in groups": framed(Array(60_000).fill(0xa3).map((byte, at) => at % 2 === 0 ? byte : 6)),
    "a token that is no UTF-8": framed(8, 1, 0x22, 3, 0x0a, 1, 0xff),
    "a fixed field cut short": framed(0xa1, 6, 1, 2),
  };
  for (const [what, frame] of Object.entries(broken)) {
    assert.deepEqual(linesIn(frame, Command), ["BROKEN"], what);
    const after = new Uint8Array([...commands({ id: 9, ping: {} }), ...new Uint8Array(frame)]).buffer;
    if (after.byteLength <= FRAME_MAX) assert.deepEqual(linesIn(after, Command), [{ id: 9, ping: {} }, "BROKEN"], what);
  }
});

Deno.test("unknown fields, wrong wire types, repeated fields and odd varints are read as protobuf says", () => {
  const one = (...bytes: (number | number[])[]): unknown => linesIn(framed(...bytes), Command)[0];
  assert.deepEqual(one(), {});
  // Unknown: a varint, a fixed64, bytes, a group with a group, a fixed32.
  const unknown = [0xa0, 6, 1, 0xa1, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 6, 1, 9, 0xa3, 6, 0x0b, 0x0c, 0xa4, 6, 0xa5, 6];
  assert.deepEqual(one(unknown, 1, 2, 3, 4, 8, 3, unknown, 1, 2, 3, 4), { id: 3 });
  // The wrong wire type for the id, and for the token.
  assert.deepEqual(one(0x0a, 1, 1, 8, 4), { id: 4 });
  assert.deepEqual(one(8, 1, 0x22, 2, 0x08, 1), { id: 1, connect: {} });
  // Of a scalar the last counts, messages are merged, an id is the low 32 bits.
  assert.deepEqual(one(8, 1, 8, 2), { id: 2 });
  assert.deepEqual(one(0x22, 3, 0x0a, 1, 0x61, 0x22, 0, 8, 1), { connect: { token: "a" }, id: 1 });
  assert.deepEqual(one(8, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), { id: 5 });
  // A negative int32 has ten bytes; an entry of a map without its parts is the empty ones.
  assert.deepEqual(one(0x52, 11, 0x38, Array(9).fill(0xff), 1), { history: { limit: -1 } });
  assert.deepEqual(one(0x22, 2, 0x1a, 0), { connect: { subs: { "": {} } } });
  assert.deepEqual(one(0x22, 13, 0x1a, 11, 0x0a, 9, [...Buffer.from("__proto__")]), {
    connect: { subs: Object.fromEntries([["__proto__", {}]]) },
  });
  // An offset that no number holds is refused, not rounded.
  const huge = [
    ...decodeFrame(framed(8, 1, 0x2a, 14, 0x0a, 1, 0x61, 0x38, Array(9).fill(0xff), 1), FRAME_MAX, Command),
  ];
  assert.deepEqual(huge, [`{"id":1,"subscribe":{"channel":"a","offset":18446744073709551615}}`]);
  assert.deepEqual(resultOf(huge[0]), 107);
});

/** The code with which a line is refused before it runs. */
function resultOf(line: unknown): number | undefined {
  const parsed = parseLine(String(line));
  return typeof parsed === "object" && parsed.method === "invalid" ? parsed.body.code : undefined;
}

Deno.test("data is the JSON text it was sent as, and text that is none is refused without a way out of its field", () => {
  const rpc = (data: string | number[]): unknown => {
    const bytes = typeof data === "string" ? [...new TextEncoder().encode(data)] : data;
    return [
      ...decodeFrame(
        framed(8, 1, 0x6a, varint(bytes.length + 1 + varint(bytes.length).length), 0x0a, varint(bytes.length), bytes),
        FRAME_MAX,
        Command,
      ),
    ][0];
  };
  for (const data of ["1", "null", '""', "1e400", "-0", '{"a":[1,2.50]}', `"${"ü".repeat(999)}"`]) {
    assert.equal(rpc(data), `{"id":1,"rpc":{"data":${data}}}`);
    assert.equal(resultOf(rpc(data)), undefined);
  }
  assert.equal(rpc("[1,\n2]"), `{"id":1,"rpc":{"data":[1, 2]}}`);
  assert.equal(rpc(""), `{"id":1,"rpc":{}}`);
  const bad = ["hello", "1,2", "1}}\n{", `1},"send":{}`, '{"a":', "\ufeff1", "'a'", [0xff], [0x22, 0xc3, 0x22], [
    0x22,
    0xed,
    0xa0,
    0x80,
    0x22,
  ]];
  for (const data of bad) assert.equal(resultOf(rpc(data)), 107, String(data));
  assert.equal(resultOf(rpc("[".repeat(30_000) + "]".repeat(30_000))), 107);
  assert.equal(resultOf(rpc(`{"a":"\\u0000"}`)), 422);
});

Deno.test("a frame is read no further than somebody listens, and bad data costs nothing where more follows", () => {
  const pongs = decodeFrame(new ArrayBuffer(FRAME_MAX), FRAME_MAX, Command);
  assert.deepEqual([pongs.next().value, pongs.next().value], ["{}", "{}"]);
  // 20,000 times the data of one call, of which the last counts.
  const many = framed(0x6a, varint(60_000), Array.from({ length: 60_000 }, (_, at) => [0x0a, 1, 0x7b][at % 3] ?? 0));
  const { parse } = JSON;
  const parsed: string[] = [];
  JSON.parse = (text) => (parsed.push(text), parse(text));
  try {
    assert.deepEqual(linesIn(many, Command), [{ rpc: "data that is not JSON" }]);
  } finally {
    JSON.parse = parse;
  }
  assert.deepEqual(parsed, ["{", `{"rpc":"data that is not JSON"}`]);
});

Deno.test("whatever is said in JSON is said the same in protobuf", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = randomOf(seed);
    for (const message of [Reply, Command]) {
      const lines = Array.from({ length: 1 + random(3) }, () => exampleOf(message, random));
      const frame = encodeFrame(lines.map((line) => JSON.stringify(line)).join("\n"), message);
      assert.deepEqual(linesIn(frame.buffer, message, Infinity), lines, `seed ${seed}`);
    }
  }
});

/** Numbers below a bound, the same ones for a seed. */
function randomOf(seed: number): (below: number) => number {
  return (below) => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return Math.floor(seed / 2 ** 31 * below);
  };
}

const TEXTS = ["", "a", 'größe 🎈\n\u0000"\\', "__proto__", "1", "x".repeat(300)];
const NUMBERS = [0, 1, 127, 128, 65_535, 2 ** 31 - 1];
const VALUES = [null, 0, "", false, [], {}, "text\n", { a: [1, { "ü": "\u2028" }], b: -1.5e-7 }, [[[[1]]]]];

/** What a message may say: any of its fields or none. */
function exampleOf(kind: Kind, random: (below: number) => number): unknown {
  const pick = <T>(from: readonly T[]): T | undefined => from[random(from.length)];
  if (kind instanceof Message) {
    const fields = [...kind.byName.values()].filter(() => random(2) === 0);
    return Object.fromEntries(fields.flatMap(({ name, kind }) => {
      const value = exampleOf(kind, random);
      // A list or map of nothing is as good as none.
      return typeof kind === "object" && !(kind instanceof Message) && JSON.stringify(value).length === 2
        ? []
        : [[name, value]];
    }));
  }
  if (typeof kind === "object" && "list" in kind) {
    return Array.from({ length: random(3) }, () => exampleOf(kind.list, random));
  }
  if (typeof kind === "object") {
    const value = kind.map.byName.get("value")?.kind ?? "string";
    return Object.fromEntries(Array.from({ length: random(3) }, () => [pick(TEXTS), exampleOf(value, random)]));
  }
  switch (kind) {
    case "bool":
      return random(2) === 0;
    case "string":
      return pick(TEXTS);
    case "json":
      return pick(VALUES);
    case "uint32":
      return pick([...NUMBERS, 2 ** 32 - 1]);
    case "uint64":
      return pick([...NUMBERS, Number.MAX_SAFE_INTEGER]);
    case "int32":
      return pick([...NUMBERS, -1, -(2 ** 31)]);
    case "int64":
      return pick([...NUMBERS, -1, Number.MIN_SAFE_INTEGER]);
  }
}

Deno.test("every command and every field of one that the gateway reads has its number", () => {
  assert.deepEqual([...Command.byName.keys()].sort(), ["id", "send", ...Object.keys(BODIES)].sort());
  for (const [method, body] of Object.entries(BODIES)) {
    const known = Command.byName.get(method)?.kind;
    if (!(body instanceof z.ZodObject)) continue;
    assert.ok(known instanceof Message);
    for (const name of Object.keys(body.shape)) assert.ok(known.byName.has(name), `${method}.${name}`);
  }
});

Deno.test("nothing that a hub says is lost in protobuf", async () => {
  const own = rig();
  const alice = await own.connect("alice/60");
  const bob = await own.connect("bob");
  own.emit(room, "before");
  await ask(alice, 2, { subscribe: { channel: room, join_leave: true } });
  await ask(bob, 2, { subscribe: { channel: room, recover: true } });
  await ask(bob, 3, { publish: { channel: room, data: { type: "typing", data: { isTyping: true } } } });
  await ask(bob, 4, { presence: { channel: room } });
  await ask(bob, 5, { presence_stats: { channel: room } });
  await ask(bob, 6, { history: { channel: room, limit: 5 } });
  await ask(bob, 7, { rpc: { method: "test.echo", data: { text: "hi" } } });
  await ask(bob, 8, { rpc: { method: "test.fail", data: { code: "unavailable" } } });
  await ask(bob, 9, { history: { channel: room, since: { offset: 9, epoch: "x" } } });
  await ask(alice, 10, { refresh: { token: "alice/60" } });
  own.emit(room, "after");
  await ask(bob, 10, { unsubscribe: { channel: room } });
  await until(() => alice.socket.lines.some(({ push }) => push?.leave !== undefined));
  own.emit(room, null, { kind: "evict", principalIds: ["alice"], reason: "removed" });
  await until(() => alice.socket.lines.some(({ push }) => push?.unsubscribe !== undefined));
  await own.hub.drain();
  const frames = [...alice.socket.frames, ...bob.socket.frames];
  const said = frames.flatMap((frame) => frame.split("\n"));
  for (const kind of ["pub", "join", "leave", "unsubscribe"]) {
    assert.ok(said.some((line) => line.includes(`"${kind}":{`)), kind);
  }
  for (const frame of frames) {
    const bytes = encodeFrame(frame, Reply);
    assert.deepEqual(linesIn(bytes.buffer, Reply, Infinity), frame.split("\n").map((line) => JSON.parse(line)));
    assert.ok(bytes.length <= Buffer.byteLength(frame), "what waits is counted as JSON, so protobuf is no longer");
  }
});

Deno.test("a frame for a whole room is encoded once", () => {
  const protobuf = new Protobuf(FRAME_MAX);
  const text = `{"push":{"channel":"room:a","pub":{"data":{"n":1},"offset":1}}}`;
  const frame = protobuf.encode(text);
  assert.equal(protobuf.encode(text.split("").join("")), frame);
  assert.notEqual(protobuf.encode("{}"), frame);
  assert.deepEqual([...protobuf.encode("{}")], [0]);
});
