// CORS: exact origins of the configuration and of tenants. There are no cookies, so no credentials.
import type { TenantOrigins } from "@/core/http/request.ts";
import type { ResponseData } from "./response.ts";
import type { RequestContext } from "./request_context.ts";
import { isLocalOrigin, isSameHost, originNotAllowed, type RefusedOrigins } from "../shared/origin.ts";

const EXPOSED_HEADERS = [
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

const PREFLIGHT_HEADERS = {
  "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
  "Access-Control-Allow-Headers": [
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "If-Range",
    "Last-Event-ID",
    "Range",
    "Content-Digest",
    "Repr-Digest",
    "Digest",
    "X-Request-Id",
    "Mcp-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "traceparent",
    "tracestate",
    "baggage",
  ].join(", "),
  "Access-Control-Max-Age": "600",
};

/** Which web origins may read responses. */
export type CorsRules = {
  /** Exact origins, or any. */
  corsOrigins?: readonly string[] | "*";
  /** Whether origins on the machine of the user are allowed as well. */
  isLocalOriginAllowed?: boolean;
  /** Origins that only some tenants allow. */
  tenantOrigins?: TenantOrigins;
  refusedOrigins?: RefusedOrigins;
};

/**
 * Adds the CORS headers, and responds to preflights. Preflights carry no token, so any tenant's origin passes here; it is
 * checked against the caller's tenant after authentication. The own host is exempt from tenants' lists.
 */
export function createCors(
  { corsOrigins = [], isLocalOriginAllowed = false, tenantOrigins, refusedOrigins }: CorsRules,
): (context: RequestContext) => ResponseData | undefined {
  const isOpen = corsOrigins === "*" || corsOrigins.includes("*");
  const allowed = new Set(isOpen ? [] : corsOrigins);
  const varies = !isOpen && (allowed.size > 0 || isLocalOriginAllowed);
  return function cors(context) {
    const { headers } = context.request;
    const origin = headers.get("Origin");
    if (varies || !isOpen && tenantOrigins?.isEmpty === false) context.headers["Vary"] = "Origin";
    if (origin === null) return undefined;
    const isForAll = isOpen || allowed.has(origin) || isLocalOriginAllowed && isLocalOrigin(origin);
    const isOwnHost = !isForAll && isSameHost(origin, context.request);
    const isTenantOrigin = !isForAll && !isOwnHost && tenantOrigins?.isAllowedByAny(origin) === true;
    const isAllowed = isForAll || isTenantOrigin;
    if (isTenantOrigin) {
      context.assertOrigin = (tenantId) => {
        if (tenantOrigins.isAllowed(tenantId, origin)) return;
        throw originNotAllowed(origin);
      };
    }
    if (!isAllowed && !isOwnHost) refusedOrigins?.report(origin);
    if (isAllowed) {
      context.headers["Access-Control-Allow-Origin"] = isOpen ? "*" : origin;
      context.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS;
    }
    if (context.request.method !== "OPTIONS" || !headers.has("Access-Control-Request-Method")) return undefined;
    if (!isAllowed) throw originNotAllowed(origin);
    return { status: 204, headers: PREFLIGHT_HEADERS, body: null };
  };
}
