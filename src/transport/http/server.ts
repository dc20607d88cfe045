// The HTTP server: operations and routes as Hono routes, behind one handler for all requests.
import { Hono } from "@hono/hono";
import type { Result, Router } from "@hono/hono/router";
import { RegExpRouter } from "@hono/hono/router/reg-exp-router";
import { SmartRouter } from "@hono/hono/router/smart-router";
import { TrieRouter } from "@hono/hono/router/trie-router";
import { nextSharedTick } from "@/core/time/clock.ts";
import type { Dispatcher } from "@/core/dispatch.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault } from "@/core/fault.ts";
import type { RunOnce } from "@/core/http/idempotency.ts";
import { logFailure, logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Operation } from "@/core/operation.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Route } from "@/core/http/route.ts";
import { nameSpan } from "@/runtime/spans.ts";
import { type Authenticate, consumeAuthFailureRate, createRequestAuthenticator, type HttpLimits } from "./auth.ts";
import { type Client, createClientResolver } from "../shared/client_address.ts";
import type { MemoryGuard } from "../shared/memory_guard.ts";
import { WebClient } from "../web/page.ts";
import { type CorsRules, createCors } from "./cors.ts";
import { docsRedirect, docsRoutes } from "./docs.ts";
import { BODY_MAX_BYTES, type Endpoint, lazyEndpoint } from "./endpoint.ts";
import { RequestContext, RequestTimeouts } from "./request_context.ts";
import { homeRoute } from "./home.ts";
import { createHttps, type HttpsRules } from "./https.ts";
import { Meters } from "./meter.ts";
import { openapiRoute } from "./openapi/document.ts";
import { createNearestRoutes } from "./nearest_route.ts";
import { LargeBodies } from "./large_bodies.ts";
import { LastingResponses } from "./lasting_responses.ts";
import { operationEndpoint } from "./operation.ts";
import { probeRoutes, type Readiness } from "./probe.ts";
import { routeEndpoint } from "./route.ts";
import { faultResponse } from "./response.ts";
import { StrangerTurns } from "./stranger_turns.ts";
import { UnreadBodies } from "./unread_bodies.ts";
import { UnreadResponses } from "./unread_responses.ts";

export type HttpDeps = CorsRules & {
  operations: readonly Operation[];
  routes?: readonly Route[];
  /** A description for each tag of the documents. */
  tags?: Readonly<Record<string, string>>;
  dispatch: Dispatcher;
  authenticate: Authenticate;
  runOnce: RunOnce;
  metrics: Metrics;
  /** Absent if limits are disabled. */
  limits?: HttpLimits | undefined;
  checkReadiness: () => Promise<Readiness>;
  /** Whether the gateway stops, which breaks off bodies that are arriving. */
  isLeaving?: () => boolean;
  /** What people call the identity provider at which they sign in. */
  signInName?: string | undefined;
  /** Version of the gateway, for the OpenAPI document. */
  version: string;
  https?: HttpsRules;
  /** CIDR ranges whose `X-Forwarded-*` headers are trusted. */
  trustedProxies?: readonly string[];
  metricsToken?: string | undefined;
  isMetricsClosed?: boolean;
  requestTimeoutMs?: number;
  /** Limit of JSON bodies, for operations without their own. */
  bodyMaxBytes?: number;
  /** CPU time of callers; absent if it is not limited. */
  cpu?: CpuBudget;
  /** What ends responses that last when memory grows too far. */
  guard: MemoryGuard;
};

/** Handles a request of the peer at `ip`; never rejects. */
type HttpHandler = (request: Request, ip: string) => Promise<Response>;

