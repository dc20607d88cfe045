// For Deno 2.9.6. Makes the runtime's own spans (`OTEL_DENO`) contain the route of a request, never its URL.
//
// Fault: spans of requests carry `url.full`, `url.path` and `url.query`, and so the tokens of links and sockets. The runtime
// sets them before a handler is called; they cannot be removed, and no setting omits them:
//
//   OTEL_DENO=true OTEL_DENO_CONSOLE=ignore OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 deno run -A server.ts
//   curl http://127.0.0.1:8000/?token=secret # The collector receives it as `url.query`.
//
// Delete `redactSpanUrls` when a setting omits them: tests/deployment_trace_test.ts then passes without it.

/** Attributes that contain the URL of a request: its path and its query may contain secrets. */
const URL_ATTRIBUTES: ReadonlySet<string> = new Set(["url.full", "url.path", "url.query"]);
/** Where a tracing runtime registers itself for the OpenTelemetry API. */
const OPENTELEMETRY_API = Symbol.for("opentelemetry.js.api.1");

/** Where the OpenTelemetry API stores the current span. */
const ACTIVE_SPAN = Symbol.for("OpenTelemetry Context Key SPAN");

type Span = { setAttribute(name: string, value: unknown): Span; updateName(name: string): Span };

let isTracing = false;

/** Whether the runtime exports spans, and what the console prints (`OTEL_DENO`). */
export function hasTelemetry(): boolean {
  return OPENTELEMETRY_API in globalThis;
}

/** Makes all spans from now on ignore URLs, by patching their class, which is only reachable through a span. */
export function redactSpanUrls(): void {
  if (isTracing || !hasTelemetry()) return;
  isTracing = true;
  // Never ended, so never exported.
  const spans: Span = Object.getPrototypeOf(Deno.telemetry.tracerProvider.getTracer("gateway").startSpan("probe"));
  const { setAttribute } = spans;
  spans.setAttribute = function (name, value) {
    return URL_ATTRIBUTES.has(name) ? this : setAttribute.call(this, name, value);
  };
}

/** Names the span of the current request after its route; does nothing without tracing. */
export function nameSpan(method: string, route: string): void {
  if (!isTracing) return;
  const span: Span | undefined = Deno.telemetry.contextManager.active().getValue(ACTIVE_SPAN);
  span?.updateName(`${method} ${route}`).setAttribute("http.route", route);
}
