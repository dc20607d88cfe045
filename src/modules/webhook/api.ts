// Operations on outgoing webhooks and their deliveries.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome, type Rates } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import type { WebhookDeliveryService } from "./delivery/service.ts";
import {
  CursorPut,
  DeliveryList,
  DeliveryRef,
  NewWebhook,
  ParkedEvent,
  ParkedList,
  ParkedReplay,
  ReplayResult,
  Webhook,
  WEBHOOK_EVENTS,
  WebhookAttempt,
  WebhookCreate,
  WebhookCursor,
  WebhookDeliveries,
  WebhookList,
  WebhookRef,
  WEBHOOKS_PER_OWNER,
  WEBHOOKS_PER_TENANT,
  WebhookUpdate,
} from "./schema.ts";
import type { WebhookService } from "./service.ts";

const PATH = "/v1/collaboration/webhooks";
const WEBHOOK = exampleId("webhook");
const ROOM = exampleId("room");
const MANAGE = { scope: "webhook.manage", tenant: "member" } as const;
/** For changes that may name rooms, whose events are delivered then. */
const DIRECT = { ...MANAGE, namedRoom: "moderator", namedRoomForAdmins: "observer" } as const;
const READ = { scope: "webhook.read", tenant: "member" } as const;
const TEST_RATE: Rates = { human: { perSecond: 0.2, burst: 10 } };
const SAME_SCOPES = "The token needs the scopes of events with which the webhook was created.";

type Deps = { webhooks: WebhookService; deliveries: WebhookDeliveryService };

export function webhookApi({ webhooks, deliveries }: Deps): ModuleApi {
  return {
    tags: { webhooks: "Events of rooms, delivered to endpoints of other systems in the format of Standard Webhooks." },
    events: WEBHOOK_EVENTS,
    operations: [...webhookOperations(webhooks), ...deliveryOperations(deliveries)],
  };
}

