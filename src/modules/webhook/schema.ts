// Outgoing webhooks as clients see them.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const WEBHOOKS_PER_TENANT = 100;
/** A person with their agents, or a service, may have far fewer than the tenant, so that some are left for others. */
export const WEBHOOKS_PER_OWNER = 20;
export const WEBHOOKS_PER_ROOM = 20;
/** Of those, for the same reason. */
export const WEBHOOKS_PER_OWNER_IN_ROOM = 5;
/** Parked events of one webhook; with more, its endpoint counts as unable to receive. */
export const PARKED_MAX = 1000;
/** Attempts that are listed. */
export const DELIVERIES_STORED = 100;
/** Longest body; of larger events only the ids are sent. */
export const BODY_MAX_BYTES = 64 * 1024;
export const OVERLAP_HOURS = 24;

const WebhookId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

const EventPattern = z.string().regex(
  /^(?:\*|[a-z_]{1,40}\.(?:\*|[a-z_]{1,40}))$/,
  "expected a type such as message.created, a group such as message.*, or *",
);

const fields = {
  url: z.url().max(2000).describe("Address of the endpoint; https, or a private host that the operator allows"),
  events: z.array(EventPattern).min(1).max(50).default(["*"])
    .describe("Types of events to deliver: `message.created`, all of a group as `message.*`, or `*`"),
  roomIds: z.array(RoomId).min(1).max(50).nullable().default(null)
    .describe("Rooms whose events are delivered; null: all rooms of its creator, also those that it joins later"),
  description: z.string().max(500).nullable().default(null).describe("What it is for"),
  enabled: z.boolean().default(true).describe("Whether events are delivered; those that wait are delivered later"),
};

export const WebhookCreate = z.strictObject(fields);
export type WebhookCreate = z.output<typeof WebhookCreate>;

export const WebhookUpdate = patchSchema(z.strictObject(fields)).extend({ id: WebhookId, version: BaseVersion });
export type WebhookUpdate = z.output<typeof WebhookUpdate>;

export const WebhookRef = z.strictObject({ id: WebhookId });
export const WebhookList = z.strictObject({ ...pageInput });
export type WebhookList = z.output<typeof WebhookList>;

const WEBHOOK_STATES = ["active", "retrying", "disabled"] as const;

