// Models by the provider packages of the AI SDK. Each package is loaded with the first call of its protocol.
import type { AnthropicProvider } from "@ai-sdk/anthropic";
import type { OpenAICompatibleProviderSettings } from "@ai-sdk/openai-compatible";
import { LruMap } from "@/core/lru_map.ts";
import { inChunks } from "@/core/page.ts";
import { estimateTokens } from "@/core/text/tokens.ts";
import { trimTrailing } from "@/core/text/text.ts";
import {
  type ModelEndpoint,
  ModelError,
  type ModelPart,
  type ModelRequest,
  type Models,
  type ModelSignature,
  type ModelStepEnd,
  type ModelTimeLimits,
  type ModelUsage,
} from "@/ports/model.ts";
import { estimateInput, imagesOf, withoutImages } from "@/ports/model_images.ts";
import type { JsonBounds, Outbound, OutboundOptions } from "@/ports/outbound.ts";
import { imageRefusalOf, modelErrorOf, StreamBroken } from "./ai_sdk_errors.ts";
import { callOptionsOf } from "./ai_sdk_prompt.ts";
import { OpenAiDialects, reasonOf, ReturnedReasoning, SERVERS_MAX } from "./openai_dialects.ts";
import { normalizeChat, normalizeEmbeddings } from "./openai_responses.ts";
import { ReasoningTags } from "./reasoning_tags.ts";
import { StepTimer } from "./step_timer.ts";
import { streamWhole } from "./whole_responses.ts";

const LIMITS: ModelTimeLimits = { firstPartMs: 60_000, idleMs: 30_000, totalMs: 300_000 };
/** Longer ones are dropped: they are stored with each call. */
const SIGNATURE_MAX_CHARS = 32 * 1024;
/** Longest response to a step, and what each token adds: some providers say a lot with each. */
const RESPONSE_BYTES = { base: 1024 * 1024, perToken: 1024, max: 32 * 1024 * 1024 };
/** Bounds of an event of it, which is parsed at once: many values take about a microsecond each. */
const EVENT_BOUNDS: JsonBounds = { bytesMax: 512 * 1024, depthMax: 64, valuesMax: 10_000 };
/** A provider that ignores the limit of output tokens is cut off here: no tokenizer needs so many characters for one. */
const CHARS_PER_TOKEN_MAX = 16;
/** Google takes no more than 100 in one call; the response to fewer is parsed sooner. */
const EMBEDDINGS_PER_CALL = 8;
/** Bounds of a response for each text: 8,192 numbers with all their digits, and what says whose they are. */
const EMBEDDING_BOUNDS: JsonBounds = { bytesMax: 256 * 1024, depthMax: 8, valuesMax: 8300 };
/** More than any context: what reports more is wrong. */
const TOKENS_MAX = 100_000_000;

type LanguageModel = ReturnType<AnthropicProvider["languageModel"]>;
type EmbeddingModel = ReturnType<AnthropicProvider["embeddingModel"]>;
type StreamPart = Awaited<ReturnType<LanguageModel["doStream"]>>["stream"] extends ReadableStream<infer Part> ? Part
  : never;
type Finish = Extract<StreamPart, { type: "finish" }>;
type Options = { signal: AbortSignal; limits?: Partial<ModelTimeLimits> };
type ProviderSettings = { name: string; baseURL: string; apiKey: string; fetch: typeof fetch };
type Normalize = (response: Response) => Response | Promise<Response>;
type ResponseBounds = Required<Pick<OutboundOptions, "bodyMaxBytes" | "json">>;

const REASONS: Readonly<Record<string, ModelStepEnd["reason"]>> = {
  stop: "stop",
  "tool-calls": "tool",
  length: "length",
  "content-filter": "filtered",
};
/** Google's, of a call that the model wrote and the provider could not read. */
const CALL_MALFORMED = "MALFORMED_FUNCTION_CALL";

