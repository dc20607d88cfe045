// The machine's clock jumps: the order of events does not care, tokens are judged by it, and nobody is thrown out for no reason.
// Clocks of several machines differ: on one database they agree all the same.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { JobRunner } from "@/adapters/job/runner.ts";
import { clockFor, readDatabaseTime } from "@/adapters/open.ts";
import { createApp } from "@/app.ts";
import { readConfig } from "@/config/config.ts";
import type { TimeSource } from "@/core/time/clock.ts";
import { defineJob } from "@/core/job.ts";
import { DatabaseClock } from "@/core/time/database_clock.ts";
import { testOnPostgres } from "../engines.ts";
import { Harness, openGateway, SECRET, TestClock } from "../harness.ts";
import { FakeSocket, offsetsOn, sendCommand } from "../transport/ws_harness.ts";
import { eventually, pause } from "../wait.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** What rounding to milliseconds, and two clocks of one machine, may be wrong by. */
const ERROR_MS = 100;
/** Far more than a busy machine takes for anything, and far less than its clock is wrong by. */
const TOLERANCE_MS = HOUR / 2;

/** A machine whose clock is wrong, and can be set while it runs. */
class SkewedTime implements TimeSource {
  readonly clock = { now: () => Date.now() + this.aheadMs };
  aheadMs: number;

  constructor(aheadMs: number) {
    this.aheadMs = aheadMs;
  }

  monotonicMs(): number {
    return performance.now();
  }
}

/** A gateway on such a machine. The database and the test have the right time. */
async function openOn(timeSource: TimeSource, environment: Record<string, string>): Promise<Harness> {
  const all: Record<string, string> = { SVC_JWT_SECRET: SECRET, SVC_RATE_LIMIT: "off", ...environment };
  const config = readConfig({ get: (name) => all[name], readFile: Deno.readTextFileSync });
  return new Harness(await createApp(config, { timeSource }), new TestClock(Date.now()));
}

/** The offset that a node shows at its metrics. */
async function readOffsetMs(gateway: Harness): Promise<number> {
  const { body } = await gateway.withToken(undefined).get("/metrics");
  return Number(/^svc_clock_offset_seconds (\S+)$/m.exec(body)?.[1]) * 1000;
}

testOnPostgres(
  "nodes whose clocks are hours apart act at the database's time, once, whatever their clocks are set to",
  async (environment) => {
    const machines = [new SkewedTime(HOUR), new SkewedTime(-HOUR)] as const;
    await using ahead = await openOn(machines[0], environment);
    await using behind = await openOn(machines[1], environment);
    const nodes = [ahead, behind];
    const offsets = await Promise.all(nodes.map(readOffsetMs));
    assert.deepEqual(offsets.map((ms) => Math.round(ms / HOUR * 10) / 10), [1, -1]);
    // A reading of the database's clock is wrong by what it takes, on a busy machine far more than a few milliseconds.
    let errorMs = 0;
    const measureError = async (): Promise<void> => {
      const shown = await Promise.all(nodes.map(readOffsetMs));
      const errors = machines.map(({ aheadMs }, at) => Math.abs((shown[at] ?? NaN) - aheadMs));
      errorMs = Math.max(errorMs, ERROR_MS + Math.max(...errors));
    };
    const callers = await Promise.all(nodes.map((node) => node.as("ann")));
    const [ann] = callers;
    const { now } = Date;
    Date.now = () => now() + HOUR;
    const { body: room } = await ann?.post("/v1/rooms", { name: "clocks" }).finally(() => Date.now = now) ?? {};
    const idAt = Number.parseInt(room.id.slice("room_".length).slice(0, 12), 16);
    assert.equal(Math.round(Math.abs(idAt - Date.now()) / HOUR), 0, "ids have the time of the database");
    const list = async () => (await ann?.get(`/v1/messages?roomId=${room.id}`))?.body.items;

    const due: number[] = [];
    const assertNotEarly = async (): Promise<void> => {
      const items = await list();
      const readAt = Date.now();
      await measureError();
      // As long as it is too early once they have been read.
      if (readAt < Math.min(...due) - errorMs) assert.deepEqual(items, [], "too early");
    };
    for (const [at, caller] of callers.entries()) {
      // On a busy machine it is past by the time that it arrives, and refused.
      const scheduled = await eventually(async () => {
        due[at] = Date.now() + 5000;
        const body = { roomId: room.id, text: `by ${at}`, sendAt: new Date(due[at]).toISOString() };
        const response = await caller.post("/v1/messages", body);
        assert.equal(response.status, 202, JSON.stringify(response.body));
        return response;
      });
      assert.ok(Math.abs(Date.parse(scheduled.body.createdAt) - Date.now()) < TOLERANCE_MS, scheduled.body.createdAt);
    }
    for (const aheadMs of [-2 * HOUR, 2 * HOUR, -DAY, 0]) {
      for (const machine of machines) machine.aheadMs = aheadMs;
      await pause(100);
      for (const node of nodes) node.app.jobs.wake();
      await assertNotEarly();
    }
    while (Date.now() < Math.min(...due) - errorMs) {
      await assertNotEarly();
      await pause(50);
    }
    await eventually(async () => assert.equal((await list()).length, 2));
    for (const { createdAt, text } of await list()) {
      const lateMs = Date.parse(createdAt) - (due[text === "by 0" ? 0 : 1] ?? NaN);
      assert.ok(lateMs > -errorMs && lateMs < TOLERANCE_MS, `sent ${lateMs} ms late`);
    }
    await Promise.all(nodes.map((node) => node.runJobs()));
    assert.equal((await list()).length, 2);
  },
);

