// The HTTP server: operations and routes become Hono routes behind one wrapper that every request passes.
import { Hono } from "@hono/hono";
import { commonTurn } from "@/core/clock.ts";
import type { Dispatch } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import type { RunOnce } from "@/core/idempotency.ts";
import { logFailure, logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Operation } from "@/core/operation.ts";
import type { TenantOrigins } from "@/core/origin.ts";
import { RecentMap } from "@/core/recent_map.ts";
import type { Route } from "@/core/route.ts";
import { nameSpan } from "@/core/trace.ts";
import { type Authenticate, chargeRefusal, createAdmit, type HttpLimits } from "./auth.ts";
import { createClientOf } from "./client.ts";
import { type CorsOrigins, createCors } from "./cors.ts";
import { RequestDeadlines } from "./deadline.ts";
import { docsRedirect, docsRoutes } from "./docs.ts";
import { BODY_MAX_BYTES, type Endpoint } from "./endpoint.ts";
import { Exchange } from "./exchange.ts";
import { createHttps, type HttpsRules } from "./https.ts";
import { Meters } from "./meter.ts";
import { openapiRoute } from "./openapi.ts";
import { operationEndpoint } from "./operation.ts";
import { probeRoutes, type Readiness } from "./probe.ts";
import { problemAnswer } from "./problem.ts";
import { routeEndpoint } from "./route.ts";
import { FirstMatchRouter, ROUTED_AS } from "./router.ts";

/** What the composition root hands in. */
export type HttpDeps = {
  operations: readonly Operation[];
  routes?: readonly Route[];
  dispatch: Dispatch;
  authenticate: Authenticate;
  runOnce: RunOnce;
  metrics: Metrics;
  /** Absent when limits are off. */
  limits?: HttpLimits | undefined;
  ready: () => Promise<Readiness>;
  /** Version of the gateway, for the OpenAPI document. */
  version: string;
  corsOrigins?: CorsOrigins;
  /** Origins that only some tenants let in. */
  tenantOrigins?: TenantOrigins;
  https?: HttpsRules;
  /** CIDR ranges whose `X-Forwarded-*` are believed. */
  trustedProxies?: readonly string[];
  metricsToken?: string | undefined;
  requestTimeoutMs?: number;
  /** Length of JSON bodies at most, where an operation has no length of its own. */
  bodyMaxBytes?: number;
};

/** Answers one request of the peer at `ip`; never rejects. */
export type HttpHandler = (request: Request, ip: string) => Promise<Response>;

