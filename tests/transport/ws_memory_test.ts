// The memory guard with a fake clock and memory: which sockets it closes, and in which order.
import assert from "node:assert/strict";
import { Metrics } from "@/core/metrics.ts";
import { type GuardedSocket, MemoryGuard } from "@/transport/shared/memory_guard.ts";
import { Centrifuge } from "npm:centrifuge@5.8.0";
import { until, WAIT_MS } from "../wait.ts";
import { serveHub } from "./ws_server.ts";

const MIB = 1024 * 1024;
const SAMPLE_MS = 25;
const SILENT_MS = 250;

class FakeGuardedSocket implements GuardedSocket {
  isAuthenticated: boolean;
  owner: string | undefined;
  hasReceived: boolean;
  lastReceivedAt = -1000;
  writeBytes = 0;
  probes = 0;
  isClosed = false;
  onProbe = (): void => {};

  constructor(
    { isAuthenticated = false, hasReceived = false, owner }: {
      isAuthenticated?: boolean;
      hasReceived?: boolean;
      owner?: string;
    } = {},
  ) {
    this.isAuthenticated = isAuthenticated;
    this.owner = owner;
    this.hasReceived = isAuthenticated || hasReceived;
  }

  probe(): void {
    this.probes++;
    this.onProbe();
  }

  shed(): void {
    this.isClosed = true;
  }
}

class GuardHarness {
  readonly metrics = new Metrics();
  usedMib = 100;
  heapMib = 120;
  externalMib = 40;
  /** What the process retains of a heap that has shrunk, and of buffers outside of it. */
  keptMib = 0;
  startingMib = 0;
  workingMib = 0;
  time = 0;
  readonly guard = new MemoryGuard({
    budgetBytes: 256 * MIB,
    metrics: this.metrics,
    usage: () => ({
      rss: (this.usedMib + this.keptMib + this.heapMib + this.externalMib) * MIB,
      heapTotal: this.heapMib * MIB,
      external: this.externalMib * MIB,
    }),
    startingBytes: () => this.startingMib * MIB,
    workingBytes: () => this.workingMib * MIB,
    now: () => this.time,
  });

  add(...sockets: FakeGuardedSocket[]): void {
    for (const socket of sockets) this.guard.add(socket);
    this.guard.sample();
  }

  /** Samples until so much time has passed. */
  pass(ms: number): void {
    for (let passed = 0; passed < ms; passed += SAMPLE_MS) {
      this.time += SAMPLE_MS;
      this.guard.sample();
    }
  }

  [Symbol.dispose](): void {
    this.usedMib = 0;
    this.pass(2000);
    this.guard.close();
  }
}

Deno.test("heap that the engine retains after it shrank does not count as messages", () => {
  using harness = new GuardHarness();
  const strangers = Array.from({ length: 100 }, () => new FakeGuardedSocket());
  harness.add(...strangers);
  const closed = (): number => strangers.filter(({ isClosed }) => isClosed).length;
  const moveHeap = (mib: number): void => {
    harness.heapMib += mib;
    harness.keptMib -= mib;
    harness.pass(1000);
  };
  for (const mib of [-50, 30, -40]) moveHeap(mib);
  // What a large response was made of is freed, and its pages are retained.
  harness.externalMib += 300;
  harness.pass(1000);
  harness.externalMib -= 300;
  harness.keptMib += 300;
  harness.pass(1000);
  // The system gets it back, then the heap grows again.
  harness.keptMib = 0;
  harness.pass(1000);
  harness.heapMib += 60;
  harness.pass(1000);
  assert.equal(closed(), 0);
  assert.equal(harness.guard.grownBytes(), 0);
  // Messages are still seen while it is retained.
  moveHeap(-60);
  harness.usedMib += 50;
  harness.pass(100);
  assert.equal(closed(), 100);
});

