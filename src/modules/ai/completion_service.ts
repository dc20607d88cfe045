// Completions for callers of the API: one step of a model, as a whole or as a stream.
import { type Actor, chargedId, chargedTo } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { Places } from "@/core/limit/slots.ts";
import { ModelError, type ModelPart, type ModelToolCall } from "@/ports/model.ts";
import { type ImageFiles, withImages } from "./completion_images.ts";
import type { Completion, CompletionCreate } from "./schema.ts";
import { type AiService, type AiStepEnd, MODEL_FAILURES } from "./service.ts";

/** Completions at the same time, on one node. */
const RUNNING = { perOwner: 4, perTenant: 64, perNode: 128 };

/** A whole response for an operation of another module; of a room's work with its budget. Every failure is a Fault. */
export type Complete = (
  actor: Actor,
  input: CompletionCreate,
  of: { signal: AbortSignal | undefined; roomId?: string },
) => Promise<Completion>;

export class CompletionService {
  readonly #ai: AiService;
  readonly #files: ImageFiles;
  readonly #draining = new AbortController();
  readonly #places = new Places("completions", RUNNING);

  constructor(ai: AiService, files: ImageFiles) {
    this.#ai = ai;
    this.#files = files;
  }

  /** The whole response. */
  async create(...request: Parameters<Complete>): Promise<Completion> {
    const step = this.stream(...request);
    let text = "";
    const toolCalls: ModelToolCall[] = [];
    let result = await step.next();
    while (!result.done) {
      const part = result.value;
      if (part.kind === "text") text += part.text;
      if (part.kind === "reset") text = "";
      if (part.kind === "tool") toolCalls.push({ callId: part.callId, name: part.name, input: part.input });
      result = await step.next();
    }
    return { text, toolCalls, ...result.value };
  }

  /** The parts of a response. Every failure is a Fault. */
  async *stream(...[actor, input, { signal, roomId }]: Parameters<Complete>): AsyncGenerator<ModelPart, AiStepEnd> {
    const { tenantId, principalId, kind } = actor;
    const agentId = kind === "agent" ? principalId : undefined;
    const charge = { tenantId, principalId: chargedId(actor), agentId, roomId };
    using _place = this.#places.enter(chargedTo(actor));
    const all = signal === undefined ? this.#draining.signal : AbortSignal.any([this.#draining.signal, signal]);
    try {
      const messages = await withImages(this.#files, actor, input.messages);
      return yield* this.#ai.step(charge, { ...input, messages }, all);
    } catch (thrown) {
      throw thrown instanceof ModelError ? faultOf(thrown) : thrown;
    }
  }

  /** Aborts when the node stops. */
  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** Ends all completions; their clients may repeat them on another node. */
  drain(): void {
    this.#draining.abort();
  }
}

/** A failure of a model as callers of the API see it. */
function faultOf(error: ModelError): Fault {
  const { code, isRetryable, retryAfterMs } = error;
  const options = { cause: error, retryAfterMs };
  if (code === "context_too_long") return new Fault("context_too_long", MODEL_FAILURES[code], options);
  return new Fault(isRetryable || code === "cancelled" ? "unavailable" : "model_failed", MODEL_FAILURES[code], options);
}