const UNMATCHED = "_unmatched";
/** Methods in the order of the `Allow` header. */
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/** Cache of valid request origins; there are few. */
const validOrigins = new LruMap<string, true>(100);
const ORIGIN_MAX = 300;
/** All routes are added with this method; the handler of the path checks the method. */
const ROUTED_AS = "GET";
/** What makes a path of a route match more than itself. */
const PATTERN = /[:*{]/;
/** More than any path has, with three characters for each of its ids. */
const PATH_MAX_CHARS = 4096;
const EMPTY_SEGMENT = /\/\/|.\/$/;
/** Parameters of a query: lists have at most 200 values, which may be repeated parameters. */
const PARAMETERS_MAX = 500;
/** Another node, or the next process, serves by then. */
const REPEAT_AFTER_MS = 1000;
const INVALID_HOST = /[\s/\\?#@]/;

const log = logOf("http");

export function createHttpHandler(deps: HttpDeps): HttpHandler {
  const { operations, runOnce, cpu, requestTimeoutMs = 30_000, bodyMaxBytes = BODY_MAX_BYTES } = deps;
  const authenticateRequest = createRequestAuthenticator(deps.authenticate, deps.limits);
  const meters = new Meters(deps.metrics);
  const clientOf = createClientResolver(deps.trustedProxies ?? []);
  const https = createHttps(deps.https ?? {});
  const cors = createCors(deps);
  const timeouts = new RequestTimeouts(requestTimeoutMs);
  const shared = { authenticateRequest, runOnce, timeouts, bodyMaxBytes, cpu };
  const largeBodies = new LargeBodies();
  const unreadResponses = new UnreadResponses();
  const unreadBodies = new UnreadBodies();
  const strangerTurns = new StrangerTurns();
  const lasting = new LastingResponses(deps.guard);
  const routes = withBuiltInRoutes(deps);
  const forms = new Map(routes.flatMap(({ form }) => form?.below === undefined ? [] : [[form.below, form] as const]));
  const app = mount([
    ...operations.map((operation) =>
      lazyEndpoint(
        operation.http,
        () => operationEndpoint(operation, { ...shared, dispatch: deps.dispatch, largeBodies, unreadResponses }),
      )
    ),
    ...routes.map((route) =>
      lazyEndpoint(route, () => routeEndpoint(route, { ...shared, limits: deps.limits, unreadResponses, lasting }))
    ),
    docsRedirect,
  ], meters);

  return function handle(request, peer) {
    const client = clientOf(request, peer);
    const response = respond(request, client);
    return request.headers.has("Upgrade") ? response : lasting.run(response);
  };

  async function respond(request: Request, client: Client): Promise<Response> {
    const context = new RequestContext(request, client.ip, client.isHttps);
    // Requests read in one tick are handled together, at half the cost.
    // Upgrades must be synchronous up to runtime/upgrade.ts, or aborted ones would leak.
    if (!request.headers.has("Upgrade")) await nextSharedTick();
    let response: Response;
    try {
      assertValidHost(request);
      assertRoutable(context.path);
      assertFewParameters(context.query);
      // HTTPS first: a preflight over plain http is redirected as well, which a browser refuses.
      const early = https(context) ?? cors(context);
      response = early === undefined ? await app.fetch(request, context) : context.toResponse(early);
    } catch (thrown) {
      context.form ??= forms.entries().find(([below]) => context.path.startsWith(below))?.[1];
      response = await toProblem(context, thrown, deps);
    }
    finish(context, response.status, meters);
    unreadBodies.release(request, client.ip);
    if (!context.isServed && response.status !== 101) {
      const bytes = Number(response.headers.get("Content-Length") ?? 0);
      await strangerTurns.take(client.ip, bytes, response.status >= 400);
    }
    return response;
  }
}

/** The response for what was thrown; what nobody expected is logged. */
async function toProblem(
  context: RequestContext,
  thrown: unknown,
  { limits, isLeaving }: Pick<HttpDeps, "limits" | "isLeaving">,
): Promise<Response> {
  const fault = await consumeAuthFailureRate(context, faultOf(context, thrown, isLeaving?.() ?? false), limits);
  // Dispatch has logged its faults already; a disconnected client is not a failure.
  const isCancelled = !(thrown instanceof Fault) && context.isAborted;
  // A fault with `Retry-After` is intended, and under an attack there are thousands.
  if (fault.spec.status >= 500 && !isCancelled && fault.retryAfterMs === undefined) {
    const { requestId, request: { method }, meter } = context;
    logFailure(log, fault, { requestId, method, path: meter?.path ?? UNMATCHED });
  }
  return context.toResponse(faultResponse(context, fault));
}

/** Counts and logs a request that has its response. */
function finish(context: RequestContext, status: number, meters: Meters): void {
  let { meter } = context;
  if (meter === undefined) {
    meter = meters.of(context.request.method, UNMATCHED);
    meter.begin();
  } else {
    nameSpan(meter.method, meter.path);
  }
  const ms = performance.now() - context.startedAt;
  meter.end(status, ms / 1000);
  // Only an unexpected failure is an error; a 503 is intended, and its cause is logged elsewhere.
  const isUnexpected = status === 500;
  if (!isUnexpected && !log.isEnabledFor("debug")) return;
  // The template, not the path: paths and queries may contain secrets.
  log[isUnexpected ? "error" : "debug"]("request", {
    requestId: context.requestId,
    method: context.request.method,
    path: meter.path,
    status,
    ms: Math.round(ms * 100) / 100,
  });
}

type App = Hono<{ Bindings: RequestContext }>;

/** Registers endpoints by path; the first match handles the request, whatever the method. Errors propagate. */
function mount(endpoints: readonly Endpoint[], meters: Meters): App {
  const app: App = new Hono({ router: new FirstMatchRouter() });
  const byPrecedence = Map.groupBy(endpoints, ({ path }) => precedenceOf(path));
  const sorted = [...byPrecedence.keys()].toSorted().flatMap((key) => byPrecedence.get(key) ?? []);
  for (const [path, group] of Map.groupBy(sorted, ({ path }) => path)) {
    const byMethod = new Map(group.map((endpoint) => [endpoint.method, endpoint]));
    app.on(ROUTED_AS, path, ({ env: context, req }) => {
      const { method } = context.request;
      const endpoint = byMethod.get(method === "HEAD" ? "GET" : method);
      if (endpoint === undefined) {
        const allowed = METHODS.filter((one) => byMethod.has(one === "HEAD" ? "GET" : one)).join(", ");
        context.headers["Allow"] = allowed;
        throw new Fault("method_not_allowed", `${method.slice(0, 32)} is not supported here; use ${allowed}`);
      }
      context.meter = meters.of(method, path);
      context.meter.begin();
      return endpoint.handle(context, req.param());
    });
  }
  let nearestRoutes: ReturnType<typeof createNearestRoutes> | undefined;
  app.notFound(({ env }) => {
    nearestRoutes ??= createNearestRoutes(endpoints);
    const near = nearestRoutes(env.path);
    const remedy = near.length === 0 ? "; see /docs for all endpoints" : `; did you mean ${near.join(" or ")}?`;
    // Often a variable of a script that is not set.
    const reason = EMPTY_SEGMENT.test(env.path) ? ": a segment of the path is empty" : "";
    throw new Fault("route_not_found", `No such endpoint${reason}${remedy}`);
  });
  app.onError((error) => {
    throw error;
  });
  return app;
}

/**
 * Hono's router, limited to the first match: one handler serves a request, so Hono need not compose a chain. What a path without
 * parameters leads to is looked up once.
 */
class FirstMatchRouter<T> implements Router<T> {
  readonly name = "FirstMatchRouter";
  readonly #inner = new SmartRouter<T>({ routers: [new RegExpRouter(), new TrieRouter()] });
  /** By path; absent until it is asked for first. */
  readonly #literals = new Map<string, Result<T> | undefined>();

  add(method: string, path: string, handler: T): void {
    this.#inner.add(method, path, handler);
    if (!PATTERN.test(path)) this.#literals.set(path, undefined);
  }

  match(_method: string, path: string): Result<T> {
    const known = this.#literals.get(path);
    if (known !== undefined) return known;
    const result = firstOf(this.#inner.match(ROUTED_AS, path));
    if (this.#literals.has(path)) this.#literals.set(path, result);
    return result;
  }
}

/** Both shapes of a result start with the matches, in the order in which they were added. */
function firstOf<T>(result: Result<T>): Result<T> {
  return result[0].length <= 1 ? result : [result[0].slice(0, 1), ...result.slice(1)] as Result<T>;
}

/**
 * The runtime concatenates the Host header and the path to a URL without checks: a host with a `/` would select the path, and
 * an invalid one would break URL parsing.
 */
function assertValidHost({ url, headers }: Request): void {
  const origin = url.slice(0, url.indexOf("/", url.indexOf("://") + 3));
  if (INVALID_HOST.test(headers.get("Host") ?? "") || !validOrigins.has(origin) && !URL.canParse(url)) {
    throw new Fault("bad_request", "The Host of the request is not valid");
  }
  if (origin.length <= ORIGIN_MAX && !validOrigins.has(origin)) validOrigins.set(origin, true);
}

/**
 * To route a path takes as long as it has segments, also for a stranger: 2 ms for 30,000 characters. Hono decodes each invalid escape by
 * itself, which takes a tenth of a second for a long path; here the first one ends it.
 */
function assertRoutable(path: string): void {
  if (path.length > PATH_MAX_CHARS) {
    throw new Fault("route_not_found", `No such endpoint: the path is longer than ${PATH_MAX_CHARS} characters`);
  }
  if (!path.includes("%")) return;
  try {
    decodeURI(path);
  } catch (cause) {
    throw new Fault("route_not_found", "No such endpoint: the path has an invalid escape; write % as %25", { cause });
  }
}

/** To read as many as fit in a query takes several milliseconds, also for a stranger. To count them takes a hundredth of that. */
function assertFewParameters(query: string): void {
  let count = 1;
  for (let at = query.indexOf("&"); at >= 0 && count <= PARAMETERS_MAX; at = query.indexOf("&", at + 1)) count++;
  if (count > PARAMETERS_MAX) throw new Fault("bad_request", `Expected at most ${PARAMETERS_MAX} query parameters`);
}

/** Sorts short paths first, and literal segments before parameters, so that `/rooms/unread` is not the room `unread`. */
function precedenceOf(path: string): string {
  const segments = path.split("/");
  return String.fromCharCode(segments.length) + segments.map((segment) => Number(segment.startsWith(":"))).join("");
}

/** The routes of modules and of the server itself; the documents list all of them. */
function withBuiltInRoutes(deps: HttpDeps): Route[] {
  const routes = [...deps.routes ?? [], ...probeRoutes(deps)];
  const documents = ["/openapi.json", "/asyncapi.json"]
    .filter((path) => path === "/openapi.json" || routes.some((route) => route.path === path));
  const pages = ["/docs/events"].filter((path) => routes.some((route) => route.path === path));
  const client = new WebClient(deps.signInName);
  routes.push(homeRoute(deps.version, documents, (request) => client.respond(request)), ...client.routes);
  routes.push(...docsRoutes([...documents, ...pages]));
  routes.push(openapiRoute({ operations: deps.operations, routes, tags: deps.tags ?? {}, version: deps.version }));
  return routes;
}

/**
 * The fault of the response; a failure of cancelled work is not an internal error. To the runtime, a body that its client has cut
 * short and one that the stop has broken off are the same; only the second may have a client that reads this.
 */
function faultOf(context: RequestContext, thrown: unknown, isLeaving: boolean): Fault {
  const fault = Fault.from(thrown);
  if (isLeaving && fault.cause instanceof Deno.errors.BadResource) {
    return new Fault("unavailable", "The gateway stops; repeat the request", {
      cause: fault.cause,
      retryAfterMs: REPEAT_AFTER_MS,
    });
  }
  return fault.code === "internal" && context.isAborted
    ? new Fault("unavailable", "The request was cancelled", { cause: thrown })
    : fault;
}