Deno.test("what a thread works with, such as an image, does not count as messages", () => {
  using harness = new GuardHarness();
  const strangers = Array.from({ length: 100 }, () => new FakeGuardedSocket());
  const closed = (): number => strangers.filter(({ isClosed }) => isClosed).length;
  harness.add(...strangers);
  for (let images = 0; images < 3; images++) {
    harness.workingMib = 200;
    harness.usedMib += 150;
    harness.pass(1000);
    const late = new FakeGuardedSocket();
    harness.add(late);
    harness.pass(1000);
    strangers.push(late);
    // Some of it remains.
    harness.usedMib -= 130;
    harness.workingMib = 0;
    harness.pass(1000);
    assert.equal(closed(), 0);
    assert.equal(harness.guard.grownBytes(), 0);
  }
  // Messages are seen, also beyond what a thread works with.
  harness.workingMib = 200;
  harness.usedMib += 250;
  harness.pass(100);
  assert.equal(closed(), strangers.length);
});

Deno.test("a node that has grown while all its sockets are authenticated is not measured more often", async () => {
  let [samples, usedMib] = [0, 100];
  const usage = () => {
    samples++;
    return { rss: usedMib * MIB, heapTotal: 0, external: 0 };
  };
  const guard = new MemoryGuard({ budgetBytes: 256 * MIB, metrics: new Metrics(), usage });
  guard.add(new FakeGuardedSocket({ isAuthenticated: true }));
  guard.sample();
  usedMib += 20;
  guard.sample();
  const [startedAt, before] = [performance.now(), samples];
  await until(() => samples >= before + 5);
  guard.close();
  // Timers may be late, but are not early.
  assert.ok(performance.now() - startedAt > 4 * SAMPLE_MS);
});

Deno.test("memory pressure closes silent sockets first, then all unauthenticated ones, but no others", () => {
  using harness = new GuardHarness();
  const [silent, active, member] = [
    new FakeGuardedSocket(),
    new FakeGuardedSocket({ hasReceived: true }),
    new FakeGuardedSocket({ isAuthenticated: true }),
  ];
  harness.add(silent, active, member);
  harness.pass(SILENT_MS);
  harness.usedMib += 6;
  harness.pass(SAMPLE_MS);
  assert.deepEqual([silent, active, member].map(({ isClosed }) => isClosed), [false, false, false]);
  harness.usedMib += 6;
  harness.pass(SAMPLE_MS);
  assert.deepEqual([silent, active, member].map(({ isClosed }) => isClosed), [true, false, false]);
  assert.equal(harness.guard.isShedding, true);
  harness.usedMib += 24;
  harness.pass(SAMPLE_MS);
  assert.deepEqual([silent, active, member].map(({ isClosed }) => isClosed), [true, true, false]);
  harness.pass(10_000);
  assert.deepEqual([member.isClosed, member.probes], [false, 0]);
});

Deno.test("growth of the process before sockets have sent anything closes none of them, unless it is much", () => {
  using harness = new GuardHarness();
  const [honest, silent] = [new FakeGuardedSocket(), new FakeGuardedSocket()];
  harness.add(honest, silent);
  harness.usedMib += 15;
  harness.pass(SILENT_MS - SAMPLE_MS);
  assert.deepEqual([honest.isClosed, silent.isClosed], [false, false]);
  honest.hasReceived = true;
  harness.pass(SAMPLE_MS);
  assert.deepEqual([honest.isClosed, silent.isClosed], [false, true]);
  const young = new FakeGuardedSocket();
  harness.add(young);
  harness.usedMib += 33;
  harness.pass(SAMPLE_MS);
  assert.equal(young.isClosed, true);
});

Deno.test("a socket is not silent while the process is too busy to read from it", () => {
  using harness = new GuardHarness();
  const honest = new FakeGuardedSocket();
  harness.add(honest);
  harness.usedMib += 15;
  for (let pauses = 0; pauses < 5; pauses++) {
    harness.time += 3000;
    harness.guard.sample();
  }
  assert.equal(honest.isClosed, false);
  harness.pass(SILENT_MS);
  assert.equal(honest.isClosed, true);
});

