// Push subscriptions in the API, and what is pushed.
import { z } from "@zod/zod";
import { nameSchema } from "@/core/text/name.ts";

/** Push subscriptions of a principal; the one renewed longest ago gives way to another. */
export const SUBSCRIPTIONS_MAX = 20;
const ENDPOINT_MAX = 2048;
const NAME_MAX = 100;

const PushSubscriptionId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

export const PushSubscriptionRef = z.strictObject({ id: PushSubscriptionId });

export const PushSubscriptionCreate = z.strictObject({
  name: nameSchema(NAME_MAX).describe("What the person calls this browser or device"),
  endpoint: z.string().min(1).max(ENDPOINT_MAX).describe(
    "Address of the push service, as in `PushSubscription.endpoint`",
  ),
  keys: z.strictObject({
    p256dh: z.string().regex(/^[A-Za-z0-9_-]{87}$/, "expected a P-256 point of 65 bytes in base64url")
      .describe("Public key of the browser: a P-256 point, uncompressed, in base64url"),
    auth: z.string().regex(/^[A-Za-z0-9_-]{22}$/, "expected 16 bytes in base64url")
      .describe("Its secret of 16 bytes in base64url"),
  }).describe("Its keys, as in `PushSubscription.toJSON()`"),
});
export type PushSubscriptionCreate = z.output<typeof PushSubscriptionCreate>;

export const PushSubscription = z.object({
  id: PushSubscriptionId,
  name: z.string().describe("What the person calls this browser or device"),
  service: z.string().describe("Host of the push service"),
  createdAt: z.iso.datetime(),
  renewedAt: z.iso.datetime().describe("When it was last created with the same endpoint"),
}).meta({ id: "PushSubscription" });
export type PushSubscription = z.output<typeof PushSubscription>;

export const PushSubscriptions = z.object({ items: z.array(PushSubscription) }).meta({ id: "PushSubscriptions" });
