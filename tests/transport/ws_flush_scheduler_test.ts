// Joining of frames, scheduling of flushes, and the table of close codes.
import assert from "node:assert/strict";
import { DISCONNECT, isPlainReason, withReason } from "@/transport/shared/disconnect.ts";
import { WS_LIMITS } from "@/transport/shared/socket_limits.ts";
import { FrameCache, messageOf, Outbox } from "@/transport/ws/outbox.ts";
import { type Flushable, FlushScheduler } from "@/transport/ws/flush_scheduler.ts";
import { blockThread, pause, until } from "../wait.ts";
import { createHubHarness, FakeSocket, sendCommand } from "./ws_harness.ts";

const room = "room:a";

class Recorder implements Flushable {
  readonly shard: number;
  readonly #onFlush: () => void;
  readonly #pushes: number;
  constructor(shard: number, onFlush: () => void, pushes = 1) {
    this.shard = shard;
    this.#onFlush = onFlush;
    this.#pushes = pushes;
  }
  flush(): number {
    this.#onFlush();
    return this.#pushes;
  }
}

Deno.test("every close code is in the range of its reconnect flag, and has a plain reason", () => {
  const codes = Object.values(DISCONNECT).map(({ code }) => code);
  assert.equal(new Set(codes).size, codes.length, "codes are distinct");
  for (const { code, reason, reconnect } of Object.values(DISCONNECT)) {
    assert.equal(reconnect, (code >= 3000 && code < 3500) || (code >= 4000 && code < 4500), String(code));
    assert.ok(isPlainReason(reason), reason);
  }
});

Deno.test("withReason accepts only reasons that clients show", () => {
  assert.equal(withReason(DISCONNECT.forced, "token revoked").reason, "token revoked");
  for (const reason of ["", "  ", "123", "true", "null", `"quoted"`, `{"reconnect":true}`, "ä".repeat(62)]) {
    assert.equal(withReason(DISCONNECT.forced, reason).reason, "force disconnect", reason);
  }
});

Deno.test("FrameCache joins equal messages once", () => {
  const frames = new FrameCache();
  const sockets = [new FakeSocket(), new FakeSocket()] as const;
  const [first, second] = sockets.map((socket) => new Outbox(socket, WS_LIMITS.outboxMaxBytes, () => {}));
  assert.ok(first && second);
  const [a, b, c] = ["a", "b", "c"].map((text) => ({ ...messageOf(text), count: 1 }));
  assert.ok(a && b && c);
  const sent = (outbox: Outbox): string | undefined => {
    assert.equal(outbox.send(frames), true);
    assert.equal(outbox.bytes + outbox.pushes, 0);
    return sockets[outbox === first ? 0 : 1].frames.at(-1);
  };
  for (const outbox of [first, second]) for (const message of [a, b]) outbox.add(message);
  assert.deepEqual([first.pushes, first.bytes], [2, 2]);
  assert.equal(sent(first), "a\nb");
  assert.equal(sent(second), "a\nb");
  for (const message of [a, c]) first.add(message);
  assert.equal(sent(first), "a\nc");
  second.add(a);
  assert.equal(sent(second), "a");
  const many = Array.from({ length: 20 }, (_, at) => messageOf(String(at)));
  for (const times of [1, 2]) {
    for (const message of many) first.add(message);
    assert.equal(sent(first), many.map(({ text }) => text).join("\n"), `time ${times}`);
  }
});

Deno.test("messages of one tick are sent in one frame, in order", async () => {
  const { hub, connect, emit } = createHubHarness();
  const peer = await connect();
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  const before = peer.socket.frames.length;
  emit(room, 1);
  peer.connection.receive(`{"id":3,"unsubscribe":{"channel":"room:b"}}`);
  emit(room, 2);
  await until(() => peer.socket.frames.length > before);
  await pause(5);
  assert.equal(peer.socket.frames.length, before + 1);
  const lines = peer.socket.messages.slice(-3);
  assert.deepEqual(lines.map((line) => line.id ?? line.push.pub.offset), [1, 3, 2]);
  await hub.drain();
});

Deno.test("FlushScheduler yields to the event loop between shards of a long flush", async () => {
  const order: string[] = [];
  const scheduler = new FlushScheduler(2, () => {});
  scheduler.schedule(
    new Recorder(0, () => {
      blockThread(8);
      order.push("first shard");
      setImmediate(() => order.push("other task"));
    }),
  );
  scheduler.schedule(new Recorder(1, () => order.push("second shard")));
  await until(() => order.length === 3);
  assert.deepEqual(order, ["first shard", "other task", "second shard"]);
  scheduler.close();
});

Deno.test("FlushScheduler flushes immediately while messages are single", async () => {
  let flushes = 0;
  const scheduler = new FlushScheduler(1, () => {});
  const member = new Recorder(0, () => {
    flushes++;
    blockThread(10);
  });
  for (let turn = 1; turn <= 3; turn++) {
    scheduler.schedule(member);
    await until(() => flushes === turn);
    await new Promise((resolve) => setImmediate(resolve));
    scheduler.schedule(member);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(flushes, ++turn, "no pause after a flush of single messages");
  }
  scheduler.close();
});

Deno.test("FlushScheduler pauses as long as a flush with several messages per socket took", async () => {
  const at: number[] = [];
  const scheduler = new FlushScheduler(1, () => {});
  const member = new Recorder(0, () => {
    at.push(performance.now());
    blockThread(10);
  }, 5);
  scheduler.schedule(member);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(at.length, 1, "idle: at the end of the tick");
  scheduler.schedule(member);
  await until(() => at.length === 2);
  const [first = 0, second = 0] = at;
  assert.ok(second - first >= 18, `10 ms of work and as long a pause: ${second - first} ms`);
  scheduler.close();
});

Deno.test("the pool gauges count authenticated connections", async () => {
  const { hub, connect, metrics, emit } = createHubHarness();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  await connect("bad");
  for (const peer of [alice, bob]) await sendCommand(peer, 2, { subscribe: { channel: room } });
  const sent = alice.socket.frames.length;
  emit(room);
  await until(() => alice.socket.frames.length > sent && bob.socket.frames.length > sent);
  await pause(5);
  bob.connection.onSocketClosed();
  const text = await metrics.registry.metrics();
  for (
    const line of [
      "svc_connections_active 1",
      "svc_connections_total 3",
      "svc_pool_connections_active 1",
      "svc_pool_connections_peak 2",
      "svc_pool_connections_total 2",
      "svc_pool_messages_sent_total 2",
      `svc_connection_errors{type="auth_failed"} 1`,
    ]
  ) assert.ok(text.includes(`${line}\n`), line);
  await hub.drain();
});