Deno.test("memory that threads use when they start closes no socket, more than that does", () => {
  using harness = new GuardHarness();
  const silent = new FakeGuardedSocket();
  harness.add(silent);
  harness.startingMib = 48;
  harness.usedMib += 30;
  harness.pass(100);
  harness.startingMib = 0;
  harness.usedMib += 10;
  harness.pass(1000);
  assert.equal(silent.isClosed, false);
  harness.startingMib = 48;
  harness.usedMib += 60;
  harness.pass(SAMPLE_MS);
  assert.equal(silent.isClosed, true);
  // What grew beyond the allowance is not forgiven when the threads have started.
  const late = new FakeGuardedSocket({ isAuthenticated: true });
  harness.add(late);
  harness.usedMib += 200;
  harness.startingMib = 0;
  harness.pass(SAMPLE_MS);
  assert.equal(late.probes, 1);
});

Deno.test("many sockets that are accepted at once and use their memory later are not closed", () => {
  using harness = new GuardHarness();
  const sockets = Array.from({ length: 600 }, () => new FakeGuardedSocket());
  harness.add(...sockets);
  harness.pass(100);
  harness.usedMib += 20;
  harness.pass(1000);
  assert.ok(sockets.every(({ isClosed }) => !isClosed));
  harness.usedMib += 10;
  harness.pass(SAMPLE_MS);
  assert.ok(sockets.every(({ isClosed }) => isClosed));
});

Deno.test("unresponsive authenticated sockets are closed, newest first, until memory use falls", async () => {
  using harness = new GuardHarness();
  const sockets = Array.from({ length: 100 }, () => new FakeGuardedSocket({ isAuthenticated: true }));
  for (const socket of sockets.slice(0, 40)) socket.onProbe = () => socket.lastReceivedAt = harness.time + 1;
  harness.add(...sockets);
  harness.usedMib += 150;
  harness.pass(SAMPLE_MS);
  assert.ok(sockets.every(({ probes }) => probes === 1));
  harness.usedMib += 150;
  harness.pass(100);
  assert.ok(sockets.every(({ isClosed }) => !isClosed), "they have time to respond");
  harness.pass(300);
  const closed = sockets.map(({ isClosed }, at) => isClosed ? at : -1).filter((at) => at >= 0);
  assert.deepEqual(
    closed,
    Array.from({ length: 8 }, (_, at) => 92 + at),
    "a share of the unresponsive ones, newest first",
  );
  harness.usedMib += 20;
  harness.pass(SAMPLE_MS);
  assert.equal(sockets.filter(({ isClosed }) => isClosed).length, 16, "more after further growth");
  harness.usedMib -= 100;
  harness.pass(10_000);
  assert.equal(sockets.filter(({ isClosed }) => isClosed).length, 16);
  assert.match(await harness.metrics.registry.metrics(), /svc_connection_errors\{type="memory"\} 16/);
});

Deno.test("the unresponsive sockets of one principal are closed together, unless others of it respond", () => {
  using harness = new GuardHarness();
  const open = (count: number, owner: (at: number) => string): FakeGuardedSocket[] =>
    Array.from({ length: count }, (_, at) => new FakeGuardedSocket({ isAuthenticated: true, owner: owner(at) }));
  const [slow, bots, attack, newest] = [
    open(30, (at) => `slow ${at}`),
    open(20, () => "bots"),
    open(40, () => "mallory"),
    open(4, (at) => at < 2 ? "bots" : `new ${at}`),
  ];
  for (const socket of bots.slice(0, 10)) socket.onProbe = () => socket.lastReceivedAt = harness.time + 1;
  harness.add(...slow, ...bots, ...attack, ...newest);
  harness.usedMib += 300;
  harness.pass(400);
  const closed = (sockets: FakeGuardedSocket[]): number => sockets.filter(({ isClosed }) => isClosed).length;
  assert.deepEqual([slow, bots, attack, newest].map(closed), [0, 0, 40, 4]);
});

