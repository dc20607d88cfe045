// Whether a request was signed with the secret of its hook, as GitHub, Gitea, Forgejo, Sentry, GitLab and Standard Webhooks do it.
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import { standardSignature } from "../signature.ts";

/** Headers with the HMAC-SHA-256 of the body in hex. */
const HEX_HEADERS = ["x-gitea-signature", "x-forgejo-signature", "x-gogs-signature", "sentry-hook-signature"];
const HUB = "sha256=";
/** How old a signed time may be. */
const TOLERANCE_SECONDS = 300;
const SIGNATURES_MAX = 10;
const HEADER_MAX_CHARS = 2048;

/** One valid signature suffices; a request without any is not genuine. */
export function isGenuine(headers: Headers, body: Uint8Array, secret: string, now: number): boolean {
  const hub = header(headers, "x-hub-signature-256");
  if (hub?.startsWith(HUB)) return equals(hub.slice(HUB.length), hexOf(body, secret));
  for (const name of HEX_HEADERS) {
    const given = header(headers, name);
    if (given !== undefined) return equals(given, hexOf(body, secret));
  }
  const standard = header(headers, "webhook-signature");
  if (standard !== undefined) return isStandard(headers, standard, { body, secret, now });
  // GitLab before its signing tokens: the secret itself.
  const token = header(headers, "x-gitlab-token");
  return token !== undefined && equals(token, secret);
}

function isStandard(
  headers: Headers,
  signatures: string,
  { body, secret, now }: { body: Uint8Array; secret: string; now: number },
): boolean {
  const id = header(headers, "webhook-id") ?? "";
  const timestamp = header(headers, "webhook-timestamp") ?? "";
  const age = Math.abs(now / 1000 - Number(timestamp));
  if (!Number.isFinite(age) || age > TOLERANCE_SECONDS) return false;
  const expected = `v1,${standardSignature(secret, `${id}.${timestamp}.${new TextDecoder().decode(body)}`)}`;
  return signatures.split(" ").slice(0, SIGNATURES_MAX).some((given) => equals(given, expected));
}

function hexOf(body: Uint8Array, secret: string): string {
  return createHmac("sha256", secret).update(body).digest("hex");
}

function header(headers: Headers, name: string): string | undefined {
  return headers.get(name)?.slice(0, HEADER_MAX_CHARS);
}

function equals(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
