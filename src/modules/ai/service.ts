// Calls of models: which provider, retries, budgets, usage and metrics.
import { SharedBreakers } from "@/core/limit/breaker.ts";
import { runAsSystem } from "@/core/caller.ts";
import { type Clock, delay, iso } from "@/core/time/clock.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import { estimateTokens } from "@/core/text/tokens.ts";
import {
  type ModelConfig,
  ModelError,
  type ModelErrorCode,
  type ModelPart,
  type ModelRequest,
  type Models,
  type ModelStepEnd,
  type ModelUsage,
} from "@/ports/model.ts";
import { estimateInput, withoutImages } from "@/ports/model_images.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AiCharge, Budgets, Reservation } from "./budgets.ts";
import type { AiModel, Candidate, Catalog } from "./catalog.ts";
import { UsageStore, type UsageTables } from "./usage_store.ts";

const RETRIES = 2;
const RETRY_MS = 250;
/** Longer waits are left to another provider, or to the caller. */
const RETRY_AFTER_MAX_MS = 10_000;
/** The estimate may be too low by less than this. */
const ESTIMATE_FACTOR = 1.1;
/** Failures that say something about the provider; others are about the request or the key. */
const COUNTED: ReadonlySet<ModelErrorCode> = new Set([
  "rate_limited",
  "overloaded",
  "unreachable",
  "timed_out",
  "stream_broken",
]);
/** What people read of a failed call. */
export const MODEL_FAILURES: Readonly<Record<ModelErrorCode, string>> = {
  rate_limited: "The model provider is limiting its callers",
  overloaded: "The model provider is overloaded or has failed",
  bad_key: "The model provider refused the API key",
  quota_exceeded: "The quota or the credit at the model provider is used up",
  tools_unsupported: "The model, or its server as it is started, does not support tools",
  context_too_long: "The conversation is too long for the model",
  call_malformed: "The model called a tool in a way that its provider could not read",
  request_refused: "The model provider refused the request",
  unreachable: "The model provider cannot be reached",
  timed_out: "The model took too long",
  stream_broken: "The response of the model was not complete",
  cancelled: "The call was cancelled",
};
const NOTHING: ModelUsage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, estimated: true };

/** The end of a step, with the model that was used and what it cost. */
export type AiStepEnd = ModelStepEnd & { model: string; costMicros: number };

type Embedded = { vectors: number[][]; model: string; costMicros: number };

/** What was used of one candidate. */
type Use = { candidate: Candidate; usage: ModelUsage };

type Deps = {
  store: Store<UsageTables>;
  clock: Clock;
  models: Models;
  metrics: Metrics;
  catalog: Catalog;
  budgets: Budgets;
};

const log = logOf("ai");

/**
 * Models for other modules. Failures are Faults (`ai_not_configured`, `model_unknown`, `budget_exceeded`, `price_unknown`) before a
 * provider is called, then a `ModelError`.
 */
