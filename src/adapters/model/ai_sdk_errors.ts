// What failures of the provider packages mean. Their texts may hold keys and prompts, so none is passed on but that of a refused
// request, apart from the message.
import { ModelError, type ModelErrorCode, type ModelUsage } from "@/ports/model.ts";
import { OutboundError, type OutboundErrorCode } from "@/ports/outbound.ts";

/** A response that ended without its end, or cannot be one. */
export class StreamBroken extends Error {}

/** Longest wait that a provider may ask for. */
const RETRY_AFTER_MAX_MS = 60_000;
/** As many providers, so many words. An error about a tool may name a `context`, too, and one about a name that it is too long. */
const CONTEXT_TOO_LONG = new RegExp(
  [
    "context[ _](?:length|window|size|limit)",
    "maximum (?:model|prompt|input) length",
    "maximum number of (?:input )?tokens",
    "(?:prompt|input|request|conversation)(?: is)? too (?:long|large)",
    "token (?:count|limit)",
    "input length",
    "too many tokens",
    "max_new_tokens",
  ].join("|"),
  "i",
);
/** Google and xAI send this with the status of a wrong request. */
const BAD_KEY = /api key (?:not valid|expired|not found)|(?:incorrect|invalid) api key/i;
const RETRY_DELAY = /"retryDelay": ?"(\d{1,5}(?:\.\d{1,9})?)s"/;
const CAUSES_MAX = 5;
const REPLY_MAX_CHARS = 300;

type ApiCallError = {
  message?: string;
  statusCode?: number;
  /** Of an error that came as an event, after a status of 200: some send the status here. */
  code?: unknown;
  responseBody?: string;
  responseHeaders?: Record<string, string>;
  cause?: unknown;
};

const OUTBOUND: Readonly<Record<OutboundErrorCode, [ModelErrorCode, isRetryable: boolean]>> = {
  address_not_allowed: ["unreachable", false],
  scheme_not_allowed: ["unreachable", false],
  name_not_resolved: ["unreachable", true],
  connection_failed: ["unreachable", true],
  timed_out: ["timed_out", true],
  response_too_large: ["stream_broken", false],
};

/** A failure as one of the port. `usage` is that of a step that had begun. */
export function modelErrorOf(thrown: unknown, usage: ModelUsage | undefined, apiKey: string | undefined): ModelError {
  const make = (code: ModelErrorCode, isRetryable: boolean, retryAfterMs?: number): ModelError => {
    const reply = code === "request_refused" ? replyOf(thrown, apiKey) : undefined;
    return new ModelError(code, { isRetryable, retryAfterMs, usage, reply, cause: describe(thrown) });
  };
  if (thrown instanceof ModelError) return make(thrown.code, thrown.isRetryable, thrown.retryAfterMs);
  const outbound = findOutboundError(thrown);
  if (outbound !== undefined) {
    const [code, isRetryable] = OUTBOUND[outbound.code];
    // A connection that ends after the first part was reached.
    return usage !== undefined && code === "unreachable" ? make("stream_broken", true) : make(code, isRetryable);
  }
  const { message = "", statusCode, code: sent, responseBody = message, responseHeaders = {} } = thrown as ApiCallError;
  const status = statusCode ?? (typeof sent === "number" ? sent : undefined);
  if (status === undefined || usage !== undefined || status < 300) return make("stream_broken", true);
  const retryAfterMs = retryAfterOf(responseHeaders, responseBody);
  if (status === 429) return make("rate_limited", true, retryAfterMs);
  if (status === 401 || status === 403) return make("bad_key", false);
  const isInvalid = status === 400 || status === 422;
  if (isInvalid && BAD_KEY.test(responseBody)) return make("bad_key", false);
  if (status === 413 || isInvalid && CONTEXT_TOO_LONG.test(responseBody)) return make("context_too_long", false);
  if (status === 408) return make("timed_out", true);
  return status >= 500 ? make("overloaded", true, retryAfterMs) : make("request_refused", false);
}

/** What a provider that responded says: the text of its error, or that of its status. */
function replyOf(thrown: unknown, apiKey: string | undefined): string | undefined {
  const { message } = thrown as ApiCallError;
  if (message === undefined || message === "") return undefined;
  const text = apiKey === undefined ? message : message.replaceAll(apiKey, "…");
  return text.slice(0, REPLY_MAX_CHARS).toWellFormed();
}

/** The kind of a failure without its text. */
function describe(thrown: unknown): Error {
  const { name = "unknown", statusCode } = thrown as { name?: string; statusCode?: number };
  const outbound = findOutboundError(thrown);
  return new Error([outbound?.code ?? name, statusCode].filter((part) => part !== undefined).join(" "));
}

function findOutboundError(thrown: unknown): OutboundError | undefined {
  let error = thrown;
  for (let depth = 0; depth < CAUSES_MAX && error instanceof Error; depth++) {
    if (error instanceof OutboundError) return error;
    error = error.cause;
  }
  return undefined;
}

/** How long a provider asks to wait: milliseconds in a header of their own, seconds, a date, or as Google says it. */
function retryAfterOf(headers: Record<string, string>, body: string): number | undefined {
  const { "retry-after": after, "retry-after-ms": afterMs, date = "" } = headers;
  const seconds = Number(after ?? RETRY_DELAY.exec(body)?.[1]);
  // A date counts from that of the response: clocks differ.
  const untilDate = after === undefined ? NaN : Date.parse(after) - Date.parse(date);
  const wait = [Number(afterMs), seconds * 1000, untilDate].find((ms) => ms > 0);
  return wait === undefined ? undefined : Math.min(wait, RETRY_AFTER_MAX_MS);
}
