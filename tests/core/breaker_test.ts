// Circuit breakers that owners share: one who fails alone stops nobody else.
import assert from "node:assert/strict";
import { SharedBreakers } from "@/core/limit/breaker.ts";
import { TestClock } from "../harness.ts";

const times = (count: number, work: () => void): void => {
  for (let n = 0; n < count; n++) work();
};

Deno.test("failures of one owner stop that one, those of two owners in turn stop everybody", () => {
  const clock = new TestClock();
  const breakers = new SharedBreakers(clock);
  times(50, () => breakers.fail("model", "mallory"));
  assert.ok(breakers.enter("model", "mallory") > 0);
  assert.equal(breakers.enter("model", "alice"), 0);
  assert.equal(breakers.enter("other model", "mallory"), 0);
  times(2, () => {
    breakers.fail("model", "alice");
    breakers.fail("model", "mallory");
  });
  assert.ok(breakers.enter("model", "bob") > 0);
  assert.equal(breakers.enter("other model", "bob"), 0);
});

Deno.test("after half a minute one call tries it: if that succeeds, all may call again", () => {
  const clock = new TestClock();
  const breakers = new SharedBreakers(clock);
  times(3, () => {
    breakers.fail("model", "alice");
    breakers.fail("model", "bob");
  });
  clock.advance(30_000);
  assert.equal(breakers.enter("model", "carol"), 0);
  assert.ok(breakers.enter("model", "dora") > 0, "one at a time");
  breakers.fail("model", "carol");
  clock.advance(29_000);
  assert.ok(breakers.enter("model", "dora") > 0);
  clock.advance(1000);
  assert.equal(breakers.enter("model", "carol"), 0);
  breakers.succeed("model", "carol");
  assert.equal(breakers.enter("model", "dora"), 0);
});
