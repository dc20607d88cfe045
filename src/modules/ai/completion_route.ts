// Completions as server-sent events.
import { parse } from "@/core/dispatch.ts";
import { eventBody } from "@/core/http/event_stream.ts";
import { Fault, type FaultCode } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { jsonBody, type Route } from "@/core/http/route.ts";
import { MINUTE_MS } from "@/core/time/clock.ts";
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

/** A client that takes nothing for twice this time gives its place to others. */
const STALL_MS = MINUTE_MS;
const log = logOf("ai");

type Step = AsyncGenerator<ModelPart, AiStepEnd>;
type Completions = Pick<CompletionService, "stream" | "draining">;

/** `POST /v1/collaboration/ai/completions/stream`. */
export function completionRoute(completions: Completions, path: string, stallMs = STALL_MS): Route {
  return {
    name: "completion.stream",
    summary: "Stream a response of an AI model",
    description:
      "Takes the input of `completion.create`. Each event is a JSON object with a `kind`: `text` and `reasoning` with " +
      "`text`; `reset` where all text before turned out to be reasoning; `tool` with `callId`, `name` and `input`; at the end `end` with `model`, `reason`, `usage` and `costMicros`, or " +
      "`error` with `code` and `detail`. A client that reads nothing for two minutes is disconnected. Requires the scope `ai.write`.",
    tag: "completion",
    method: "POST",
    path,
    auth: "bearer",
    scope: "ai.write",
    tenant: "member",
    bodyMaxBytes: COMPLETION_MAX_BYTES,
    hasNoTimeout: true,
    faults: [...COMPLETION_FAULTS, "validation_failed", "unknown_field"],
    document: {
      requestBody: jsonBody({ $ref: "#/components/schemas/CompletionCreateRequest" }, {
        messages: [{ role: "user", text: "Summarize: the release moved to Friday." }],
      }),
      responses: {
        200: {
          description: "The response as server-sent events",
          content: { "text/event-stream": { schema: { type: "string" } } },
        },
      },
    },
    async handle(_request, { actor, body, requestId, signal }) {
      const step = completions.stream(actor, parse(CompletionCreate, body), { signal });
      // What fails before the first part has a status of its own.
      const first = await step.next();
      const events = eventsOf(step, first, requestId);
      return new Response(eventBody(events, { stallMs, draining: completions.draining }), {
        headers: { "Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no" },
      });
    },
  };
}

async function* eventsOf(
  step: Step,
  first: IteratorResult<ModelPart, AiStepEnd>,
  requestId: string,
): AsyncGenerator<string, undefined> {
  try {
    let result = first;
    for (; !result.done; result = await step.next()) yield eventOf(shownPart(result.value));
    yield eventOf({ kind: "end", ...result.value });
  } catch (thrown) {
    const { code, message, spec } = Fault.from(thrown);
    log[spec.level]("stream of a completion failed", { requestId, ...failureOf(thrown) });
    yield eventOf({ kind: "error", code, detail: message });
  } finally {
    await step.return({} as AiStepEnd); // ends the call of a client that left; nobody reads this
  }
}

/** Signatures of calls are between the gateway and the provider. */
function shownPart(part: ModelPart): ModelPart {
  if (part.kind !== "tool") return part;
  const { kind, callId, name, input } = part;
  return { kind, callId, name, input };
}

function eventOf(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
