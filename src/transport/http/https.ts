// HTTPS rules: redirect to the one configured address, and Strict-Transport-Security on https answers only.
import { Fault } from "@/core/fault.ts";
import type { Answer } from "./answer.ts";
import type { Exchange } from "./exchange.ts";

/** `redirectTo` is the public address that plain http is sent to, with the path where all others begin; absent = no redirect. */
export type HttpsRules = { redirectTo?: string | undefined; isHstsOn: boolean };

/** Probes come from inside, without TLS. */
const EXEMPT = new Set(["/health", "/metrics", "/v1/collaboration/ready"]);

/** Adds HSTS to the exchange; answers with the redirect when the request came over plain http. */
export function createHttps(rules: HttpsRules): (exchange: Exchange) => Answer | undefined {
  const base = rules.redirectTo === undefined ? undefined : baseOf(new URL(rules.redirectTo));
  return function https(exchange) {
    if (exchange.isHttps) {
      if (rules.isHstsOn) exchange.headers["Strict-Transport-Security"] = "max-age=31536000; includeSubDomains";
      return undefined;
    }
    if (base === undefined || EXEMPT.has(exchange.path)) return undefined;
    // WebSocket clients do not follow redirects, and what they would send next is a token.
    if (exchange.request.headers.get("Upgrade")?.toLowerCase() === "websocket") {
      throw new Fault("forbidden", "WebSocket connections need wss");
    }
    const query = exchange.query === "" ? "" : `?${exchange.query}`;
    return { status: 308, headers: { Location: `${base}${escaped(exchange.path + query)}` }, body: null };
  };
}

/** The engine leaves an address as it was sent, with characters that no header can hold. */
function escaped(address: string): string {
  return address.replaceAll(/[^\x21-\x7e]+/g, (characters) => encodeURIComponent(characters));
}

function baseOf({ origin, pathname }: URL): string {
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}
