// Where the page that calls comes from: from the gateway itself, from where everybody may, or from where some tenants let it.
import { Fault } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { TenantOrigins } from "@/core/origin.ts";

/** Which pages may open sockets. */
export type OriginRules = {
  /** Whether pages of another origin may for every tenant; pages of our own host always may. */
  isOriginAllowed: (origin: string) => boolean;
  /** Those that only some tenants let in. */
  tenantOrigins?: TenantOrigins | undefined;
};

/** Whether a page may act in a tenant. */
export type MayActIn = (tenantId: string) => boolean;

/** Whether a page of this origin comes from the gateway itself. */
export function isSameHost(origin: string, request: Request): boolean {
  return URL.canParse(origin) && new URL(origin).host === request.headers.get("host");
}

/**
 * What to ask of a page that only some tenants let in, each time when the tenant is known; `undefined` where every tenant does.
 * Throws `origin_not_allowed` where none does.
 */
export function guestRule(
  request: Request,
  { isOriginAllowed, tenantOrigins }: OriginRules,
  metrics: Pick<Metrics, "connectionErrors">,
): MayActIn | undefined {
  const origin = request.headers.get("origin");
  if (origin === null || isSameHost(origin, request) || isOriginAllowed(origin)) return undefined;
  if (tenantOrigins?.has(origin)) return (tenantId) => tenantOrigins.isOf(tenantId, origin);
  metrics.connectionErrors.inc({ type: "origin" });
  throw new Fault("origin_not_allowed", "Pages of this origin may not open a socket here");
}
