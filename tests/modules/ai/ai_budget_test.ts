// Budgets: what may be used at most is reserved before each call, also by many calls at the same time.
import assert from "node:assert/strict";
import type { AiCharge, AiModule } from "@/modules/ai/mod.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { ScriptedModels } from "../../scripted_models.ts";
import { assertProblem, createCallers, createRoom, ok } from "../fixtures.ts";

const AI = "/v1/collaboration/ai";
const SETTINGS = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_MODEL: "small input=1 output=2, free" };
/** A node that is frozen loses its runs after this time. */
const LEASE_MS = 10_000;
const HELLO = { messages: [{ role: "user" as const, text: "Hello?" }], maxOutputTokens: 100 };
const CHARGE: AiCharge = {
  tenantId: "default",
  principalId: "alice",
  agentId: "bot",
  roomId: "room_1",
  runId: "run_1",
};

function aiOf({ app }: Harness): AiModule["ai"] {
  return (app.modules.find(({ name }) => name === "ai") as AiModule).ai;
}

async function step(gateway: Harness, charge: Partial<AiCharge> = {}, model = "small"): Promise<void> {
  const parts = aiOf(gateway).step({ ...CHARGE, ...charge }, { ...HELLO, model }, new AbortController().signal);
  while (!(await parts.next()).done);
}

async function budgets(gateway: Harness) {
  const { items } = ok(await (await gateway.as("admin", { role: "admin" })).get(`${AI}/budgets`));
  return items;
}

testOnEngines("50 calls at the same time use no more than the budget", async (environment) => {
  const models = new ScriptedModels(() => ({ parts: ["Hi"], usage: { inputTokens: 20, outputTokens: 80 } }));
  await using gateway = await openGateway({ ...SETTINGS, ...environment }, { models });
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.put(`${AI}/budgets`, { scope: "tenant", period: "day", tokens: 1000 }));
  await createCallers(gateway, "bot");
  ok(await admin.put(`${AI}/budgets`, { scope: "agent", subjectId: "bot", period: "month", costMicros: 1500 }));
  const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => step(gateway)));
  const refused = outcomes.filter((one) => one.status === "rejected");
  for (const { reason } of refused) assert.equal(reason.code, "budget_exceeded");
  assert.equal(models.calls.length, 50 - refused.length);
  assert.ok(models.calls.length >= 5);
  // Calls one after the other use the rest.
  while (await step(gateway).then(() => true, () => false));
  const [agent, tenant] = await budgets(gateway);
  assert.ok(tenant.used.tokens > 700 && tenant.used.tokens <= 1000, `${tenant.used.tokens}`);
  assert.ok(agent.used.costMicros <= 1500);
  assert.deepEqual([tenant.reserved, agent.reserved], [{ tokens: 0, costMicros: 0 }, { tokens: 0, costMicros: 0 }]);
});

Deno.test("a budget applies to its tenant, room, agent or principal alone", async () => {
  await using gateway = await openGateway(SETTINGS);
  const admin = await gateway.as("admin", { role: "admin" });
  await createCallers(gateway, "alice", "bot");
  const subjects = { room: "room_1", agent: "bot", principal: "alice" };
  for (const [scope, subjectId] of Object.entries(subjects)) {
    const budget = { scope, subjectId, period: "hour" };
    ok(await admin.put(`${AI}/budgets`, { ...budget, tokens: 0 }));
    await assert.rejects(step(gateway), { code: "budget_exceeded" });
    await step(gateway, { roomId: "room_2", agentId: "other", principalId: "bob" });
    ok(await admin.put(`${AI}/budgets`, budget));
    await step(gateway);
  }
  assert.deepEqual(await budgets(gateway), []);
});

Deno.test("a budget of cost needs a price", async () => {
  await using gateway = await openGateway(SETTINGS);
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.put(`${AI}/budgets`, { scope: "tenant", period: "day", costMicros: 1_000_000 }));
  await assert.rejects(step(gateway, {}, "free"), { code: "price_unknown" });
  await step(gateway);
  const [budget] = await budgets(gateway);
  assert.equal(budget.used.costMicros, 10 + 2 * 5);
});

