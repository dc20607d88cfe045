// Secrets and signatures by Standard Webhooks.
import { Buffer } from "node:buffer";
import { createHmac, randomBytes } from "node:crypto";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** A new secret, as its receiver stores it. */
export function newSigningSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/** The header `webhook-signature`: one signature for each secret. */
export function signaturesOf(
  secrets: readonly string[],
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): string {
  return secrets.map((secret) => `v1,${standardSignature(secret, `${id}.${timestamp}.${body}`)}`).join(" ");
}

/** HMAC-SHA-256 as base64. A secret without the prefix is used as it is. */
export function standardSignature(secret: string, content: string): string {
  const key = secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), "base64") : Buffer.from(secret);
  return createHmac("sha256", key).update(content).digest("base64");
}
