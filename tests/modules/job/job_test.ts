// Jobs as administrators see them: of their tenant only, without payloads; dead ones are retried or discarded.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { DAY_MS } from "@/core/time/clock.ts";
import type { Platform } from "@/ports/platform.ts";
import { testOnEngines } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { captureLog } from "../../log_capture.ts";
import { assertProblem, createCaller, ok } from "../fixtures.ts";

const PATH = "/v1/collaboration/jobs";

/** A module whose job fails as long as a test wants. */
function failingModule() {
  const state = { fails: true, runs: 0 };
  let platform: Platform | undefined;
  const create = (given: Platform): Module => {
    platform = given;
    return {
      name: "failing",
      operations: [],
      jobs: [defineJob({
        kind: "failing.work",
        payload: z.strictObject({ secret: z.string() }),
        run() {
          state.runs++;
          return state.fails ? Promise.reject(new Error("The printer is on fire")) : Promise.resolve();
        },
      })],
    };
  };
  const enqueue = (tenantId: string): Promise<void> | undefined =>
    platform?.store.write((tx) => tx.enqueue({ tenantId, kind: "failing.work", payload: { secret: "hush" } }));
  return { state, create, enqueue };
}

/** Runs what is due until it is dead. The clock advances first: at its end, no revival is due that the runner finds by itself. */
async function spendAttempts(gateway: Harness): Promise<void> {
  for (let n = 0; n < 40; n++) {
    gateway.clock.advance(DAY_MS);
    await gateway.runJobs();
  }
}

testOnEngines(
  "job.list shows a dead job to administrators of its tenant, job.retry runs it again",
  async (environment) => {
    const { state, create, enqueue } = failingModule();
    await using gateway = await openGateway(environment, { modules: [create] });
    const [admin, member, stranger] = [
      await gateway.as("ada", { role: "admin", exp: 4_000_000_000 }),
      await gateway.as("mia", { exp: 4_000_000_000 }),
      await gateway.as("eve", { role: "owner", tenant: "other", exp: 4_000_000_000 }),
    ];
    for (const caller of [admin, member, stranger]) ok(await caller.get("/v1/collaboration/me"));
    await enqueue("default");
    await spendAttempts(gateway);
    const { items } = ok(await admin.get(`${PATH}?state=dead`));
    assert.equal(items.length, 1);
    const [job] = items;
    assert.deepEqual([job.kind, job.state], ["failing.work", "dead"]);
    assert.equal(job.lastError, "Error", "texts of failures may contain secrets");
    assert.ok(!JSON.stringify(items).includes("hush"), "payloads are not shown");
    assertProblem(await member.get(PATH), 403, "forbidden");
    assert.deepEqual(ok(await stranger.get(PATH)).items, []);
    assertProblem(await stranger.post(`${PATH}/${job.id}/retry`), 404, "not_found");
    assertProblem(await stranger.delete(`${PATH}/${job.id}`), 404, "not_found");

    state.fails = false;
    const before = state.runs;
    assert.equal(ok(await admin.post(`${PATH}/${job.id}/retry`)).state, "waiting");
    await gateway.runJobs();
    assert.equal(state.runs, before + 1);
    assertProblem(await admin.post(`${PATH}/${job.id}/retry`), 404, "not_found");
  },
);

testOnEngines("job.discard deletes a dead job, and no other", async (environment) => {
  const { create, enqueue } = failingModule();
  await using gateway = await openGateway(environment, { modules: [create] });
  const admin = await createCaller(gateway, "ada", { role: "admin", exp: 4_000_000_000 });
  await enqueue("default");
  await gateway.runJobs();
  const [waiting] = ok(await admin.get(PATH)).items;
  assertProblem(await admin.delete(`${PATH}/${waiting.id}`), 409, "conflict");
  await spendAttempts(gateway);
  assert.equal((await admin.delete(`${PATH}/${waiting.id}`)).status, 204);
  assert.deepEqual(ok(await admin.get(PATH)).items, []);
});

Deno.test("a clock that was set back is logged, and once a minute a database that fails", async () => {
  await using gateway = await openGateway();
  const { jobs, store } = gateway.app;
  const { write } = store;
  const logOfPolls = async (): Promise<unknown[]> => {
    const records = await captureLog(["gateway", "job"], async () => {
      for (let polls = 0; polls < 3; polls++) await jobs.whenIdle();
    });
    return records.map(({ rawMessage, properties }) => [rawMessage, properties["code"] ?? properties["byMs"]]);
  };
  assert.deepEqual(await logOfPolls(), []);
  // What waits for a later time is then moved, by a write.
  gateway.clock.advance(-DAY_MS);
  store.write = () => Promise.reject(new Fault("unavailable", "The database is unavailable"));
  assert.deepEqual(await logOfPolls(), [["claiming jobs failed", "unavailable"]]);
  store.write = write;
  assert.deepEqual(await logOfPolls(), [["the clock was set back", DAY_MS]]);
});
