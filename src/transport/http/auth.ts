// Admission: the bearer token becomes an actor, and the call is counted against its general rate.
import type { Actor } from "@/core/actor.ts";
import { writesOf } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import type { Rate } from "@/core/operation.ts";
import type { Take } from "@/ports/limiter.ts";
import { limitKeyOf } from "./client.ts";
import type { Exchange } from "./exchange.ts";
import { limitHeaders } from "./headers.ts";

/** Verifies a token; throws `unauthenticated`, `token_expired` or `token_revoked`. */
export type Authenticate = (token: string) => Promise<Actor>;

/** The general rates; absent when limits are off. */
export type HttpLimits = {
  takeGeneral: (key: string, rate: Rate) => Promise<Take>;
  /** Every request of a principal. */
  requests: Rate;
  /** Those of them that write, by whatever door. */
  writes: Rate;
  /** Failed authentications from one address. */
  unauthenticated: Rate;
};

const BEARER = /^Bearer +([A-Za-z0-9._~+/=-]+) *$/i;
const TOKEN_MAX_CHARS = 8192;

/** Lets a request in, or throws. */
export type Admit = (exchange: Exchange) => Promise<Actor>;

/** Builds admission. */
export function createAdmit(authenticate: Authenticate, limits: HttpLimits | undefined): Admit {
  return async function admit(exchange) {
    const actor = await authenticate(bearerOf(exchange.request.headers.get("Authorization")));
    exchange.assertOrigin(actor.tenantId);
    if (limits === undefined) return actor;
    const take = await limits.takeGeneral(`requests:${actor.tenantId}/${actor.principalId}`, limits.requests);
    Object.assign(exchange.headers, limitHeaders(take));
    if (!take.isAllowed) throw tooMany("Too many requests of this principal", take);
    return actor;
  };
}

/** Counts a call of a public door that has a rate of its own; throws past it. */
export async function chargeAddress(
  exchange: Exchange,
  door: string,
  rate: Rate,
  limits: HttpLimits | undefined,
): Promise<void> {
  const take = await limits?.takeGeneral(`${door}:${limitKeyOf(exchange.ip)}`, rate);
  if (take?.isAllowed === false) throw tooMany("Too many of these calls from this address", take);
}

/** Counts a call that writes, as operations that do are counted; throws past the rate. */
export async function chargeWrite(actor: Actor, limits: HttpLimits | undefined): Promise<void> {
  const take = await limits?.takeGeneral(writesOf(actor), limits.writes);
  if (take?.isAllowed === false) throw tooMany("Too many writes of this principal", take);
}

/** Counts a failed authentication under `/v1`; past the rate the caller hears 429 instead of 401. */
export async function chargeRefusal(exchange: Exchange, fault: Fault, limits: HttpLimits | undefined): Promise<Fault> {
  // The route's own path: the one that was sent may be escaped so that it does not look like it.
  const isCounted = fault.kind.status === 401 && exchange.meter?.path.startsWith("/v1/") === true;
  if (limits === undefined || !isCounted) return fault;
  const take = await limits.takeGeneral(`unauthenticated:${limitKeyOf(exchange.ip)}`, limits.unauthenticated);
  return take.isAllowed ? fault : tooMany("Too many failed authentications from this address", take);
}

function bearerOf(header: string | null): string {
  if (header === null) throw new Fault("unauthenticated", "Expected the header Authorization: Bearer <token>");
  const token = header.length > TOKEN_MAX_CHARS ? undefined : BEARER.exec(header)?.[1];
  if (token === undefined) throw new Fault("unauthenticated", "The Authorization header is not Bearer <token>");
  return token;
}

function tooMany(message: string, take: Take): Fault {
  return new Fault("rate_limited", message, { limit: take });
}
