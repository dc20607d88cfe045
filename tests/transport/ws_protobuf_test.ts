// The protobuf encoding: the real SDK against a real server, and hostile frames.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { Centrifuge } from "npm:centrifuge@5.8.0/build/protobuf";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { z } from "@zod/zod";
import { COMMAND_SCHEMAS, parseCommand } from "@/transport/ws/protocol.ts";
import { decodeFrame, encodeFrame, ProtobufCodec } from "@/transport/ws/protobuf.ts";
import { CommandSchema, file_client, ReplySchema } from "@/transport/ws/client_pb.js";
import { replace } from "../replace.ts";
import { until, WAIT_MS } from "../wait.ts";
import { createHubHarness, sendCommand, TEST_LIMITS } from "./ws_harness.ts";
import { serveHub } from "./ws_server.ts";

const room = "room:a";
const FRAME_MAX = TEST_LIMITS.frameMaxBytes;

/** Data as bytes, as these clients send it. */
function bytesOf(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

// deno-lint-ignore no-explicit-any -- tests read arbitrary JSON
function valueOf(bytes: Uint8Array): any {
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Opens a plain socket, sends the first frame, and the others after its reply; returns the replies and the close code. */
async function waitForClose(
  url: string,
  [first = "", ...others]: (string | Uint8Array<ArrayBuffer>)[],
): Promise<{ code: number; reason: string; replies: unknown[] }> {
  const socket = new WebSocket(url, "centrifuge-protobuf");
  socket.binaryType = "arraybuffer";
  const replies: unknown[] = [];
  socket.onmessage = ({ data }) => {
    replies.push(...linesIn(data, ReplySchema));
    for (const frame of others.splice(0)) socket.send(frame);
  };
  socket.onopen = () => socket.send(first);
  const { code, reason } = await new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
  return { code, reason, replies };
}

/** The messages of a frame; `BROKEN` for a protocol violation. */
function linesIn(data: unknown, message: DescMessage, maxBytes = FRAME_MAX): unknown[] {
  return [...decodeFrame(data, maxBytes, message)].flatMap((lines) =>
    typeof lines === "string" ? lines.split("\n").map((line) => JSON.parse(line)) : ["BROKEN"]
  );
}

function commands(...all: object[]): Uint8Array<ArrayBuffer> {
  return encodeFrame(all.map((one) => JSON.stringify(one)).join("\n"), CommandSchema);
}

/** These bytes as a message with its length. */
function framed(...bytes: (number | number[])[]): ArrayBuffer {
  const body = bytes.flat();
  return new Uint8Array([...varint(body.length), ...body]).buffer;
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [value & 0x7f | 0x80, ...varint(value >>> 7)];
}

Deno.test("the protobuf SDK connects, subscribes, receives, publishes, calls, and reads presence and history", async () => {
  await using server = serveHub(Centrifuge);
  const [alice, bob] = [server.client("alice"), server.client("bob")];
  // deno-lint-ignore no-explicit-any -- tests read arbitrary JSON
  const received: any[] = [];
  const principalEvents: unknown[] = [];
  const presenceChanges: string[] = [];
  const sub = alice.newSubscription(room, { joinLeave: true });
  sub.on("publication", (context) => received.push(context));
  sub.on("join", ({ info }) => presenceChanges.push(`join ${info.user} ${valueOf(info.connInfo).name}`));
  sub.on("leave", ({ info }) => presenceChanges.push(`leave ${info.user}`));
  alice.on("publication", ({ channel, data }) => principalEvents.push([channel, valueOf(data).data]));
  const connected = new Promise<{ client: string; data?: unknown }>((resolve) => alice.on("connected", resolve));
  sub.subscribe();
  alice.connect();
  const bobSub = bob.newSubscription(room);
  bobSub.subscribe();
  bob.connect();
  await Promise.all([sub.ready(WAIT_MS), bobSub.ready(WAIT_MS)]);
  const { client, data } = await connected;
  assert.match(client, /^[0-9a-f-]{36}$/);
  assert.deepEqual(data instanceof Uint8Array && valueOf(data), { principal: "alice" });

  await bobSub.publish(bytesOf({ type: "typing", data: { typing: true } }));
  server.emit(room, "größe 🎈");
  server.emit("principal:alice", "for me");
  await until(() => received.length === 2 && principalEvents.length === 1 && presenceChanges.includes("join bob BOB"));
  assert.deepEqual([received[0].info.user, valueOf(received[0].info.connInfo).kind], ["bob", "human"]);
  assert.equal(valueOf(received[0].data).type, "typing");
  assert.deepEqual([Number(received[1].offset), valueOf(received[1].data).data], [1, "größe 🎈"]);
  assert.deepEqual(principalEvents, [["principal:alice", "for me"]]);

  assert.deepEqual(valueOf((await alice.rpc("test.echo", bytesOf({ text: "hi" }))).data), { text: "hi" });
  // Formatted JSON on several lines.
  const pretty = new TextEncoder().encode(`{\r\n  "text": "a\\nb"\r\n}\n`);
  assert.deepEqual(valueOf((await alice.rpc("test.echo", pretty)).data), { text: "a\nb" });
  assert.equal((await alice.rpc("test.nothing", bytesOf({}))).data?.length, 0);
  await assert.rejects(alice.rpc("test.fail", bytesOf({ code: "not_found" })), {
    code: 404,
    message: "not_found: As requested",
  });
  await assert.rejects(alice.rpc("test.fail", bytesOf({ code: "unavailable" })), { temporary: true });
  await assert.rejects(alice.rpc("test.echo", new TextEncoder().encode("hello")), { code: 107, message: /JSON/ });
  await assert.rejects(sub.publish(new Uint8Array([0xff])), { code: 107, message: /JSON/ });
  await assert.rejects(sub.publish(bytesOf({ type: "message.created" })), { code: 103 });
  const { clients } = await sub.presence();
  assert.deepEqual(Object.values(clients).map(({ user }) => user).sort(), ["alice", "bob"]);
  assert.equal(valueOf(clients[client]?.connInfo).name, "ALICE");
  assert.deepEqual(await sub.presenceStats(), { numClients: 2, numUsers: 2 });
  server.emit(room, "two");
  const history = await sub.history({ limit: 10, reverse: true });
  assert.deepEqual(history.publications.map(({ offset }) => Number(offset)), [2, 1]);
  assert.equal(Number(history.offset), 2);
  const since = { offset: 1, epoch: history.epoch };
  assert.deepEqual((await sub.history({ limit: -1, since })).publications.map(({ offset }) => Number(offset)), [2]);
  await assert.rejects(sub.history({ limit: 1, since: { offset: 1, epoch: "another" } }), { code: 112 });

  bobSub.unsubscribe();
  await until(() => presenceChanges.includes("leave bob"));
  const unsubscribed = new Promise<{ code: number; reason: string }>((resolve) => sub.on("unsubscribed", resolve));
  server.emit(room, null, { kind: "evict", principalIds: ["alice"], reason: "removed" });
  assert.deepEqual((({ code, reason }) => ({ code, reason }))(await unsubscribed), { code: 2000, reason: "removed" });
  assert.equal(alice.state, "connected");
});

Deno.test("the protobuf SDK recovers missed events after a forced reconnect, in order and once", async () => {
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, pingMs: 25_000 });
  const client = server.client();
  const offsets: number[] = [];
  const recovered: boolean[] = [];
  const sub = client.newSubscription(room);
  sub.on("publication", ({ offset }) => offsets.push(Number(offset)));
  sub.on("subscribed", (context) => context.wasRecovering && recovered.push(context.recovered));
  sub.subscribe();
  client.connect();
  await sub.ready(WAIT_MS);
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 20; i++) {
      server.emit(room);
      if (i !== 10) continue;
      // A gap in the principal's own stream makes clients reconnect.
      server.log.append("principal:alice", round, { kind: "evict", principalIds: "*", reason: "x", resubscribe: true });
      server.bus.onRecovered();
    }
    await until(() => recovered.length === round + 1, "recovery");
  }
  server.emit(room);
  await until(() => offsets.length >= 61);
  assert.deepEqual(offsets, Array.from({ length: 61 }, (_, i) => i + 1));
  assert.deepEqual(recovered, [true, true, true]);
  server.log.reset(room);
  server.log.append("principal:alice", 9, { kind: "evict", principalIds: "*", reason: "x", resubscribe: true });
  server.bus.onRecovered();
  await until(() => recovered.length === 4);
  assert.equal(recovered[3], false);
});