export class AiService {
  readonly #deps: Deps;
  readonly #breakers: SharedBreakers;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#breakers = new SharedBreakers(deps.clock);
  }

  /** All models that a tenant can use; the first one of a kind is the default. */
  models(tenantId: string): Promise<AiModel[]> {
    return this.#deps.catalog.models(tenantId);
  }

  /** A chat model by its id, or the default. */
  async requireModel(tenantId: string, id?: string): Promise<AiModel> {
    return modelOf(await this.#deps.catalog.require(tenantId, "chat", id));
  }

  /** The default embedding model. */
  async embeddingModel(tenantId: string): Promise<AiModel | undefined> {
    return (await this.models(tenantId)).find(({ kind }) => kind === "embedding");
  }

  /**
   * One step of a chat model. Another provider takes over only before the first part. What it may cost at most is reserved before,
   * and replaced with what was used however it ends, also when the caller stops reading.
   */
  async *step(
    charge: AiCharge,
    { model, ...request }: ModelRequest & { model?: string | undefined },
    signal: AbortSignal,
  ): AsyncGenerator<ModelPart, AiStepEnd> {
    const candidates = await this.#deps.catalog.require(charge.tenantId, "chat", model);
    return yield* this.stepWith(charge, candidates, request, signal);
  }

  /** The same with given candidates. */
  async *stepWith(
    charge: AiCharge,
    candidates: readonly Candidate[],
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelPart, AiStepEnd> {
    const inputTokens = estimateInput(request);
    const reservation = await this.#reserve(charge, candidates, inputTokens, request.maxOutputTokens);
    let use: Use | undefined;
    let output = "";
    try {
      const tries = this.#tries(candidates, ownerOf(charge), signal);
      for await (const attempt of tries) {
        const { candidate } = attempt;
        const stopwatch = this.#startTry(candidate);
        try {
          const asked = candidate.model.images === false ? withoutImages(request) : request;
          const parts = this.#deps.models.step(candidate.endpoint, asked, { signal });
          const end = yield* passOn(parts, (part) => {
            if (output === "") stopwatch.firstPart();
            if (part.kind !== "reset") output += part.kind === "tool" ? part.input : part.text;
          }, () => {
            use = { candidate, usage: { ...NOTHING, inputTokens, outputTokens: estimateTokens(output) } };
            stopwatch.succeed(use.usage);
            return { reason: "stop", usage: use.usage };
          });
          use = { candidate, usage: end.usage };
          this.#breakers.succeed(candidate.breakerKey, ownerOf(charge));
          stopwatch.succeed(end.usage);
          return { ...end, model: candidate.model.id, costMicros: priceOf(candidate.model, end.usage) ?? 0 };
        } catch (thrown) {
          if (!(thrown instanceof ModelError)) throw thrown;
          use = thrown.usage === undefined ? undefined : { candidate, usage: thrown.usage };
          if (COUNTED.has(thrown.code)) this.#breakers.fail(candidate.breakerKey, ownerOf(charge));
          stopwatch.fail(thrown);
          if (output !== "") throw thrown;
          attempt.failure = thrown;
        }
      }
      throw new TypeError("Expected a response or a failure");
    } finally {
      await this.#settle(reservation, use);
    }
  }

  /** One vector for each text, by an embedding model. */
  async embed(
    charge: AiCharge,
    { model, texts }: { model?: string | undefined; texts: readonly string[] },
    signal: AbortSignal,
  ): Promise<Embedded> {
    const candidates = await this.#deps.catalog.require(charge.tenantId, "embedding", model);
    return await this.embedWith(charge, candidates, texts, signal);
  }

  /** The same with given candidates. */
  async embedWith(
    charge: AiCharge,
    candidates: readonly Candidate[],
    texts: readonly string[],
    signal: AbortSignal,
  ): Promise<Embedded> {
    const inputTokens = texts.reduce((sum, text) => sum + estimateTokens(text), 0);
    const reservation = await this.#reserve(charge, candidates, inputTokens, 0);
    let use: Use | undefined;
    try {
      for await (const attempt of this.#tries(candidates, ownerOf(charge), signal)) {
        const { candidate } = attempt;
        const stopwatch = this.#startTry(candidate);
        try {
          const { vectors, usage } = await this.#deps.models.embed(candidate.endpoint, texts, { signal });
          use = { candidate, usage };
          this.#breakers.succeed(candidate.breakerKey, ownerOf(charge));
          stopwatch.succeed(usage);
          return { vectors, model: candidate.model.id, costMicros: priceOf(candidate.model, usage) ?? 0 };
        } catch (thrown) {
          if (!(thrown instanceof ModelError)) throw thrown;
          if (COUNTED.has(thrown.code)) this.#breakers.fail(candidate.breakerKey, ownerOf(charge));
          stopwatch.fail(thrown);
          attempt.failure = thrown;
        }
      }
      throw new TypeError("Expected a response or a failure");
    } finally {
      await this.#settle(reservation, use);
    }
  }

  /** Frees what steps of a run have reserved: for those that ended with their node and are not repeated. */
  releaseRun(tx: AnyTransaction, tenantId: string, runId: string): Promise<void> {
    return this.#deps.budgets.releaseRun(tx, tenantId, runId);
  }

  /**
   * Tries candidates in order, each again after a pause where that may help: who fails waits behind those not tried yet. The loop
   * over them sets `failure`; the last one is thrown.
   */
  async *#tries(
    candidates: readonly Candidate[],
    owner: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ candidate: Candidate; failure: ModelError | undefined }> {
    let failure: ModelError | undefined;
    let waitMs = Infinity;
    const waiting = candidates.map((candidate) => ({ candidate, retry: 0, dueMs: 0 }));
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { candidate, retry, dueMs } = next;
      if (dueMs > 0) await delay(dueMs - performance.now(), signal);
      if (dueMs > 0 && signal.aborted) throw new ModelError("cancelled", { isRetryable: false });
      const closedMs = this.#breakers.enter(candidate.breakerKey, owner);
      if (closedMs > 0) {
        waitMs = Math.min(waitMs, closedMs);
        continue;
      }
      const attempt: { candidate: Candidate; failure: ModelError | undefined } = { candidate, failure: undefined };
      yield attempt;
      failure = attempt.failure;
      if (failure === undefined) return;
      if (failure.code === "cancelled") throw failure;
      const pauseMs = failure.retryAfterMs ?? RETRY_MS * 2 ** retry * (0.5 + Math.random());
      if (!failure.isRetryable || retry === RETRIES || pauseMs > RETRY_AFTER_MAX_MS) continue;
      waiting.push({ candidate, retry: retry + 1, dueMs: performance.now() + pauseMs });
      waiting.sort((a, b) => a.dueMs - b.dueMs);
    }
    throw failure ?? new ModelError("overloaded", { isRetryable: true, retryAfterMs: waitMs });
  }

  #reserve(
    charge: AiCharge,
    candidates: readonly Candidate[],
    inputTokens: number,
    outputTokens: number,
  ): Promise<Reservation> {
    const usage = { ...NOTHING, inputTokens: Math.ceil(inputTokens * ESTIMATE_FACTOR), outputTokens };
    const prices = candidates.map(({ model }) => priceOf(model, usage));
    const cost = prices.reduce<number | undefined>(
      (most, price) => most === undefined || price === undefined ? undefined : Math.max(most, price),
      0,
    );
    return this.#deps.budgets.reserve(charge, { tokens: usage.inputTokens + outputTokens, cost });
  }

  /** Writes what was used. It is due even if the token of the caller has ended since. */
  async #settle(reservation: Reservation, use: Use | undefined): Promise<void> {
    const { store, budgets, clock } = this.#deps;
    const { charge } = reservation;
    const { inputTokens, cachedTokens, outputTokens, estimated } = use?.usage ?? NOTHING;
    const tokens = inputTokens + outputTokens;
    const cost = use === undefined ? 0 : priceOf(use.candidate.model, use.usage) ?? 0;
    try {
      await runAsSystem(() =>
        store.write(async (tx) => {
          const model = use?.candidate.model.id ?? "";
          if (use !== undefined) {
            await charge.onUsed?.(tx, { model, inputTokens, cachedTokens, outputTokens, costMicros: cost });
          }
          await budgets.settle(tx, reservation, { tokens, cost });
          if (use === undefined) return;
          await new UsageStore(tx.db).add({
            tenant_id: charge.tenantId,
            day: iso(clock.now()).slice(0, 10),
            principal_id: charge.principalId ?? "",
            agent_id: charge.agentId ?? "",
            room_id: charge.roomId ?? "",
            provider: use.candidate.providerId,
            model,
            calls: 1,
            input_tokens: inputTokens,
            cached_tokens: cachedTokens,
            output_tokens: outputTokens,
            estimated_tokens: estimated ? tokens : 0,
            cost,
          });
        })
      );
    } catch (cause) {
      // The reservation counts until it expires.
      log.warn("storing the usage of a model failed", { tenant: charge.tenantId, tokens, ...failureOf(cause) });
    }
  }

  #startTry({ labels, providerId, model }: Candidate): {
    firstPart(): void;
    succeed(usage: ModelUsage): void;
    fail(error: ModelError): void;
  } {
    const { metrics } = this.#deps;
    const startedAt = performance.now();
    const seconds = () => (performance.now() - startedAt) / 1000;
    metrics.aiRequests.inc(labels);
    const end = (usage: ModelUsage | undefined): void => {
      metrics.aiLatency.observe(labels, seconds());
      if (usage === undefined) return;
      const { inputTokens, cachedTokens, outputTokens } = usage;
      const tokens = { input: inputTokens - cachedTokens, cached: cachedTokens, output: outputTokens };
      for (const [direction, count] of Object.entries(tokens)) metrics.aiTokens.inc({ ...labels, direction }, count);
    };
    return {
      firstPart: () => metrics.aiFirstPart.observe(labels, seconds()),
      succeed: end,
      fail({ code, usage, cause }) {
        metrics.aiErrors.inc({ ...labels, code });
        if (code !== "cancelled") {
          const status = cause instanceof Error ? cause.message : undefined;
          log.warn("a call of a model failed", { provider: providerId, model: model.id, code, cause: status });
        }
        end(usage);
      },
    };
  }
}

