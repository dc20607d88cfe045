// What the write queue does with lanes of which some cannot begin.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { type Connection, type Rows, SessionLost } from "@/adapters/session.ts";
import { WriteQueue } from "@/adapters/write_queue.ts";
import { systemClock } from "@/core/clock.ts";
import { quickest } from "../cost.ts";

/** A lane without a database, that can be told to fail. */
class Lane implements Connection {
  isBroken = false;
  begun = 0;
  /** Until then `begin` has no answer. */
  answer: Promise<void> | undefined;

  async begin(): Promise<void> {
    await this.answer;
    if (this.isBroken) throw new SessionLost("Connection refused");
    this.begun++;
  }

  run(): Promise<Rows> {
    return Promise.resolve({ rows: [], changed: 0 });
  }

  async insertMany(): Promise<void> {}
  control(): void {}
  async commit(): Promise<void> {}
  async rollback(): Promise<void> {}
  async close(): Promise<void> {}
}

function queueOver(...lanes: Lane[]): WriteQueue<unknown> {
  return new WriteQueue<unknown>({
    dialect: "postgres",
    clock: systemClock,
    frames: new AsyncLocalStorage(),
    lanes,
    rules: { beforeSavepoint: "", gather: () => undefined },
    told: () => {},
  });
}

/** Writes that each note when they ran. */
function notes(queue: WriteQueue<unknown>, count: number): { ran: number[]; ends: Promise<unknown>[] } {
  const ran: number[] = [];
  const work = (n: number) => async (): Promise<void> => {
    await Promise.resolve();
    ran.push(n);
  };
  return { ran, ends: Array.from({ length: count }, (_, n) => queue.write(work(n))) };
}

const inOrder = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

Deno.test("write queue: writers go past lanes that cannot begin, in the order in which they came", async () => {
  const [working, ...broken] = [new Lane(), new Lane(), new Lane()];
  for (const lane of broken) lane.isBroken = true;
  const queue = queueOver(working, ...broken);
  for (let round = 0; round < 3; round++) {
    const { ran, ends } = notes(queue, 200);
    await Promise.all(ends);
    assert.deepEqual(ran, inOrder(200));
  }
  assert.equal(broken.reduce((sum, { begun }) => sum + begun, 0), 0);
  await queue.close();
});

Deno.test("write queue: a lone writer that woke a broken lane goes to an idle one", async () => {
  const queues: ReturnType<typeof queueOver>[] = [];
  const ms = await quickest(async () => {
    const [working, broken] = [new Lane(), new Lane()];
    broken.isBroken = true;
    const queue = queueOver(working, broken);
    queues.push(queue);
    for (let count = 0; count < 5; count++) await queue.write(() => Promise.resolve());
  });
  assert.ok(ms < 80, `${ms} ms`);
  for (const queue of queues) await queue.close();
});

Deno.test("write queue: those waiting are refused once no lane can begin, and not while one may yet", async () => {
  const lanes = [new Lane(), new Lane()];
  const [slow, broken] = lanes;
  assert.ok(slow && broken);
  const { promise, resolve } = Promise.withResolvers<void>();
  slow.answer = promise;
  for (const lane of lanes) lane.isBroken = true;
  const queue = queueOver(slow, broken);
  const ends = notes(queue, 20).ends.map((end) => end.then(() => "written", ({ code }) => code));
  const early = await Promise.race([Promise.any(ends), new Promise((settle) => setTimeout(settle, 500, "waiting"))]);
  assert.equal(early, "waiting");
  resolve();
  assert.deepEqual(await Promise.all(ends), Array.from({ length: 20 }, () => "unavailable"));
  await queue.close();
});

Deno.test("write queue: lanes that can begin again are used again", async () => {
  const lanes = [new Lane(), new Lane()];
  const queue = queueOver(...lanes);
  for (const lane of lanes) lane.isBroken = true;
  await assert.rejects(queue.write(() => Promise.resolve()), { code: "unavailable" });
  for (const lane of lanes) lane.isBroken = false;
  // Each waits for the other, so each has a lane of its own.
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const both = [
    queue.write(() => (one.resolve(), two.promise)),
    queue.write(() => (two.resolve(), one.promise)),
  ];
  await Promise.all(both);
  assert.deepEqual(lanes.map(({ begun }) => begun), [1, 1]);
  await queue.close();
});
