// Cross-origin rules: exact origins from the configuration, no cookies ever, so no credentials either.
import { Fault } from "@/core/fault.ts";
import type { Answer } from "./answer.ts";
import type { Exchange } from "./exchange.ts";

const EXPOSED = [
  "ETag",
  "Location",
  "Retry-After",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "X-Request-Id",
  "Deprecation",
  "Sunset",
  "Link",
  "Idempotency-Replayed",
].join(", ");

const PREFLIGHT = {
  "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
  "Access-Control-Allow-Headers":
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Range, X-Request-Id, traceparent, tracestate",
  "Access-Control-Max-Age": "600",
};

/** Which browser origins may read answers: exact ones, or any. */
export type CorsOrigins = readonly string[] | "*";

/** Adds the CORS headers to the exchange; answers a preflight. */
export function createCors(origins: CorsOrigins): (exchange: Exchange) => Answer | undefined {
  const isOpen = origins === "*" || origins.includes("*");
  const allowed = new Set(isOpen ? [] : origins);
  return function cors(exchange) {
    const { headers } = exchange.request;
    const origin = headers.get("Origin");
    if (!isOpen && allowed.size > 0) exchange.headers["Vary"] = "Origin";
    if (origin === null) return undefined;
    const isAllowed = isOpen || allowed.has(origin);
    if (isAllowed) {
      exchange.headers["Access-Control-Allow-Origin"] = isOpen ? "*" : origin;
      exchange.headers["Access-Control-Expose-Headers"] = EXPOSED;
    }
    if (exchange.request.method !== "OPTIONS" || !headers.has("Access-Control-Request-Method")) return undefined;
    if (!isAllowed) throw new Fault("origin_not_allowed", "This origin may not call the API from a browser");
    return { status: 204, headers: PREFLIGHT, body: null };
  };
}
