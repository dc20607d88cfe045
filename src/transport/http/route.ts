// An ordinary route as an endpoint: the same admission, limits, time-out and problems as operations have.
import { type Actor, hasScope } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import type { RunOnce } from "@/core/idempotency.ts";
import type { Route, RouteCall } from "@/core/route.ts";
import { isSafeText } from "@/core/text.ts";
import { type Admit, chargeAddress, chargeWrite, type HttpLimits } from "./auth.ts";
import { readBody } from "./body.ts";
import type { RequestDeadlines } from "./deadline.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Exchange } from "./exchange.ts";
import { idempotencyKeyOf, resultOnce } from "./idempotent.ts";

/** The endpoint of a route. */
export function routeEndpoint(
  route: Route,
  deps: {
    admit: Admit;
    limits: HttpLimits | undefined;
    runOnce: RunOnce;
    deadlines: RequestDeadlines;
    bodyMaxBytes: number;
  },
): Endpoint {
  const { method, path } = route;
  const isJsonBody = route.body !== "stream" && (method === "POST" || method === "PUT" || method === "PATCH");

  async function answer(exchange: Exchange, params: Record<string, string>): Promise<Response> {
    const { request } = exchange;
    const actor = route.auth === "bearer" ? await deps.admit(exchange) : undefined;
    if (route.auth === "bearer" && actor !== undefined && !hasScope(actor, route.scope)) {
      throw new Fault("scope_missing", `The token lacks the scope ${route.scope}`);
    }
    // No store takes it, and nothing there is has it in its id.
    if (actor !== undefined && !Object.values(params).every(isSafeText)) {
      throw new Fault("not_found", "Nothing has this id");
    }
    if (actor !== undefined && method !== "GET") await chargeWrite(actor, deps.limits);
    if (route.auth === "public" && route.rate !== undefined) {
      await chargeAddress(exchange, route.name, route.rate, deps.limits);
    }
    const body = isJsonBody ? (await readBody(request, deps.bodyMaxBytes)).value : undefined;
    const call = new HttpRouteCall(exchange, params, body, async (said, work) => {
      const key = actor === undefined ? undefined : idempotencyKeyOf(request);
      if (actor === undefined || key === undefined) return await work();
      const { result, isReplay } = await resultOnce(deps.runOnce, exchange, actor, key, said, work);
      if (isReplay) call.headers["Idempotency-Replayed"] = "true";
      return result;
    });
    const response = await handled(request, call, actor);
    return exchange.dress(request.method === "HEAD" ? await withoutBody(response) : response);
  }

  function handled(request: Request, call: RouteCall, actor: Actor | undefined): Promise<Response> | Response {
    if (route.auth === "public") return route.handle(request, call);
    if (actor === undefined) throw new TypeError("A bearer route was entered without an actor");
    return route.handle(request, Object.assign(call, { actor }));
  }

  return {
    method,
    path,
    answer: route.isLong ? answer : (exchange, params) => deps.deadlines.run(exchange, answer(exchange, params)),
  };
}

/** The answer to HEAD. A long body, whose length is told, has to be let go of: nobody will read it to its end. */
async function withoutBody(response: Response): Promise<Response> {
  const answer = new Response(null, response);
  if (response.headers.has("Content-Length")) await response.body?.cancel();
  else if (response.body !== null) answer.headers.set("Content-Length", String((await response.bytes()).length));
  return answer;
}

/** A call whose signal is made only when somebody asks for it. */
class HttpRouteCall implements RouteCall {
  readonly params: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly requestId: string;
  readonly headers: Record<string, string>;
  readonly ip: string;
  readonly once: RouteCall["once"];
  readonly #exchange: Exchange;

  constructor(
    exchange: Exchange,
    params: Readonly<Record<string, string>>,
    body: unknown,
    once: RouteCall["once"],
  ) {
    this.params = params;
    this.body = body;
    this.requestId = exchange.requestId;
    this.headers = exchange.headers;
    this.ip = exchange.ip;
    this.once = once;
    this.#exchange = exchange;
  }

  assertOrigin(tenantId: string): void {
    this.#exchange.assertOrigin(tenantId);
  }

  get signal(): AbortSignal {
    return this.#exchange.signal;
  }
}
