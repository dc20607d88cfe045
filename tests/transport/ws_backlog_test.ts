// What the clients of a tenant leave unread: the runtime gets a share of it, the rest waits in outboxes, and beyond that the slowest
// clients are closed. Who reads, and other tenants, notice nothing.
import assert from "node:assert/strict";
import { DISCONNECT } from "@/transport/shared/disconnect.ts";
import { Backlog } from "@/transport/ws/backlog.ts";
import { FrameCache, messageOf, Outbox } from "@/transport/ws/outbox.ts";
import { until } from "../wait.ts";
import {
  authenticate,
  createHubHarness,
  FakeSocket,
  type HubHarness,
  offsetsOn,
  sendCommand,
  TEST_LIMITS,
} from "./ws_harness.ts";

const room = "room:a";
const SHARE = 40_000;

type Peer = Awaited<ReturnType<HubHarness["connect"]>>;

/** A principal named `other…` is in another tenant. */
function createHarness(tenantUnreadMaxBytes = SHARE): HubHarness {
  return createHubHarness({
    limits: { ...TEST_LIMITS, tenantUnreadMaxBytes, frameMaxBytes: 1024 * 1024 },
    authenticate: async (token) => {
      const actor = await authenticate(token);
      return token.startsWith("other") ? { ...actor, tenantId: "other" } : actor;
    },
  });
}

/** A client that reads nothing from now on. */
async function stalled({ connect }: HubHarness, name: string, channel?: string): Promise<Peer> {
  const peer = await connect(name);
  if (channel !== undefined) await sendCommand(peer, 2, { subscribe: { channel } });
  peer.socket.isStalled = true;
  return peer;
}

function read({ socket }: Peer): void {
  socket.isStalled = false;
  socket.bufferedAmount = 0;
}

/** Calls for a reply of so many bytes, and a little more. */
function echo({ connection }: Peer, id: number, bytes: number): void {
  connection.receive(JSON.stringify({ id, rpc: { method: "test.echo", data: { text: "x".repeat(bytes) } } }));
}

const hasReply = ({ socket }: Peer, id: number): boolean => socket.messages.some((message) => message.id === id);
const codesOf = (peers: readonly Peer[]): unknown[] => peers.map(({ socket }) => socket.closedWith?.code);

Deno.test("the runtime gets a share of what a tenant leaves unread; the rest waits, and arrives in order once it is read", async () => {
  const harness = createHarness();
  const slow: Peer[] = [];
  for (let at = 0; at < 10; at++) slow.push(await stalled(harness, `slow${at}`, room));
  const [reader, other] = [await harness.connect("reader"), await stalled(harness, "other")];
  await sendCommand(reader, 2, { subscribe: { channel: room } });
  for (let seq = 1; seq <= 50; seq++) {
    harness.emit(room, "x".repeat(400));
    await until(() => offsetsOn(reader.socket, room).length === seq);
  }
  const unread = slow.reduce((sum, { socket }) => sum + socket.bufferedAmount, 0);
  // The last frames of all may be beyond it: the flush in which it is exceeded is counted as it is sent.
  assert.ok(unread > SHARE && unread < 2 * SHARE, `${unread} bytes`);
  // Another tenant has a share of its own.
  for (const id of [2, 3]) {
    echo(other, id, SHARE / 4);
    await until(() => hasReply(other, id));
  }
  const all = Array.from({ length: 50 }, (_, at) => at + 1);
  for (const peer of slow) {
    read(peer);
    await until(() => offsetsOn(peer.socket, room).length === 50);
    assert.deepEqual(offsetsOn(peer.socket, room), all);
  }
  assert.deepEqual(codesOf([...slow, reader, other]), Array(12).fill(undefined));
  await harness.hub.drain();
});

Deno.test("what waits for many clients counts once; what waits for one each closes the slowest of who has the most", async () => {
  const harness = createHarness();
  const filler = await stalled(harness, "filler");
  echo(filler, 2, SHARE + 1);
  await until(() => hasReply(filler, 2));
  const [mallory, phones] = [[] as Peer[], [] as Peer[]];
  for (let at = 0; at < 3; at++) mallory.push(await stalled(harness, "mallory", room));
  for (let at = 0; at < 3; at++) phones.push(await stalled(harness, `phone${at}`, room));
  const all = [...mallory, ...phones];
  // They have something unread each.
  for (const peer of all) peer.socket.bufferedAmount = 1;
  // Several times the share together, but the same text for all.
  for (let count = 0; count < 8; count++) harness.emit(room, "x".repeat(3000));
  // Replies come after what waits.
  for (const peer of all) echo(peer, 3, 100);
  for (const [at, peer] of mallory.entries()) echo(peer, 4, 5000 + 100 * at);
  await until(() => codesOf(all).some((code) => code !== undefined));
  assert.deepEqual(codesOf(all), [undefined, undefined, DISCONNECT.slow.code, undefined, undefined, undefined]);
  // The others get all of it.
  for (const peer of [...mallory.slice(0, 2), ...phones]) {
    read(peer);
    await until(() => hasReply(peer, 3));
    assert.equal(offsetsOn(peer.socket, room).length, 8);
  }
  await harness.hub.drain();
});

