// Time on the thread: charged to the principal it is spent for, and shared while others are served.
import assert from "node:assert/strict";
import { setImmediate } from "node:timers";
import { beginCharge, chargeTo, createYielder, currentAccount, measureCpu, nextSlice } from "@/core/caller.ts";
import { type CpuAccount, CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault } from "@/core/fault.ts";

const actorOf = (principalId: string, ownerId: string | null = null) => ({
  tenantId: "default",
  principalId,
  ownerId,
  kind: ownerId === null ? "human" as const : "agent" as const,
});

/** A budget of a tenth of the time, whose clock is fixed. */
function budgetOf(serviceFactor = 1): { budget: CpuBudget; time: { now: number } } {
  const time = { now: 1000 };
  return { budget: new CpuBudget({ percent: 10, serviceFactor, now: () => time.now }), time };
}

Deno.test("work that keeps the thread busy lets others have a turn now and then, and light work does not", async () => {
  let others = 0;
  const rest = createYielder();
  for (let step = 0; step < 5; step++) {
    setImmediate(() => others++);
    const until = performance.now() + 12;
    while (performance.now() < until);
    assert.equal(await rest(), true);
    assert.equal(others, step + 1);
  }
  assert.equal(await createYielder()(), false);
});

Deno.test("an agent is on its owner's account, and others are not", () => {
  const { budget } = budgetOf();
  assert.equal(budget.accountOf(actorOf("bot", "alice")), budget.accountOf(actorOf("alice")));
  assert.notEqual(budget.accountOf(actorOf("bob")), budget.accountOf(actorOf("alice")));
  assert.notEqual(budget.accountOf({ ...actorOf("alice"), tenantId: "other" }), budget.accountOf(actorOf("alice")));
});

/** Members of one tenant that have a tenth of the time each, a third together, and somebody of another tenant. */
function tenantBudget() {
  const time = { now: 1000 };
  const budget = new CpuBudget({ percent: 10, tenantPercent: 33, now: () => time.now });
  const members = Array.from({ length: 30 }, (_, n) => budget.accountOf({ ...actorOf(`m${n}`), tenantId: "large" }));
  return { time, members, stranger: budget.accountOf(actorOf("bob")) };
}

Deno.test("all members of a tenant together have a share while other tenants are served", () => {
  const { time, members, stranger } = tenantBudget();
  const usedIn = (seconds: number, isContended: boolean): number => {
    let used = 0;
    for (const end = time.now + seconds * 1000; time.now < end; time.now += 4) {
      if (isContended) assert.ok(runsImmediately(stranger, time.now));
      const member = members.find(({ waitMs }) => waitMs === 0);
      if (member === undefined) continue;
      assert.ok(runsImmediately(member, time.now));
      member.consume(4, time.now);
      used += 4;
    }
    return used;
  };
  const [first, later] = [usedIn(10, true), usedIn(20, true)];
  assert.ok(first < 5000, `with the burst: ${first}`);
  assert.ok(later > 6000 && later < 7000, `${later}`);
  usedIn(10, false);
  assert.equal(usedIn(10, false), 10_000);
});

Deno.test("calls of a tenant's members under way count before it is known what they take", async () => {
  const { time, members, stranger } = tenantBudget();
  assert.ok(runsImmediately(stranger, time.now));
  const calls = members.flatMap((member) => [member, member, member].map((one) => one.beginCall(time.now)));
  assert.equal(calls.filter((call) => call === undefined).length, 50);
  for (let n = 0; n < 50; n++) members[Math.floor(n / 3)]?.endCall();
  await Promise.all(calls);
  assert.ok(runsImmediately(stranger, time.now));
});

Deno.test("members who take what they can leave time to others of their tenant", () => {
  const { time, members: [light, ...others], stranger } = tenantBudget();
  assert.ok(light !== undefined);
  let used = 0;
  for (let step = 0; step < 7500; step++, time.now += 4) {
    assert.ok(runsImmediately(stranger, time.now));
    const taker = others[step % 6];
    if (taker?.waitMs === 0) {
      taker.consume(8, time.now);
      used += 8;
    }
    if (step % 25 !== 0) continue;
    assert.ok(runsImmediately(light, time.now), `step ${step}`);
    light.consume(1, time.now);
  }
  // A third of the time, and what there was at the beginning.
  assert.ok(used > 9000 && used < 10_900, `${used}`);
});

Deno.test("what one member of a tenant took at once, others of it wait for, but not for long", async () => {
  const { time, members: [taker, member], stranger } = tenantBudget();
  assert.ok(taker !== undefined && member !== undefined);
  assert.ok(runsImmediately(stranger, time.now));
  taker.consume(60_000, time.now);
  assert.equal(member.waitMs, Math.ceil(1 + 500 / 0.33));
  const calls = Array.from({ length: 11 }, () => Promise.resolve(member.beginCall(time.now)));
  await assert.rejects(calls.at(-1) ?? Promise.resolve(), /This tenant has used its share of the server's CPU time/);
  time.now += 1600;
  assert.ok(runsImmediately(stranger, time.now));
  assert.equal(member.waitMs, 0);
  for (const call of calls.slice(0, 10)) {
    await call;
    member.endCall();
  }
});

/** Whether a call may go on at once; it ends at once as well. */
function runsImmediately(account: CpuAccount, now: number): boolean {
  const waited = account.beginCall(now);
  if (waited === undefined) account.endCall();
  else waited.then(() => account.endCall(), () => {});
  return waited === undefined;
}

/** Lets ticks pass, so that waiting calls check again. */
async function ticks(count = 5): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise((resolve) => setImmediate(() => resolve(undefined)));
}

