// The webhook module.
import type { Actor } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import { Encryptor } from "@/core/crypto.ts";
import { appearsOn } from "@/core/event.ts";
import type { Module } from "@/core/module.ts";
import type { CredentialSnapshot } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { webhookApi } from "./api.ts";
import { CallSlots } from "./call_slots.ts";
import { WebhookDeliveryService } from "./delivery_service.ts";
import { DeliveryStore } from "./delivery_store.ts";
import { STREAMS_AT_ONCE } from "./delivery_run.ts";
import { WebhookDispatcher } from "./dispatcher.ts";
import { migrations } from "./migrations.ts";
import { WebhookReader } from "./reader.ts";
import { DISABLED_NOTIFICATION, WebhookReleaser } from "./releaser.ts";
import { BODY_MAX_BYTES, WEBHOOKS_PER_ROOM, WEBHOOKS_PER_TENANT } from "./schema.ts";
import { Secrets } from "./secrets.ts";
import { WebhookSender } from "./sender.ts";
import { WebhookService } from "./service.ts";
import { ServiceWebhooks } from "./service_webhooks.ts";

/** Calls of endpoints at once, on one node. */
const CALLS_MAX = 64;
const CALLS_PER_TENANT = 16;

type Deps = {
  roomAccess: RoomAccess;
  notify: Notify;
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
  /** The gateway's secrets: those of webhooks are encrypted with the first one. */
  secrets: readonly Uint8Array[];
};

export type WebhookModule = Module & { services: ServiceWebhooks };

export function webhookModule(
  { store, clock, cursors, outbound, metrics, cpu, modules, eventFilterOf }: Platform,
  { roomAccess, notify, revalidate, secrets: gatewaySecrets }: Deps,
): WebhookModule {
  const secrets = new Secrets(new Encryptor(gatewaySecrets, "webhook"));
  const sender = new WebhookSender({ outbound, clock });
  const slots = new CallSlots({ total: CALLS_MAX, perKey: CALLS_PER_TENANT });
  const reader = new WebhookReader({ roomAccess, revalidate, eventFilterOf });
  const releaser = new WebhookReleaser({ store, clock, notify });
  const dispatcher = new WebhookDispatcher({ store, clock, cpu, metrics, sender, secrets, slots, reader, releaser });
  const wake = (key: { tenant_id: string; id: string }): void => dispatcher.wake(key);
  const eventTypes = (): string[] =>
    modules.flatMap(({ events = [] }) => events.filter((type) => appearsOn(type, "room")).map(({ type }) => type));
  const webhooks = new WebhookService({ store, clock, cursors, outbound, roomAccess, secrets, eventTypes, wake });
  return {
    name: "webhook",
    migrations,
    ...webhookApi({
      webhooks,
      deliveries: new WebhookDeliveryService({ store, clock, cursors, secrets, sender, wake }),
    }),
    notificationKinds: { [DISABLED_NOTIFICATION]: null },
    onCommit: (events) => dispatcher.onCommit(events),
    start: () => dispatcher.start(),
    drain: () => dispatcher.stop(),
    stop: () => dispatcher.stop(),
    purgeRoom: (tenantId, roomId) => webhooks.purgeRoom(tenantId, roomId),
    gauges: [{
      gauge: metrics.webhookLag,
      async collect(gauge) {
        const now = clock.now();
        const oldest = await new DeliveryStore(store.db).oldestWaiting(iso(now));
        gauge.set(oldest === undefined ? 0 : Math.max(0, now - Date.parse(oldest)) / 1000);
      },
    }],
    services: new ServiceWebhooks({ clock, secrets, wake }),
    capability: () => ({
      webhooks: WEBHOOKS_PER_TENANT,
      perRoom: WEBHOOKS_PER_ROOM,
      streamsAtOnce: STREAMS_AT_ONCE,
      bodyBytes: BODY_MAX_BYTES,
    }),
  };
}
