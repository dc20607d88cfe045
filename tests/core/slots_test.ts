// A queue whose owners take turns: one who fills its part delays others by one piece of work each, and refuses nobody.
import assert from "node:assert/strict";
import { FairQueue, Places, type Slot, Slots } from "@/core/limit/slots.ts";
import { Fault } from "@/core/fault.ts";
import { pause } from "../wait.ts";

/** A queue whose work ends when the test says so. */
class Rig {
  readonly queue: FairQueue;
  /** All work that has started, in order. */
  readonly started: string[] = [];
  readonly #running: PromiseWithResolvers<string>[] = [];

  constructor(places: number) {
    this.queue = new FairQueue("test", places);
  }

  /** Resolves to the name, or to the code of the failure. */
  add(owner: string, name: string): Promise<string> {
    const work = (): Promise<string> => {
      this.started.push(name);
      const end = Promise.withResolvers<string>();
      this.#running.push(end);
      return end.promise;
    };
    return this.queue.run(owner, work).catch((error) => {
      assert.ok(error instanceof Fault);
      return `${error.code} ${error.retryAfterMs ?? ""}`;
    });
  }

  addMany(owner: string, count: number): Promise<string>[] {
    return Array.from({ length: count }, (_, at) => this.add(owner, `${owner}${at}`));
  }

  /** Ends the running work: with its name, or with a failure. */
  async end(failure?: Fault): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(this.#running.length <= 1, "one at a time");
    const running = this.#running.shift();
    if (failure === undefined) running?.resolve(this.started.at(-1) ?? "");
    else running?.reject(failure);
  }

  /** Ends all work, also that which starts then. */
  async endAll(works: Promise<string>[], failure?: Fault): Promise<string[]> {
    let isOver = false;
    const results = Promise.all(works).finally(() => isOver = true);
    while (!isOver) await this.end(failure);
    return await results;
  }
}

Deno.test("owners take turns, however many one has before them", async () => {
  const rig = new Rig(40);
  const works = [...rig.addMany("m", 10), ...rig.addMany("a", 2), ...rig.addMany("b", 1)];
  const results = await rig.endAll(works);
  assert.deepEqual(results.slice(-3), ["a0", "a1", "b0"]);
  assert.deepEqual(rig.started, "m0 a0 b0 m1 a1 m2 m3 m4 m5 m6 m7 m8 m9".split(" "));
});

Deno.test("what arrives while another owner's work runs is next, also before further work of that owner", async () => {
  const rig = new Rig(40);
  const works = rig.addMany("m", 5);
  await rig.end();
  await rig.end();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(rig.started.at(-1), "m2");
  works.push(rig.add("a", "a0"));
  await rig.endAll(works);
  assert.deepEqual(rig.started, "m0 m1 m2 a0 m3 m4".split(" "));
});

Deno.test("one owner has a quarter of the slots, and blocks no other owner", async () => {
  const rig = new Rig(8);
  const works = rig.addMany("m", 2);
  assert.equal(await rig.add("m", "more"), "rate_limited 2000");
  works.push(...rig.addMany("a", 2), ...rig.addMany("b", 2), ...rig.addMany("c", 2));
  assert.equal(await rig.add("a", "more"), "rate_limited 2000");
  assert.deepEqual(await rig.endAll(works), "m0 m1 a0 a1 b0 b1 c0 c1".split(" "));
  // All places are free again.
  assert.deepEqual(await rig.endAll(rig.addMany("m", 2)), ["m0", "m1"]);
});

Deno.test("a few owners who fill the queue refuse none who has nothing in it, and one tenant refuses no other", async () => {
  const rig = new Rig(8);
  const works = ["a", "b", "c", "d"].flatMap((name) => rig.addMany(`large/${name}`, 2));
  for (let n = 0; n < 8; n++) works.push(rig.add(`large/other${n}`, `other${n}`));
  assert.equal(await rig.add("large/other0", "more"), "unavailable 2000");
  assert.equal(await rig.add("large/late", "more"), "unavailable 2000");
  works.push(rig.add("small/x", "x"));
  const results = await rig.endAll(works);
  assert.ok(!results.some((result) => result.startsWith("unavailable")));
  assert.equal(rig.started[1], "x");
  assert.deepEqual(new Set(rig.started.slice(2, 5)), new Set(["large/b0", "large/c0", "large/d0"]));
});

Deno.test("an owner and a tenant have a part of the places of a node", () => {
  const places = new Places("streams", { perOwner: 2, perTenant: 4, perNode: 8 });
  const enter = (owner: string, count: number): Disposable[] =>
    Array.from({ length: count }, () => places.enter(owner));
  const first = enter("large/a", 2);
  assert.throws(() => places.enter("large/a"), /At most 2 streams at the same time/);
  const second = enter("large/b", 2);
  assert.throws(() => places.enter("large/c"), /Too many streams at the same time/);
  const others = [...enter("small/a", 2), ...enter("tiny/a", 2)];
  assert.throws(() => places.enter("new/a"), /Too many streams at the same time/);
  for (const place of [...first, ...others, ...first]) place[Symbol.dispose]();
  // Each was free once.
  assert.equal(enter("large/c", 2).length, 2);
  assert.throws(() => places.enter("large/d"), /Too many/);
  for (const place of second) place[Symbol.dispose]();
  assert.equal(enter("large/d", 2).length, 2);
});

