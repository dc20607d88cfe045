// HTTPS: redirects to the configured address, and Strict-Transport-Security on https responses only.
import { Fault } from "@/core/fault.ts";
import { trimTrailing } from "@/core/text/text.ts";
import type { ResponseData } from "./response.ts";
import type { RequestContext } from "./request_context.ts";

/**
 * `redirectTo`: public base URL that plain http is redirected to; absent means no redirect.
 * `isAlwaysHttps`: clients use https only, even if the proxy does not forward the scheme.
 */
export type HttpsRules = { redirectTo?: string | undefined; hsts?: string | undefined; isAlwaysHttps?: boolean };

const YEAR = "max-age=31536000";

/**
 * The header value, if enabled. By default production has it for its own host only, since subdomains may not support https.
 */
export function hstsOf(setting: boolean | undefined, isProduction: boolean): string | undefined {
  if (setting === undefined) return isProduction ? YEAR : undefined;
  return setting ? `${YEAR}; includeSubDomains` : undefined;
}

/** Probes are internal, without TLS. */
const EXEMPT = new Set(["/health", "/metrics", "/v1/collaboration/ready"]);

/** Adds HSTS to the response, or returns a redirect for plain http. */
export function createHttps(rules: HttpsRules): (context: RequestContext) => ResponseData | undefined {
  const base = rules.redirectTo === undefined ? undefined : baseOf(new URL(rules.redirectTo));
  return function https(context) {
    const isRedirected = base !== undefined && !context.isHttps;
    if (rules.hsts !== undefined && (context.isHttps || rules.isAlwaysHttps === true && !isRedirected)) {
      context.headers["Strict-Transport-Security"] = rules.hsts;
    }
    if (context.isHttps) return undefined;
    if (base === undefined || EXEMPT.has(context.path)) return undefined;
    // WebSocket clients do not follow redirects, and would send a token next.
    if (context.request.headers.get("Upgrade")?.toLowerCase() === "websocket") {
      throw new Fault("forbidden", "WebSocket connections require wss");
    }
    const query = context.query === "" ? "" : `?${context.query}`;
    return { status: 308, headers: { Location: `${base}${escapeUrl(context.path + query)}` }, body: null };
  };
}

/** The runtime does not normalize URLs, which may have characters that are invalid in headers. */
function escapeUrl(address: string): string {
  return address.replaceAll(/[^\x21-\x7e]+/g, (characters) => encodeURIComponent(characters));
}

function baseOf({ origin, pathname }: URL): string {
  return `${origin}${trimTrailing(pathname, "/")}`;
}