Deno.test("budget.exhausted is sent once in a period, to who pays and who set the budget", async () => {
  await using gateway = await openGateway(SETTINGS);
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.put(`${AI}/budgets`, { scope: "tenant", period: "day", tokens: 10 }));
  const count = async (id: string) => {
    const events = await gateway.app.store.log.read("default", `principal:${id}`, 0, 100);
    return events.filter(({ type }) => type === "budget.exhausted").length;
  };
  for (let n = 0; n < 3; n++) await assert.rejects(step(gateway), { code: "budget_exceeded" });
  assert.deepEqual([await count("alice"), await count("admin")], [1, 1]);
  gateway.clock.advance(24 * 3_600_000);
  await assert.rejects(step(gateway), { code: "budget_exceeded" });
  assert.deepEqual([await count("alice"), await count("admin")], [2, 2]);
});

Deno.test("a repeated step replaces its reservation, and the end of a run frees what it has left", async () => {
  const { promise: never, resolve: end } = Promise.withResolvers<void>();
  const models = new ScriptedModels(() => ({ parts: ["Hi", () => never, "you"] }));
  await using gateway = await openGateway(SETTINGS, { models });
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.put(`${AI}/budgets`, { scope: "room", subjectId: "room_1", period: "day", tokens: 1_000_000 }));
  const reserved = async () => (await budgets(gateway))[0].reserved.tokens;
  // As if their nodes had died: they never end.
  const steps = ["run_1.1", "run_1.1", "run_1.2"].map((reservation) =>
    aiOf(gateway).step({ ...CHARGE, reservation }, HELLO, new AbortController().signal)
  );
  await steps[0]?.next();
  const once = await reserved();
  await steps[1]?.next();
  assert.equal(await reserved(), once);
  await steps[2]?.next();
  assert.equal(await reserved(), 2 * once);
  await gateway.app.store.write((tx) => aiOf(gateway).releaseRun(tx, "default", "run_1"));
  assert.equal(await reserved(), 0);
  end();
  for (const one of steps) while (!(await one.next()).done);
  assert.equal(await reserved(), 0);
  assert.equal((await budgets(gateway))[0].used.tokens, 45);
});

testOnEngines("a step that another node has taken over leaves what that reserved to it", async (environment) => {
  const models = new ScriptedModels(() => ({ parts: ["Hi", "you"] }));
  await using gateway = await openGateway({ ...SETTINGS, ...environment }, { models });
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.put(`${AI}/budgets`, { scope: "tenant", period: "day", tokens: 1_000_000 }));
  const reserved = async () => (await budgets(gateway))[0].reserved.tokens;
  const begin = async () => {
    const step = aiOf(gateway).step({ ...CHARGE, reservation: "run_1.1" }, HELLO, new AbortController().signal);
    await step.next();
    return step;
  };
  const frozen = await begin();
  const once = await reserved();
  gateway.clock.advance(LEASE_MS);
  const other = await begin();
  await frozen.return(undefined as never);
  assert.deepEqual([once > 0, await reserved()], [true, once]);
  await other.return(undefined as never);
  assert.equal(await reserved(), 0);
});

Deno.test("what a node that died had reserved expires", async () => {
  await using gateway = await openGateway(SETTINGS);
  const admin = await gateway.as("admin", { role: "admin" });
  ok(await admin.put(`${AI}/budgets`, { scope: "tenant", period: "day", tokens: 200 }));
  const abandoned = aiOf(gateway).step(CHARGE, HELLO, new AbortController().signal);
  await abandoned.next();
  await assert.rejects(step(gateway), { code: "budget_exceeded" });
  gateway.clock.advance(15 * 60_000);
  await step(gateway);
  await gateway.runJobs();
  await abandoned.return(undefined as never);
});

