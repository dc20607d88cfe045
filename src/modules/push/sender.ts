// One message to a push service: encrypted for the browser (RFC 8291), so that the service cannot read it.
import { buildPushPayload, type PushMessage } from "@block65/webcrypto-web-push";
import { DAY_SECONDS } from "@/core/time/clock.ts";
import { type Outbound, OutboundError } from "@/ports/outbound.ts";
import type { ApplicationKey } from "./application_keys.ts";
import type { PushSubscriptionRow } from "./store.ts";

/** A message that a device did not get by then, such as over a night without network, is not shown. */
const TTL_SECONDS = DAY_SECONDS;
const TOTAL_MS = 10_000;
const ENDED: ReadonlySet<number> = new Set([404, 410]);

/** What the response means: `ended`: the browser has no such subscription; `refused`: of no use to repeat. */
type PushOutcome = "delivered" | "ended" | "refused" | "unavailable";

type Deps = { outbound: Outbound; contact: string };

/** Sends once. Throws nothing for what the service does. */
export async function sendPush(
  { outbound, contact }: Deps,
  { endpoint, p256dh, auth }: Pick<PushSubscriptionRow, "endpoint" | "p256dh" | "auth">,
  { privateKey, publicKey }: ApplicationKey,
  data: PushMessage["data"],
): Promise<PushOutcome> {
  const { body, headers, method } = await buildPushPayload(
    { data, options: { ttl: TTL_SECONDS, urgency: "high" } },
    { endpoint, expirationTime: null, keys: { p256dh, auth } },
    { subject: contact, privateKey, publicKey },
  );
  try {
    const response = await outbound(endpoint, { method, headers, body }, { totalMs: TOTAL_MS });
    await response.body?.cancel();
    if (response.ok) return "delivered";
    if (ENDED.has(response.status)) return "ended";
    return response.status === 429 || response.status >= 500 ? "unavailable" : "refused";
  } catch (thrown) {
    if (thrown instanceof OutboundError) return "unavailable";
    throw thrown;
  }
}
