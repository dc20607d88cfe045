// Tokens as an application signs them, with claims that are wrong as well; and whom a token names.
import type { Actor } from "@/core/actor.ts";
import { SignJWT } from "jose";

/** Signs any claims. */
export function signClaims(secret: string, claims: Record<string, unknown>): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(secret));
}

/** A person with the role member, as a token without scopes names it. */
export function memberOf(tenantId: string, principalId: string): Actor {
  return {
    tenantId,
    principalId,
    kind: "human",
    role: "member",
    displayName: principalId,
    ownerId: null,
    scopes: undefined,
    tokenId: undefined,
    expiresAt: undefined,
  };
}
