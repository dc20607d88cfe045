// AI in the API: providers, models, completions, budgets and usage.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { BaseVersion } from "@/core/patch.ts";
import { FileIds } from "@/modules/file/mod.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const PROVIDERS_MAX = 10;
export const BUDGETS_MAX = 500;
export const MESSAGES_MAX = 200;
export const TOOLS_MAX = 32;
export const OUTPUT_TOKENS_MAX = 4000;
const KEY_MAX_CHARS = 500;
/** Name of the operator's provider in lists of models. */
export const OPERATOR = "operator";

const ProviderId = z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "expected 1 to 40 characters of a-z 0-9 -")
  .refine((id) => id !== OPERATOR, `expected another id than \`${OPERATOR}\`, which is that of the gateway's operator`);
const ModelId = z.string().regex(/^[\w./:@-]{1,100}$/, "expected 1 to 100 characters of A-Z a-z 0-9 _ . / : @ -");
const Price = z.number().min(0).max(1_000_000);
const ProviderKind = z.enum(["openai", "anthropic", "google"])
  .describe("Protocol of the provider; `openai` is that of all compatible servers");
const ModelKind = z.enum(["chat", "embedding"]).meta({ id: "AiModelKind" });

const ModelFields = {
  id: ModelId.describe("Name by which the model is chosen; the same at all providers that offer it"),
  kind: ModelKind.default("chat").describe("What the model does: continue a conversation, or compute vectors of texts"),
  contextTokens: z.int().min(256).max(10_000_000).default(32_000)
    .describe("Tokens of a prompt and its response together"),
  images: z.boolean().optional().describe(
    "Whether it takes images; absent: as long as its provider does not refuse them",
  ),
  inputPrice: Price.optional().describe("Price of a million tokens of input, in the currency of all budgets"),
  cachedInputPrice: Price.optional()
    .describe("Price of a million tokens of input that the provider had cached; default `inputPrice`"),
  outputPrice: Price.optional().describe("Price of a million tokens of output"),
};
const ProviderModel = z.strictObject({
  ...ModelFields,
  providerModel: z.string().min(1).max(200).optional().describe("The provider's own name of the model; default `id`"),
});

