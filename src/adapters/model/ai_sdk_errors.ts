// What failures of the provider packages mean. Their texts may hold keys and prompts, so none is passed on but that of a refused
// request, apart from the message.
import { MINUTE_MS } from "@/core/time/clock.ts";
import { ModelError, type ModelErrorCode, type ModelUsage } from "@/ports/model.ts";
import { OutboundError, type OutboundErrorCode } from "@/ports/outbound.ts";
import { isObject, objectOf } from "@/core/json.ts";

/** A response that ended without its end, or cannot be one. Its message may be shown. */
export class StreamBroken extends Error {}

/** Longest wait that a provider may ask for. */
const RETRY_AFTER_MAX_MS = MINUTE_MS;
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
    "ContextWindowExceeded",
  ].join("|"),
  "i",
);
/** Google and xAI send this with the status of a wrong request. */
const BAD_KEY = /api key (?:not valid|expired|not found)|(?:incorrect|invalid) api key/i;
/** Some say so with the status of too many requests, which it does not help to repeat. */
const QUOTA = /insufficient_quota|insufficient (?:credit|balance|funds)|credit balance is too low/i;
/** Of models without tools, and of servers that were started without them. */
export const NO_TOOLS =
  /not support tools|support tool use|not support function calling|tool choice requires|tools param requires/i;
/** What templates of models on servers of their own say of a conversation that they do not take. */
const NOT_TEMPLATED = /jinja|raise_exception|roles must alternate|chat template/i;
/** As many servers, so many words, with any status. */
const ABOUT_IMAGES = /image|multi-?modal|content must be a string/i;
const NO_IMAGES = /support|not a multi-?modal|unknown variant|must be a string|not enabled|missing data/i;
/** About the number, size or format of those that were sent. */
const THESE_IMAGES = /too (?:many|large)|at most [1-9]|maximum|exceed|\bvalid|format/i;
const RETRY_DELAY = /"retryDelay": ?"(\d{1,5}(?:\.\d{1,9})?)s"/;
const CAUSES_MAX = 5;
const REPLY_MAX_CHARS = 300;

type ApiCallError = {
  message?: string;
  statusCode?: number;
  /** Some providers send the status of an error here that came as an event, after a status of 200. */
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
    const reply = isExplained(code, thrown) ? replyOf(thrown, apiKey) : undefined;
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
  // The text of an exception may quote the response; an error that the server sent is an object.
  const isSent = status === undefined ? !(thrown instanceof Error) : status >= 300;
  if (usage !== undefined || !isSent) return make("stream_broken", true);
  const refusal = refusalOf(status, responseBody);
  if (refusal !== undefined) return make(refusal, false);
  if (status === undefined) return make("stream_broken", true);
  if (status === 408) return make("timed_out", true);
  if (status !== 429 && status < 500) return make("request_refused", false);
  const retryAfterMs = retryAfterOf(responseHeaders, responseBody);
  return make(status === 429 ? "rate_limited" : "overloaded", true, retryAfterMs);
}

/** Why a request fails however often it is sent, where that is known; an error within a stream may have no status. */
function refusalOf(status: number | undefined, said: string): ModelErrorCode | undefined {
  if (status === 402 || QUOTA.test(said)) return "quota_exceeded";
  if (status === 429) return undefined;
  if (NO_TOOLS.test(said)) return "tools_unsupported";
  if (status === 401 || status === 403) return "bad_key";
  // llama.cpp, and what is built on it, send 500 also for requests that it cannot take.
  const mayBeInvalid = status === undefined || status === 400 || status === 422 || status === 500;
  if (mayBeInvalid && BAD_KEY.test(said)) return "bad_key";
  if (status === 413 || mayBeInvalid && CONTEXT_TOO_LONG.test(said)) return "context_too_long";
  return mayBeInvalid && NOT_TEMPLATED.test(said) ? "request_refused" : undefined;
}

/** Whether a request was refused for its images: for these, or for all that its model may be sent. */
export function imageRefusalOf(thrown: unknown): "these" | "all" | undefined {
  const { statusCode = 0, responseBody = "" } = thrown as ApiCallError;
  if (statusCode < 400 || [401, 402, 403, 429].includes(statusCode)) return undefined;
  if (ABOUT_IMAGES.test(responseBody)) {
    return NO_IMAGES.test(responseBody) && !THESE_IMAGES.test(responseBody) ? "all" : "these";
  }
  // They count more than was estimated.
  return refusalOf(statusCode, responseBody) === "context_too_long" ? "these" : undefined;
}

/** Whether the words of the provider say more than the code. A key may also lack a right, or be used in the wrong country. */
function isExplained(code: ModelErrorCode, thrown: unknown): boolean {
  return code === "request_refused" || code === "tools_unsupported" || thrown instanceof StreamBroken ||
    code === "bad_key" && (thrown as ApiCallError).statusCode === 403;
}

/** What a provider that responded says: the text of its error, or that of its status. */
function replyOf(thrown: unknown, apiKey: string | undefined): string | undefined {
  const { message = "", statusCode, responseBody = "" } = thrown as ApiCallError;
  const said = message === "" ? textOf(responseBody) ?? statusText(statusCode) : message;
  const text = apiKey === undefined ? said : said?.replaceAll(apiKey, "…");
  return text?.slice(0, REPLY_MAX_CHARS).toWellFormed();
}

/** What an error says that is not as the protocol wants it; `undefined` for pages. */
function textOf(body: string): string | undefined {
  const text = body.trim();
  if (text === "" || text.startsWith("<")) return undefined;
  try {
    const { error, message, detail } = objectOf(JSON.parse(text));
    const said = isObject(error) ? error.message : error ?? message ?? detail;
    return typeof said === "string" ? said : JSON.stringify(said);
  } catch {
    return text;
  }
}

function statusText(status: number | undefined): string | undefined {
  if (status === undefined) return undefined;
  return `HTTP status ${status}` +
    (status === 404 || status === 405 ? "; is the address complete, such as with `/v1`?" : "");
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
