// The webhook module: events delivered to endpoints, hooks that post into rooms, and slash commands.
import type { Actor } from "@/core/actor.ts";
import { iso } from "@/core/clock.ts";
import { Encryptor } from "@/core/crypto.ts";
import { appearsOn, type EventType } from "@/core/event.ts";
import type { Module } from "@/core/module.ts";
import { Slots } from "@/core/slots.ts";
import type { Interactions } from "@/modules/command/mod.ts";
import type { FileAttachments, FileWriter } from "@/modules/file/mod.ts";
import type { CredentialSnapshot, IdentityService } from "@/modules/identity/mod.ts";
import type { MessageFilter, MessageSender } from "@/modules/message/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess, RoomMembers } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { webhookApi } from "./api.ts";
import { WebhookDeliveryService } from "./delivery_service.ts";
import { DeliveryStore } from "./delivery_store.ts";
import { STREAMS_AT_ONCE } from "./delivery_run.ts";
import { WebhookDispatcher } from "./dispatcher.ts";
import { hookApi } from "./incoming/api.ts";
import { HookReceiver } from "./incoming/receiver.ts";
import { HOOK_BODY_MAX_BYTES, HOOKS_PER_ROOM } from "./incoming/schema.ts";
import { HookService } from "./incoming/service.ts";
import { migrations } from "./migrations.ts";
import { WebhookReader } from "./reader.ts";
import { DISABLED_NOTIFICATION, WebhookReleaser } from "./releaser.ts";
import {
  BODY_MAX_BYTES,
  WEBHOOKS_PER_OWNER,
  WEBHOOKS_PER_OWNER_IN_ROOM,
  WEBHOOKS_PER_ROOM,
  WEBHOOKS_PER_TENANT,
} from "./schema.ts";
import { Secrets } from "./secrets.ts";
import { WebhookSender } from "./sender.ts";
import { WebhookService } from "./service.ts";
import { ServiceWebhooks } from "./service_webhooks.ts";
import { SlashCommandAccess } from "./slash/access.ts";
import { slashCommandApi } from "./slash/api.ts";
import { LateResponses } from "./slash/late_responses.ts";
import { SlashCommandService } from "./slash/service.ts";
import { SlashCommandSource } from "./slash/source.ts";

/** Calls of endpoints at once on one node: in all, of a tenant, and of an owner in it. */
const CALLS = { total: 64, perKey: [16, 8] };

type Deps = {
  roomAccess: RoomAccess;
  notify: Notify;
  identity: IdentityService;
  members: RoomMembers;
  pictures: FileAttachments;
  files: Pick<FileWriter, "write">;
  filter: MessageFilter;
  sender: MessageSender;
  interactions: Interactions;
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
  /** The gateway's secrets: those of webhooks are encrypted with the first one. */
  secrets: readonly Uint8Array[];
  /** Where endpoints reach the gateway; `undefined` where it does not know its address. */
  baseUrl: string | undefined;
};

type WebhookModule = Module & { services: ServiceWebhooks };

export function webhookModule(
  { store, clock, cursors, outbound, metrics, cpu, writeBudget, consumeRate, modules, eventFilterOf, nodeId }: Platform,
  deps: Deps,
): WebhookModule {
  const { roomAccess, notify, identity, members, sender: messageSender, revalidate, secrets: gatewaySecrets } = deps;
  const secrets = new Secrets(new Encryptor(gatewaySecrets, "webhook"));
  const sender = new WebhookSender({ outbound, clock });
  const slots = new Slots(CALLS);
  const reader = new WebhookReader({ roomAccess, revalidate, eventFilterOf });
  const releaser = new WebhookReleaser({ store, clock, notify });
  const dispatcher = new WebhookDispatcher({
    store,
    clock,
    cpu,
    metrics,
    sender,
    secrets,
    slots,
    reader,
    releaser,
    nodeId,
  });
  const wake = (key: { tenant_id: string; id: string }): void => dispatcher.wake(key);
  const roomEvents = (): EventType[] =>
    modules.flatMap(({ events = [] }) => events.filter((type) => appearsOn(type, "room")));
  const webhooks = new WebhookService({ store, clock, cursors, outbound, roomAccess, secrets, roomEvents, wake });
  const encryptor = new Encryptor(gatewaySecrets, "hook");
  const hooks = new HookService({ store, clock, cursors, encryptor, roomAccess, members, pictures: deps.pictures });
  const receiver = new HookReceiver({
    store,
    clock,
    cpu,
    metrics,
    writeBudget,
    encryptor,
    identity,
    sender: messageSender,
    filter: deps.filter,
    files: deps.files,
    consumeRate,
  });
  const outgoing = webhookApi({
    webhooks,
    deliveries: new WebhookDeliveryService({ store, clock, cursors, secrets, sender, roomEvents, wake }),
  });
  const incoming = hookApi(hooks, receiver);
  const slashDeps = { store, clock, outbound, secrets: new Secrets(new Encryptor(gatewaySecrets, "slash command")) };
  const commands = new SlashCommandService({ ...slashDeps, roomAccess, cursors, members });
  const access = new SlashCommandAccess({ store, identity, roomAccess });
  const late = new LateResponses({
    cpu,
    writeBudget,
    encryptor: new Encryptor(gatewaySecrets, "slash command response"),
    interactions: deps.interactions,
    access,
    baseUrl: deps.baseUrl,
  });
  const slash = slashCommandApi(commands, late);
  return {
    name: "webhook",
    migrations,
    tags: { ...outgoing.tags, ...incoming.tags, ...slash.tags },
    events: [...outgoing.events ?? [], ...incoming.events ?? [], ...slash.events ?? []],
    operations: [...outgoing.operations, ...incoming.operations, ...slash.operations],
    commands: new SlashCommandSource({ ...slashDeps, access, late }),
    routes: [...incoming.routes ?? [], ...slash.routes ?? []],
    notificationKinds: { [DISABLED_NOTIFICATION]: null },
    resourceScopes: { webhook: "webhook.read" },
    leases: dispatcher.leases,
    onCommit: (events) => dispatcher.onCommit(events),
    start: () => dispatcher.start(),
    drain: () => dispatcher.stop(),
    stop: () => dispatcher.stop(),
    async purgeRoom(tenantId, roomId) {
      await webhooks.purgeRoom(tenantId, roomId);
      await hooks.purgeRoom(tenantId, roomId);
      await commands.purgeRoom(tenantId, roomId);
    },
    gauges: [{
      gauge: metrics.webhookLag,
      async collect(gauge) {
        const now = clock.now();
        const oldest = await new DeliveryStore(store.db).oldestWaiting(iso(now));
        gauge.set(oldest === undefined ? 0 : Math.max(0, now - Date.parse(oldest)) / 1000);
      },
    }],
    services: new ServiceWebhooks({ store, clock, secrets, roomEvents, wake }),
    capability: () => ({
      webhooks: WEBHOOKS_PER_TENANT,
      perOwner: WEBHOOKS_PER_OWNER,
      perRoom: WEBHOOKS_PER_ROOM,
      perOwnerInRoom: WEBHOOKS_PER_OWNER_IN_ROOM,
      streamsAtOnce: STREAMS_AT_ONCE,
      bodyBytes: BODY_MAX_BYTES,
      hooksPerRoom: HOOKS_PER_ROOM,
      hookBytes: HOOK_BODY_MAX_BYTES,
    }),
  };
}
