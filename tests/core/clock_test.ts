// Times as they are written, and timeouts.
import assert from "node:assert/strict";
import process from "node:process";
import { iso, nextSharedTick, nextTick } from "@/core/time/clock.ts";
import { findTimeZone } from "@/core/time/time_zone.ts";
import { TimeoutQueue } from "@/core/time/timeout_queue.ts";

Deno.test("iso writes years of four digits only, so that times as text are in the order of time", () => {
  assert.equal(iso(Date.parse("2026-03-01T12:00:00Z")), "2026-03-01T12:00:00.000Z");
  const last = Date.parse("9999-12-31T23:59:59.999Z");
  assert.equal(iso(last + 1), iso(last));
  assert.equal(iso(8.64e15 + 1), iso(last));
  assert.equal(iso(-8.64e15), "0000-01-01T00:00:00.000Z");
});

Deno.test("a time zone is known by its IANA name only, however often it is asked for", () => {
  for (const zone of ["Europe/Vienna", "UTC", "Asia/Calcutta"]) {
    for (const name of [zone, zone.toLowerCase()]) {
      assert.deepEqual([findTimeZone(name), findTimeZone(name)], [zone, zone]);
    }
  }
  for (const name of ["Europe/Nowhere", "+02:00", "PST", "", `Europe/${"x".repeat(60)}`]) {
    assert.deepEqual([findTimeZone(name), findTimeZone(name)], [undefined, undefined], name);
  }
});

Deno.test("those who ask for a common turn go on in the next one, step by step beside each other", async () => {
  const told: string[] = [];
  async function work(name: string): Promise<void> {
    await nextSharedTick();
    told.push(`${name} 1`);
    await Promise.resolve();
    told.push(`${name} 2`);
  }
  const both = [work("a"), work("b")];
  await Promise.resolve();
  assert.deepEqual(told, []);
  await Promise.all(both);
  assert.deepEqual(told, ["a 1", "b 1", "a 2", "b 2"]);
  await Promise.all([work("c"), work("d")]);
  assert.deepEqual(told.slice(4), ["c 1", "d 1", "c 2", "d 2"]);
});

Deno.test("timeouts that are due when their timer is set expire soon, without a warning of the runtime", async () => {
  const warnings: string[] = [];
  const note = ({ name }: Error) => warnings.push(name);
  process.on("warning", note);
  const { promise, resolve } = Promise.withResolvers<void>();
  new TimeoutQueue(-1).start(resolve);
  await promise;
  await nextTick();
  process.off("warning", note);
  assert.deepEqual(warnings, []);
});