export class AiSdkModels implements Models {
  readonly #outbound: Outbound;
  readonly #dialects = new OpenAiDialects();
  /** Servers and models that take no images. */
  readonly #imageless = new LruMap<string, true>(SERVERS_MAX);

  constructor(outbound: Outbound) {
    this.#outbound = outbound;
  }

  async *step(
    endpoint: ModelEndpoint,
    request: ModelRequest,
    { signal, limits }: Options,
  ): AsyncGenerator<ModelPart, ModelStepEnd> {
    using timer = new StepTimer(signal, { ...LIMITS, ...limits });
    const outputMaxChars = request.maxOutputTokens * CHARS_PER_TOKEN_MAX;
    let output = "";
    const estimate = (): ModelUsage => ({
      inputTokens: estimateInput(request),
      cachedTokens: 0,
      outputTokens: estimateTokens(output),
      estimated: true,
    });
    try {
      const returned = new ReturnedReasoning();
      const stream = await this.#send(endpoint, request, timer.signal, returned);
      const server = serverOf(endpoint);
      const tags = new ReasoningTags(this.#dialects.omitsFirstTag(server));
      let finish: Finish | undefined;
      for await (const part of timer.watch(stream)) {
        // What was not understood may have been part of the response, so the rest of it is not the whole.
        if (part.type === "error") throw part.error ?? new StreamBroken();
        if (part.type === "finish") finish = part;
        for (const modelPart of modelPartsOf(endpoint, part, tags, returned)) {
          timer.begin();
          output += outputOf(modelPart);
          yield modelPart;
          if (output.length > outputMaxChars) return { reason: "length", usage: estimate() };
        }
      }
      const { unified = "", raw } = finish?.finishReason ?? {};
      const reason = REASONS[unified] ?? (unified === "other" ? reasonOf(raw) : undefined);
      if (raw === CALL_MALFORMED) throw new ModelError("call_malformed", { isRetryable: true });
      if (finish === undefined || reason === undefined) throw new StreamBroken();
      this.#dialects.noteFirstTag(server, tags.omitsFirstTag);
      return { reason, usage: usageOf(finish, output) ?? estimate() };
    } catch (thrown) {
      throw modelErrorOf(timer.failure(thrown), output === "" ? undefined : estimate(), endpoint.apiKey);
    }
  }

  async embed(
    endpoint: ModelEndpoint,
    texts: readonly string[],
    { signal, limits }: Options,
  ): Promise<{ vectors: number[][]; usage: ModelUsage }> {
    using timer = new StepTimer(signal, { ...LIMITS, ...limits });
    const vectors: number[][] = [];
    let reported: number | undefined = 0;
    try {
      const bounds = embeddingBounds(texts.length);
      const normalize: Normalize = endpoint.kind === "openai" ? normalizeEmbeddings : (response) => response;
      const model = await embeddingModel(endpoint, this.#settingsOf(endpoint, timer.signal, bounds, normalize));
      for (const values of inChunks(texts, EMBEDDINGS_PER_CALL)) {
        const { embeddings, usage } = await model.doEmbed({ values, abortSignal: timer.signal });
        if (embeddings.length !== values.length) throw new StreamBroken();
        vectors.push(...embeddings);
        reported = isCount(usage?.tokens) && reported !== undefined ? reported + usage.tokens : undefined;
        timer.restart();
      }
      const dimensions = vectors[0]?.length ?? 0;
      const isValid = (vector: number[]) => vector.length === dimensions && vector.every(Number.isFinite);
      if (texts.length > 0 && (dimensions === 0 || !vectors.every(isValid))) throw new StreamBroken();
    } catch (thrown) {
      throw modelErrorOf(timer.failure(thrown), undefined, endpoint.apiKey);
    }
    const estimated = reported === undefined || reported === 0;
    const inputTokens = estimated ? texts.reduce((sum, text) => sum + estimateTokens(text), 0) : reported ?? 0;
    return { vectors, usage: { inputTokens, cachedTokens: 0, outputTokens: 0, estimated } };
  }

  /** The stream of a response. */
  async #send(
    endpoint: ModelEndpoint,
    request: ModelRequest,
    signal: AbortSignal,
    returned: ReturnedReasoning,
  ): Promise<ReadableStream<StreamPart>> {
    const { kind } = endpoint;
    const normalize: Normalize = kind === "openai" ? normalizeChat : (response) => streamWhole(kind, response);
    const settings = this.#settingsOf(endpoint, signal, stepBounds(request), normalize);
    const needsTools = request.tools?.some(({ isOptional }) => isOptional !== true) ?? false;
    const send = (sent: ModelRequest): Promise<ReadableStream<StreamPart>> => {
      const options = callOptionsOf(endpoint, sent, signal);
      return this.#dialects.send(serverOf(endpoint), needsTools, async (transformRequestBody) => {
        const openai = { transformRequestBody, metadataExtractor: returned.extractor };
        const { stream } = await (await languageModel(endpoint, settings, openai)).doStream(options);
        return stream;
      });
    };
    return await this.#sendImages(serverOf(endpoint), request, send);
  }

  /** Sends a request, and again without its images where these are refused. */
  async #sendImages<Result>(
    server: string,
    request: ModelRequest,
    send: (request: ModelRequest) => Promise<Result>,
  ): Promise<Result> {
    const hasImages = imagesOf(request.messages).length > 0;
    if (!hasImages || this.#imageless.get(server) === true) return await send(withoutImages(request));
    try {
      return await send(request);
    } catch (thrown) {
      const refusal = imageRefusalOf(thrown);
      if (refusal === undefined) throw thrown;
      const result = await send(withoutImages(request));
      if (refusal === "all") this.#imageless.set(server, true);
      return result;
    }
  }

  #settingsOf(
    { baseUrl, apiKey, allowHosts = [] }: ModelEndpoint,
    signal: AbortSignal,
    bounds: ResponseBounds,
    normalize: Normalize,
  ): ProviderSettings {
    const options = { ...bounds, allow: allowHosts, totalMs: LIMITS.totalMs };
    return {
      name: "provider",
      baseURL: trimTrailing(baseUrl, "/"),
      // Without one, a package would look for it in the environment.
      apiKey: apiKey ?? "none",
      fetch: async (input, init) => {
        const response = await this.#outbound(String(input instanceof Request ? input.url : input), {
          method: init?.method ?? "GET",
          headers: init?.headers ?? {},
          body: init?.body ?? null,
          signal,
        }, options);
        return await normalize(response);
      },
    };
  }
}

