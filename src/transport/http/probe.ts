// Endpoints for operators and orchestrators: liveness, readiness, metrics.
import { createHash, timingSafeEqual } from "node:crypto";
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Rate } from "@/core/operation.ts";
import type { Route } from "@/core/http/route.ts";

/** Whether this node can serve traffic, and the checks. */
export type Readiness = { ready: boolean; checks: Readonly<Record<string, boolean>> };

type ProbeDeps = {
  metrics: Metrics;
  checkReadiness: () => Promise<Readiness>;
  /** If set, `/metrics` requires it as a bearer token. */
  metricsToken?: string | undefined;
  /** Whether `/metrics` is closed here: it has no token, or a separate port. */
  isMetricsClosed?: boolean | undefined;
};

const TAG = "operation";
/** Rate of each address: a scrape takes milliseconds. */
const METRICS_RATE: Rate = { perSecond: 2, burst: 20 };
/** How long a check of readiness counts. Each writes, and anybody may ask for it. */
const READINESS_MS = 100;

/** `/health`, `/metrics` and `/v1/collaboration/ready`. */
export function probeRoutes({ checkReadiness, isMetricsClosed = false, ...deps }: ProbeDeps): Route[] {
  const respondWithMetrics = createMetricsResponder(deps);
  let readiness: Promise<Readiness> | undefined;
  let isFreshUntil = Infinity;
  return [{
    name: "health.get",
    summary: "Check liveness",
    tag: TAG,
    method: "GET",
    path: "/health",
    auth: "public",
    document: { responses: { 200: textResponse("OK", "The process is running") } },
    handle: () => new Response("OK", { headers: { "Content-Type": "text/plain; charset=utf-8" } }),
  }, {
    name: "metrics.get",
    summary: "Get metrics in the Prometheus text exposition format",
    description: "Requires the metrics token as a bearer token if `SVC_METRICS_TOKEN` is set. Otherwise public in " +
      "development and staging, and closed in production or if metrics have a separate port.",
    tag: TAG,
    method: "GET",
    path: "/metrics",
    auth: "public",
    rate: METRICS_RATE,
    faults: ["unauthenticated", "forbidden"],
    document: { responses: { 200: textResponse("# HELP svc_build_info …", "All metric families") } },
    handle(request) {
      if (isMetricsClosed) {
        throw new Fault(
          "forbidden",
          "Metrics are closed: set SVC_METRICS_TOKEN, or scrape the port of SVC_METRICS_PORT",
        );
      }
      return respondWithMetrics(request);
    },
  }, {
    name: "readiness.get",
    summary: "Check readiness: whether this node can serve traffic",
    description:
      "For load balancers. The node is ready if its database takes writes, and it is not stopping. `bus` and " +
      "`canary` do not decide: without Redis the node serves on, and reads from the database what others committed.",
    tag: TAG,
    method: "GET",
    path: "/v1/collaboration/ready",
    auth: "public",
    document: {
      responses: {
        200: readinessResponse("Ready", true),
        503: readinessResponse("Not ready; `checks` says why", false),
      },
    },
    async handle() {
      if (readiness === undefined || performance.now() >= isFreshUntil) {
        isFreshUntil = Infinity;
        readiness = checkReadiness().finally(() => isFreshUntil = performance.now() + READINESS_MS);
      }
      const { ready, checks } = await readiness;
      return Response.json({ ready, checks }, { status: ready ? 200 : 503 });
    },
  }];
}

/** Responds with all metric families; requires the token if there is one. */
function createMetricsResponder({ metrics, metricsToken }: Pick<ProbeDeps, "metrics" | "metricsToken">) {
  const digest = metricsToken === undefined ? undefined : digestOf(metricsToken);
  let running: Promise<string> | undefined;
  return async function respondWithMetrics({ headers }: Request): Promise<Response> {
    const given = /^Bearer +(\S.*)$/i.exec(headers.get("Authorization") ?? "")?.[1] ?? "";
    if (digest !== undefined && !timingSafeEqual(digest, digestOf(given))) {
      throw new Fault("unauthenticated", "Expected the metrics token as a bearer token");
    }
    // Concurrent scrapes share one.
    running ??= metrics.registry.metrics().finally(() => running = undefined);
    return new Response(await running, { headers: { "Content-Type": metrics.registry.contentType } });
  };
}

/** The handler of the separate port for `/metrics`. */
export function createMetricsHandler(
  deps: Pick<ProbeDeps, "metrics" | "metricsToken">,
): (request: Request) => Promise<Response> {
  const respondWithMetrics = createMetricsResponder(deps);
  return async function handle(request) {
    if (new URL(request.url).pathname !== "/metrics") {
      return new Response("This port serves /metrics only\n", { status: 404 });
    }
    try {
      return await respondWithMetrics(request);
    } catch (thrown) {
      const { spec: { status }, message } = Fault.from(thrown);
      return new Response(`${message}\n`, { status });
    }
  };
}

function textResponse(example: string, description: string): Record<string, unknown> {
  return { description, content: { "text/plain": { schema: { type: "string" }, example } } };
}

function readinessResponse(description: string, ready: boolean): Record<string, unknown> {
  const checks = { store: ready, migrations: true, bus: true, canary: true, draining: false };
  const descriptions: Record<string, string> = {
    store: "Whether the database takes writes",
    migrations: "Whether the database has the schema of this version",
    bus: "Whether this node is connected to the other nodes; does not decide",
    canary: "Whether a message over the bus arrived within half a second; does not decide",
    draining: "Whether the node is stopping; then it is not ready",
  };
  const schema = {
    type: "object",
    required: ["ready", "checks"],
    properties: {
      ready: { type: "boolean", description: "Whether the node can serve traffic" },
      checks: {
        type: "object",
        description: "Result of each check",
        properties: Object.fromEntries(
          Object.entries(descriptions).map(([name, description]) => [name, { type: "boolean", description }]),
        ),
      },
    },
  };
  return { description, content: { "application/json": { schema, example: { ready, checks } } } };
}

/** Digests of equal length, for a comparison in constant time. */
function digestOf(secret: string): Uint8Array {
  return createHash("sha256").update(secret).digest();
}