Deno.test("work that fails gives its turn to the next", async () => {
  const rig = new Rig(8);
  const works = [...rig.addMany("m", 2), ...rig.addMany("a", 1)];
  assert.deepEqual(await rig.endAll(works, new Fault("gone", "Failed")), ["gone ", "gone ", "gone "]);
  assert.deepEqual(await rig.endAll(rig.addMany("m", 2)), ["m0", "m1"]);
});

Deno.test("who finds no place, not even to wait, is refused by the fault of what is asked for", async () => {
  const full = (): Error => new Error("full");
  const slots = new Slots({ total: 1, places: { total: 4, perKey: [3, 2], full } });
  const ada = await slots.acquire(["team", "ada"]);
  const waiting = slots.acquire(["team", "ada"]);
  await assert.rejects(slots.acquire(["team", "ada"]), /full/);
  const bob = slots.acquire(["team", "bob"]);
  assert.throws(() => slots.assertPlace(["team", "cem"]), /full/);
  const other = slots.acquire(["other", "dan"]);
  await assert.rejects(slots.acquire(["third", "eve"]), /full/);
  ada[Symbol.dispose]();
  slots.assertPlace(["third", "eve"]);
  await Promise.all([bob, other, waiting].map(async (slot) => (await slot)[Symbol.dispose]()));
  assert.equal(slots.load(), 0);
});

Deno.test("those who have nothing find more places, so that a few who fill them refuse none to them", async () => {
  const full = (): Error => new Error("full");
  const slots = new Slots({ total: 1, places: { total: 4, perKey: [3, 2], firstFactor: 2, full } });
  const ada = await slots.acquire(["team", "ada"]);
  const waiting = [slots.acquire(["team", "ada"])];
  await assert.rejects(slots.acquire(["team", "ada"]), /full/);
  waiting.push(slots.acquire(["team", "bob"]));
  await assert.rejects(slots.acquire(["team", "bob"]), /full/, "the team has three");
  for (const name of ["cem", "dan", "eve"]) waiting.push(slots.acquire(["team", name]));
  assert.throws(() => slots.assertPlace(["team", "fay"]), /full/);
  waiting.push(slots.acquire(["other", "gus"]));
  await assert.rejects(slots.acquire(["other", "gus"]), /full/, "all have four");
  waiting.push(slots.acquire(["third", "hal"]));
  assert.throws(() => slots.assertPlace(["fourth", "ivy"]), /full/);
  ada[Symbol.dispose]();
  slots.assertPlace(["fourth", "ivy"]);
  await Promise.all(waiting.map(async (slot) => (await slot)[Symbol.dispose]()));
  assert.equal(slots.load(), 0);
});

/** Work of six slots that began, as `tenant/owner`, and what ends each of them. */
class Work {
  readonly #slots = new Slots({ total: 6, perKey: [4, 2] });
  readonly begun: string[] = [];
  readonly #running: { name: string; slot: Slot }[] = [];

  request(...names: string[]): void {
    for (const name of names) {
      void this.#slots.acquire([name.slice(0, name.indexOf("/")), name]).then((slot) => {
        this.begun.push(name);
        this.#running.push({ name, slot });
      });
    }
  }

  /** Ends the oldest work of an owner; what begins next is in `begun`. */
  async end(name: string): Promise<void> {
    const at = this.#running.findIndex((one) => one.name === name);
    this.#running.splice(at, 1)[0]?.slot[Symbol.dispose]();
    await pause(0);
  }
}

Deno.test("an owner has its part of the slots of a tenant, and a tenant its part of those of the node", async () => {
  const work = new Work();
  work.request("a/one", "a/one", "a/one", "a/two", "b/one", "b/one", "b/one", "b/two");
  await pause(0);
  assert.deepEqual(work.begun, ["a/one", "a/one", "a/two", "b/one", "b/one", "b/two"]);
  await work.end("a/two");
  assert.equal(work.begun.length, 6, "those who wait have all that they may have");
  await work.end("a/one");
  await work.end("b/one");
  assert.deepEqual(work.begun.slice(6), ["a/one", "b/one"]);
});

Deno.test("who has fewest slots is next, in a tenant and in its owners", async () => {
  const work = new Work();
  work.request("a/one", "a/one", "a/two", "a/two", "b/one", "b/one");
  work.request("a/one", "a/two", "b/two", "a/three", "c/one");
  await pause(0);
  assert.equal(work.begun.length, 6);
  await work.end("a/one");
  assert.equal(work.begun.at(-1), "c/one");
  await work.end("c/one");
  assert.equal(work.begun.at(-1), "b/two");
  await work.end("a/two");
  assert.equal(work.begun.at(-1), "a/three");
  await work.end("a/two");
  assert.equal(work.begun.at(-1), "a/two");
});