/** Of which dialects are known. */
function serverOf({ baseUrl, model }: ModelEndpoint): string {
  return `${baseUrl} ${model}`;
}

function outputOf(part: ModelPart): string {
  return part.kind === "tool" ? part.input : part.kind === "reset" ? "" : part.text;
}

async function languageModel(
  endpoint: ModelEndpoint,
  settings: ProviderSettings,
  openai: Pick<OpenAICompatibleProviderSettings, "transformRequestBody" | "metadataExtractor">,
): Promise<LanguageModel> {
  switch (endpoint.kind) {
    case "openai": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      return createOpenAICompatible({
        ...settings,
        ...openai,
        includeUsage: true,
        supportsStructuredOutputs: true,
      }).chatModel(endpoint.model);
    }
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic(settings).languageModel(endpoint.model);
    }
    case "google": {
      const { createGoogle } = await import("@ai-sdk/google");
      return createGoogle(settings).languageModel(endpoint.model);
    }
  }
}

async function embeddingModel(endpoint: ModelEndpoint, settings: ProviderSettings): Promise<EmbeddingModel> {
  if (endpoint.kind === "google") {
    const { createGoogle } = await import("@ai-sdk/google");
    return createGoogle(settings).embeddingModel(endpoint.model);
  }
  if (endpoint.kind === "anthropic") throw new ModelError("request_refused", { isRetryable: false });
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  return createOpenAICompatible(settings).embeddingModel(endpoint.model);
}

