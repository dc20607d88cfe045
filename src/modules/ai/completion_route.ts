// Completions as server-sent events.
import { isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { parse } from "@/core/dispatch.ts";
import { Fault, type FaultCode } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Route } from "@/core/route.ts";
import type { ModelPart } from "@/ports/model.ts";
import type { CompletionService } from "./completion_service.ts";
import { CompletionCreate } from "./schema.ts";
import type { AiStepEnd } from "./service.ts";

/** A conversation of the longest context that is usual. */
export const COMPLETION_MAX_BYTES = 1024 * 1024;
export const COMPLETION_FAULTS = [
  "ai_not_configured",
  "model_unknown",
  "price_unknown",
  "context_too_long",
  "budget_exceeded",
  "model_failed",
  "unavailable",
] as const satisfies FaultCode[];

const encoder = new TextEncoder();
const log = logOf("ai");

type Step = AsyncGenerator<ModelPart, AiStepEnd>;

/** `POST /v1/collaboration/ai/completions/stream`. */
export function completionRoute(completions: CompletionService, path: string): Route {
  return {
    name: "completion.stream",
    summary: "Stream a response of an AI model",
    description:
      "Takes the input of `completion.create`. Each event is a JSON object with a `kind`: `text` and `reasoning` with " +
      "`text`; `tool` with `callId`, `name` and `input`; at the end `end` with `model`, `reason`, `usage` and `costMicros`, or " +
      "`error` with `code` and `detail`. Requires the scope `ai.write`.",
    tag: "completion",
    method: "POST",
    path,
    auth: "bearer",
    scope: "ai.write",
    bodyMaxBytes: COMPLETION_MAX_BYTES,
    hasNoTimeout: true,
    faults: [...COMPLETION_FAULTS, "validation_failed"],
    document: {
      requestBody: {
        required: true,
        content: {
          "application/json": {
            schema: { $ref: "#/components/schemas/CompletionCreateRequest" },
            example: { messages: [{ role: "user", text: "Summarize: the release moved to Friday." }] },
          },
        },
      },
      responses: {
        200: {
          description: "The response as server-sent events",
          content: { "text/event-stream": { schema: { type: "string" } } },
        },
      },
    },
    async handle(_request, { actor, body, requestId, signal }) {
      if (!isAtLeast(TENANT_ROLES, actor.role, "member")) {
        throw new Fault("forbidden", `completion.stream requires the tenant role member, the caller has ${actor.role}`);
      }
      const step = completions.stream(actor, parse(CompletionCreate, body), signal);
      // What fails before the first part has a status of its own.
      const first = await step.next();
      return new Response(eventsOf(step, first, requestId), {
        headers: { "Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no" },
      });
    },
  };
}

function eventsOf(
  step: Step,
  first: IteratorResult<ModelPart, AiStepEnd>,
  requestId: string,
): ReadableStream<Uint8Array> {
  let next: IteratorResult<ModelPart, AiStepEnd> | undefined = first;
  return new ReadableStream({
    async pull(stream) {
      try {
        const result = next ?? await step.next();
        next = undefined;
        stream.enqueue(eventOf(result.done ? { kind: "end", ...result.value } : shownPart(result.value)));
        if (result.done) stream.close();
      } catch (thrown) {
        const { code, message, spec } = Fault.from(thrown);
        log[spec.level]("stream of a completion failed", { requestId, ...failureOf(thrown) });
        stream.enqueue(eventOf({ kind: "error", code, detail: message }));
        stream.close();
      }
    },
    async cancel() {
      await step.return({} as AiStepEnd); // ends the call; nobody reads this
    },
  });
}

/** Signatures of calls are between the gateway and the provider. */
function shownPart(part: ModelPart): ModelPart {
  if (part.kind !== "tool") return part;
  const { kind, callId, name, input } = part;
  return { kind, callId, name, input };
}

function eventOf(data: unknown): Uint8Array {
  return encoder.encode(`data: ${JSON.stringify(data)}\n\n`);
}
