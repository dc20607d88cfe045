// What the runtime's own spans tell, where `OTEL_DENO` has it make them: the route of a request, and never its address.

/** Attributes that hold the address of a request: its path may be a secret, its query more than one. */
const ADDRESS: ReadonlySet<string> = new Set(["url.full", "url.path", "url.query"]);
/** Where the runtime that traces offers itself to the OpenTelemetry API. */
const API = Symbol.for("opentelemetry.js.api.1");

/** Where the OpenTelemetry API keeps the span that work belongs to. */
const ACTIVE = Symbol.for("OpenTelemetry Context Key SPAN");

type Span = { setAttribute(name: string, value: unknown): Span; updateName(name: string): Span };

let isTracing = false;

/**
 * Keeps addresses out of all spans from here on. The runtime writes them before a handler sees the request, what is written
 * cannot be taken back, and no setting leaves them out: so the runtime's class of spans does, which only a span can show.
 */
export function keepAddressesOut(): void {
  if (isTracing || !(API in globalThis)) return;
  isTracing = true;
  // Never ended, so never told.
  const spans: Span = Object.getPrototypeOf(Deno.telemetry.tracerProvider.getTracer("gateway").startSpan("probe"));
  const { setAttribute } = spans;
  spans.setAttribute = function (name, value) {
    return ADDRESS.has(name) ? this : setAttribute.call(this, name, value);
  };
}

/** Names the span of the request that is being answered after its route; does nothing where nobody traces. */
export function nameSpan(method: string, route: string): void {
  if (!isTracing) return;
  const span: Span | undefined = Deno.telemetry.contextManager.active().getValue(ACTIVE);
  span?.updateName(`${method} ${route}`).setAttribute("http.route", route);
}