Deno.test("who has used up the share waits while others are served, until the debt is repaid", async () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  assert.ok(runsImmediately(bob, time.now));
  assert.ok(runsImmediately(alice, time.now));
  alice.consume(480);
  assert.ok(runsImmediately(alice, time.now));
  alice.consume(22);
  // 2 ms too much, of which a tenth comes back each millisecond.
  assert.equal(alice.waitMs, 21);
  let isDone = false;
  const waited = alice.beginCall(time.now)?.then(() => isDone = true);
  await ticks();
  assert.equal(isDone, false);
  assert.ok(runsImmediately(bob, time.now));
  time.now += 21;
  await waited;
  alice.endCall();
});

Deno.test("calls under way count before it is known what they take", async () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  assert.ok(runsImmediately(bob, time.now));
  let count = 0;
  let waited: Promise<void> | undefined;
  while (count < 1000 && (waited = alice.beginCall(time.now)) === undefined) count++;
  assert.equal(count, 50);
  assert.ok(runsImmediately(bob, time.now));
  // One that ends lets the next one begin.
  alice.endCall();
  await waited;
});

for (const [whose, most] of [["one member", 1], ["many members", 25]] as const) {
  Deno.test(`calls under way of ${whose} do not wait for each other`, async () => {
    const { time, members, stranger } = tenantBudget();
    assert.ok(runsImmediately(stranger, time.now));
    const callers = Array.from({ length: 50 }, (_, n) => members[n % most]).filter((caller) => caller !== undefined);
    let slices = 0;
    for (const caller of callers) {
      assert.equal(caller.beginCall(time.now), undefined);
      void caller.waitForSlice().then(() => slices++);
    }
    await ticks(200);
    assert.equal(slices, 50);
  });
}

Deno.test("few calls wait, and none for long: others are refused, with the time to retry after", async () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  assert.ok(runsImmediately(bob, time.now));
  alice.consume(600);
  const calls = Array.from({ length: 15 }, () => Promise.resolve(alice.beginCall(time.now)));
  const refused = await Promise.allSettled(calls.slice(10));
  for (const one of refused) {
    assert.ok(one.status === "rejected" && one.reason instanceof Fault);
    assert.equal(one.reason.code, "rate_limited");
    assert.match(one.reason.message, /share of the server's CPU time/);
    assert.equal(one.reason.retryAfterMs, 1001);
  }
  // Once it is alone nobody waits any more.
  time.now += 10_000;
  for (const call of calls.slice(0, 10)) await call;
  for (let n = 0; n < 10; n++) alice.endCall();
  runsImmediately(bob, time.now);
  alice.consume(1100);
  await assert.rejects(Promise.resolve(alice.beginCall(time.now)), Fault);
});

Deno.test("who is alone takes all the time there is, and owes nothing when others come", () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  for (let n = 0; n < 100; n++) {
    assert.ok(runsImmediately(alice, time.now));
    alice.consume(400);
    time.now += 400;
  }
  assert.ok(runsImmediately(bob, time.now));
  assert.ok(alice.waitMs < 10);
});

Deno.test("debts end: a principal that used very much at once is served again after some time", () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  runsImmediately(alice, time.now);
  runsImmediately(bob, time.now);
  alice.consume(600_000);
  assert.equal(alice.waitMs, 55_001);
  assert.throws(() => alice.assertAvailable(), Fault);
  assert.ok(alice.isOverdrawn());
});

Deno.test("an account that uses its share for minutes gets less of it, and all of it again after a rest", () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  /** What alice gets of so many seconds, who always asks for more. */
  const usedIn = (seconds: number): number => {
    const before = alice.consumedMs;
    for (const end = time.now + seconds * 1000; time.now < end; time.now += 10) {
      runsImmediately(bob, time.now);
      if (alice.waitMs === 0) alice.consume(4, time.now);
    }
    return alice.consumedMs - before;
  };
  usedIn(10);
  const atFirst = usedIn(30);
  assert.ok(atFirst > 2900 && atFirst < 3200, `${atFirst}`);
  usedIn(120);
  const later = usedIn(100);
  assert.ok(later > 3900 && later < 4200, `${later}`);
  time.now += 130_000;
  const afterRest = usedIn(30);
  assert.ok(afterRest > 3300 && afterRest < 3700, `${afterRest}`); // with the burst
});

