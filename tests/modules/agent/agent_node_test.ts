// Runs and nodes: one that stops hands over what it has, and no call of a service outside is repeated.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { AgentTool } from "@/modules/agent/mod.ts";
import { RunQueueStore } from "@/modules/agent/run/queue_store.ts";
import type { AgentTables } from "@/modules/agent/tables.ts";
import type { Store } from "@/ports/store.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { eventually, until } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createCaller, ok, readTexts, sendMessage } from "../fixtures.ts";

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** What a frozen node has at most, after it renewed its leases for the last time. */
const LEASE_MS = 10_000;
const AI = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_MODEL: "small" };

/** Calls of a service outside, each of which waits until it is released or its node stops. */
function slowService(isIdempotent: boolean) {
  const keys: string[] = [];
  const released = Promise.withResolvers<void>();
  const tool: AgentTool = {
    name: "mail",
    description: "Send a mail",
    inputSchema: { type: "object" },
    isIdempotent,
    needsApproval: false,
    call({ key, signal }) {
      keys.push(key);
      return new Promise((resolve, reject) => {
        released.promise.then(() => resolve("sent"));
        signal.addEventListener("abort", () => reject(new Error("the node stops")));
      });
    },
  };
  return { keys, release: () => released.resolve(), tool };
}

/** From now on no node renews its leases, as one that ended: these nodes share a process, and all go on. */
function endRenewals(): Disposable {
  const { renew } = RunQueueStore.prototype;
  RunQueueStore.prototype.renew = (leases) => Promise.resolve(leases.map(({ id }) => id));
  return { [Symbol.dispose]: () => void (RunQueueStore.prototype.renew = renew) };
}

/** Begins a run whose model stops half way; resolve what is returned to let it go on. */
async function beginHalf(fixture: AgentFixture): Promise<PromiseWithResolvers<void>> {
  const stuck = Promise.withResolvers<void>();
  fixture.answer(() => ({ parts: ["Half ", () => stuck.promise, "of it"] }));
  await fixture.mention(fixture.bob, "Go");
  await until(() => fixture.models.calls.length === 1);
  return stuck;
}

/** Another node of the same database. */
function openNode(environment: Record<string, string>, models: ScriptedModels, tool?: AgentTool): Promise<Harness> {
  const toolsOf = (_tenant: string, _agent: string, names: readonly string[]) =>
    Promise.resolve(tool !== undefined && names.includes(tool.name) ? [tool] : []);
  return openGateway({ ...AI, ...environment }, {
    models,
    modules: [(_platform, { toolSources }) => {
      toolSources.push({ toolsOf, patternsOf: () => tool === undefined ? [] : [tool.name] });
      return { name: "mailer", operations: [] };
    }],
  });
}

testOnPostgres("a node that stops gives its run to another one, which continues it at once", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: { tools: ["task.create"] } });
  const { bob, roomId, gateway } = fixture;
  fixture.answer(({ number }) =>
    number === 1
      ? callTools(["task_create", { roomId, title: "once" }])
      : { parts: ["Half ", (signal) => once(signal, "abort"), "never"] }
  );
  const models = new ScriptedModels(() => ({ parts: ["All of it"] }));
  await fixture.mention(bob, "Go");
  await until(() => fixture.models.calls.length === 2);
  await using other = await openNode(environment, models);
  await gateway.app.drain();
  await eventually(async () => {
    const [run] = ok(await (await other.as("alice")).get(`/v1/collaboration/ai/runs?roomId=${roomId}`)).items;
    // A handover is no attempt that failed.
    assert.deepEqual([run.status, run.attempt], ["succeeded", 1]);
  });
  const alice = await other.as("alice");
  const texts = await readTexts(alice, roomId);
  assert.deepEqual(texts, ["Go", "All of it"]);
  assert.equal(ok(await alice.get(`/v1/collaboration/tasks?roomId=${roomId}`)).items.length, 1);
  assert.equal(models.calls.length, 1);
  assert.match(JSON.stringify(models.calls[0]?.request.messages), /task_create.*once/);
});

testOnPostgres(
  "a run of a node that ended continues elsewhere, and what that node says later does not count",
  async (environment) => {
    await using fixture = await AgentFixture.open(undefined, { environment });
    using _ended = endRenewals();
    const { gateway } = fixture;
    const stuck = await beginHalf(fixture);
    await using other = await openNode(environment, new ScriptedModels(() => ({ parts: ["All of it"] })));
    const leases = other.app.modules.find(({ name }) => name === "agent")?.leases;
    const owners = await leases?.owners() ?? [];
    assert.match(owners.join(), /^\d+:lease_[0-9a-f]+$/, "nodes are told apart");
    assert.equal(await leases?.expire(["1:lease_other"]), 0);
    assert.equal(await leases?.expire(owners), 1);
    await eventually(async () => {
      // That node lives, and may renew its lease before the other one has claimed the run.
      await leases?.expire(owners);
      const [run] = await fixture.runs();
      assert.equal(run.status, "succeeded");
    });
    await fixture.settled("succeeded");
    stuck.resolve();
    await gateway.app.drain();
    assert.deepEqual(await fixture.texts(), ["Go", "All of it"]);
    assert.deepEqual(await leases?.owners(), []);
  },
);

