// Embedding across the end of a process: what it had claimed is embedded by another one, after the claim has run out.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { ModelError } from "@/ports/model.ts";
import { testOnEngines } from "../../engines.ts";
import type { Harness } from "../../harness.ts";
import { hashingVector } from "../../hashing_embedder.ts";
import { eventually, until } from "../../wait.ts";
import { countVectors, createRoom, embedAll, openVectorGateway, search } from "./vector_fixture.ts";

const JOB = { tenantId: "default", kind: "vector.embed", payload: {} };
/** How long a claim lasts that is not renewed, and how often it is renewed. */
const CLAIM_MS = 30_000;
const RENEW_MS = 10_000;

/** Renewals that begin from now on, which only a test runs: time that passes would renew a claim that is to run out. */
function recordRenewals(): { run(): void; [Symbol.dispose](): void } {
  const { setInterval } = globalThis;
  const renewals: (() => void)[] = [];
  globalThis.setInterval = ((work: () => void, ms?: number) => {
    if (ms !== RENEW_MS) return setInterval(work, ms);
    renewals.push(work);
    return setInterval(() => {}, ms);
  }) as typeof setInterval;
  return {
    run: () => renewals.forEach((renew) => renew()),
    [Symbol.dispose]: () => void (globalThis.setInterval = setInterval),
  };
}

/** When what waits is due. */
async function dueTimes({ app }: Harness): Promise<number[]> {
  const { rows } = await sql<{ due_at: string }>`select due_at from vector_item where state = 'pending'`
    .execute(app.store.db);
  return rows.map(({ due_at }) => Date.parse(due_at));
}

/** Runs the job of another process to its end, beside one that does not end. */
async function embedElsewhere({ app }: Harness): Promise<void> {
  const key = "elsewhere";
  await app.store.write((tx) => tx.enqueue({ ...JOB, key }));
  await until(async () => {
    const { rows } = await sql`select 1 from job where key = ${key}`.execute(app.store.db);
    return rows.length === 0;
  });
}

testOnEngines(
  "a claim is renewed while its process embeds, and that of another process 30 s after it ended",
  async (engine) => {
    await using opened = await openVectorGateway(engine);
    const { gateway, models } = opened;
    const alice = await gateway.as("alice", { role: "owner" });
    await embedAll(gateway, alice);
    const [started, stuck] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let calls = 0;
    models.embedder = async (text) => {
      if (text === "the pump" && ++calls === 1) {
        started.resolve();
        await stuck.promise;
      }
      return hashingVector(text);
    };
    using renewals = recordRenewals();
    const { ids: [id = ""] } = await createRoom(alice, ["the pump"]);
    await search(alice, "anything", { mode: "keyword" });
    await started.promise;
    gateway.clock.advance(CLAIM_MS - 1);
    renewals.run();
    await eventually(async () => assert.deepEqual(await dueTimes(gateway), [gateway.clock.now() + CLAIM_MS]));
    gateway.clock.advance(CLAIM_MS - 1);
    await embedElsewhere(gateway);
    assert.equal(calls, 1, "it is still claimed");
    gateway.clock.advance(1);
    await embedElsewhere(gateway);
    await eventually(async () => assert.equal(await countVectors(gateway, id), 1));
    assert.equal(calls, 2);
    // What the first one says later changes nothing.
    stuck.resolve();
    await gateway.runJobs();
    assert.deepEqual([await countVectors(gateway, id), await dueTimes(gateway)], [1, []]);
  },
);

testOnEngines("embedding and building go on after their jobs were dead-lettered", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway } = opened;
  const alice = await gateway.as("alice", { role: "owner" });
  await embedAll(gateway, alice);
  /** Does what enqueues jobs, none of which is run. */
  const abandon = async (work: () => Promise<unknown>): Promise<void> => {
    await gateway.app.jobs.stop();
    await work();
    await gateway.app.store.write((tx) => sql`delete from job where kind like 'vector.%'`.execute(tx.db));
    gateway.app.jobs.start();
  };
  await createRoom(alice, ["a pump"]);
  await abandon(() => search(alice, "anything", { mode: "keyword" }));
  assert.equal(await countVectors(gateway), 0);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.equal(await countVectors(gateway), 1);
  await abandon(() => alice.post("/v1/collaboration/vectors/reindex"));
  const building = async () => (await alice.get("/v1/collaboration/vectors/status")).body.building;
  assert.notEqual(await building(), null);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.deepEqual([await building(), await countVectors(gateway)], [null, 1]);
});

testOnEngines("a clock that was set back holds up no embedding beyond the next check", async (engine) => {
  await using opened = await openVectorGateway(engine);
  const { gateway, models } = opened;
  const alice = await gateway.as("alice", { role: "owner" });
  await embedAll(gateway, alice);
  const working = models.embedder;
  models.embedder = () => {
    throw new ModelError("overloaded", { isRetryable: false });
  };
  await createRoom(alice, ["a pump"]);
  await search(alice, "anything", { mode: "keyword" });
  await gateway.runJobs();
  assert.equal((await alice.get("/v1/collaboration/vectors/status")).body.pausedCode, "overloaded");
  models.embedder = working;
  gateway.clock.advance(-24 * 3_600_000);
  await gateway.runJobs();
  assert.equal(await countVectors(gateway), 0);
  await gateway.app.runMaintenance();
  await gateway.runJobs();
  assert.equal(await countVectors(gateway), 1);
});
