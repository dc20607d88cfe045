// What the runtime's own spans may tell, where `OTEL_DENO` has it make them: all but addresses.

/** Attributes that hold the address of a request: its path may be a secret, its query more than one. */
const ADDRESS: ReadonlySet<string> = new Set(["url.full", "url.path", "url.query"]);
/** Where the runtime that traces offers itself to the OpenTelemetry API. */
const API = Symbol.for("opentelemetry.js.api.1");

type Span = { setAttribute(name: string, value: unknown): Span };

let isKept = false;

/**
 * Keeps addresses out of all spans from here on. The runtime writes them before a handler sees the request, what is written
 * cannot be taken back, and no setting leaves them out: so the runtime's class of spans does, which only a span can show.
 */
export function keepAddressesOut(): void {
  if (isKept || !(API in globalThis)) return;
  isKept = true;
  // Never ended, so never told.
  const spans: Span = Object.getPrototypeOf(Deno.telemetry.tracerProvider.getTracer("gateway").startSpan("probe"));
  const { setAttribute } = spans;
  spans.setAttribute = function (name, value) {
    return ADDRESS.has(name) ? this : setAttribute.call(this, name, value);
  };
}