function webhookOperations(webhooks: WebhookService): Operation[] {
  return [
    defineOperation({
      name: "webhook.create",
      summary: "Create a webhook",
      description:
        "Delivers what happens from now on, and only what its creator may read at that time, with the scopes " +
        "of the token that creates it. Requires the role moderator in each of the rooms, or the tenant role admin. The " +
        `secret is returned only here. A person with their agents has at most ${WEBHOOKS_PER_OWNER} webhooks, and a tenant ` +
        `${WEBHOOKS_PER_TENANT}.`,
      access: DIRECT,
      http: { method: "POST", path: PATH, status: 201, hasLocation: true },
      isSecret: true,
      input: WebhookCreate,
      output: NewWebhook,
      faults: ["address_not_allowed", "limit_reached", "not_found", "room_archived"],
      example: { url: "https://hooks.example.com/gateway", events: ["message.*"], roomIds: [ROOM] },
      async run(context, input) {
        const webhook = await webhooks.create(context, input);
        return new Outcome(webhook, { location: `${PATH}/${webhook.id}` });
      },
    }),
    defineOperation({
      name: "webhook.list",
      summary: "List webhooks of the caller, or as an admin those of the tenant",
      access: READ,
      http: { method: "GET", path: PATH, status: 200 },
      input: WebhookList,
      output: pageSchema(Webhook),
      faults: ["invalid_cursor"],
      ownData: { isOwn: ({ createdBy }, principalId) => createdBy === principalId },
      run: (context, input) => webhooks.list(context, input),
    }),
    defineOperation({
      name: "webhook.read",
      summary: "Get a webhook",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: WebhookRef,
      output: Webhook,
      faults: ["not_found"],
      example: { id: WEBHOOK },
      run: (context, { id }) => webhooks.read(context, id),
    }),
    defineOperation({
      name: "webhook.update",
      summary: "Change, enable or disable a webhook",
      description:
        "Events that waited while it was disabled are delivered when it is enabled, as far as they are still " +
        "stored. An admin of the tenant may disable webhooks of others. A change of more than `description`, and " +
        "enabling, need the scopes of events with which the webhook was created.",
      access: DIRECT,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: WebhookUpdate,
      output: Webhook,
      faults: ["not_found", "room_archived", "address_not_allowed", "limit_reached", "version_mismatch"],
      example: { id: WEBHOOK, enabled: true },
      run: (context, input) => webhooks.update(context, input),
    }),
    defineOperation({
      name: "webhook.delete",
      summary: "Delete a webhook with its positions and parked events",
      access: MANAGE,
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: WebhookRef,
      output: z.void(),
      faults: ["not_found"],
      example: { id: WEBHOOK },
      run: (context, { id }) => webhooks.delete(context, id),
    }),
    defineOperation({
      name: "webhook.rotate",
      summary: "Replace the secret of a webhook",
      description: "For 24 hours deliveries are signed with both secrets. The new one is returned only here. " +
        SAME_SCOPES,
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/rotate`, status: 200 },
      isSecret: true,
      input: WebhookRef,
      output: NewWebhook,
      faults: ["not_found"],
      example: { id: WEBHOOK },
      run: (context, { id }) => webhooks.rotate(context, id),
    }),
  ];
}

function deliveryOperations(deliveries: WebhookDeliveryService): Operation[] {
  return [
    defineOperation({
      name: "webhook.test",
      summary: "Send a test event to the endpoint of a webhook, and get its response",
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/test`, status: 200 },
      callsOut: true,
      rate: TEST_RATE,
      input: WebhookRef,
      output: WebhookAttempt,
      faults: ["not_found", "conflict"],
      example: { id: WEBHOOK },
      run: (context, { id }) => deliveries.test(context, id),
    }),
    defineOperation({
      name: "delivery.list",
      summary: "List the newest delivery attempts of a webhook",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id/deliveries`, status: 200 },
      input: DeliveryList,
      output: WebhookDeliveries,
      faults: ["not_found"],
      example: { id: WEBHOOK },
      run: (context, input) => deliveries.list(context, input),
    }),
    defineOperation({
      name: "delivery.replay",
      summary: "Deliver the event of an attempt again",
      description: SAME_SCOPES,
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/deliveries/:deliveryId/replay`, status: 202 },
      input: DeliveryRef,
      output: ReplayResult,
      faults: ["not_found", "conflict"],
      example: { id: WEBHOOK, deliveryId: exampleId("dlv") },
      run: (context, input) => deliveries.replay(context, input),
    }),
    defineOperation({
      name: "parked_event.list",
      summary: "List the events that the endpoint of a webhook refused",
      access: READ,
      http: { method: "GET", path: `${PATH}/:id/parked`, status: 200 },
      input: ParkedList,
      output: pageSchema(ParkedEvent),
      faults: ["not_found", "invalid_cursor"],
      example: { id: WEBHOOK },
      run: (context, input) => deliveries.parked(context, input),
    }),
    defineOperation({
      name: "parked_event.replay",
      summary: "Deliver refused events again",
      description: SAME_SCOPES,
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/parked/replay`, status: 202 },
      input: ParkedReplay,
      output: ReplayResult,
      faults: ["not_found"],
      example: { id: WEBHOOK },
      run: (context, input) => deliveries.replayParked(context, input),
    }),
    defineOperation({
      name: "webhook_cursor.put",
      summary: "Set from which event of a stream a webhook continues",
      description:
        "Backward, events are delivered again with the same `webhook-id`. Events that are no longer stored " +
        "are announced by `webhook.gap`. " + SAME_SCOPES,
      access: MANAGE,
      // Consumers that poll set it with every batch.
      audited: false,
      http: { method: "PUT", path: `${PATH}/:id/cursor`, status: 200 },
      input: CursorPut,
      output: WebhookCursor,
      faults: ["not_found"],
      example: { id: WEBHOOK, stream: `room:${ROOM}`, seq: 0 },
      run: (context, input) => deliveries.putCursor(context, input),
    }),
  ];
}