Deno.test("the protobuf SDK refreshes its token, responds to pings, and reconnects by close code", async () => {
  await using server = serveHub(Centrifuge, { ...TEST_LIMITS, pingMs: 40, pongTimeoutMs: WAIT_MS });
  let tokenRequests = 0;
  const client = server.client("expired", {
    getToken: () => Promise.resolve(["alice/1", "alice/60"][tokenRequests++] ?? "bad"),
  });
  const codes: number[] = [];
  client.on("connecting", ({ code }) => codes.push(code));
  client.connect();
  await client.ready(WAIT_MS);
  await until(() => tokenRequests === 2, "the refresh at the token's end");
  assert.equal(valueOf((await client.rpc("test.echo", bytesOf({ text: "still here" }))).data).text, "still here");
  for (const [token, code] of [["bad", 3500], ["revoked", 3503]] as const) {
    const rejected = server.client(token);
    const disconnected = new Promise<{ code: number }>((resolve) => rejected.on("disconnected", resolve));
    rejected.connect();
    assert.equal((await disconnected).code, code);
  }
  await server.hub.drain();
  await until(() => codes.includes(3001));
});

Deno.test("a client can select protobuf in the URL", async () => {
  await using server = serveHub(Centrifuge);
  for (
    const [query, offered, selected, isBinary] of [
      ["?format=protobuf", [], "", true],
      ["?cf_protocol=protobuf", [], "", true],
      ["?cf_protocol_version=v2", ["centrifuge-protobuf"], "centrifuge-protobuf", true],
      ["", ["centrifuge-json", "centrifuge-protobuf"], "centrifuge-protobuf", true],
      ["?format=json", ["centrifuge-json"], "centrifuge-json", false],
      ["", [], "", false],
    ] as const
  ) {
    const socket = new WebSocket(server.url + query, [...offered]);
    socket.binaryType = "arraybuffer";
    const connect = { id: 7, connect: { token: "alice" } };
    socket.onopen = () => socket.send(isBinary ? commands(connect) : JSON.stringify(connect));
    const { data } = await new Promise<MessageEvent>((resolve) => socket.onmessage = resolve);
    assert.equal(socket.protocol, selected);
    const [reply] = isBinary ? linesIn(data, ReplySchema) : [JSON.parse(data)];
    const { connect: { version, ping, pong, subs } } = z.looseObject({ connect: z.looseObject({ subs: z.unknown() }) })
      .parse(reply);
    assert.deepEqual([version, ping, pong], ["9.9.9", 25, true]);
    assert.ok(JSON.stringify(subs).includes('"principal:alice":{'));
    socket.close();
    await new Promise((resolve) => socket.onclose = resolve);
  }
});

