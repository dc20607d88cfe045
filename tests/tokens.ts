// Tokens as an application signs them, with claims that are wrong as well.
import { SignJWT } from "jose";

/** Signs any claims. */
export function signClaims(secret: string, claims: Record<string, unknown>): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(secret));
}
