// The pauses of background indexing, with a manual clock.
import assert from "node:assert/strict";
import { messageStream } from "@/modules/message/searchable.ts";
import { SearchIndexer } from "@/modules/search/indexer.ts";
import { SearchIndex } from "@/modules/search/mod.ts";
import { IndexProgressStore } from "@/modules/search/progress_store.ts";
import { IndexThrottle, type ThrottleTime } from "@/modules/search/index_throttle.ts";
import { openGateway } from "../../harness.ts";
import { replace } from "../../replace.ts";
import { pause, until } from "../../wait.ts";

/** A clock that the test advances; pauses advance it as well and end at once, unless `isHeld`. */
class ManualTime implements ThrottleTime {
  ms = 0;
  readonly pauses: number[] = [];
  isHeld = false;

  monotonicMs(): number {
    return this.ms;
  }

  pause(ms: number, signal: AbortSignal): Promise<void> {
    this.pauses.push(ms);
    this.ms += ms;
    if (!this.isHeld) return Promise.resolve();
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
  }
}

/** Indexes a flood in steps of 64 events until at most 5000 are left; returns how many are left. */
async function catchUp(time: ManualTime, backlog: number, perSecond: number, stepMs: number): Promise<number> {
  const pace = new IndexThrottle(64, time);
  pace.raiseBacklog(backlog);
  let left = backlog;
  for (let steps = 0; left > 5000 && steps < 10_000; steps++) {
    pace.beginStep();
    time.ms += stepMs;
    const before = time.ms;
    left -= 64;
    await pace.restAfterStep(64, new AbortController().signal);
    const arrived = Math.round((time.ms - before + stepMs) * perSecond / 1000);
    for (let n = 0; n < arrived; n++) pace.countEvent();
    left += arrived;
  }
  return left;
}

Deno.test("indexing pauses at most two seconds after a step that a database stall delayed", async () => {
  const time = new ManualTime();
  const pace = new IndexThrottle(64, time);
  for (let n = 0; n < 2100; n++) pace.countEvent();
  pace.beginStep();
  time.ms += 7000;
  await pace.restAfterStep(64, new AbortController().signal);
  assert.deepEqual(time.pauses, [2000]);
});

Deno.test("indexing reduces a large backlog while 300 messages a second arrive", async () => {
  const time = new ManualTime();
  assert.ok(await catchUp(time, 47_000, 300, 15) <= 5000, "the backlog does not shrink");
});

Deno.test("indexing leaves nine tenths of the time to a flood, whatever the backlog", async () => {
  const time = new ManualTime();
  await catchUp(time, 47_000, 3000, 15);
  assert.ok(time.pauses.slice(1).every((ms) => ms >= 9 * 15), "the rests are too short");
});

Deno.test("indexing pauses 29 times its step under load with a small backlog, and twice its step without load", async () => {
  const time = new ManualTime();
  const pace = new IndexThrottle(64, time);
  for (const arrived of [65, 64]) {
    for (let n = 0; n < arrived; n++) pace.countEvent();
    pace.beginStep();
    time.ms += 10;
    await pace.restAfterStep(64, new AbortController().signal);
  }
  assert.deepEqual(time.pauses, [290, 20]);
});

Deno.test("of a room of long texts, about as many are read as are indexed", async () => {
  await using gateway = await openGateway({ SVC_SEARCH: "off" });
  const alice = await gateway.as("alice");
  const roomId = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
  for (let n = 0; n < 130; n++) await alice.post("/v1/messages", { roomId, text: "x".repeat(n < 30 ? 10 : 9000) });
  const { store } = gateway.app;
  let read = 0;
  const stream: typeof messageStream = {
    ...messageStream,
    findBetween: async (...range) => {
      const found = await messageStream.findBetween(...range);
      read += found.length;
      return found;
    },
  };
  const indexer = new SearchIndexer({ store, index: new SearchIndex(store), stream });
  assert.ok(await indexer.catchUp([{ tenantId: "default", roomId }], () => false));
  assert.equal((await store.db.selectFrom("search_document").select("id").execute()).length, 130);
  assert.ok(read < 5 * 130, `${read} are read`);
});

Deno.test("SearchIndexer.stop ends a pause within a backlog, and the next start indexes the rest", async () => {
  await using gateway = await openGateway({ SVC_SEARCH: "off" });
  const alice = await gateway.as("alice");
  const roomId = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
  const messages = Array.from({ length: 50 }, (_, n) => ({ roomId, text: `message ${n}` }));
  for (let n = 0; n < 4; n++) for (const message of messages) await alice.post("/v1/messages", message);
  const { store } = gateway.app;
  const time = new ManualTime();
  time.isHeld = true;
  const deps = { store, index: new SearchIndex(store), stream: messageStream, time };
  const indexer = new SearchIndexer(deps);
  indexer.start();
  await until(() => time.pauses.length === 1, "the first step ends");
  await indexer.stop();
  const count = async (): Promise<number> =>
    Number(
      (await store.db.selectFrom("search_document").select(({ fn }) => fn.countAll().as("n")).executeTakeFirstOrThrow())
        .n,
    );
  const indexed = await count();
  assert.ok(indexed > 0 && indexed < 200, `${indexed} of 200 were indexed`);
  assert.equal(time.pauses.length, 1);
  const next = new SearchIndexer({ ...deps, time: new ManualTime() });
  next.start();
  await until(async () => await count() === 200, "the next start indexes the rest");
  await next.stop();
});

Deno.test("SearchIndexer.stop resolves when its look for rooms to index has ended", async () => {
  await using gateway = await openGateway({ SVC_SEARCH: "off" });
  const { store } = gateway.app;
  const [looking, found] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  using _replaced = replace(IndexProgressStore.prototype, "laggingInAllTenants", async () => {
    looking.resolve();
    await found.promise;
    return [];
  });
  const indexer = new SearchIndexer({ store, index: new SearchIndex(store), stream: messageStream });
  indexer.start();
  await looking.promise;
  let hasStopped = false;
  const stopping = indexer.stop().then(() => hasStopped = true);
  await pause(20);
  assert.equal(hasStopped, false);
  found.resolve();
  await stopping;
});