const UNMATCHED = "_unmatched";
/** Methods that endpoints may take, in the order in which `Allow` names them. */
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/** Origins of requests that were found valid; the same few come again and again. */
const origins = new RecentMap<string, true>(100);
const ORIGIN_MAX = 300;
const NO_HOST = /[\s/\\?#@]/;

const log = logOf("http");

/** Builds the handler. */
export function createHttp(deps: HttpDeps): HttpHandler {
  const { operations, limits, requestTimeoutMs = 30_000, bodyMaxBytes = BODY_MAX_BYTES } = deps;
  const admit = createAdmit(deps.authenticate, limits);
  const meters = new Meters(deps.metrics);
  const clientOf = createClientOf(deps.trustedProxies ?? []);
  const https = createHttps(deps.https ?? { isHstsOn: false });
  const cors = createCors(deps.corsOrigins ?? [], deps.tenantOrigins);
  const deadlines = new RequestDeadlines(requestTimeoutMs);
  const routes = withOwnRoutes(deps);
  const app = mount([
    ...operations.map((operation) =>
      operationEndpoint(operation, { admit, dispatch: deps.dispatch, runOnce: deps.runOnce, deadlines, bodyMaxBytes })
    ),
    ...routes.map((route) => routeEndpoint(route, { admit, limits, runOnce: deps.runOnce, deadlines, bodyMaxBytes })),
    docsRedirect,
  ], meters);

  async function refuse(exchange: Exchange, thrown: unknown): Promise<Response> {
    const fault = await chargeRefusal(exchange, faultOf(exchange, thrown), limits);
    // What dispatch threw is in the log already; a caller who is gone is no failure.
    const isCancelled = !(thrown instanceof Fault) && exchange.isAborted;
    if (fault.kind.status >= 500 && !isCancelled) {
      const { requestId, request: { method }, meter } = exchange;
      logFailure(log, fault, { requestId, method, path: meter?.path ?? UNMATCHED });
    }
    return exchange.respond(problemAnswer(exchange, fault));
  }

  return async function handle(request, peer) {
    const client = clientOf(request, peer);
    const exchange = new Exchange(request, client.ip, client.isHttps);
    // The runtime hands over a request as soon as it is read. Those of one turn are answered together, at half the cost.
    await commonTurn();
    let response: Response;
    try {
      requireAddress(request);
      // HTTPS first: a preflight over plain http is redirected as well, which a browser refuses.
      const early = https(exchange) ?? cors(exchange);
      response = early === undefined ? await app.fetch(request, exchange) : exchange.respond(early);
    } catch (thrown) {
      response = await refuse(exchange, thrown);
    }
    finish(exchange, response.status);
    return response;
  };

  function finish(exchange: Exchange, status: number): void {
    let { meter } = exchange;
    if (meter === undefined) {
      meter = meters.of(exchange.request.method, UNMATCHED);
      meter.begin();
    } else {
      nameSpan(meter.method, meter.path);
    }
    const ms = performance.now() - exchange.startedAt;
    meter.end(status, ms / 1000);
    // Only an unexpected failure is an error; a 503 was meant, and its cause is told where it is known.
    const isOurFault = status === 500;
    if (!isOurFault && !log.isEnabledFor("debug")) return;
    // The template, not the path: a path may hold a secret, and a query more than one.
    log[isOurFault ? "error" : "debug"]("request", {
      requestId: exchange.requestId,
      method: exchange.request.method,
      path: meter.path,
      status,
      ms: Math.round(ms * 100) / 100,
    });
  }
}

type App = Hono<{ Bindings: Exchange }>;

/** Registers endpoints by their paths, of which the first that matches answers, whatever the method; what is thrown passes on. */
function mount(endpoints: readonly Endpoint[], meters: Meters): App {
  const app: App = new Hono({ router: new FirstMatchRouter() });
  for (const [path, group] of Map.groupBy(endpoints.toSorted(byPrecedence), ({ path }) => path)) {
    const byMethod = new Map(group.map((endpoint) => [endpoint.method, endpoint]));
    app.on(ROUTED_AS, path, (context) => {
      const exchange = context.env;
      const { method } = exchange.request;
      const endpoint = byMethod.get(method === "HEAD" ? "GET" : method);
      if (endpoint === undefined) {
        exchange.headers["Allow"] = METHODS.filter((one) => byMethod.has(one === "HEAD" ? "GET" : one)).join(", ");
        throw new Fault("method_not_allowed", `This path does not take ${method.slice(0, 32)}`);
      }
      exchange.meter = meters.of(method, path);
      exchange.meter.begin();
      return endpoint.answer(exchange, context.req.param());
    });
  }
  app.notFound(() => {
    throw new Fault("route_not_found", "There is nothing at this path");
  });
  app.onError((error) => {
    throw error;
  });
  return app;
}

/**
 * The engine joins the Host header and the path to one URL and checks neither: a host with a `/` would choose the path that
 * is served, and one that is none at all would break whoever reads the URL.
 */
function requireAddress({ url, headers }: Request): void {
  const origin = url.slice(0, url.indexOf("/", url.indexOf("://") + 3));
  if (NO_HOST.test(headers.get("Host") ?? "") || !origins.has(origin) && !URL.canParse(url)) {
    throw new Fault("bad_request", "The host of the request is not valid");
  }
  if (origin.length <= ORIGIN_MAX && !origins.has(origin)) origins.set(origin, true);
}

/** Literal segments before parameters, so that `/rooms/unread` is not taken for the room `unread`. */
function byPrecedence(a: Endpoint, b: Endpoint): number {
  const [left, right] = [a.path.split("/"), b.path.split("/")];
  const rank = (segment: string | undefined): number => Number(segment?.startsWith(":") ?? false);
  if (left.length !== right.length) return left.length - right.length;
  return left.map((segment, at) => rank(segment) - rank(right[at])).find((difference) => difference !== 0) ?? 0;
}

/** The routes of the modules and those of every gateway; the documents list all of them. */
function withOwnRoutes(deps: HttpDeps): Route[] {
  const routes = [...deps.routes ?? [], ...probeRoutes(deps)];
  const documents = ["/openapi.json", "/asyncapi.json"]
    .filter((path) => path === "/openapi.json" || routes.some((route) => route.path === path));
  routes.push(...docsRoutes(documents));
  routes.push(openapiRoute({ operations: deps.operations, routes, version: deps.version }));
  return routes;
}

/** The fault to tell; work that broke because it was told to stop is not an error of ours. */
function faultOf(exchange: Exchange, thrown: unknown): Fault {
  const fault = Fault.from(thrown);
  return fault.code === "internal" && exchange.isAborted
    ? new Fault("unavailable", "The request was cancelled", { cause: thrown })
    : fault;
}
