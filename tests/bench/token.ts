// Tokens of the gateway for the clients of benchmarks.
import { SignJWT } from "jose";

/** Good for a day. */
export function benchToken(secret: string, sub: string, claims: Record<string, unknown> = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({ role: "owner", ...claims }).setProtectedHeader({ alg: "HS256" }).setSubject(sub).setIssuedAt(now)
    .setExpirationTime(now + 86_400).sign(new TextEncoder().encode(secret));
}
