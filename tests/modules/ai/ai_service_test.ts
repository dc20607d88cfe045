// The service that other modules call models with: routing, retries, budgets and usage.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import type { AiCharge, AiModule, AiStepEnd } from "@/modules/ai/mod.ts";
import { ModelError, type ModelPart } from "@/ports/model.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { ScriptedModels } from "../../scripted_models.ts";

const SETTINGS = {
  SVC_AI_BASE_URL: "http://models.test/v1",
  SVC_AI_MODEL: "small context=8000 input=1 cached=0.5 output=4, large",
  SVC_AI_EMBEDDING_MODEL: "vectors input=0.1",
};
const CHARGE: AiCharge = { tenantId: "default", principalId: "alice" };

function aiOf({ app }: Harness): AiModule["ai"] {
  return (app.modules.find(({ name }) => name === "ai") as AiModule).ai;
}

const request = (text = "Hello?") => ({ messages: [{ role: "user" as const, text }], maxOutputTokens: 100 });

async function runStep(
  gateway: Harness,
  { model, charge = CHARGE, signal = new AbortController().signal }: {
    model?: string;
    charge?: AiCharge;
    signal?: AbortSignal;
  } = {},
): Promise<{ parts: ModelPart[]; end: AiStepEnd }> {
  const parts: ModelPart[] = [];
  const step = aiOf(gateway).step(charge, { ...request(), model }, signal);
  let result = await step.next();
  while (!result.done) {
    parts.push(result.value);
    result = await step.next();
  }
  return { parts, end: result.value };
}

Deno.test("a step streams its parts, then its end with model and cost", async () => {
  const models = new ScriptedModels(() => ({
    parts: ["Hi", " you"],
    usage: { inputTokens: 100, cachedTokens: 40, outputTokens: 10 },
  }));
  await using gateway = await openGateway(SETTINGS, { models });
  const { parts, end } = await runStep(gateway);
  assert.deepEqual(parts, [{ kind: "text", text: "Hi" }, { kind: "text", text: " you" }]);
  assert.equal(end.model, "small");
  assert.equal(end.costMicros, 60 + 20 + 40);
  assert.equal(models.calls[0]?.endpoint.model, "small");
});

Deno.test("a model is the default, a named one, or a fault", async () => {
  await using gateway = await openGateway(SETTINGS, { models: new ScriptedModels() });
  const ai = aiOf(gateway);
  assert.equal((await ai.requireModel("default")).id, "small");
  assert.equal((await ai.requireModel("default", "large")).contextTokens, 32_000);
  assert.equal((await ai.embeddingModel("default"))?.id, "vectors");
  await assert.rejects(ai.requireModel("default", "vectors"), { code: "model_unknown" });
  await using without = await openGateway();
  await assert.rejects(aiOf(without).requireModel("default"), { code: "ai_not_configured" });
  assert.equal(await aiOf(without).embeddingModel("default"), undefined);
});

Deno.test("a step that fails before its first part is tried again, one that has begun is not", async () => {
  const models = new ScriptedModels(({ number }) => number < 3 ? { error: "overloaded" } : { parts: ["Hi"] });
  await using gateway = await openGateway(SETTINGS, { models });
  assert.equal((await runStep(gateway)).parts.length, 1);
  assert.equal(models.calls.length, 3);
  models.script = () => ({ parts: ["Hi"], error: "stream_broken" });
  await assert.rejects(runStep(gateway), (error) => error instanceof ModelError && error.code === "stream_broken");
  assert.equal(models.calls.length, 4);
  models.script = () => ({ error: "bad_key" });
  await assert.rejects(runStep(gateway), (error) => error instanceof ModelError && error.code === "bad_key");
  assert.equal(models.calls.length, 5);
});

Deno.test("a provider that fails five times in 30 s is left alone for as long", async () => {
  const models = new ScriptedModels(() => ({ error: "overloaded" }));
  await using gateway = await openGateway(SETTINGS, { models });
  for (let n = 0; n < 2; n++) await assert.rejects(runStep(gateway), ModelError);
  assert.equal(models.calls.length, 5);
  await assert.rejects(runStep(gateway), (error) => error instanceof ModelError && (error.retryAfterMs ?? 0) > 0);
  assert.equal(models.calls.length, 5);
  gateway.clock.advance(30_000);
  models.script = () => ({ parts: ["Back"] });
  assert.equal((await runStep(gateway)).parts.length, 1);
});

Deno.test("a caller without tokens left for the day gets budget_exceeded, and one event", async () => {
  const models = new ScriptedModels(() => ({ parts: ["Hi"], usage: { inputTokens: 50, outputTokens: 50 } }));
  const limits = { SVC_RATE_LIMIT: "on", SVC_LIMIT_AI_TOKENS_PER_DAY: "250" };
  await using gateway = await openGateway({ ...SETTINGS, ...limits }, { models });
  await runStep(gateway);
  await runStep(gateway);
  for (let n = 0; n < 2; n++) {
    await assert.rejects(runStep(gateway), (error) => error instanceof Fault && error.code === "budget_exceeded");
  }
  const events = await gateway.app.store.log.read("default", "principal:alice", 0, 10);
  assert.deepEqual(events.map(({ type }) => type), ["budget.exhausted"]);
  await runStep(gateway, { charge: { ...CHARGE, principalId: "bob" } });
  gateway.clock.advance(12 * 3_600_000);
  await runStep(gateway);
});

Deno.test("a caller that stops reading frees what was reserved", async () => {
  const models = new ScriptedModels(() => ({ parts: ["Hi", "there"] }));
  const limits = { SVC_RATE_LIMIT: "on", SVC_LIMIT_AI_TOKENS_PER_DAY: "250" };
  await using gateway = await openGateway({ ...SETTINGS, ...limits }, { models });
  for (let n = 0; n < 3; n++) {
    for await (const _part of aiOf(gateway).step(CHARGE, request(), new AbortController().signal)) break;
  }
  const controller = new AbortController();
  models.script = () => ({ parts: ["Hi", () => controller.abort(), "there"] });
  await assert.rejects(
    runStep(gateway, { signal: controller.signal }),
    (error) => error instanceof ModelError && error.code === "cancelled",
  );
});
