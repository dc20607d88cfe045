// Cross-origin rules: exact origins from the configuration and the tenants, no cookies ever, so no credentials either.
import { Fault } from "@/core/fault.ts";
import type { TenantOrigins } from "@/core/origin.ts";
import type { Answer } from "./answer.ts";
import type { Exchange } from "./exchange.ts";
import { isSameHost } from "./origin.ts";

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
  "Content-Disposition",
  "Content-Range",
  "WWW-Authenticate",
].join(", ");

const PREFLIGHT = {
  "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
  "Access-Control-Allow-Headers": [
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "If-Range",
    "Range",
    "Content-Digest",
    "Repr-Digest",
    "Digest",
    "X-Request-Id",
    "traceparent",
    "tracestate",
  ].join(", "),
  "Access-Control-Max-Age": "600",
};

/** Which browser origins may read answers: exact ones, or any. */
export type CorsOrigins = readonly string[] | "*";

/**
 * Adds the CORS headers to the exchange; answers a preflight. What a tenant lets in is let in here whoever calls, since that is
 * not known yet, and held to that tenant when it is. A page of our own host is nobody's guest, whatever tenants list.
 */
export function createCors(
  origins: CorsOrigins,
  tenantOrigins?: TenantOrigins,
): (exchange: Exchange) => Answer | undefined {
  const isOpen = origins === "*" || origins.includes("*");
  const allowed = new Set(isOpen ? [] : origins);
  return function cors(exchange) {
    const { headers } = exchange.request;
    const origin = headers.get("Origin");
    if (!isOpen && (allowed.size > 0 || tenantOrigins?.isEmpty === false)) exchange.headers["Vary"] = "Origin";
    if (origin === null) return undefined;
    const isForAll = isOpen || allowed.has(origin);
    const isGuest = !isForAll && tenantOrigins?.has(origin) === true && !isSameHost(origin, exchange.request);
    const isAllowed = isForAll || isGuest;
    if (isGuest) {
      exchange.assertOrigin = (tenantId) => {
        if (tenantOrigins.isOf(tenantId, origin)) return;
        throw new Fault("origin_not_allowed", "The tenant does not let in pages of this origin");
      };
    }
    if (isAllowed) {
      exchange.headers["Access-Control-Allow-Origin"] = isOpen ? "*" : origin;
      exchange.headers["Access-Control-Expose-Headers"] = EXPOSED;
    }
    if (exchange.request.method !== "OPTIONS" || !headers.has("Access-Control-Request-Method")) return undefined;
    if (!isAllowed) throw new Fault("origin_not_allowed", "This origin may not call the API from a browser");
    return { status: 204, headers: PREFLIGHT, body: null };
  };
}