Deno.test("invalid frames close a protobuf socket like a JSON one", async () => {
  await using server = serveHub(Centrifuge);
  const hello = commands({ id: 1, connect: { token: "alice" } });
  const end = async (...frames: (string | Uint8Array<ArrayBuffer>)[]) => (await waitForClose(server.url, frames)).code;
  assert.equal(await end(new Uint8Array()), 3501);
  assert.equal(await end("text"), 3501);
  assert.equal(await end(`{"id":1,"connect":{"token":"alice"}}`), 3501);
  assert.equal(await end(new Uint8Array([0xff])), 3501);
  assert.equal(await end(commands({ id: 1, rpc: {} })), 3501);
  assert.equal(await end(new Uint8Array(64 * 1024 + 1)), 1009);
  assert.equal(await end(commands({ id: 1, connect: { token: "x".repeat(20_000) } })), 1009);
  assert.equal(await end(hello, new Uint8Array(64 * 1024 + 1)), 1009);
  assert.equal(await end(hello, commands({ send: {} })), 3508);
  // A frame full of pongs exceeds the rate.
  assert.equal(await end(hello, new Uint8Array(64 * 1024)), 3013);
  // Commands before the invalid message are executed.
  const rpc = commands({ id: 2, rpc: { method: "test.echo", data: { text: "hi" } } });
  const { code, reason, replies } = await waitForClose(server.url, [hello, new Uint8Array([...rpc, 3, 1])]);
  assert.deepEqual([code, reason], [3501, "bad request"]);
  assert.deepEqual(replies[1], { id: 2, rpc: { data: { text: "hi" } } });
});