testOnPostgres(
  "a run of a node that is not known to have ended continues elsewhere once its lease has run out, not before",
  async (environment) => {
    await using fixture = await AgentFixture.open(undefined, { environment });
    const { gateway } = fixture;
    const stuck = await beginHalf(fixture);
    const claimedAt = gateway.clock.now();
    await using other = await openNode(environment, new ScriptedModels(() => ({ parts: ["All of it"] })));
    const { db } = other.app.store;
    const isClaimable = async (): Promise<boolean> => {
      const now = other.clock.now();
      return (await new RunQueueStore(db).claimable(now, { tenantIds: [], agentIds: [], askers: [] }, 9)).length > 0;
    };
    other.clock.advance(claimedAt + LEASE_MS - other.clock.now());
    assert.equal(await isClaimable(), false);
    other.clock.advance(1);
    await fixture.settled("succeeded");
    stuck.resolve();
    await gateway.app.drain();
    assert.deepEqual(await fixture.texts(), ["Go", "All of it"]);
  },
);

testOnEngines(
  "the more often the node of a run ended, the longer the run waits, until it fails",
  async (environment) => {
    await using fixture = await AgentFixture.open(undefined, { environment });
    const stuck = await beginHalf(fixture);
    const store = fixture.gateway.app.store as unknown as Store<AgentTables>;
    const endedAt = fixture.gateway.clock.now();
    const claimableAfter = (...waits: number[]): Promise<number[]> =>
      Promise.all(waits.map(async (ms) => {
        const busy = { tenantIds: [], agentIds: [], askers: [] };
        return (await new RunQueueStore(store.db).claimable(endedAt + ms, busy, 9)).length;
      }));
    const found: unknown[] = [];
    for (const [n, waitMs] of [0, 0, 10_000, 30_000, 120_000, 0].entries()) {
      const set = { attempt: n + 1, lease_owner: "1:lease_other", lease_until: new Date(endedAt).toISOString() };
      await store.write(({ db }) => db.updateTable("agent_run").set(set).where("status", "=", "running").execute());
      found.push(await claimableAfter(waitMs, waitMs + 1));
    }
    stuck.resolve();
    assert.deepEqual(found, Array(6).fill([0, 1]));
  },
);

for (const isIdempotent of [false, true]) {
  const outcome = isIdempotent ? "is repeated with its key if it may be" : "is not repeated, and the model learns why";
  testOnPostgres(`a call of a service outside that a node did not see the end of ${outcome}`, async (environment) => {
    const { keys, release, tool } = slowService(isIdempotent);
    const models = new ScriptedModels(({ request: { messages } }) => {
      const last = messages.at(-1);
      return last?.role === "tool" ? { parts: [`Result: ${last.result}`] } : callTools(["mail", {}]);
    });
    const first = await openNode(environment, models, tool);
    const alice = await createCaller(first, "alice");
    const roomId = ok(await alice.post("/v1/rooms", { name: "Team" })).id;
    const { id } = ok(await alice.post("/v1/collaboration/agents", { displayName: "Helper", tools: ["mail"] }));
    ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
    await sendMessage(alice, roomId, "Send it", { mentions: { principalIds: [id], room: false } });
    await first.runJobs();
    await until(() => keys.length === 1);
    await first[Symbol.asyncDispose]();
    release();
    await using second = await openNode(environment, models, tool);
    const reader = await second.as("alice");
    const run = await eventually(async () => {
      const [found] = ok(await reader.get(`/v1/collaboration/ai/runs?roomId=${roomId}`)).items;
      assert.equal(found.status, "succeeded");
      return ok(await reader.get(`/v1/collaboration/ai/runs/${found.id}`));
    });
    assert.equal(run.steps[1].status, isIdempotent ? "succeeded" : "outcome_unknown");
    assert.deepEqual(keys, isIdempotent ? [`${run.id}.1`, `${run.id}.1`] : [`${run.id}.1`]);
    const texts = await readTexts(reader, roomId);
    assert.match(texts.at(-1) ?? "", isIdempotent ? /Result: sent/ : /Result: The outcome of this call is unknown/);
  });
}