export const Provider = z.object({
  id: z.string(),
  kind: ProviderKind,
  baseUrl: z.string().describe("Address of its API"),
  hasKey: z.boolean().describe("Whether an API key is stored; the key itself is never returned"),
  models: z.array(ProviderModel).describe("Models that it offers"),
  priority: z.int().describe("Of providers with the same model, the one with the lowest number is called first"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "AiProvider" });
export type Provider = z.output<typeof Provider>;

export const ProviderRef = z.strictObject({ id: ProviderId });
export const ProviderPut = z.strictObject({
  id: ProviderId,
  kind: ProviderKind,
  baseUrl: z.url({ protocol: /^https?$/ }).max(500)
    .describe(
      "Address of its API with HTTPS, such as `https://api.openai.com/v1`; private hosts only if the operator allows them",
    ),
  apiKey: z.string().min(1).max(KEY_MAX_CHARS).nullable().optional()
    .describe("API key, stored encrypted; absent: unchanged, null: none. Required again if the address changes"),
  models: z.array(ProviderModel).min(1).max(50).describe(
    "Models that it offers; the first of a kind may be the default",
  ),
  priority: z.int().min(0).max(1000).default(100)
    .describe("Of providers with the same model, the one with the lowest number is called first"),
  version: BaseVersion,
});
export type ProviderPut = z.output<typeof ProviderPut>;

export const ProviderTest = z.object({
  ok: z.boolean().describe("Whether the provider responded"),
  model: z.string().describe("Model that was called"),
  code: z.string().nullable().describe("Why the call failed, such as `bad_key` or `unreachable`; null if it did not"),
  detail: z.string().nullable().describe("The same in words, with what the provider says"),
  durationMs: z.int().describe("How long the call took"),
}).meta({ id: "AiProviderTest" });

export const Model = z.object({
  ...ModelFields,
  kind: ModelKind,
  contextTokens: z.int().describe("Tokens of a prompt and its response together"),
  default: z.boolean().describe("Whether it is used where no model is chosen"),
  providers: z.array(z.string())
    .describe(
      `Ids of the providers that offer it, in the order in which they are called; \`${OPERATOR}\`: the gateway's`,
    ),
}).meta({ id: "AiModel" });

const ToolCall = z.strictObject({
  callId: z.string().min(1).max(200).describe("Id of the call, repeated with its result"),
  name: z.string().min(1).max(64).describe("Name of the tool"),
  input: z.string().max(100_000).describe("Arguments as JSON text, as the model wrote them: maybe not valid"),
}).meta({ id: "AiToolCall" });
const Text = z.string().max(400_000).describe("Text of the message");
const roleOf = <Name extends string>(name: Name) => z.literal(name).describe("Role of the author");
const CompletionMessage = z.discriminatedUnion("role", [
  z.strictObject({ role: roleOf("system"), text: Text }).meta({ id: "AiSystemMessage" }),
  z.strictObject({
    role: roleOf("user"),
    text: Text,
    fileIds: FileIds.optional().describe(
      "Images that the model sees after the text, of files that the caller may read",
    ),
  }).meta({ id: "AiUserMessage" }),
  z.strictObject({
    role: roleOf("assistant"),
    text: Text,
    toolCalls: z.array(ToolCall).max(TOOLS_MAX).optional().describe("Tools that the model called"),
  }).meta({ id: "AiAssistantMessage" }),
  z.strictObject({
    role: roleOf("tool"),
    callId: z.string().min(1).max(200).describe("Id of the call that this is the result of"),
    toolName: z.string().min(1).max(64).describe("Name of the tool that was called"),
    result: Text.describe("JSON or text that the model reads"),
  }).meta({ id: "AiToolMessage" }),
]).meta({ id: "AiMessage" });
const JsonSchema = z.record(z.string(), z.unknown());

export const CompletionCreate = z.strictObject({
  model: ModelId.optional().describe("Id of the model; default the first one of `model.list`"),
  messages: z.array(CompletionMessage).min(1).max(MESSAGES_MAX).describe("The conversation, oldest message first"),
  tools: z.array(
    z.strictObject({
      name: z.string().regex(/^[a-z_]{1,64}$/, "expected 1 to 64 characters of a-z _").describe("Name of the tool"),
      description: z.string().max(2000).describe("What the tool does, for the model"),
      inputSchema: JsonSchema.describe("JSON Schema of an object"),
    }).meta({ id: "AiTool" }),
  ).max(TOOLS_MAX).optional().describe("Tools that the model may call; the caller runs them"),
  maxOutputTokens: z.int().min(1).max(OUTPUT_TOKENS_MAX).default(1000).describe("Maximum length of the response"),
  temperature: z.number().min(0).max(2).optional().describe("Randomness; default that of the provider"),
  responseSchema: JsonSchema.optional()
    .describe("JSON Schema that the text must match, where the provider supports it"),
});
export type CompletionCreate = z.output<typeof CompletionCreate>;

const Reason = z.enum(["stop", "tool", "length", "filtered"])
  .describe("Why the response ended: complete, to call tools, at its maximum length, or by a filter of the provider");
const CompletionEnd = {
  model: z.string().describe("Model that was used"),
  reason: Reason,
  usage: z.object({
    inputTokens: z.int().describe("Tokens of the prompt"),
    cachedTokens: z.int().describe("Of the input tokens, those that the provider had cached"),
    outputTokens: z.int().describe("Tokens of the response"),
    estimated: z.boolean().describe("Whether the provider reported no usage"),
  }).describe("Tokens that the call used"),
  costMicros: z.int().describe("Millionths of the currency of prices; 0 without prices"),
};
export const Completion = z.object({
  text: z.string().describe("Text of the response"),
  toolCalls: z.array(ToolCall).describe("Tools that the model wants to call"),
  ...CompletionEnd,
}).meta({ id: "AiCompletion" });
export type Completion = z.output<typeof Completion>;

const BUDGET_SCOPES = ["tenant", "room", "agent", "principal"] as const;
export type BudgetScope = typeof BUDGET_SCOPES[number];
export const BUDGET_PERIODS = ["hour", "day", "month"] as const;
export type BudgetPeriod = typeof BUDGET_PERIODS[number];

const BudgetScopeField = z.enum(BUDGET_SCOPES).describe("What the budget limits: the whole tenant, or one of these");
const SubjectId = z.string().nullable().describe("Id of the room, agent or principal; null for the tenant");
const Period = z.enum(BUDGET_PERIODS).meta({ id: "AiBudgetPeriod" }).describe(
  "Period in UTC after which the budget is reset",
);
const TokenLimit = z.int().min(0).max(1_000_000_000_000).nullable()
  .describe("Maximum tokens of input and output in a period; null: unlimited");
const CostLimit = z.int().min(0).max(1_000_000_000_000).nullable()
  .describe("Maximum cost in a period, in millionths of the currency of prices; null: unlimited");
const CostMicros = z.int().describe("Cost in millionths of the currency of prices");
const Amount = z.object({ tokens: z.int().describe("Tokens of input and output"), costMicros: CostMicros })
  .meta({ id: "AiAmount" });

export const Budget = z.object({
  scope: BudgetScopeField,
  subjectId: SubjectId,
  period: Period,
  tokens: TokenLimit,
  costMicros: CostLimit,
  used: Amount.describe("Used in this period"),
  reserved: Amount.describe("Reserved by calls that are running"),
  endAt: z.iso.datetime().describe("When the budget is reset"),
  updatedBy: z.string().describe("Id of the principal that set it last"),
  updatedAt: z.iso.datetime(),
}).meta({ id: "AiBudget" });
export type Budget = z.output<typeof Budget>;

export const BudgetPut = z.strictObject({
  scope: BudgetScopeField,
  subjectId: z.union([RoomId, PrincipalId]).nullable().default(null)
    .describe("Id of the room, agent or principal; null for the tenant"),
  period: Period,
  tokens: TokenLimit.default(null),
  costMicros: CostLimit.default(null),
}).describe("A budget; one without any limit is removed");
export type BudgetPut = z.output<typeof BudgetPut>;

const USAGE_GROUPS = ["model", "provider", "principal", "agent", "room", "day"] as const;
const Day = z.iso.date().describe("Day in UTC, such as 2026-03-01");
export const UsageRead = z.strictObject({
  of: z.enum(["me", "tenant"]).default("me")
    .describe("`me`: the caller and its agents; `tenant`: everybody, for admins"),
  groupBy: z.enum(USAGE_GROUPS).default("model").describe("What the usage is summed up by"),
  from: Day.optional().describe("First day; default 30 days ago"),
  to: Day.optional().describe("Last day; default today"),
  limit: z.int().min(1).max(200).default(50).describe("Maximum number of groups, those with the most tokens first"),
});
export type UsageRead = z.output<typeof UsageRead>;

export const Usage = z.object({
  items: z.array(z.object({
    key: z.string().nullable().describe(
      "The model, provider, principal, agent, room or day; null for none, and for rooms that the caller cannot see",
    ),
    hidden: z.boolean().describe("Whether it is the sum of all rooms that the caller cannot see"),
    calls: z.int().describe("Calls of models"),
    inputTokens: z.int().describe("Tokens of prompts"),
    cachedTokens: z.int().describe("Of the input tokens, those that providers had cached"),
    outputTokens: z.int().describe("Tokens of responses"),
    estimatedTokens: z.int().describe("Of all tokens, those that no provider reported"),
    costMicros: CostMicros,
  })),
}).meta({ id: "AiUsage" });
export type Usage = z.output<typeof Usage>;

export const AI_EVENTS: readonly EventType[] = eventTypes("ai.read", [
  {
    type: "budget.exhausted",
    summary: "An AI budget refused a call for the first time in its period",
    streams: ["principal"],
    data: z.object({
      scope: BudgetScopeField,
      subjectId: SubjectId,
      period: Period,
      endAt: z.iso.datetime().describe("When the budget is reset"),
    }),
  },
]);
