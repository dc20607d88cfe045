// Operations as endpoints: authentication, input, dispatch, response.
import { type Actor, chargedTo } from "@/core/actor.ts";
import { hopsOf } from "@/core/agent_hops.ts";
import { chargeTo, measureOn } from "@/core/caller.ts";
import type { CpuAccount, CpuBudget } from "@/core/limit/cpu_budget.ts";
import { authorize, type Call, type Dispatcher } from "@/core/dispatch.ts";
import { clientOf, matchesIfNoneMatch } from "@/core/http/request.ts";
import { Fault } from "@/core/fault.ts";
import type { RunOnce } from "@/core/http/idempotency.ts";
import { type Client, isReadOnly, type Operation, type Outcome, type Preparation } from "@/core/operation.ts";
import { jsonResponse, type ResponseData } from "./response.ts";
import type { RequestAuthenticator } from "./auth.ts";
import { assertNoBody, readBody } from "./body.ts";
import { assertAcceptsJson, type Endpoint } from "./endpoint.ts";
import { computeEtag } from "./etag.ts";
import type { LargeBodies } from "./large_bodies.ts";
import type { RequestContext, RequestTimeouts } from "./request_context.ts";
import { idempotencyKeyOf, respondOnce } from "./idempotency.ts";
import { createReadInput } from "./input.ts";
import { fieldsOf } from "./query.ts";
import type { UnreadResponses } from "./unread_responses.ts";

const EMPTY_BODY = new Uint8Array();

type OperationDeps = {
  authenticateRequest: RequestAuthenticator;
  dispatch: Dispatcher;
  runOnce: RunOnce;
  timeouts: RequestTimeouts;
  /** Default limit of bodies. */
  bodyMaxBytes: number;
  largeBodies: LargeBodies;
  unreadResponses: UnreadResponses;
  /** CPU time of callers; absent if it is not limited. */
  cpu: CpuBudget | undefined;
};

/** Whether the operation reads a JSON body. */
export function hasBody({ http }: Operation): boolean {
  return http.method !== "GET" && http.method !== "DELETE";
}

/** Whether the operation supports `Idempotency-Key`. */
export function supportsIdempotency(operation: Operation): boolean {
  return !isReadOnly(operation) && operation.callsOut !== true;
}