Deno.test("hostile frames yield an invalid message and no other effect", () => {
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
    assert.deepEqual(linesIn(frame, CommandSchema), ["BROKEN"], what);
    const after = new Uint8Array([...commands({ id: 9, ping: {} }), ...new Uint8Array(frame)]).buffer;
    if (after.byteLength <= FRAME_MAX) {
      assert.deepEqual(linesIn(after, CommandSchema), [{ id: 9, ping: {} }, "BROKEN"], what);
    }
  }
});

Deno.test("unknown fields, wrong wire types, repeated fields and odd varints are decoded by the specification", () => {
  const one = (...bytes: (number | number[])[]): unknown => linesIn(framed(...bytes), CommandSchema)[0];
  assert.deepEqual(one(), {});
  // Unknown: a varint, a fixed64, bytes, a group with a group, a fixed32.
  const unknown = [0xa0, 6, 1, 0xa1, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 6, 1, 9, 0xa3, 6, 0x0b, 0x0c, 0xa4, 6, 0xa5, 6];
  assert.deepEqual(one(unknown, 1, 2, 3, 4, 8, 3, unknown, 1, 2, 3, 4), { id: 3 });
  // The wrong wire type for the id, and for the token.
  assert.deepEqual(one(0x0a, 1, 1, 8, 4), "BROKEN");
  assert.deepEqual(one(8, 1, 0x22, 2, 0x08, 1), "BROKEN");
  // The last scalar counts, messages are merged, and an id has the low 32 bits.
  assert.deepEqual(one(8, 1, 8, 2), { id: 2 });
  assert.deepEqual(one(0x22, 3, 0x0a, 1, 0x61, 0x22, 0, 8, 1), { connect: { token: "a" }, id: 1 });
  assert.deepEqual(one(8, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), { id: 5 });
  // A negative int32 has ten bytes; an empty map entry has default key and value.
  assert.deepEqual(one(0x52, 11, 0x38, Array(9).fill(0xff), 1), { history: { limit: -1 } });
  assert.deepEqual(one(0x22, 2, 0x1a, 0), { connect: { subs: { "": {} } } });
  assert.deepEqual(one(0x22, 13, 0x1a, 11, 0x0a, 9, [...Buffer.from("__proto__")]), {
    connect: { subs: Object.fromEntries([["__proto__", {}]]) },
  });
  // An unsafe offset is rejected, not rounded.
  const huge = [
    ...decodeFrame(framed(8, 1, 0x2a, 14, 0x0a, 1, 0x61, 0x38, Array(9).fill(0xff), 1), FRAME_MAX, CommandSchema),
  ];
  assert.deepEqual(huge, [`{"id":1,"subscribe":{"channel":"a","offset":18446744073709551615}}`]);
  assert.deepEqual(resultOf(huge[0]), 107);
});

/** The error code of a command that is rejected before it runs. */
function resultOf(line: unknown): number | undefined {
  const parsed = parseCommand(String(line));
  return typeof parsed === "object" && parsed.method === "invalid" ? parsed.body.code : undefined;
}

