// Operations on the caller's own push subscriptions.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import { defineOperation, type Operation } from "@/core/operation.ts";
import {
  PushSubscription,
  PushSubscriptionCreate,
  PushSubscriptionRef,
  PushSubscriptions,
  SUBSCRIPTIONS_MAX,
} from "./schema.ts";
import { type PushService, RENEWAL_DAYS } from "./service.ts";

const PATH = "/v1/collaboration/push-subscriptions";

export function pushOperations(push: PushService): Operation[] {
  return [
    defineOperation({
      name: "push_subscription.create",
      summary: "Push the caller's notifications to a browser or device (Web Push)",
      description:
        "Also requires the scope `notification.read`. For what `PushManager.subscribe` returns with `publicKey` of `push` in `capabilities.read` as its " +
        "`applicationServerKey`. A message is JSON with `notification` as in `notification.list`, `actorName`, `moreCount` " +
        "(newer ones besides it) and `unreadCount`, within the rights of this call's token at that time. Call it again " +
        `whenever the client starts: the same endpoint is renewed, and what is not renewed for ${RENEWAL_DAYS} days ends, as ` +
        "does what push services no longer know, and what a token created that is revoked. A principal has at most " +
        `${SUBSCRIPTIONS_MAX}; then the one renewed longest ago ends.`,
      access: { scope: "notification.write" },
      http: { method: "POST", path: PATH, status: 201 },
      input: PushSubscriptionCreate,
      output: PushSubscription,
      faults: ["push_not_configured", "address_not_allowed"],
      example: {
        name: "Firefox on Linux",
        endpoint: "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABl",
        keys: {
          p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
          auth: "BTBZMqHH6r4Tts7J_aSIgg",
        },
      },
      run: ({ actor }, input) => push.create(actor, input),
    }),
    defineOperation({
      name: "push_subscription.list",
      summary: "List the caller's push subscriptions, the one renewed last first",
      access: { scope: "notification.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: z.strictObject({}),
      output: PushSubscriptions,
      ownData: {},
      async run({ actor }) {
        return { items: await push.list(actor) };
      },
    }),
    defineOperation({
      name: "push_subscription.delete",
      summary: "End a push subscription of the caller",
      access: { scope: "notification.write" },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: PushSubscriptionRef,
      output: z.void(),
      faults: ["not_found"],
      example: { id: exampleId("psh") },
      run: ({ actor }, { id }) => push.delete(actor, id),
    }),
  ];
}
