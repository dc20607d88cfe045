// Authenticates requests by bearer token, and applies the general rate limits.
import type { Actor } from "@/core/actor.ts";
import { rateKey, writeRateKey } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { type Rate, rateFor } from "@/core/operation.ts";
import type { ConsumeResult } from "@/ports/limiter.ts";
import { addressLimitKey } from "../shared/client_address.ts";
import type { RequestContext } from "./request_context.ts";
import { limitHeaders } from "./response.ts";

/** Verifies a token; throws `unauthenticated`, `token_expired` or `token_revoked`. */
export type Authenticate = (token: string, request: Request) => Actor | Promise<Actor>;

/** The general rates. */
export type HttpLimits = {
  consumeRate: (key: string, rate: Rate) => Promise<ConsumeResult>;
  /** Every request of a principal and its agents. */
  requests: Rate;
  /** Those of them that write. */
  writes: Rate;
  /** Failed authentications from one address. */
  unauthenticated: Rate;
  /** Factor of the rates for services; default 1. */
  serviceFactor?: number;
};

const BEARER = /^Bearer +([A-Za-z0-9._~+/=-]+) *$/i;
const TOKEN_MAX_CHARS = 8192;

/** Authenticates and rate-limits a request, or throws. */
export type RequestAuthenticator = (context: RequestContext) => Promise<Actor>;

export function createRequestAuthenticator(
  authenticate: Authenticate,
  limits: HttpLimits | undefined,
): RequestAuthenticator {
  return async function authenticateRequest(context) {
    const actor = await authenticate(parseBearerToken(context.request.headers.get("Authorization")), context.request);
    context.assertOrigin(actor.tenantId);
    if (limits === undefined) return actor;
    const rate = rateFor(actor, { human: limits.requests }, limits.serviceFactor ?? 1);
    const limit = await limits.consumeRate(rateKey("requests", actor), rate);
    Object.assign(context.headers, limitHeaders(limit));
    if (!limit.isAllowed) throw rateLimited("Rate limit of this principal and its agents exceeded", limit);
    return actor;
  };
}

/** Counts a call of a public route with its own rate; throws beyond it. */
export async function consumeAddressRate(
  context: RequestContext,
  routeName: string,
  rate: Rate,
  limits: HttpLimits | undefined,
): Promise<void> {
  const limit = await limits?.consumeRate(`${routeName}:${addressLimitKey(context.ip)}`, rate);
  if (limit?.isAllowed === false) throw rateLimited("Rate limit of this operation exceeded for this address", limit);
}

/** Counts a writing call of a route, like writing operations; throws beyond the rate. */
export async function consumeWriteRate(actor: Actor, limits: HttpLimits | undefined): Promise<void> {
  if (limits === undefined) return;
  const rate = rateFor(actor, { human: limits.writes }, limits.serviceFactor ?? 1);
  const limit = await limits.consumeRate(writeRateKey(actor), rate);
  if (!limit.isAllowed) throw rateLimited("Write rate limit of this principal and its agents exceeded", limit);
}

/** Where a token that is not valid is a failed authentication. */
const AUTHENTICATED_PATH = /^\/(?:v1\/|scim\/|mcp$)/;

/** Counts a failed authentication; beyond the rate the response is 429 instead of 401. */
export async function consumeAuthFailureRate(
  context: RequestContext,
  fault: Fault,
  limits: HttpLimits | undefined,
): Promise<Fault> {
  // The path of the route: the requested one may be percent-encoded.
  const isCounted = fault.spec.status === 401 && AUTHENTICATED_PATH.test(context.meter?.path ?? "");
  if (limits === undefined || !isCounted) return fault;
  const limit = await limits.consumeRate(`unauthenticated:${addressLimitKey(context.ip)}`, limits.unauthenticated);
  return limit.isAllowed ? fault : rateLimited("Too many failed authentication attempts from this address", limit);
}

function parseBearerToken(header: string | null): string {
  if (header === null) throw new Fault("unauthenticated", "Expected an Authorization: Bearer <token> header");
  if (header.length > TOKEN_MAX_CHARS) {
    throw new Fault("unauthenticated", `The Authorization header is longer than ${TOKEN_MAX_CHARS} characters`);
  }
  const token = BEARER.exec(header)?.[1];
  if (token === undefined) throw new Fault("unauthenticated", "The Authorization header must be Bearer <token>");
  return token;
}

function rateLimited(message: string, limit: ConsumeResult): Fault {
  return new Fault("rate_limited", message, { limit });
}
