// An operation as an endpoint: admission, input, dispatch, answer.
import type { Actor } from "@/core/actor.ts";
import { authorise, type Call, type Dispatch } from "@/core/dispatch.ts";
import type { RunOnce } from "@/core/idempotency.ts";
import { isRead, type Operation, type Outcome } from "@/core/operation.ts";
import { type Answer, jsonAnswer } from "./answer.ts";
import type { Admit } from "./auth.ts";
import { readBody, refuseBody } from "./body.ts";
import type { RequestDeadlines } from "./deadline.ts";
import { type Endpoint, requireAcceptsJson } from "./endpoint.ts";
import { etagOf, isNoneMatch } from "./etag.ts";
import type { Exchange } from "./exchange.ts";
import { answerOnce, idempotencyKeyOf } from "./idempotent.ts";
import { createReadInput } from "./input.ts";
import { fieldsOf } from "./query.ts";

const NOTHING = new Uint8Array();

/** What operations need to be answered over HTTP. */
export type OperationDeps = {
  admit: Admit;
  dispatch: Dispatch;
  runOnce: RunOnce;
  deadlines: RequestDeadlines;
  /** Length of a body at most, unless the operation says otherwise. */
  bodyMaxBytes: number;
};

/** Whether the operation reads a JSON body. */
export function hasBody({ http }: Operation): boolean {
  return http.method !== "GET" && http.method !== "DELETE";
}

/** Whether an `Idempotency-Key` means something to the operation. */
export function isOnceable(operation: Operation): boolean {
  return !isRead(operation);
}

/** The endpoint of an operation. */
export function operationEndpoint(
  operation: Operation,
  { admit, dispatch, runOnce, deadlines, ...deps }: OperationDeps,
): Endpoint {
  const { method, path, status, bodyMaxBytes = deps.bodyMaxBytes, text } = operation.http;
  const readInput = createReadInput(operation);
  const isWithBody = hasBody(operation);
  const once = isOnceable(operation) ? runOnce : undefined;
  const isLongPoll = fieldsOf(operation.input).has("wait");

  async function answer(exchange: Exchange, params: Record<string, string>): Promise<Response> {
    const { request } = exchange;
    requireAcceptsJson(request);
    const actor = await admit(exchange);
    // Dispatch refuses it: what is not there does not look at what it was asked.
    if (operation.off !== undefined) await dispatch(operation, new HttpCall(exchange, actor, undefined));
    const key = once === undefined ? undefined : idempotencyKeyOf(request);
    // What it says would be ignored, and more be deleted than was meant.
    if (method === "DELETE") await refuseBody(request);
    const body = isWithBody ? await readBody(request, bodyMaxBytes, text) : undefined;
    const input = readInput(exchange, params, body?.value);
    const call = new HttpCall(exchange, actor, input);
    const run = async (): Promise<Answer> => answerOf(await dispatch(operation, call), status);
    // A kept answer does not pass the dispatcher; and a refusal for want of a scope is not one to keep.
    if (key !== undefined) authorise(operation, actor);
    const result = once === undefined || key === undefined
      ? await run()
      : await answerOnce(once, exchange, actor, key, body?.bytes ?? NOTHING, run, operation.isSecret === true);
    return exchange.respond(method === "GET" ? conditional(request, result) : result);
  }

  return {
    method,
    path,
    answer: isLongPoll ? answer : (exchange, params) => deadlines.run(exchange, answer(exchange, params)),
  };
}

/** A call whose signal is made only when somebody asks for it. */
class HttpCall implements Call {
  readonly actor: Actor;
  readonly input: unknown;
  readonly requestId: string;
  readonly via = "http";
  readonly #exchange: Exchange;

  constructor(exchange: Exchange, actor: Actor, input: unknown) {
    this.actor = actor;
    this.input = input;
    this.requestId = exchange.requestId;
    this.#exchange = exchange;
  }

  get signal(): AbortSignal {
    return this.#exchange.signal;
  }
}

function answerOf(outcome: Outcome<unknown>, usual: number): Answer {
  const { output, status, location } = outcome;
  const headers: Record<string, string> = {};
  if (location !== undefined) headers["Location"] = location;
  if ((status ?? usual) === 204) return { status: 204, headers, body: null };
  const body = outcome.json;
  const etag = etagOf(output, body);
  if (etag !== undefined) {
    headers["ETag"] = etag;
    headers["Cache-Control"] = "private, no-cache";
  }
  return jsonAnswer(status ?? usual, body, headers);
}

function conditional(request: Request, answer: Answer): Answer {
  const etag = answer.headers["ETag"];
  if (etag === undefined || answer.status !== 200) return answer;
  if (!isNoneMatch(request.headers.get("If-None-Match"), etag)) return answer;
  return { status: 304, headers: { ETag: etag, "Cache-Control": "private, no-cache" }, body: null };
}
