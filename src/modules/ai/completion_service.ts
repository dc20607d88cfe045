// Completions for callers of the API: one step of a model, as a whole or as a stream.
import { type Actor, chargedId, chargedTo } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { ModelError, type ModelPart, type ModelToolCall } from "@/ports/model.ts";
import type { Completion, CompletionCreate } from "./schema.ts";
import { type AiService, type AiStepEnd, MODEL_FAILURES } from "./service.ts";

/** Completions of a principal and its agents at the same time, on one node; and of all. */
const RUNNING_PER_OWNER = 4;
const RUNNING_PER_NODE = 64;

export class CompletionService {
  readonly #ai: AiService;
  readonly #draining = new AbortController();
  readonly #running = new Map<string, number>();
  #total = 0;

  constructor(ai: AiService) {
    this.#ai = ai;
  }

  /** The whole response. */
  async create(actor: Actor, input: CompletionCreate, signal: AbortSignal | undefined): Promise<Completion> {
    const step = this.stream(actor, input, signal);
    let text = "";
    const toolCalls: ModelToolCall[] = [];
    let result = await step.next();
    while (!result.done) {
      const part = result.value;
      if (part.kind === "text") text += part.text;
      if (part.kind === "tool") toolCalls.push({ callId: part.callId, name: part.name, input: part.input });
      result = await step.next();
    }
    return { text, toolCalls, ...result.value };
  }

  /** The parts of a response. Every failure is a Fault. */
  async *stream(
    actor: Actor,
    input: CompletionCreate,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ModelPart, AiStepEnd> {
    const { tenantId, principalId, kind } = actor;
    const charge = { tenantId, principalId: chargedId(actor), agentId: kind === "agent" ? principalId : undefined };
    using _place = this.#enter(chargedTo(actor));
    const all = signal === undefined ? this.#draining.signal : AbortSignal.any([this.#draining.signal, signal]);
    try {
      return yield* this.#ai.step(charge, input, all);
    } catch (error) {
      throw error instanceof ModelError ? faultOf(error) : error;
    }
  }

  /** Ends all completions; their clients may repeat them on another node. */
  drain(): void {
    this.#draining.abort();
  }

  #enter(owner: string): Disposable {
    const running = this.#running.get(owner) ?? 0;
    if (running >= RUNNING_PER_OWNER || this.#total >= RUNNING_PER_NODE) {
      const who = running >= RUNNING_PER_OWNER ? `At most ${RUNNING_PER_OWNER}` : "Too many";
      throw new Fault("rate_limited", `${who} completions at the same time`, { retryAfterMs: 1000 });
    }
    this.#running.set(owner, running + 1);
    this.#total++;
    return {
      [Symbol.dispose]: () => {
        const left = (this.#running.get(owner) ?? 1) - 1;
        if (left === 0) this.#running.delete(owner);
        else this.#running.set(owner, left);
        this.#total--;
      },
    };
  }
}

/** A failure of a model as callers of the API see it. */
function faultOf(error: ModelError): Fault {
  const { code, isRetryable, retryAfterMs } = error;
  const options = { cause: error, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  if (code === "context_too_long") return new Fault("context_too_long", MODEL_FAILURES[code], options);
  return new Fault(isRetryable || code === "cancelled" ? "unavailable" : "model_failed", MODEL_FAILURES[code], options);
}
