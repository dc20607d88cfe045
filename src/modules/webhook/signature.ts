// Secrets and signatures by Standard Webhooks.
import { Buffer } from "node:buffer";
import { createHmac, randomBytes } from "node:crypto";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** A new secret, as its receiver stores it. */
export function newSigningSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/** The headers that sign a request, with one signature for each secret. `timestamp` is in seconds. */
export function signedHeaders(
  secrets: readonly string[],
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): Record<string, string> {
  const signatures = secrets.map((secret) => `v1,${standardSignature(secret, `${id}.${timestamp}.${body}`)}`);
  return { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": signatures.join(" ") };
}

/** HMAC-SHA-256 as base64. A secret without the prefix is used as it is. */
export function standardSignature(secret: string, content: string): string {
  const key = secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), "base64") : Buffer.from(secret);
  return createHmac("sha256", key).update(content).digest("base64");
}