Deno.test("a socket may owe some time before it is closed", () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  runsImmediately(bob, time.now);
  alice.consume(3900);
  assert.equal(alice.isOverdrawn(), false);
  alice.consume(100);
  assert.equal(alice.isOverdrawn(), true);
  // Until all of it is made up for.
  time.now += 20_000;
  runsImmediately(bob, time.now);
  assert.equal(alice.isOverdrawn(), true);
  time.now += 15_001;
  runsImmediately(bob, time.now);
  assert.equal(alice.isOverdrawn(), false);
});

Deno.test("a job waits for its start, but only for a limited time", async () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  runsImmediately(bob, time.now);
  alice.consume(5000);
  let isDone = false;
  const waited = alice.waitForJobSlice().then(() => isDone = true);
  await ticks();
  assert.equal(isDone, false);
  time.now += 2001;
  runsImmediately(bob, time.now);
  await waited;
});

Deno.test("a service has a multiple of a person's share, half of the time at most", () => {
  const shareOf = (factor: number): number => {
    const { budget, time } = budgetOf(factor);
    const service = budget.accountOf({ ...actorOf("sync"), kind: "service" });
    runsImmediately(budget.accountOf(actorOf("bob")), time.now);
    service.consume(600);
    return Math.round(100 / (service.waitMs - 1) * 100);
  };
  assert.equal(shareOf(1), 10);
  assert.equal(shareOf(3), 30);
  assert.equal(shareOf(20), 50);
});

Deno.test("a service that acts for a person has that person's share, whichever of them calls first", () => {
  const { budget, time } = budgetOf(20);
  const hook = budget.accountOf({ ...actorOf("hook", "alice"), kind: "service" });
  assert.equal(budget.accountOf(actorOf("alice")), hook);
  runsImmediately(budget.accountOf(actorOf("bob")), time.now);
  hook.consume(600);
  assert.equal(hook.waitMs, 1001);
});

Deno.test("without a limit, no call waits", () => {
  const time = { now: 0 };
  const budget = new CpuBudget({ percent: undefined, now: () => time.now });
  const alice = budget.accountOf(actorOf("alice"));
  runsImmediately(budget.accountOf(actorOf("bob")), 0);
  alice.consume(1e9);
  assert.ok(runsImmediately(alice, 0));
  assert.equal(alice.waitMs, 0);
});

Deno.test("work for a principal is charged to it once, however deeply measurements are nested", async () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  runsImmediately(bob, time.now);
  assert.equal(currentAccount(), undefined);
  await chargeTo(alice, async () => {
    await nextSlice();
    assert.equal(currentAccount(), alice);
    measureCpu(() => measureCpu(() => time.now += 150));
    assert.equal(alice.waitMs, 0);
    runsImmediately(bob, time.now);
    const end = beginCharge();
    alice.consume(700);
    const before = alice.consumedMs;
    end();
    assert.equal(alice.consumedMs, before);
    const startedAt = performance.now();
    const yieldIfDue = createYielder(() => Promise.resolve());
    alice.consume(5);
    while (performance.now() - startedAt < 2);
    await yieldIfDue();
    assert.equal(alice.consumedMs, before + 5);
  });
  assert.ok(alice.waitMs > 0);
  assert.equal(bob.waitMs, 0);
});

Deno.test("of all that one principal does at once one slice runs a tick, and those of others beside it", async () => {
  const { budget } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  const ran: string[] = [];
  let ticks = 0;
  let isDone = false;
  const count = (): void => {
    ticks++;
    ran.push("|");
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const slices = (name: string, of: typeof alice, n: number) =>
    chargeTo(of, () => Promise.all(Array.from({ length: n }, () => nextSlice().then(() => ran.push(name)))));
  await Promise.all([slices("a", alice, 20), slices("b", bob, 3)]);
  isDone = true;
  assert.ok(ticks >= 19);
  const perTick = ran.join("").split("|");
  assert.ok(perTick.every((tick) => (tick.match(/a/g) ?? []).length <= 1 && (tick.match(/b/g) ?? []).length <= 1));
});

Deno.test("a principal with too much waiting for a slice is refused until later", async () => {
  const { budget } = budgetOf();
  const alice = budget.accountOf(actorOf("alice"));
  const results = await Promise.allSettled(Array.from({ length: 250 }, () => alice.waitForSlice()));
  const refused = results.filter(({ status }) => status === "rejected");
  assert.equal(refused.length, 50);
});

Deno.test("after a slice others have as much time, however much the account has left", async () => {
  const { budget, time } = budgetOf();
  const [alice, bob] = [budget.accountOf(actorOf("alice")), budget.accountOf(actorOf("bob"))];
  assert.ok(runsImmediately(bob, time.now));
  await alice.waitForSlice();
  time.now += 8;
  alice.consume(8);
  let isNext = false;
  const next = alice.waitForSlice().then(() => isNext = true);
  await ticks();
  assert.equal(isNext, false);
  time.now += 8;
  await next;
  // Time in which the account waited for something else counts as well.
  alice.consume(8);
  time.now += 16;
  const calls = [alice.waitForSlice(), alice.waitForSlice()];
  await Promise.all(calls);
});