Deno.test("beyond the share of its tenant, the runtime gets few large messages of an account, and further ones once these are read", async () => {
  const large = 200 * 1024;
  const share = 1.5 * large;
  const harness = createHarness(share);
  const peers: Peer[] = [];
  for (let at = 0; at < 5; at++) peers.push(await stalled(harness, "alice"));
  const [bob, filler] = [await harness.connect("bob"), await stalled(harness, "filler")];
  echo(filler, 2, share + 1);
  await until(() => hasReply(filler, 2));
  for (const peer of peers) echo(peer, 2, large);
  const replied = (): number => peers.filter((peer) => hasReply(peer, 2)).length;
  await until(() => replied() === 4);
  echo(bob, 2, large);
  await until(() => hasReply(bob, 2));
  assert.equal(replied(), 4);
  const first = peers.find((peer) => hasReply(peer, 2));
  if (first !== undefined) read(first);
  await until(() => replied() === 5);
  // One that ends gives its place to others as well.
  const late = await stalled(harness, "alice");
  echo(late, 2, large);
  const second = peers.find((peer) => peer !== first);
  second?.connection.close(DISCONNECT.slow);
  second?.connection.onSocketClosed();
  await until(() => hasReply(late, 2));
  await harness.hub.drain();
});

Deno.test("who has read all gets 128 KiB at once beyond the share of its tenant, or one message that is larger", () => {
  const backlog = new Backlog(0);
  const [filler, reader] = [new FakeSocket(), new FakeSocket()].map((socket) => {
    const outbox = new Outbox(socket, 1024 * 1024, () => {});
    outbox.countFor("tenant/alice", backlog);
    return { socket, outbox };
  });
  assert.ok(filler !== undefined && reader !== undefined);
  filler.socket.isStalled = true;
  filler.outbox.add(messageOf("unread"));
  assert.ok(filler.outbox.send(new FrameCache()));
  const { socket, outbox } = reader;
  const kib = (count: number): string => "x".repeat(count * 1024);
  for (const text of [...Array(40).fill(kib(4)), kib(200), kib(1)]) outbox.add(messageOf(text));
  const sent: number[][] = [];
  while (outbox.send(new FrameCache())) {
    sent.push(socket.frames.splice(0).map((frame) => Math.floor(frame.length / 1024)));
  }
  assert.deepEqual(sent, [[64, 64], [32], [200], [1]]);
  // It has not read.
  socket.bufferedAmount = 1;
  outbox.add(messageOf("more"));
  assert.equal(outbox.send(new FrameCache()), false);
});

Deno.test("a reply that waits for room counts for the tenant", async () => {
  const harness = createHubHarness({ limits: { ...TEST_LIMITS, outboxMaxBytes: 4000, tenantUnreadMaxBytes: 3000 } });
  const [first, second] = [await stalled(harness, "first"), await stalled(harness, "second")];
  for (const peer of [first, second]) {
    echo(peer, 2, 1900);
    await until(() => hasReply(peer, 2));
  }
  // Each has 1,900 bytes unread, so that another 2,200 do not fit.
  for (const peer of [first, second]) echo(peer, 3, 2200);
  await until(() => codesOf([first, second]).includes(DISCONNECT.slow.code));
  for (const peer of [first, second]) read(peer);
  await until(() => first.connection.isIdle && second.connection.isIdle);
  assert.deepEqual(
    [first, second].map((peer) => hasReply(peer, 3)),
    codesOf([first, second]).map((code) => code === undefined),
  );
  await harness.hub.drain();
});

Deno.test("a closed connection counts until its socket has closed, and gives back all that it counted", async () => {
  const harness = createHarness();
  const [peer, late] = [await stalled(harness, "alice"), await harness.connect("bob")];
  echo(peer, 2, SHARE + 1);
  await until(() => hasReply(peer, 2));
  peer.connection.close(DISCONNECT.shutdown);
  late.socket.isStalled = true;
  late.socket.bufferedAmount = 1;
  echo(late, 2, 10);
  await until(() => late.connection.isIdle);
  assert.equal(hasReply(late, 2), false);
  peer.connection.onSocketClosed();
  await until(() => hasReply(late, 2));
  await harness.hub.drain();
});

Deno.test("a frame is no longer than 64 KiB, unless one message is", async () => {
  const { hub, connect, emit } = createHubHarness();
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  const before = peer.socket.frames.length;
  for (let count = 0; count < 10; count++) emit(room, "x".repeat(20 * 1024));
  emit(room, "x".repeat(100 * 1024));
  await until(() => offsetsOn(peer.socket, room).length === 11);
  const frames = peer.socket.frames.slice(before).map((frame) => Math.ceil(frame.length / 20 / 1024) - 1);
  assert.deepEqual(frames, [3, 3, 3, 1, 5]);
  await hub.drain();
});