testOnPostgres(
  "a job that runs on one node is left to it by a node whose clock is two hours ahead",
  async (environment) => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const attempts: number[] = [];
    const kind = defineJob({
      kind: "slow",
      payload: z.strictObject({}),
      run({ attempt }) {
        attempts.push(attempt);
        return gate;
      },
    });
    await using stack = new AsyncDisposableStack();
    const runners: JobRunner[] = [];
    for (const aheadMs of [-HOUR, HOUR]) {
      const machine = new SkewedTime(aheadMs);
      const { store } = stack.use(await openOn(machine, environment)).app;
      const clock = clockFor(environment.SVC_DATABASE_URL ?? "", machine);
      if (clock instanceof DatabaseClock) {
        await clock.sync(() => readDatabaseTime(store));
        stack.defer(() => clock.stop());
      }
      const runner = stack.adopt(new JobRunner({ store, clock, kinds: [kind] }, { pollMs: 20 }), (made) => made.stop());
      runner.start();
      runners.push(runner);
      if (attempts.length > 0) continue;
      await store.write((tx) => tx.enqueue({ tenantId: "t", kind: "slow", payload: {}, runAt: 0 }));
      await eventually(() => assert.deepEqual(attempts, [1]));
    }
    await pause(300);
    open();
    await Promise.all(runners.map((runner) => runner.whenIdle()));
    assert.deepEqual(attempts, [1]);
  },
);

testOnPostgres(
  "a lease that one node gave is a lease to a node whose clock is two hours ahead of its",
  async (environment) => {
    await using behind = await openOn(new SkewedTime(-HOUR), environment);
    await using ahead = await openOn(new SkewedTime(HOUR), environment);
    const [there, here] = [await behind.as("ann"), await ahead.as("ann")];
    const { body: room } = await there.post("/v1/rooms", { name: "clocks" });
    const { body: meeting } = await there.post("/v1/collaboration/meetings", { roomId: room.id });
    const path = `/v1/collaboration/meetings/${meeting.id}`;
    const { body: seat } = await there.post(`${path}/join`, { deviceId: "laptop" });
    const { body: task } = await there.post("/v1/collaboration/tasks", { roomId: room.id, title: "clocks" });
    assert.equal((await there.post(`/v1/collaboration/tasks/${task.id}/claim`, {})).status, 200);
    for (let look = 0; look < 3; look++) {
      await Promise.all([ahead, behind].map((node) => node.runJobs()));
      for (const caller of [here, there]) {
        assert.equal((await caller.get(path)).body.participantCount, 1);
        const { body: beat } = await caller.post(`${path}/heartbeat`, { participantId: seat.participantId });
        const leftMs = Date.parse(beat.expiresAt) - Date.now();
        assert.ok(Math.abs(leftMs - 45_000) < TOLERANCE_MS, `the lease runs for ${leftMs} ms`);
        assert.ok((await caller.get(`/v1/collaboration/tasks/${task.id}`)).body.claim);
      }
    }
  },
);

