// The clock of a node among others, in a world where every delay and every error is known.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { configure, type LogRecord, reset } from "@logtape/logtape";
import type { TimeSource } from "@/core/time/clock.ts";
import { DatabaseClock } from "@/core/time/database_clock.ts";
import { newId, setIdClock } from "@/core/id.ts";
import { eventually, pause } from "../wait.ts";

const HOUR = 3_600_000;
const START = Date.parse("2026-03-01T12:00:00.000Z");

/** True time, a machine whose clock is wrong, and a database that is asked over a slow line. */
class SimulatedTime implements TimeSource {
  readonly clock = { now: () => Math.floor(this.time + this.aheadMs) };
  time = START;
  aheadMs = 0;

  monotonicMs(): number {
    return this.time - START;
  }

  queryTime([upMs, downMs]: readonly [number, number]): Promise<number> {
    this.time += upMs;
    const answer = this.time;
    this.time += downMs;
    return Promise.resolve(answer);
  }
}

Deno.test("the clock is wrong by no more than the last question took, and setting the machine's moves nothing", async () => {
  const ms = fc.double({ min: 0, max: 500, noNaN: true });
  const wrong = fc.integer({ min: -24 * HOUR, max: 24 * HOUR });
  const trips = fc.array(fc.tuple(ms, ms), { minLength: 3, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(wrong, trips, fc.array(wrong, { maxLength: 5 }), async (aheadMs, delays, sets) => {
      const trips = delays.values();
      const world = new SimulatedTime();
      world.aheadMs = aheadMs;
      const clock = new DatabaseClock(world);
      let [up, down] = [0, 0];
      await clock.sync(() => world.queryTime([up, down] = trips.next().value ?? [0, 0]), HOUR);
      try {
        assert.ok(Math.abs(clock.now() - world.time) <= up + down + 1, `wrong by ${clock.now() - world.time} ms`);
        for (const set of sets) {
          const before = clock.now();
          world.aheadMs = set;
          assert.equal(clock.now(), before);
          assert.equal(clock.offsetMs, world.clock.now() - before);
        }
        world.time += HOUR;
        assert.ok(Math.abs(clock.now() - world.time) <= up + down + 1);
      } finally {
        clock.stop();
      }
    }),
    { numRuns: 200 },
  );
});

Deno.test("a machine with the right time uses its own clock, however slow the connection", async () => {
  const world = new SimulatedTime();
  const clock = new DatabaseClock(world);
  await clock.sync(() => world.queryTime([900, 3]), HOUR);
  assert.equal(clock.now(), world.time);
  assert.equal(clock.offsetMs, 0);
  clock.stop();
});

Deno.test("a late response moves the clock no further than necessary", async () => {
  const world = new SimulatedTime();
  world.aheadMs = 10;
  const clock = new DatabaseClock(world);
  await clock.sync(() => world.queryTime([0, 900]), HOUR);
  assert.ok(Math.abs(clock.now() - world.time) <= 10, `wrong by ${clock.now() - world.time} ms`);
  clock.stop();
});

Deno.test("the clock counts on while the database is unavailable, follows one that was set, and never asks twice at once", async () => {
  const world = new SimulatedTime();
  const clock = new DatabaseClock(world);
  let answer: () => Promise<number> = () => world.queryTime([0, 0]);
  let questions = 0;
  await clock.sync(() => {
    questions++;
    return answer();
  }, 1);
  try {
    const asked = (more: number) => {
      const before = questions;
      return eventually(() => assert.ok(questions >= before + more));
    };
    answer = () => Promise.reject(new Error("away"));
    await asked(2);
    world.time += HOUR;
    assert.equal(clock.now(), world.time);
    answer = () => Promise.resolve(world.time + HOUR);
    await eventually(() => assert.equal(clock.now(), world.time + HOUR));
    answer = () => Promise.resolve(world.time - HOUR);
    await eventually(() => assert.equal(clock.now(), world.time - HOUR));
    const late = Promise.withResolvers<number>();
    answer = () => late.promise;
    await asked(1);
    const before = questions;
    await pause(20);
    assert.equal(questions, before);
    late.resolve(world.time);
    await eventually(() => assert.equal(clock.now(), world.time));
  } finally {
    clock.stop();
  }
});

Deno.test("a database that cannot say the time at first stops the start", async () => {
  const clock = new DatabaseClock(new SimulatedTime());
  await assert.rejects(clock.sync(() => Promise.reject(new RangeError("away"))), RangeError);
});

Deno.test("a large offset is logged once, and again if it was right in between", async () => {
  const records: LogRecord[] = [];
  await configure({
    reset: true,
    sinks: { kept: (record) => void records.push(record) },
    loggers: [
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["kept"] },
      { category: ["gateway"], lowestLevel: "info", sinks: ["kept"] },
    ],
  });
  const world = new SimulatedTime();
  const clock = new DatabaseClock(world);
  let readings = 0;
  try {
    await clock.sync(() => {
      readings++;
      return world.queryTime([0, 0]);
    }, 1);
    for (const aheadMs of [HOUR, 999, -HOUR]) {
      world.aheadMs = aheadMs;
      const before = readings;
      await eventually(() => assert.ok(readings > before + 3));
    }
  } finally {
    clock.stop();
    await reset();
  }
  assert.deepEqual(records.map(({ level, properties }) => [level, properties.aheadMs]), [
    ["warning", HOUR],
    ["warning", -HOUR],
  ]);
});

Deno.test("ids have the time of the clock that nodes share, and are in order also where it is set back", () => {
  const clock = { ms: START, now: () => clock.ms };
  setIdClock(clock);
  try {
    const ids = [START, START, START - 5, START + 1].map((ms) => {
      clock.ms = ms;
      return newId("x");
    });
    assert.deepEqual(ids, ids.toSorted());
    assert.equal(new Set(ids).size, ids.length);
    const times = ids.map((id) => Number.parseInt(id.slice(2, 14), 16) - START);
    assert.deepEqual(times, [0, 0, 0, 1]);
    for (const id of ids) assert.match(id, /^x_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  } finally {
    setIdClock(undefined);
  }
});
