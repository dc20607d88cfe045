// Operations on providers, models, completions, budgets and usage.
import { z } from "@zod/zod";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome, type Rates } from "@/core/operation.ts";
import type { BudgetService } from "./budget_service.ts";
import type { CompletionService } from "./completion_service.ts";
import { COMPLETION_FAULTS, COMPLETION_MAX_BYTES, completionRoute } from "./completion_route.ts";
import type { ProviderService } from "./provider_service.ts";
import {
  AI_EVENTS,
  Budget,
  BudgetPut,
  Completion,
  CompletionCreate,
  Model,
  Provider,
  ProviderPut,
  ProviderRef,
  ProviderTest,
  Usage,
  UsageRead,
} from "./schema.ts";
import type { AiService } from "./service.ts";

const AI_PATH = "/v1/collaboration/ai";
const MANAGE = { scope: "ai.manage", tenant: "admin" } as const;
const COMPLETION_RATE: Rates = { human: { perSecond: 1, burst: 30 } };
const TEST_RATE: Rates = { human: { perSecond: 0.2, burst: 10 } };

type Deps = { ai: AiService; providers: ProviderService; completions: CompletionService; budgets: BudgetService };

export function aiApi(deps: Deps): ModuleApi {
  return {
    tags: { ai: "Models and their providers, completions, and what AI may use and has used." },
    events: AI_EVENTS,
    routes: [completionRoute(deps.completions, `${AI_PATH}/completions/stream`)],
    operations: [...providerOperations(deps), ...modelOperations(deps), ...budgetOperations(deps)],
  };
}

function providerOperations({ providers }: Deps): Operation[] {
  return [
    defineOperation({
      name: "provider.list",
      summary: "List the tenant's AI providers",
      access: MANAGE,
      http: { method: "GET", path: `${AI_PATH}/providers`, status: 200 },
      input: z.strictObject({}),
      output: z.object({ items: z.array(Provider) }).meta({ id: "AiProviders" }),
      async run(context) {
        return { items: await providers.list(context) };
      },
    }),
    defineOperation({
      name: "provider.put",
      summary: "Create or replace an AI provider",
      description: "The API key is stored encrypted and never returned.",
      access: MANAGE,
      http: {
        method: "PUT",
        path: `${AI_PATH}/providers/:id`,
        status: 200,
        otherStatuses: [201],
        ifMatch: "version",
      },
      input: ProviderPut,
      output: Provider,
      faults: ["address_not_allowed", "limit_reached", "version_mismatch"],
      example: {
        id: "main",
        kind: "openai",
        baseUrl: "https://api.openai.com/v1",
        apiKey: "replace-this-with-the-api-key",
        models: [{ id: "small", contextTokens: 128_000, inputPrice: 0.25, outputPrice: 2 }],
      },
      async run(context, input) {
        const { provider, isNew } = await providers.put(context, input);
        return new Outcome(provider, { status: isNew ? 201 : 200 });
      },
    }),
    defineOperation({
      name: "provider.delete",
      summary: "Delete an AI provider with its key",
      access: MANAGE,
      http: { method: "DELETE", path: `${AI_PATH}/providers/:id`, status: 204 },
      input: ProviderRef,
      output: z.void(),
      faults: ["not_found"],
      example: { id: "main" },
      run: (context, { id }) => providers.delete(context, id),
    }),
    defineOperation({
      name: "provider.test",
      summary: "Test an AI provider with a short call of its first model",
      access: MANAGE,
      http: { method: "POST", path: `${AI_PATH}/providers/:id/test`, status: 200 },
      callsOut: true,
      rate: TEST_RATE,
      input: ProviderRef,
      output: ProviderTest,
      faults: ["not_found", "budget_exceeded", "price_unknown"],
      example: { id: "main" },
      run: (context, { id }) => providers.test(context, id),
    }),
  ];
}

function modelOperations({ ai, completions }: Deps): Operation[] {
  return [
    defineOperation({
      name: "model.list",
      summary: "List the AI models that the tenant can use",
      access: { scope: "ai.read" },
      http: { method: "GET", path: `${AI_PATH}/models`, status: 200 },
      input: z.strictObject({}),
      output: z.object({ items: z.array(Model) }).meta({ id: "AiModels" }),
      async run({ actor }) {
        const models = await ai.models(actor.tenantId);
        const first = (kind: string) => models.find((model) => model.kind === kind);
        return {
          items: models.map(({ providerModel: _own, providers, ...model }) => ({
            ...model,
            default: model.id === first(model.kind)?.id,
            providers: [...providers],
          })),
        };
      },
    }),
    defineOperation({
      name: "completion.create",
      summary: "Get a response of an AI model",
      description: "The same as a stream: `completion.stream`. What it costs is charged to the caller, " +
        "or to the owner of the calling agent. Images need the scope `file.read`.",
      access: { scope: "ai.write", tenant: "member" },
      http: { method: "POST", path: `${AI_PATH}/completions`, status: 200, bodyMaxBytes: COMPLETION_MAX_BYTES },
      callsOut: true,
      rate: COMPLETION_RATE,
      input: CompletionCreate,
      output: Completion,
      faults: COMPLETION_FAULTS,
      example: { messages: [{ role: "user", text: "Summarize: the release moved to Friday." }] },
      run: ({ actor, signal }, input) => completions.create(actor, input, { signal }),
    }),
  ];
}

function budgetOperations({ budgets }: Deps): Operation[] {
  return [
    defineOperation({
      name: "budget.list",
      summary: "List the tenant's AI budgets and what is used of them",
      access: MANAGE,
      http: { method: "GET", path: `${AI_PATH}/budgets`, status: 200 },
      input: z.strictObject({}),
      output: z.object({ items: z.array(Budget) }).meta({ id: "AiBudgets" }),
      async run(context) {
        return { items: await budgets.list(context) };
      },
    }),
    defineOperation({
      name: "budget.put",
      summary: "Set an AI budget, or remove it",
      description:
        "Before each call of a model, its largest possible use is reserved of all budgets that apply; a call that " +
        "exceeds one of them fails with `budget_exceeded`. A budget without limits is removed.",
      access: MANAGE,
      http: { method: "PUT", path: `${AI_PATH}/budgets`, status: 200 },
      input: BudgetPut,
      output: Budget,
      faults: ["not_found", "limit_reached"],
      example: { scope: "tenant", period: "month", tokens: 1_000_000 },
      run: (context, input) => budgets.put(context, input),
    }),
    defineOperation({
      name: "ai_usage.read",
      summary: "Get the AI usage of the caller or the tenant",
      access: { scope: "ai.read", tenant: "member" },
      http: { method: "GET", path: `${AI_PATH}/usage`, status: 200 },
      input: UsageRead,
      output: Usage,
      example: { groupBy: "model" },
      run: (context, input) => budgets.usage(context, input),
    }),
  ];
}