Deno.test("data is passed on as JSON text, and invalid JSON cannot escape its field", () => {
  const rpc = (data: string | number[]): unknown => {
    const bytes = typeof data === "string" ? [...new TextEncoder().encode(data)] : data;
    return [
      ...decodeFrame(
        framed(8, 1, 0x6a, varint(bytes.length + 1 + varint(bytes.length).length), 0x0a, varint(bytes.length), bytes),
        FRAME_MAX,
        CommandSchema,
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

Deno.test("a frame is decoded on demand, and invalid data does not affect later commands", () => {
  const pongs = decodeFrame(new ArrayBuffer(FRAME_MAX), FRAME_MAX, CommandSchema);
  assert.deepEqual([pongs.next().value, pongs.next().value], ["{}", "{}"]);
  // 20,000 values of one data field, of which the last counts.
  const many = framed(0x6a, varint(60_000), Array.from({ length: 60_000 }, (_, at) => [0x0a, 1, 0x7b][at % 3] ?? 0));
  const { parse } = JSON;
  const parsed: string[] = [];
  using _replaced = replace(JSON, "parse", (text) => (parsed.push(text), parse(text)));
  assert.deepEqual(linesIn(many, CommandSchema), [{ rpc: "data that is not JSON" }]);
  assert.deepEqual(parsed, ["{", `{"rpc":"data that is not JSON"}`]);
});

Deno.test("commands and replies are equal in JSON and protobuf", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = randomOf(seed);
    for (const message of [ReplySchema, CommandSchema]) {
      const lines = Array.from({ length: 1 + random(3) }, () => exampleOf(message, random));
      const frame = encodeFrame(lines.map((line) => JSON.stringify(line)).join("\n"), message);
      assert.deepEqual(linesIn(frame.buffer, message, Infinity), lines, `seed ${seed}`);
    }
  }
});

/** Reproducible random numbers below a bound. */
function randomOf(seed: number): (below: number) => number {
  return (below) => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return Math.floor(seed / 2 ** 31 * below);
  };
}

const TEXTS = ["", "a", 'größe 🎈\n\u0000"\\', "__proto__", "1", "x".repeat(300)];
const NUMBERS = [0, 1, 127, 128, 65_535, 2 ** 31 - 1];
const VALUES = [null, 0, "", false, [], {}, "text\n", { a: [1, { "ü": "\u2028" }], b: -1.5e-7 }, [[[[1]]]]];

/** A random message with any of its fields. */
function exampleOf(schema: DescMessage, random: (below: number) => number): Record<string, unknown> {
  const fields = schema.fields.filter(() => random(2) === 0);
  return Object.fromEntries(fields.flatMap((field) => {
    const value = exampleOfField(field, random);
    // A default value, or an empty list or map, equals an absent field.
    const isNone = field.fieldKind !== "message" && field.scalar !== ScalarType.BYTES && isEmpty(value);
    return isNone ? [] : [[field.name, value]];
  }));
}

function isEmpty(value: unknown): boolean {
  return ["0", "false", '""', "[]", "{}"].includes(JSON.stringify(value));
}

function exampleOfField(field: DescField, random: (below: number) => number): unknown {
  const pick = <T>(from: readonly T[]): T | undefined => from[random(from.length)];
  const { message } = field;
  const one = (): unknown => message === undefined ? pick(TEXTS) : exampleOf(message, random);
  if (field.fieldKind === "list") return Array.from({ length: random(3) }, one);
  if (field.fieldKind === "map") {
    return Object.fromEntries(Array.from({ length: random(3) }, () => [pick(TEXTS), one()]));
  }
  switch (field.scalar) {
    case ScalarType.BOOL:
      return random(2) === 0;
    case ScalarType.BYTES:
      return pick(VALUES);
    case ScalarType.UINT32:
      return pick([...NUMBERS, 2 ** 32 - 1]);
    case ScalarType.UINT64:
      return pick([...NUMBERS, Number.MAX_SAFE_INTEGER]);
    case ScalarType.INT32:
      return pick([...NUMBERS, -1, -(2 ** 31)]);
    case ScalarType.INT64:
      return pick([...NUMBERS, -1, Number.MIN_SAFE_INTEGER]);
    default:
      return one();
  }
}

Deno.test("every command field that the gateway reads is in the protobuf schema", () => {
  const named = (schema: DescMessage | undefined): Map<string, DescField> =>
    new Map(schema?.fields.map((field) => [field.name, field]));
  const methods = named(CommandSchema);
  assert.deepEqual([...methods.keys()].sort(), ["id", "send", ...Object.keys(COMMAND_SCHEMAS)].sort());
  for (const [method, body] of Object.entries(COMMAND_SCHEMAS)) {
    const known = named(methods.get(method)?.message);
    if (!(body instanceof z.ZodObject)) continue;
    for (const name of Object.keys(body.shape)) assert.ok(known.has(name), `${method}.${name}`);
  }
});

Deno.test("the generated messages match the .proto file", async () => {
  const proto = await Deno.readTextFile(new URL("../../src/transport/ws/client.proto", import.meta.url));
  const written = [...proto.matchAll(/^message (\w+) \{([^}]*)\}/gm)].map(([, name, body = ""]) => [
    name,
    [...body.matchAll(/(\w+) = (\d+);/g)].map(([, field, number]) => [field, Number(number)]),
  ]);
  const generated = file_client.messages.map(({ name, fields }) => [
    name,
    fields.map((field) => [field.name, field.number]),
  ]);
  assert.deepEqual(generated, written);
});

Deno.test("replies and pushes of a hub are lossless in protobuf", async () => {
  const harness = createHubHarness();
  const alice = await harness.connect("alice/60");
  const bob = await harness.connect("bob");
  harness.emit(room, "before");
  await sendCommand(alice, 2, { subscribe: { channel: room, join_leave: true } });
  await sendCommand(bob, 2, { subscribe: { channel: room, recover: true } });
  await sendCommand(bob, 3, { publish: { channel: room, data: { type: "typing", data: { typing: true } } } });
  await sendCommand(bob, 4, { presence: { channel: room } });
  await sendCommand(bob, 5, { presence_stats: { channel: room } });
  await sendCommand(bob, 6, { history: { channel: room, limit: 5 } });
  await sendCommand(bob, 7, { rpc: { method: "test.echo", data: { text: "hi" } } });
  await sendCommand(bob, 8, { rpc: { method: "test.fail", data: { code: "unavailable" } } });
  await sendCommand(bob, 9, { history: { channel: room, since: { offset: 9, epoch: "x" } } });
  await sendCommand(alice, 10, { refresh: { token: "alice/60" } });
  harness.emit(room, "after");
  await sendCommand(bob, 10, { unsubscribe: { channel: room } });
  await until(() => alice.socket.messages.some(({ push }) => push?.leave !== undefined));
  harness.emit(room, null, { kind: "evict", principalIds: ["alice"], reason: "removed" });
  await until(() => alice.socket.messages.some(({ push }) => push?.unsubscribe !== undefined));
  await harness.hub.drain();
  const frames = [...alice.socket.frames, ...bob.socket.frames];
  const lines = frames.flatMap((frame) => frame.split("\n"));
  for (const kind of ["pub", "join", "leave", "unsubscribe"]) {
    assert.ok(lines.some((line) => line.includes(`"${kind}":{`)), kind);
  }
  for (const frame of frames) {
    const bytes = encodeFrame(frame, ReplySchema);
    // The default value of a field equals an absent field.
    const withoutDefaults = (line: unknown): unknown =>
      JSON.parse(String(line), (_key, value) => isEmpty(value) ? undefined : value);
    assert.deepEqual(
      linesIn(bytes.buffer, ReplySchema, Infinity).map((line) => withoutDefaults(JSON.stringify(line))),
      frame.split("\n").map(withoutDefaults),
    );
    assert.ok(
      bytes.length <= Buffer.byteLength(frame),
      "queued data is counted as JSON, so protobuf must not be longer",
    );
  }
});

Deno.test("a frame for a whole room is encoded once", () => {
  const protobuf = new ProtobufCodec(FRAME_MAX);
  const text = `{"push":{"channel":"room:a","pub":{"data":{"n":1},"offset":1}}}`;
  const frame = protobuf.encode(text);
  assert.equal(protobuf.encode(text.split("").join("")), frame);
  assert.notEqual(protobuf.encode("{}"), frame);
  assert.deepEqual([...protobuf.encode("{}")], [0]);
});
