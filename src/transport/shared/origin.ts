// Checks of web origins: the own host, origins allowed for all tenants, and origins allowed by some tenants.
import { HOUR_MS } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { TenantOrigins } from "@/core/http/request.ts";

/** Which web origins may open sockets. */
export type OriginRules = {
  /** Whether all tenants allow the origin; the own host is always allowed. */
  isOriginAllowed: (origin: string) => boolean;
  /** Origins that only some tenants allow. */
  tenantOrigins?: TenantOrigins | undefined;
  refusedOrigins?: RefusedOrigins | undefined;
};

/** Origins on the machine of the user, at any port. */
const LOCAL_ORIGIN = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/;

/** Origins logged per hour: clients may send arbitrary ones. */
const ORIGINS_MAX = 10;
const LENGTH_MAX = 100;

const log = logOf("http");

/** Whether the origin is on the machine of the user. */
export function isLocalOrigin(origin: string): boolean {
  return LOCAL_ORIGIN.test(origin);
}

/** Whether a tenant allows the web origin of a request. */
export type TenantOriginCheck = (tenantId: string) => boolean;

/** Whether the origin is the host of the gateway itself. */
export function isSameHost(origin: string, request: Request): boolean {
  return URL.canParse(origin) && new URL(origin).host === request.headers.get("host");
}

/**
 * The check to make once the tenant is known, if only some tenants allow the origin; `undefined` if all do.
 * Throws `origin_not_allowed` if none does.
 */
export function tenantOriginCheck(
  request: Request,
  { isOriginAllowed, tenantOrigins, refusedOrigins }: OriginRules,
  metrics: Pick<Metrics, "connectionErrors">,
): TenantOriginCheck | undefined {
  const origin = request.headers.get("origin");
  if (origin === null || isSameHost(origin, request) || isOriginAllowed(origin)) return undefined;
  if (tenantOrigins?.isAllowedByAny(origin)) return (tenantId) => tenantOrigins.isAllowed(tenantId, origin);
  metrics.connectionErrors.inc({ type: "origin" });
  refusedOrigins?.report(origin);
  throw originNotAllowed(origin);
}

/** The fault for an origin that neither the operator nor the caller's tenant allows. */
export function originNotAllowed(origin: string): Fault {
  return new Fault(
    "origin_not_allowed",
    `The origin ${printableOrigin(origin)} is not allowed; add it to SVC_CORS_ALLOW_ORIGINS of the gateway, or to ` +
      "allowedOrigins of the tenant",
  );
}

/** Clients may send anything as their origin. */
function printableOrigin(origin: string): string {
  return origin.slice(0, LENGTH_MAX).replaceAll(/[^\x21-\x7e]/g, "?");
}

/** Logs each rejected origin once an hour: browsers hide the reason from users, so operators must see it. */
export class RefusedOrigins {
  readonly #now: () => number;
  readonly #logged = new Set<string>();
  #since = -Infinity;

  constructor(now: () => number) {
    this.#now = now;
  }

  report(origin: string): void {
    const now = this.#now();
    if (now - this.#since >= HOUR_MS) {
      this.#logged.clear();
      this.#since = now;
    }
    const shown = printableOrigin(origin);
    if (this.#logged.has(shown) || this.#logged.size >= ORIGINS_MAX) return;
    this.#logged.add(shown);
    log.warn("request from an origin that is not allowed; to allow it, add it to SVC_CORS_ALLOW_ORIGINS", {
      origin: shown,
    });
    if (this.#logged.size === ORIGINS_MAX) {
      log.warn("too many rejected origins; further ones are not logged for an hour");
    }
  }
}