export const Webhook = z.object({
  id: WebhookId,
  url: z.string().describe("Address of the endpoint"),
  events: z.array(z.string()).describe("Types of events that are delivered"),
  roomIds: z.array(RoomId).nullable().describe("Rooms that the caller sees; null: all rooms of the creator"),
  description: z.string().nullable().describe("What it is for"),
  enabled: z.boolean().describe("Whether events are delivered"),
  state: z.enum(WEBHOOK_STATES).meta({ id: "WebhookState" }).describe(
    "`retrying`: its endpoint does not accept events; they wait, in order",
  ),
  disabledReason: z.enum(["requested", "gone", "failing", "secret_lost"]).meta({ id: "WebhookDisabledReason" })
    .nullable().describe(
      "Why it is disabled: requested, the endpoint answered 410, it failed for 5 days, or its secret cannot be read",
    ),
  failingSince: z.iso.datetime().nullable().describe("First failure since the last delivery"),
  nextAttemptAt: z.iso.datetime().nullable().describe("When delivery is tried again"),
  lastError: z.string().nullable().describe("What failed last"),
  parkedCount: z.int().describe("Events that the endpoint refused; see `parked_event.list`"),
  previousSecretUntil: z.iso.datetime().nullable().describe(
    "Until when deliveries are also signed with the secrets before the last rotation",
  ),
  createdBy: PrincipalId.describe("Its creator, whose rights decide what is delivered"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Webhook" });
export type Webhook = z.output<typeof Webhook>;

export const NewWebhook = Webhook.extend({
  secret: z.string().describe("Signs deliveries (Standard Webhooks); shown only here"),
}).meta({ id: "CreatedWebhook" });
export type NewWebhook = z.output<typeof NewWebhook>;

export const OUTCOMES = ["delivered", "unavailable", "refused", "parked", "gone"] as const;
const Outcome = z.enum(OUTCOMES).meta({ id: "WebhookOutcome" }).describe(
  "`unavailable`: the endpoint cannot receive, delivery waits; `refused`: the event is tried again; " +
    "`parked`: refused too often",
);

const attemptFields = {
  outcome: Outcome,
  httpStatus: z.int().nullable().describe("Status of the endpoint's response; null without one"),
  error: z.string().nullable().describe("Why there was no response"),
  durationMs: z.int().describe("How long the attempt took"),
};
export const WebhookAttempt = z.object(attemptFields).meta({ id: "WebhookAttempt" });
export type WebhookAttempt = z.output<typeof WebhookAttempt>;

const eventFields = {
  stream: z.string().describe("Stream of the event"),
  epoch: z.string().describe("Epoch of the stream"),
  seq: z.int().describe("Position in the stream"),
  type: z.string().describe("Type of the event"),
};

export const WebhookDelivery = z.object({
  id: z.string(),
  eventId: z.string().describe("The header `webhook-id`: the same for all attempts of an event"),
  ...eventFields,
  attempt: z.int().describe("Number of the attempt since the event was reached"),
  ...attemptFields,
  at: z.iso.datetime().describe("When the attempt began"),
  nextAttemptAt: z.iso.datetime().nullable().describe("When the event is tried again; null if it is not, or at once"),
}).meta({ id: "WebhookDelivery" });
export type WebhookDelivery = z.output<typeof WebhookDelivery>;

export const DeliveryList = z.strictObject({
  id: WebhookId,
  outcome: z.enum(OUTCOMES).optional().describe("Only attempts with this outcome"),
  limit: z.int().min(1).max(DELIVERIES_STORED).default(50).describe("Maximum number of items"),
});
export type DeliveryList = z.output<typeof DeliveryList>;
export const WebhookDeliveries = z.object({
  items: z.array(WebhookDelivery).describe(`The newest attempts, newest first; ${DELIVERIES_STORED} are stored`),
}).meta({ id: "WebhookDeliveries" });
export const DeliveryRef = z.strictObject({
  id: WebhookId,
  deliveryId: WebhookId.describe("An attempt of `delivery.list`"),
});
export type DeliveryRef = z.output<typeof DeliveryRef>;

export const ParkedEvent = z.object({
  id: z.string(),
  ...eventFields,
  state: z.enum(["parked", "waiting"]).describe("`waiting`: it is to be delivered again"),
  httpStatus: z.int().nullable().describe("Status of the last response"),
  error: z.string().nullable().describe("Why it cannot be delivered: `trimmed` if it is no longer stored"),
  parkedAt: z.iso.datetime().describe("When it was parked, or its replay requested"),
}).meta({ id: "ParkedEvent" });
export type ParkedEvent = z.output<typeof ParkedEvent>;

export const ParkedList = z.strictObject({ id: WebhookId, ...pageInput });
export type ParkedList = z.output<typeof ParkedList>;
export const ParkedReplay = z.strictObject({
  id: WebhookId,
  ids: z.array(WebhookId).min(1).max(200).optional().describe("Parked events; absent: all of them"),
});
export type ParkedReplay = z.output<typeof ParkedReplay>;
export const ReplayResult = z.object({
  waitingCount: z.int().describe("Number of events that are to be delivered again"),
}).meta({ id: "ReplayResult" });

export const CursorPut = z.strictObject({
  id: WebhookId,
  stream: z.string().regex(/^room:[A-Za-z0-9_-]{1,64}$/, "expected room:<id>").describe("A stream that is delivered"),
  seq: z.int().min(0).describe("Delivery continues with the event after this position"),
});
export type CursorPut = z.output<typeof CursorPut>;
export const WebhookCursor = z.object({
  stream: z.string().describe("Stream of events"),
  epoch: z.string().describe("Epoch of the stream"),
  seq: z.int().describe("Position of the last event that was handled"),
}).meta({ id: "WebhookCursor" });
export type WebhookCursor = z.output<typeof WebhookCursor>;

const changed = z.object({ webhook: Webhook });

/** Received by the creator of a webhook alone. */
export const WEBHOOK_EVENTS: readonly EventType[] = eventTypes("webhook.read", [
  { type: "webhook.created", summary: "A webhook was created", streams: ["principal"], data: changed },
  { type: "webhook.updated", summary: "A webhook was changed", streams: ["principal"], data: changed },
  {
    type: "webhook.deleted",
    summary: "A webhook was deleted",
    streams: ["principal"],
    data: z.object({ webhookId: WebhookId }),
  },
  {
    type: "webhook.disabled",
    summary: "A webhook was disabled because its endpoint answered 410 or failed for 5 days",
    streams: ["principal"],
    data: changed,
  },
]);
