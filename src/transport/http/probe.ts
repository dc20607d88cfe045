// What operators and orchestrators ask: is it alive, is it ready, what does it measure.
import { createHash, timingSafeEqual } from "node:crypto";
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Route } from "@/core/route.ts";

/** Whether this node should get traffic, and what was checked. */
export type Readiness = { isReady: boolean; checks: Readonly<Record<string, boolean>> };

/** What the probes need. */
export type ProbeDeps = {
  metrics: Metrics;
  ready: () => Promise<Readiness>;
  /** When set, `/metrics` wants it as a bearer token. */
  metricsToken?: string | undefined;
};

const TAG = "operation";

/** `/health`, `/metrics` and `/v1/collaboration/ready`. */
export function probeRoutes({ metrics, ready, metricsToken }: ProbeDeps): Route[] {
  const digest = metricsToken === undefined ? undefined : digestOf(metricsToken);
  let asking: Promise<Readiness> | undefined;
  return [{
    name: "health.get",
    summary: "Liveness: the process answers",
    tag: TAG,
    method: "GET",
    path: "/health",
    auth: "public",
    document: { responses: { 200: text("text/plain", "OK", "It is up") } },
    handle: () => new Response("OK", { headers: { "Content-Type": "text/plain; charset=utf-8" } }),
  }, {
    name: "metrics.get",
    summary: "Metrics in the Prometheus text exposition format",
    description: "Public unless the operator set a metrics token, which is then expected as a bearer token.",
    tag: TAG,
    method: "GET",
    path: "/metrics",
    auth: "public",
    faults: ["unauthenticated"],
    document: { responses: { 200: text("text/plain", "# HELP svc_build_info …", "All metric families") } },
    async handle(request) {
      const given = /^Bearer +(.+)$/i.exec(request.headers.get("Authorization") ?? "")?.[1] ?? "";
      if (digest !== undefined && !timingSafeEqual(digest, digestOf(given))) {
        throw new Fault("unauthenticated", "Expected the metrics token as a bearer token");
      }
      return new Response(await metrics.registry.metrics(), {
        headers: { "Content-Type": metrics.registry.contentType },
      });
    },
  }, {
    name: "readiness.get",
    summary: "Readiness: this node should get traffic",
    tag: TAG,
    method: "GET",
    path: "/v1/collaboration/ready",
    auth: "public",
    document: {
      responses: {
        200: readiness("Ready", true),
        503: readiness("Not ready; the checks say why", false),
      },
    },
    async handle() {
      // Anybody may ask, and the answer takes a write.
      const { isReady, checks } = await (asking ??= ready().finally(() => asking = undefined));
      return Response.json({ isReady, checks }, { status: isReady ? 200 : 503 });
    },
  }];
}

function text(type: string, example: string, description: string): Record<string, unknown> {
  return { description, content: { [type]: { schema: { type: "string" }, example } } };
}

function readiness(description: string, isReady: boolean): Record<string, unknown> {
  const checks = { store: isReady, migrations: true, bus: true, canary: true, draining: false };
  const schema = {
    type: "object",
    required: ["isReady", "checks"],
    properties: {
      isReady: { type: "boolean" },
      checks: { type: "object", additionalProperties: { type: "boolean" } },
    },
  };
  return { description, content: { "application/json": { schema, example: { isReady, checks } } } };
}

/** Digests of equal length, so that comparing takes the same time whatever was sent. */
function digestOf(secret: string): Uint8Array {
  return createHash("sha256").update(secret).digest();
}
