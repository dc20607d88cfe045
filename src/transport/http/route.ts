// Routes as endpoints, with the same authentication, limits, timeout and problems as operations.
import { type Actor, chargedTo } from "@/core/actor.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { chargeTo, currentAccount, runAsCaller } from "@/core/caller.ts";
import { authorize } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import type { RunOnce } from "@/core/http/idempotency.ts";
import type { Route, RouteCall } from "@/core/http/route.ts";
import { isSafeText } from "@/core/text/text.ts";
import {
  consumeAddressRate,
  consumeWriteRate,
  createRequestAuthenticator,
  type HttpLimits,
  type RequestAuthenticator,
} from "./auth.ts";
import { readBody } from "./body.ts";
import type { Endpoint } from "./endpoint.ts";
import type { LastingResponses } from "./lasting_responses.ts";
import type { RequestContext, RequestTimeouts } from "./request_context.ts";
import { idempotencyKeyOf, runOnceForKey } from "./idempotency.ts";
import { assertParametersKnown } from "./query.ts";
import { addressLimitKey } from "../shared/client_address.ts";
import type { UnreadResponses } from "./unread_responses.ts";

/** Whether the JSON body of a route is read for it. */
export function hasJsonBody({ method, body }: Route): boolean {
  return body !== "stream" && (method === "POST" || method === "PUT" || method === "PATCH");
}

/** Those of other protocols ignore what they do not know, and public ones are followed as links. */
export function refusesUnknownParameters({ auth, form }: Route): boolean {
  return auth === "bearer" && form === undefined;
}

export function routeEndpoint(
  route: Route,
  deps: {
    authenticateRequest: RequestAuthenticator;
    limits: HttpLimits | undefined;
    runOnce: RunOnce;
    timeouts: RequestTimeouts;
    bodyMaxBytes: number;
    cpu: CpuBudget | undefined;
    unreadResponses: UnreadResponses;
    lasting: LastingResponses;
  },
): Endpoint {
  const { method, path } = route;
  const authenticateRequest = route.auth === "bearer" && route.authenticate !== undefined
    ? createRequestAuthenticator(route.authenticate, deps.limits)
    : deps.authenticateRequest;
  const isJsonBody = hasJsonBody(route);
  const queryNames = (route.document.parameters ?? []).filter((one) => one["in"] === "query").map(({ name }) =>
    String(name)
  );

  async function handle(context: RequestContext, params: Record<string, string>): Promise<Response> {
    context.form = route.form;
    if (route.auth === "bearer") context.challenge = route.challenge?.(context.request);
    const actor = route.auth === "bearer" ? await authenticateRequest(context) : undefined;
    const owner = actor === undefined ? addressLimitKey(context.ip) : chargedTo(actor);
    const account = actor === undefined ? undefined : deps.cpu?.accountOf(actor);
    if (account === undefined) return await execute(context, params, owner, actor);
    const delay = account.beginCall(context.startedAt);
    if (delay !== undefined) await delay;
    context.isServed = true;
    // A transfer may take minutes, most of it without using CPU time.
    if (route.hasNoTimeout) account.endCall();
    try {
      return await chargeTo(account, () => execute(context, params, owner, actor));
    } finally {
      if (!route.hasNoTimeout) account.endCall();
    }
  }

  async function execute(
    context: RequestContext,
    params: Record<string, string>,
    owner: string,
    actor?: Actor,
  ): Promise<Response> {
    const { request } = context;
    if (route.auth === "bearer" && actor !== undefined) authorize({ name: route.name, access: route }, actor);
    if (refusesUnknownParameters(route)) assertParametersKnown(request.url, queryNames);
    // Stores reject unsafe text, so no id contains it.
    if (actor !== undefined && !Object.values(params).every(isSafeText)) {
      throw new Fault("not_found", "No resource has this id");
    }
    const isWrite = method !== "GET" && route.auth === "bearer" && route.countsWrites !== "itself";
    if (actor !== undefined && isWrite) await consumeWriteRate(actor, deps.limits);
    if (route.auth === "public" && route.rate !== undefined) {
      await consumeAddressRate(context, route.name, route.rate, deps.limits);
    }
    const reading = isJsonBody
      ? readBody(request, route.bodyMaxBytes ?? deps.bodyMaxBytes, {
        account: currentAccount(),
        type: route.form?.type,
      })
      : undefined;
    const timed = reading !== undefined && route.hasNoTimeout ? deps.timeouts.run(context, reading) : reading;
    const body = (await timed)?.value;
    const toBody = (content: string | Uint8Array<ArrayBuffer>): BodyInit =>
      deps.unreadResponses.bodyOf(owner, content, { isReading: true }).body;
    const call = new HttpRouteCall(context, params, body, toBody, async (fingerprint, work) => {
      const key = actor === undefined ? undefined : idempotencyKeyOf(request);
      if (actor === undefined || key === undefined) return await work();
      const { result, isReplay } = await runOnceForKey(deps.runOnce, { context, actor, key }, fingerprint, work);
      if (isReplay) call.headers["Idempotency-Replayed"] = "true";
      return result;
    });
    const response = await callRoute(request, call, actor);
    if (request.method === "HEAD") return context.withHeaders(await withoutBody(response));
    return context.withHeaders(route.hasNoTimeout ? deps.lasting.guard(response) : response);
  }

  function callRoute(request: Request, call: RouteCall, actor: Actor | undefined): Promise<Response> | Response {
    if (route.auth === "public") return route.handle(request, call);
    if (actor === undefined) throw new TypeError("Expected an authenticated caller on a bearer route, received none");
    return runAsCaller(actor, () => route.handle(request, Object.assign(call, { actor })));
  }

  return {
    method,
    path,
    handle: route.hasNoTimeout ? handle : (context, params) => deps.timeouts.run(context, handle(context, params)),
  };
}

/** The response to HEAD. A body with a known length is cancelled instead of read. */
async function withoutBody(response: Response): Promise<Response> {
  const head = new Response(null, response);
  if (response.headers.has("Content-Length")) await response.body?.cancel();
  else if (response.body !== null) head.headers.set("Content-Length", String((await response.bytes()).length));
  return head;
}

/** A call whose signal is created only if it is used. */
class HttpRouteCall implements RouteCall {
  readonly params: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly requestId: string;
  readonly headers: Record<string, string>;
  readonly ip: string;
  readonly toBody: RouteCall["toBody"];
  readonly runOnce: RouteCall["runOnce"];
  readonly #context: RequestContext;

  constructor(
    context: RequestContext,
    params: Readonly<Record<string, string>>,
    body: unknown,
    toBody: RouteCall["toBody"],
    runOnce: RouteCall["runOnce"],
  ) {
    this.params = params;
    this.body = body;
    this.requestId = context.requestId;
    this.headers = context.headers;
    this.ip = context.ip;
    this.toBody = toBody;
    this.runOnce = runOnce;
    this.#context = context;
  }

  get addressKey(): string {
    return addressLimitKey(this.ip);
  }

  assertOrigin(tenantId: string): void {
    this.#context.assertOrigin(tenantId);
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }
}
