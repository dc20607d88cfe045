// How what waits becomes frames, when they leave, and what the close table promises clients.
import assert from "node:assert/strict";
import { because, CLOSE, isPlainReason } from "@/transport/ws/close.ts";
import { Frames, Outbox } from "@/transport/ws/outbox.ts";
import { type Member, Pool } from "@/transport/ws/pool.ts";
import { pause, until } from "../wait.ts";
import { ask, rig } from "./ws_rig.ts";

const room = "room:a";

class Recorder implements Member {
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

function busy(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until;);
}

Deno.test("every close verdict has a code whose range says whether to reconnect, and a plain reason", () => {
  const codes = Object.values(CLOSE).map(({ code }) => code);
  assert.equal(new Set(codes).size, codes.length, "codes are distinct");
  for (const { code, reason, reconnect } of Object.values(CLOSE)) {
    assert.equal(reconnect, (code >= 3000 && code < 3500) || (code >= 4000 && code < 4500), String(code));
    assert.ok(isPlainReason(reason), reason);
  }
});

Deno.test("because takes a reason only when clients will take it as one", () => {
  assert.equal(because(CLOSE.forced, "token revoked").reason, "token revoked");
  for (const reason of ["", "  ", "123", "true", "null", `"quoted"`, `{"reconnect":true}`, "ä".repeat(62)]) {
    assert.equal(because(CLOSE.forced, reason).reason, "force disconnect", reason);
  }
});

Deno.test("Frames joins once for sockets that wait for the same", () => {
  const frames = new Frames();
  const first = new Outbox();
  const second = new Outbox();
  for (const box of [first, second]) {
    box.add("a", 1, 1);
    box.add("b", 1, 1);
  }
  assert.equal(first.pushes, 2);
  assert.equal(first.take(frames), "a\nb");
  assert.equal(second.take(frames), "a\nb");
  first.add("a", 1, 1);
  first.add("c", 1, 1);
  assert.equal(first.take(frames), "a\nc");
  second.add("a", 1, 1);
  assert.equal(second.take(frames), "a");
  assert.equal(second.bytes + second.pushes, 0);
  assert.equal(first.bytes, 0);
  const many = Array.from({ length: 20 }, (_, at) => String(at));
  for (const times of [1, 2]) {
    for (const text of many) first.add(text, text.length, 1);
    assert.equal(first.take(frames), many.join("\n"), `time ${times}`);
  }
});

Deno.test("what is queued in one turn leaves in one frame, replies and pushes in their order", async () => {
  const { hub, connect, emit } = rig();
  const peer = await connect();
  await ask(peer, 2, { subscribe: { channel: room } });
  const before = peer.socket.frames.length;
  emit(room, 1);
  peer.connection.receive(`{"id":3,"unsubscribe":{"channel":"room:b"}}`);
  emit(room, 2);
  await until(() => peer.socket.frames.length > before);
  await pause(5);
  assert.equal(peer.socket.frames.length, before + 1);
  const lines = peer.socket.lines.slice(-3);
  assert.deepEqual(lines.map((line) => line.id ?? line.push.pub.offset), [1, 3, 2]);
  await hub.drain();
});

Deno.test("Pool lets the event loop run between shards of a long flush", async () => {
  const order: string[] = [];
  const pool = new Pool(2, () => {});
  pool.touch(
    new Recorder(0, () => {
      busy(8);
      order.push("first shard");
      setImmediate(() => order.push("somebody else"));
    }),
  );
  pool.touch(new Recorder(1, () => order.push("second shard")));
  await until(() => order.length === 3);
  assert.deepEqual(order, ["first shard", "somebody else", "second shard"]);
  pool.close();
});

Deno.test("Pool flushes at once while messages come one by one", async () => {
  let flushes = 0;
  const pool = new Pool(1, () => {});
  const member = new Recorder(0, () => {
    flushes++;
    busy(10);
  });
  for (let turn = 1; turn <= 3; turn++) {
    pool.touch(member);
    await until(() => flushes === turn);
    await new Promise((resolve) => setImmediate(resolve));
    pool.touch(member);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(flushes, ++turn, "no pause after a flush of single messages");
  }
  pool.close();
});

Deno.test("Pool waits as long as a flush took that carried several messages to a socket", async () => {
  const at: number[] = [];
  const pool = new Pool(1, () => {});
  const member = new Recorder(0, () => {
    at.push(performance.now());
    busy(10);
  }, 5);
  pool.touch(member);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(at.length, 1, "idle: at the end of the turn");
  pool.touch(member);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(at.length, 1, "under load: not yet");
  await until(() => at.length === 2);
  const [first = 0, second = 0] = at;
  assert.ok(second - first >= 18, `10 ms of work and as long a pause: ${second - first} ms`);
  pool.close();
});

Deno.test("the pool's gauges follow who was let in and who left", async () => {
  const { hub, connect, metrics, emit } = rig();
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  await connect("bad");
  for (const peer of [alice, bob]) await ask(peer, 2, { subscribe: { channel: room } });
  const sent = alice.socket.frames.length;
  emit(room);
  await until(() => alice.socket.frames.length > sent && bob.socket.frames.length > sent);
  await pause(5);
  bob.connection.gone();
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
