// What an agent outside leases and acknowledges.
import { z } from "@zod/zod";
import { HOUR_SECONDS } from "@/core/time/clock.ts";
import { PrincipalRef } from "@/modules/identity/mod.ts";
import type { NotificationModule } from "@/modules/notification/mod.ts";

const LEASED_MAX = 20;
const LEASE_MAX_SECONDS = 300;
const WAIT_MAX_SECONDS = 30;
const DELAY_MAX_SECONDS = HOUR_SECONDS;
const Agent = PrincipalRef.describe("The agent, which is the caller; `me`");
const DeliveryId = z.string().min(1).max(64);

export const InboxPull = z.strictObject({
  id: Agent,
  max: z.int().min(1).max(LEASED_MAX).default(1).describe("How many to lease at most"),
  leaseSeconds: z.int().min(1).max(LEASE_MAX_SECONDS).default(60).describe(
    "What is not acknowledged by then is delivered again",
  ),
  wait: z.int().min(0).max(WAIT_MAX_SECONDS).default(0).describe("Maximum number of seconds to wait if there are none"),
});
export type InboxPull = z.output<typeof InboxPull>;

const OUTCOMES = ["done", "retry", "working", "drop"] as const;

export const InboxAck = z.strictObject({
  id: Agent,
  deliveryId: DeliveryId.describe("As in the delivery"),
  outcome: z.enum(OUTCOMES).describe(
    "`done`: the notification is marked as read; `drop`: the same, for what the agent cannot do; `retry`: it is delivered again " +
      "after `delaySeconds`; `working`: the lease lasts `delaySeconds` more",
  ),
  delaySeconds: z.int().min(0).max(DELAY_MAX_SECONDS).optional().describe("Default: 0 for `retry`, 60 for `working`"),
});
export type InboxAck = z.output<typeof InboxAck>;

export const InboxAcked = z.object({
  deliveryId: DeliveryId.describe("The delivery that was acknowledged"),
  availableAt: z.iso.datetime().nullable().describe(
    "When it is delivered again, if it is not acknowledged; null: never",
  ),
}).meta({ id: "InboxAcknowledgement" });
export type InboxAcked = z.output<typeof InboxAcked>;

/** Notifications have the kinds that all modules register. */
// deno-lint-ignore explicit-module-boundary-types -- inferred as its schema is
export function deliveriesSchema({ ListedNotification }: NotificationModule["schemas"]) {
  const Delivery = z.object({
    deliveryId: DeliveryId.describe("Of this delivery: another one of the same notification has another"),
    attempt: z.int().describe("How often it was delivered, this time included"),
    notification: ListedNotification,
  }).meta({ id: "InboxDelivery" });
  return z.object({ items: z.array(Delivery).describe("The oldest first") }).meta({ id: "InboxDeliveries" });
}
export type InboxDeliveries = z.output<ReturnType<typeof deliveriesSchema>>;