Deno.test("a clock that jumps back and forth leaves the line whole and ends only what has expired", async () => {
  await using gateway = await openGateway();
  const { app, clock } = gateway;
  const ann = await gateway.as("ann", { exp: Math.floor(clock.now() / 1000) + 3600 });
  const { body: room } = await ann.post("/v1/rooms", { name: "clock" });
  const socket = new FakeSocket();
  const peer = { socket, connection: app.hub.open(socket, { ip: "::1" }) };
  await sendCommand(peer, 1, { connect: { token: ann.token } });
  const { subscribe } = await sendCommand(peer, 2, { subscribe: { channel: `room:${room.id}` } });
  const placed: number[] = [];
  for (const jump of [0, -DAY, 60_000, -HOUR, DAY + HOUR - 90_000, 0]) {
    clock.advance(jump);
    app.hub.tick();
    const sent = await ann.post("/v1/messages", { roomId: room.id, text: `after ${jump}` });
    assert.equal(sent.status, 201, JSON.stringify(sent.body));
    placed.push(sent.body.seq);
    await gateway.runJobs();
  }
  const first = (subscribe.offset ?? 0) + 1;
  assert.deepEqual(placed, placed.map((_, at) => first + at));
  await sendCommand(peer, 3, { presence: { channel: `room:${room.id}` } });
  assert.deepEqual(offsetsOn(socket, `room:${room.id}`).slice(0, placed.length), placed);
  assert.equal(socket.closedWith, undefined);

  clock.advance(2 * HOUR);
  app.hub.tick();
  const { closedWith } = socket as FakeSocket; // the check above narrowed it, the tick since has changed it
  assert.equal(closedWith?.code, 3005);
  assert.equal((await ann.get("/v1/rooms")).body.code, "token_expired");
  const later = await gateway.as("ann");
  const sent = await later.post("/v1/messages", { roomId: room.id, text: "after all" });
  assert.equal(sent.body.seq, (placed.at(-1) ?? 0) + 1);
  clock.advance(-3 * HOUR);
  assert.equal((await ann.get("/v1/rooms")).status, 200, "by the clock, the first token is good again");
  await app.drain();
});

Deno.test("a scheduled message waits for its time by the clock, however often that is set", async () => {
  await using gateway = await openGateway();
  const { clock } = gateway;
  const texts = async () => {
    await gateway.runJobs();
    const ann = await gateway.as("ann", { exp: Math.floor(clock.now() / 1000) + DAY });
    const { body } = await ann.get(`/v1/messages?roomId=${room.id}`);
    return body.items.map((item: { text: string }) => item.text);
  };
  const ann = await gateway.as("ann");
  const { body: room } = await ann.post("/v1/rooms", { name: "later" });
  const sendAt = new Date(clock.now() + HOUR).toISOString();
  assert.equal((await ann.post("/v1/messages", { roomId: room.id, text: "later", sendAt })).status, 202);
  for (const jump of [-HOUR, HOUR / 2, -DAY, DAY, HOUR - 1]) {
    clock.advance(jump);
    assert.deepEqual(await texts(), []);
  }
  clock.advance(1 + HOUR / 2);
  assert.deepEqual(await texts(), ["later"]);
  for (const jump of [-DAY, 2 * DAY]) {
    clock.advance(jump);
    assert.deepEqual(await texts(), ["later"]);
  }
});