Deno.test("budget.put and budget.list are for admins of the tenant", async () => {
  await using gateway = await openGateway(SETTINGS);
  const member = await gateway.as("member");
  assert.equal((await member.get(`${AI}/budgets`)).status, 403);
  const admin = await gateway.as("admin", { role: "admin" });
  for (const wrong of [{ scope: "tenant", subjectId: "x" }, { scope: "room" }]) {
    const answer = await admin.put(`${AI}/budgets`, { ...wrong, period: "day", tokens: 1 });
    assert.equal(answer.body.errors[0].pointer, "/subjectId");
  }
  await createCallers(gateway, "member");
  for (const scope of ["agent", "principal"]) {
    const budget = { scope, subjectId: "nobody", period: "day", tokens: 1 };
    assertProblem(await admin.put(`${AI}/budgets`, budget), 404, "not_found");
    ok(await admin.put(`${AI}/budgets`, { ...budget, subjectId: "member" }));
    ok(await admin.put(`${AI}/budgets`, { ...budget, subjectId: "member", tokens: null }));
  }
  ok(await admin.put(`${AI}/budgets`, { scope: "tenant", period: "day", tokens: 1 }));
  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  assert.deepEqual((await stranger.get(`${AI}/budgets`)).body.items, []);
});

testOnEngines("ai_usage.read sums up by model, agent, room, principal and day", async (environment) => {
  await using gateway = await openGateway({ ...SETTINGS, ...environment });
  const admin = await gateway.as("admin", { role: "admin" });
  const roomId = await createRoom(admin, []);
  for (let n = 0; n < 3; n++) await step(gateway, { roomId });
  await step(gateway, { principalId: "bob", roomId: undefined }, "free");
  const read = async (query: string) => ok(await admin.get(`${AI}/usage?of=tenant&${query}`)).items;
  assert.deepEqual((await read("groupBy=model"))[0], {
    key: "small",
    hidden: false,
    calls: 3,
    inputTokens: 30,
    cachedTokens: 0,
    outputTokens: 15,
    estimatedTokens: 0,
    costMicros: 60,
  });
  const keys = async (query: string) => (await read(query)).map(({ key }: { key: string }) => key);
  assert.deepEqual(await keys("groupBy=principal"), ["alice", "bob"]);
  assert.deepEqual(await keys("groupBy=room"), [roomId, null]);
  assert.deepEqual(await keys("groupBy=agent"), ["bot"]);
  assert.deepEqual(await keys("groupBy=provider"), ["operator"]);
  assert.deepEqual(await keys("groupBy=day"), ["2026-03-01"]);
  assert.deepEqual(await keys("groupBy=day&to=2026-02-28"), []);
  const alice = await gateway.as("alice");
  assert.equal(ok(await alice.get(`${AI}/usage`)).items[0].calls, 3);
  assert.equal((await alice.get(`${AI}/usage?of=tenant`)).status, 403);
});

testOnEngines(
  "ai_usage.read names no room that the caller cannot see, and counts what was used there",
  async (environment) => {
    await using gateway = await openGateway({ ...SETTINGS, ...environment });
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const [own, secret, other] = [await createRoom(alice, []), await createRoom(bob, []), await createRoom(bob, [])];
    for (const roomId of [own, secret, other, other, undefined]) await step(gateway, { roomId });
    const admin = await gateway.as("alice", { role: "admin" });
    const read = async (query: string) =>
      ok(await admin.get(`${AI}/usage?groupBy=room&${query}`)).items.map((
        one: { key: string | null; hidden: boolean; calls: number; costMicros: number },
      ) => [one.key, one.hidden, one.calls, one.costMicros]);
    for (const whose of ["me", "tenant"]) {
      const items = await read(`of=${whose}`);
      assert.deepEqual(items[0], [null, true, 3, 60]);
      assert.deepEqual(new Set(items.slice(1)), new Set([[own, false, 1, 20], [null, false, 1, 20]]));
    }
    assert.deepEqual(await read("limit=1"), [[null, true, 3, 60]]);
  },
);