Deno.test("responses that last are cut off while memory grows beyond twice the budget, newest first", () => {
  using harness = new GuardHarness();
  const cutOff: number[] = [];
  const responses = Array.from({ length: 20 }, (_, at) => ({ shed: () => void cutOff.push(at) }));
  for (const response of responses) harness.guard.addResponse(response);
  harness.pass(SAMPLE_MS);
  harness.usedMib += 500;
  harness.pass(1000);
  assert.deepEqual(cutOff, [], "they are closed later than sockets");
  harness.usedMib += 20;
  harness.pass(200);
  assert.deepEqual(cutOff, [19, 18, 17, 16, 15, 14, 13, 12], "once for each growth");
  assert.equal(harness.guard.isShedding, true);
  for (const response of responses.slice(2, 12)) harness.guard.deleteResponse(response);
  harness.usedMib += 20;
  harness.pass(200);
  assert.deepEqual(cutOff.slice(8), [1, 0]);
});

Deno.test("no socket is accepted until memory use is back to normal, and earlier growth is not attributed to later sockets", () => {
  using harness = new GuardHarness();
  harness.add(new FakeGuardedSocket());
  harness.usedMib += 50;
  harness.pass(SAMPLE_MS);
  for (let round = 0; round < 10; round++) {
    harness.usedMib += 5;
    harness.pass(200);
    assert.equal(harness.guard.isShedding, true);
  }
  harness.pass(1000);
  assert.equal(harness.guard.isShedding, false);
  // Earlier growth is not attributed to a later socket.
  harness.usedMib += 20;
  const late = new FakeGuardedSocket();
  harness.add(late);
  harness.pass(10_000);
  assert.equal(late.isClosed, false);
});

Deno.test("neither many new sockets nor growth without unauthenticated sockets starts shedding", () => {
  using harness = new GuardHarness();
  const sockets = Array.from({ length: 1000 }, () => new FakeGuardedSocket());
  for (const socket of sockets) {
    harness.add(socket);
    harness.usedMib += 30 / 1024;
  }
  harness.pass(1000);
  assert.ok(sockets.every(({ isClosed }) => !isClosed));
  for (const socket of sockets) Object.assign(socket, { isAuthenticated: true, hasReceived: true });
  harness.usedMib += 60;
  for (const socket of sockets.splice(10)) harness.guard.delete(socket);
  harness.pass(1000);
  assert.ok(sockets.every(({ isClosed }) => !isClosed));
  assert.equal(harness.guard.isShedding, false);
});

Deno.test("outgoing data for slow clients does not count as unfinished messages", () => {
  using harness = new GuardHarness();
  const [reader, unauthenticated] = [new FakeGuardedSocket({ isAuthenticated: true }), new FakeGuardedSocket()];
  harness.add(reader, unauthenticated);
  harness.usedMib += 200;
  reader.writeBytes = 195 * MIB;
  harness.pass(1000);
  assert.deepEqual([reader.isClosed, reader.probes, unauthenticated.isClosed], [false, 0, false]);
  reader.writeBytes = 0;
  harness.pass(1000);
  assert.deepEqual([reader.probes, unauthenticated.isClosed], [1, true]);
});

Deno.test("an upgrade is rejected with 503 during shedding, and a closed client reconnects", async () => {
  using harness = new GuardHarness();
  await using server = serveHub(Centrifuge, undefined, undefined, harness.guard);
  const client = server.client();
  const codes: number[] = [];
  client.on("connecting", ({ code }) => codes.push(code));
  client.connect();
  await client.ready(WAIT_MS);
  harness.add(new FakeGuardedSocket());
  harness.pass(SILENT_MS);
  harness.usedMib += 20;
  harness.pass(SAMPLE_MS);
  const rejected = await fetch(server.url.replace("ws:", "http:"), { headers: { upgrade: "websocket" } });
  assert.deepEqual([rejected.status, await rejected.json()], [503, { code: "unavailable" }]);
  harness.usedMib += 400;
  // The real socket uses the real clock, which is ahead of the fake one.
  harness.time = performance.now() + 60_000;
  harness.guard.sample();
  harness.pass(600);
  await until(() => codes.includes(3011), "the client receives the code");
  harness.usedMib = 0;
  harness.pass(1000);
  await until(() => server.hub.stats().connections === 1, "the client reconnects");
});
