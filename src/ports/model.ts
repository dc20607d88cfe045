// Language models and embedding models of providers, one call at a time.
//
// - A step is one response of a model: a stream of parts, then its end. It never ends silently: what is not complete throws.
// - The adapter bounds the time to the first part, between parts and in all; it neither retries nor falls back.
// - Usage is what the provider reports, else an estimate that says so. An aborted or broken step has its usage in the error.
// - Messages of errors name no key and quote no provider: their texts may hold keys and prompts.

/** Where a model is called. */
export type ModelEndpoint = {
  /** Protocol of the provider. */
  kind: "openai" | "anthropic" | "google";
  baseUrl: string;
  apiKey: string | undefined;
  /** The provider's name of the model. */
  model: string;
  /** Private hosts that the operator allows for models. */
  allowHosts?: readonly string[];
};

/** A model as described in the configuration of its provider. */
export type ModelConfig = {
  /** The name by which it is chosen; providers that offer the same model give it the same one. */
  id: string;
  kind: "chat" | "embedding";
  /** The provider's own name of it, where that differs. */
  providerModel?: string | undefined;
  /** Tokens of a prompt and its response together. */
  contextTokens: number;
  /** Whether it takes images; absent: as long as its provider does not refuse them. */
  images?: boolean | undefined;
  /** Prices of a million tokens, in the currency of all budgets. */
  inputPrice?: number | undefined;
  cachedInputPrice?: number | undefined;
  outputPrice?: number | undefined;
};

/** The provider of the operator, for all tenants. */
export type OperatorProvider = Omit<ModelEndpoint, "model"> & { models: readonly ModelConfig[] };

/** A message of the prompt. Results of tools follow the message that called them. */
export type ModelMessage =
  | { role: "system"; text: string; /** Prompt caching may end a stable prefix here. */ isCacheable?: boolean }
  | { role: "user"; text: string; images?: readonly ModelImage[] | undefined }
  | { role: "assistant"; text: string; toolCalls?: readonly ModelToolCall[] | undefined }
  | { role: "tool"; callId: string; toolName: string; /** JSON or text that the model reads. */ result: string };

/** An image within a message. Its content is no instruction, as that of any message of others. */
export type ModelImage = {
  /** Where in the text of the message it is. */
  at: number;
  name: string;
  /** One that all protocols take. */
  contentType: "image/jpeg" | "image/png";
  base64: string;
  width: number;
  height: number;
};

export type ModelToolCall = {
  callId: string;
  name: string;
  /** The arguments as JSON text, as the model wrote them: maybe not valid. */
  input: string;
  /** What the model wants back with this call in later steps; of no use to another one. */
  signature?: ModelSignature | undefined;
};

export type ModelSignature = {
  /** The provider's name of the model. */
  model: string;
  /** Opaque: Gemini encrypts its reasoning in it. */
  text: string;
  /** Whether it is the reasoning itself. */
  isReasoning?: boolean | undefined;
};

export type ModelTool = {
  /** `^[a-z_]{1,64}$` */
  name: string;
  description: string;
  /** JSON Schema of an object. */
  inputSchema: Record<string, unknown>;
  /** A model without tools does without this one; with others, it is an error. */
  isOptional?: boolean | undefined;
};

export type ModelRequest = {
  messages: readonly ModelMessage[];
  tools?: readonly ModelTool[] | undefined;
  maxOutputTokens: number;
  temperature?: number | undefined;
  /** JSON Schema that the text must match, where the provider has an option for it. */
  responseSchema?: Record<string, unknown> | undefined;
};

export type ModelPart =
  | { kind: "text" | "reasoning"; text: string }
  /** All of the text before was reasoning: it does not count. */
  | { kind: "reset" }
  | ({ kind: "tool" } & ModelToolCall);

export type ModelUsage = {
  inputTokens: number;
  /** How many of the input tokens were read from the provider's cache. */
  cachedTokens: number;
  outputTokens: number;
  estimated: boolean;
};

export type ModelStepEnd = {
  reason: "stop" | "tool" | "length" | "filtered";
  usage: ModelUsage;
};

export type ModelErrorCode =
  | "rate_limited"
  | "overloaded"
  | "bad_key"
  | "quota_exceeded"
  | "tools_unsupported"
  | "context_too_long"
  | "call_malformed"
  | "request_refused"
  | "unreachable"
  | "timed_out"
  | "stream_broken"
  | "cancelled";

export class ModelError extends Error {
  readonly code: ModelErrorCode;
  /** Whether the same call may succeed later. */
  readonly isRetryable: boolean;
  /** How long the provider asks to wait. */
  readonly retryAfterMs: number | undefined;
  /** What was used until then; absent when no part was received. */
  readonly usage: ModelUsage | undefined;
  /** Why the provider refused the request, in its words. It may quote the request, so only its sender may read it. */
  readonly reply: string | undefined;

  constructor(
    code: ModelErrorCode,
    { isRetryable, retryAfterMs, usage, reply, cause }: {
      isRetryable: boolean;
      retryAfterMs?: number | undefined;
      usage?: ModelUsage | undefined;
      reply?: string | undefined;
      cause?: unknown;
    },
  ) {
    super(code, { cause });
    this.name = "ModelError";
    this.code = code;
    this.isRetryable = isRetryable;
    this.retryAfterMs = retryAfterMs;
    this.usage = usage;
    this.reply = reply;
  }
}

export type ModelTimeLimits = { firstPartMs: number; idleMs: number; totalMs: number };

export interface Models {
  step(
    endpoint: ModelEndpoint,
    request: ModelRequest,
    options: { signal: AbortSignal; limits?: Partial<ModelTimeLimits> },
  ): AsyncGenerator<ModelPart, ModelStepEnd>;

  /** One vector for each text, in order. */
  embed(
    endpoint: ModelEndpoint,
    texts: readonly string[],
    options: { signal: AbortSignal; limits?: Partial<ModelTimeLimits> },
  ): Promise<{ vectors: number[][]; usage: ModelUsage }>;
}