/** The parts that one of the stream completes. */
function modelPartsOf(
  endpoint: ModelEndpoint,
  part: StreamPart,
  tags: ReasoningTags,
  returned: ReturnedReasoning,
): Iterable<ModelPart> {
  if (part.type === "finish") return tags.end();
  const modelPart = modelPartOf(endpoint, part, returned);
  if (modelPart === undefined) return [];
  return modelPart.kind === "text" && endpoint.kind === "openai" ? tags.push(modelPart.text) : [modelPart];
}

function modelPartOf(endpoint: ModelEndpoint, part: StreamPart, returned: ReturnedReasoning): ModelPart | undefined {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta": {
      if (part.delta === "") return undefined;
      return { kind: part.type === "text-delta" ? "text" : "reasoning", text: part.delta };
    }
    case "tool-call": {
      // Others are run by the provider itself.
      if (part.providerExecuted === true) return undefined;
      const signature = signatureOf(endpoint, part, returned);
      return {
        kind: "tool",
        callId: part.toolCallId,
        name: part.toolName,
        input: part.input,
        ...(signature === undefined ? {} : { signature }),
      };
    }
    default:
      return undefined;
  }
}

/** Without its signature of a call, Gemini loses the reasoning that led to it. Others want the reasoning itself. */
function signatureOf(
  { kind, model }: ModelEndpoint,
  { providerMetadata }: Extract<StreamPart, { type: "tool-call" }>,
  returned: ReturnedReasoning,
): ModelSignature | undefined {
  const isReasoning = kind === "openai";
  const text = isReasoning
    ? returned.take()
    : kind === "google"
    ? providerMetadata?.google?.thoughtSignature
    : undefined;
  if (typeof text !== "string" || text === "" || text.length > SIGNATURE_MAX_CHARS) return undefined;
  return { model, text, ...isReasoning ? { isReasoning } : {} };
}

/** What the provider reports; `undefined` where it is missing or cannot be. */
function usageOf({ usage }: Finish, output: string): ModelUsage | undefined {
  const input = usage?.inputTokens?.total;
  const written = writtenTokens(usage, input);
  if (!isCount(input) || !isCount(written) || input === 0 || output !== "" && written === 0) return undefined;
  const cached = usage.inputTokens.cacheRead;
  return {
    inputTokens: input,
    cachedTokens: isCount(cached) ? Math.min(cached, input) : 0,
    outputTokens: written,
    estimated: false,
  };
}

/** Some providers count reasoning only in the sum of all tokens, and it costs as much as the rest of the output. */
function writtenTokens(usage: Finish["usage"] | undefined, input = 0): number | undefined {
  const written = usage?.outputTokens?.total;
  const all = usage?.raw?.["total_tokens"];
  return isCount(written) && typeof all === "number" && isCount(all) ? Math.max(written, all - input) : written;
}

function isCount(value: number | undefined): value is number {
  return value !== undefined && Number.isSafeInteger(value) && value >= 0 && value <= TOKENS_MAX;
}

function stepBounds({ maxOutputTokens }: ModelRequest): ResponseBounds {
  const { base, perToken, max } = RESPONSE_BYTES;
  return { bodyMaxBytes: Math.min(max, base + maxOutputTokens * perToken), json: EVENT_BOUNDS };
}

/** Bounds of the response to one of the calls for so many texts. */
function embeddingBounds(texts: number): ResponseBounds {
  const perCall = Math.min(texts, EMBEDDINGS_PER_CALL);
  const { bytesMax, depthMax, valuesMax } = EMBEDDING_BOUNDS;
  const bodyMaxBytes = perCall * bytesMax;
  return { bodyMaxBytes, json: { bytesMax: bodyMaxBytes, depthMax, valuesMax: perCall * valuesMax } };
}
