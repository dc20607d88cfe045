// Budgets of runs: many at once spend no more than the limit, and what ends frees what it reserved.
import assert from "node:assert/strict";
import type { AgentTables } from "@/modules/agent/tables.ts";
import type { Store } from "@/ports/store.ts";
import { testOnEngines } from "../../engines.ts";
import { eventually, pause, until } from "../../wait.ts";
import { AgentFixture } from "./agent_fixture.ts";
import { createCaller, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const RUNS = "/v1/collaboration/ai/runs";
const BUDGETS = "/v1/collaboration/ai/budgets";
const CAP = 30_000;

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** Two people start ten runs of each of five agents, each in a thread of its own. */
async function startFifty({ alice, bob, roomId, agentId }: AgentFixture): Promise<string[]> {
  const agentIds = [agentId];
  for (let n = 1; n < 5; n++) {
    const { id } = ok(await alice.post("/v1/collaboration/agents", { displayName: `Agent ${n}` }));
    ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
    agentIds.push(id);
  }
  const ids: string[] = [];
  for (let n = 0; n < 10; n++) {
    const root = await sendMessage(alice, roomId, `Topic ${n}`);
    for (const agent of agentIds) {
      const asker = n % 2 === 0 ? alice : bob;
      ids.push(ok(await asker.post(RUNS, { agentId: agent, roomId, threadId: root.id, input: "Go" })).id);
    }
  }
  return ids;
}

/** Cancels a run that may have ended before. */
async function cancel({ alice }: AgentFixture, id: string): Promise<void> {
  const answer = await alice.post(`${RUNS}/${id}/cancel`);
  if (answer.body.code !== "run_finished") ok(answer);
}

testOnEngines("fifty runs at the limit of a budget spend no more than it", async (environment) => {
  const usage = { inputTokens: 500, outputTokens: 1500 };
  await using fixture = await AgentFixture.open(() => ({ parts: ["ok"], usage }), { environment });
  const boss = await fixture.gateway.as("boss", { role: "owner" });
  ok(await boss.put(BUDGETS, { scope: "tenant", period: "day", tokens: CAP }));
  await startFifty(fixture);
  const { db } = fixture.gateway.app.store as unknown as Store<AgentTables>;
  const unfinished = db.selectFrom("agent_run").select("id").where("finished_at", "is", null);
  // To list them all, again and again, takes longer than they do.
  await eventually(async () => assert.equal(await unfinished.executeTakeFirst(), undefined));
  const runs = await fixture.runs();
  const spent = runs.reduce((sum, { usage }) => sum + usage.inputTokens + usage.outputTokens, 0);
  assert.ok(spent > 0 && spent <= CAP, `${spent}`);
  const failed = runs.filter(({ status }) => status === "failed");
  assert.ok(failed.length > 0 && failed.every(({ error }) => error.code === "budget_exceeded"));
  const [budget] = ok(await boss.get(BUDGETS)).items;
  assert.deepEqual([budget.used.tokens, budget.reserved.tokens], [spent, 0]);
});

testOnEngines("cancelling all runs frees all that they reserved", async (environment) => {
  const stuck = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: ["Well", () => stuck.promise] }), { environment });
  const boss = await fixture.gateway.as("boss", { role: "owner" });
  ok(await boss.put(BUDGETS, { scope: "tenant", period: "day", tokens: 1_000_000 }));
  const ids = await startFifty(fixture);
  await until(() => fixture.models.calls.length === 8);
  const budget = async (): Promise<Body> => ok(await boss.get(BUDGETS)).items[0];
  assert.ok((await budget()).reserved.tokens > 8 * 4000);
  // The queued ones first: none of them takes the place of one that ends.
  const statusOf = new Map((await fixture.runs()).map(({ id, status }) => [id, status]));
  for (const id of ids.filter((id) => statusOf.get(id) === "queued")) await cancel(fixture, id);
  for (const id of ids.filter((id) => statusOf.get(id) === "running")) await cancel(fixture, id);
  // Without waiting for the model, which has not noticed.
  assert.equal((await budget()).reserved.tokens, 0);
  stuck.resolve();
  await eventually(async () => assert.equal((await budget()).reserved.tokens, 0));
});

testOnEngines("runs that are cancelled while they begin or end keep nothing reserved", async (environment) => {
  await using fixture = await AgentFixture.open(() => ({ parts: ["Well", () => pause(1), "then"] }), { environment });
  const boss = await fixture.gateway.as("boss", { role: "owner" });
  ok(await boss.put(BUDGETS, { scope: "tenant", period: "day", tokens: 1_000_000 }));
  // Each that ends makes room for one that begins.
  for (const id of await startFifty(fixture)) await cancel(fixture, id);
  await eventually(async () => assert.equal(ok(await boss.get(BUDGETS)).items[0].reserved.tokens, 0));
});

testOnEngines("an agent uses no more tokens a day than it is configured to", async (environment) => {
  const usage = { inputTokens: 1000, outputTokens: 1000 };
  const agent = { tokensPerDay: 7000 };
  await using fixture = await AgentFixture.open(() => ({ parts: ["ok"], usage }), { environment, agent });
  await fixture.mention(fixture.bob, "One");
  await fixture.settled("succeeded", 1);
  await fixture.mention(fixture.bob, "Two");
  await fixture.settled("succeeded", 2);
  // Another response could take 4000 tokens, of 3000 that are left.
  await fixture.mention(fixture.bob, "Three");
  assert.equal((await fixture.settled("failed", 3)).error.code, "budget_exceeded");
  ok(await fixture.alice.patch(`/v1/collaboration/agents/${fixture.agentId}`, { tokensPerDay: null }));
  await fixture.mention(fixture.bob, "Four");
  await fixture.settled("succeeded", 4);
});

testOnEngines("for an agent that asks, its owner pays", async (environment) => {
  const usage = { inputTokens: 1000, outputTokens: 1000 };
  await using fixture = await AgentFixture.open(() => ({ parts: ["ok"], usage }), { environment });
  const { alice, bob, roomId, gateway } = fixture;
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`));
  await fixture.mention(robo, "One");
  assert.deepEqual((await fixture.settled()).askerIds, ["robo", "bob"]);
  const { items } = ok(await bob.get("/v1/collaboration/ai/usage?groupBy=principal"));
  assert.deepEqual(items.map(({ key, inputTokens }: Body) => [key, inputTokens]), [["bob", 1000]]);
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.put(BUDGETS, { scope: "principal", subjectId: "bob", period: "day", tokens: 3000 }));
  await fixture.mention(robo, "Two");
  assert.equal((await fixture.settled("failed", 2)).error.code, "budget_exceeded");
});

testOnEngines("a run says what it used, also of responses that broke off and if it failed", async (environment) => {
  const broken = { parts: ["Well"], error: "stream_broken", usage: { inputTokens: 1000, outputTokens: 10 } } as const;
  await using fixture = await AgentFixture.open(() => broken, { environment });
  await fixture.mention(fixture.bob, "One");
  const { usage } = await fixture.settled("failed");
  const { items: [sum] } = ok(await fixture.bob.get("/v1/collaboration/ai/usage"));
  assert.equal(sum.calls, 3);
  const { inputTokens, cachedTokens, outputTokens, costMicros } = sum;
  assert.deepEqual(usage, { inputTokens, cachedTokens, outputTokens, costMicros });
  const events = await readRoomEvents(fixture.bob, fixture.roomId);
  assert.deepEqual(events.at(-1)?.data.run.usage, usage);
});