export function operationEndpoint(
  operation: Operation,
  { authenticateRequest, dispatch, runOnce, timeouts, cpu, ...deps }: OperationDeps,
): Endpoint {
  const { method, path, status, bodyMaxBytes = deps.bodyMaxBytes, bodyDepthMax, bodyValuesMax, textBody } =
    operation.http;
  const readOptions = { text: textBody, depthMax: bodyDepthMax, valuesMax: bodyValuesMax };
  const fields = fieldsOf(operation.input);
  const readInput = createReadInput(operation, fields);
  const isSecret = operation.isSecret === true;
  const readsBody = hasBody(operation);
  const isReading = isReadOnly(operation);
  const once = supportsIdempotency(operation) ? runOnce : undefined;
  const hasMessageId = fields.has("clientMessageId");
  const isWaiting = operation.callsOut === true || fields.has("wait");

  async function handle(context: RequestContext, params: Record<string, string>): Promise<Response> {
    // Without a body to accept, generated clients name the type of problems alone.
    if (status !== 204) assertAcceptsJson(context.request);
    const actor = await authenticateRequest(context);
    deps.unreadResponses.assertRead(chargedTo(actor));
    // Before the body is read: a caller beyond its CPU share must wait here.
    const account = cpu?.accountOf(actor);
    const delay = account?.beginCall(context.startedAt);
    if (delay !== undefined) await delay;
    context.isServed = true;
    // Waiting for events or another service uses almost no CPU time.
    if (isWaiting) account?.endCall();
    try {
      return await execute(context, params, actor, account);
    } finally {
      if (!isWaiting) account?.endCall();
    }
  }

  async function execute(
    context: RequestContext,
    params: Record<string, string>,
    actor: Actor,
    account: CpuAccount | undefined,
  ): Promise<Response> {
    const { request } = context;
    // Dispatch rejects a disabled operation before its input is read.
    if (operation.disabled !== undefined) await dispatch(operation, new HttpCall(context, actor, undefined));
    if (once === undefined && hasMessageId && request.headers.has("Idempotency-Key")) {
      throw new Fault("bad_request", `${operation.name} takes clientMessageId instead of Idempotency-Key`);
    }
    const key = once === undefined ? undefined : idempotencyKeyOf(request);
    // A body would be ignored, and more deleted than intended.
    if (method === "DELETE") await assertNoBody(request);
    using large = readsBody ? deps.largeBodies.bodyOf(actor) : undefined;
    const reading = readsBody ? readBody(request, bodyMaxBytes, { ...readOptions, account, large }) : undefined;
    const body = isWaiting && reading !== undefined ? await timeouts.run(context, reading) : await reading;
    const input = readInput(context, params, body?.value);
    // The call may take minutes, most of which it waits.
    if (isWaiting) large?.[Symbol.dispose]();
    const call = new HttpCall(context, actor, input, key !== undefined);
    const run = async (): Promise<ResponseData> => {
      const outcome = await dispatch(operation, call);
      // Responses to reads may be long.
      return isReading ? measureOn(account, () => toResponseData(outcome, status)) : toResponseData(outcome, status);
    };
    // A stored response does not pass dispatch, and a missing scope must not be stored.
    if (key !== undefined) {
      authorize(operation, actor);
      const turn = account?.takeTurn();
      if (turn !== undefined) await turn;
      // The call runs within the transaction that stores its response.
      call.preparation = await dispatch.prepare(operation, call);
    }
    const result = once === undefined || key === undefined ? await run() : await chargeTo(
      account,
      () => respondOnce(once, { context, actor, key }, { body: body?.bytes ?? EMPTY_BODY, isSecret }, run),
    );
    const response = method === "GET" ? applyIfNoneMatch(request, result) : result;
    return measureOn(
      account,
      () => context.toResponse(response, (text) => deps.unreadResponses.bodyOf(chargedTo(actor), text, { isReading })),
    );
  }

  return {
    method,
    path,
    handle: isWaiting ? handle : (context, params) => timeouts.run(context, handle(context, params)),
  };
}

/** A call whose signal and client are created only if they are used. */
class HttpCall implements Call {
  readonly actor: Actor;
  readonly input: unknown;
  readonly requestId: string;
  readonly via = "http";
  readonly isCpuAccounted = true;
  readonly startedAt: number;
  preparation: Preparation | undefined = undefined;
  readonly hasTurn: boolean;
  readonly #context: RequestContext;

  constructor(context: RequestContext, actor: Actor, input: unknown, hasTurn = false) {
    this.actor = actor;
    this.input = input;
    this.hasTurn = hasTurn;
    this.requestId = context.requestId;
    this.startedAt = context.startedAt;
    this.#context = context;
  }

  get client(): Client {
    return clientOf(this.#context.request, this.#context.ip);
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get agentHops(): number {
    return hopsOf(this.#context.request.headers.get("baggage"));
  }
}

function toResponseData(outcome: Outcome<unknown>, defaultStatus: number): ResponseData {
  const { output, status, location } = outcome;
  const headers: Record<string, string> = {};
  if (location !== undefined) headers["Location"] = location;
  if ((status ?? defaultStatus) === 204) return { status: 204, headers, body: null };
  const body = outcome.json;
  const etag = computeEtag(output, body);
  if (etag !== undefined) {
    headers["ETag"] = etag;
    headers["Cache-Control"] = "private, no-cache";
  }
  return jsonResponse(status ?? defaultStatus, body, headers);
}

function applyIfNoneMatch(request: Request, response: ResponseData): ResponseData {
  const etag = response.headers["ETag"];
  if (etag === undefined || response.status !== 200) return response;
  if (!matchesIfNoneMatch(request.headers, etag)) return response;
  return { status: 304, headers: { ETag: etag, "Cache-Control": "private, no-cache" }, body: null };
}