/** Background work of a tenant has no person behind it. */
function ownerOf({ tenantId, principalId = "" }: AiCharge): string {
  return `${tenantId}/${principalId}`;
}

function modelOf(candidates: readonly [Candidate, ...Candidate[]]): AiModel {
  return { ...candidates[0].model, providers: candidates.map(({ providerId }) => providerId) };
}

/** The price of this usage, in millionths of the currency, rounded up; `undefined` where a price is not known. */
function priceOf(model: ModelConfig, usage: ModelUsage): number | undefined {
  const { inputPrice, cachedInputPrice = inputPrice, outputPrice = model.kind === "embedding" ? 0 : undefined } = model;
  if (inputPrice === undefined || cachedInputPrice === undefined || outputPrice === undefined) return undefined;
  const { inputTokens, cachedTokens, outputTokens } = usage;
  // A price is for a million tokens, so a token costs as many millionths.
  return Math.ceil(
    (inputTokens - cachedTokens) * inputPrice + cachedTokens * cachedInputPrice + outputTokens * outputPrice,
  );
}

/** Passes the parts of a step on. If the caller stops reading, the step ends as `onStop` returns. */
async function* passOn(
  parts: AsyncGenerator<ModelPart, ModelStepEnd>,
  onPart: (part: ModelPart) => void,
  onStop: () => ModelStepEnd,
): AsyncGenerator<ModelPart, ModelStepEnd> {
  let isRead = true;
  try {
    for (let result = await parts.next();; result = await parts.next()) {
      if (result.done) return result.value;
      onPart(result.value);
      isRead = false;
      yield result.value;
      isRead = true;
    }
  } finally {
    if (!isRead) await parts.return(onStop());
  }
}
