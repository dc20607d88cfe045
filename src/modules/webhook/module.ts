// The webhook module: events delivered to endpoints, hooks that post into rooms, and slash commands.
import type { Actor } from "@/core/actor.ts";
import { iso } from "@/core/time/clock.ts";
import { Encryptor } from "@/core/crypto.ts";
import { appearsOn, type EventType } from "@/core/event/event.ts";
import type { Module, ModuleApi } from "@/core/module.ts";
import { Slots } from "@/core/limit/slots.ts";
import type { Interactions } from "@/modules/command/mod.ts";
import type { FileAttachments, FileWriter } from "@/modules/file/mod.ts";
import type { CredentialSnapshot, IdentityService } from "@/modules/identity/mod.ts";
import type { MessageFilter, MessageSender } from "@/modules/message/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess, RoomMembers } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { webhookApi } from "./api.ts";
import { WebhookDeliveryService } from "./delivery/service.ts";
import { DeliveryStore } from "./delivery/store.ts";
import { STREAMS_AT_ONCE } from "./delivery/run.ts";
import { WebhookDispatcher } from "./delivery/dispatcher.ts";
import { hookApi } from "./incoming/api.ts";
import { HookReceiver } from "./incoming/receiver.ts";
import { HOOK_BODY_MAX_BYTES, HOOKS_PER_ROOM } from "./incoming/schema.ts";
import { HookService } from "./incoming/service.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { WebhookReader } from "./delivery/reader.ts";
import { DISABLED_NOTIFICATION, WebhookReleaser } from "./delivery/releaser.ts";
import {
  BODY_MAX_BYTES,
  WEBHOOKS_PER_OWNER,
  WEBHOOKS_PER_OWNER_IN_ROOM,
  WEBHOOKS_PER_ROOM,
  WEBHOOKS_PER_TENANT,
} from "./schema.ts";
import { secretContext, Secrets } from "./secrets.ts";
import { WebhookSender } from "./delivery/sender.ts";
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
/** One of the three features, and how it ends with a room. */
type Part = ModuleApi & Required<Pick<Module, "purgeRoom" | "encrypted">>;

export function webhookModule(platform: Platform, deps: Deps): WebhookModule {
  const webhooks = createWebhooks(platform, deps);
  const slashCommands = createSlashCommands(platform, deps);
  const parts: readonly Part[] = [webhooks, createHooks(platform, deps), slashCommands];
  return {
    ...webhooks,
    name: "webhook",
    migrations,
    erases,
    tags: Object.assign({}, ...parts.map(({ tags }) => tags)),
    events: parts.flatMap(({ events }) => events ?? []),
    operations: parts.flatMap(({ operations }) => operations),
    routes: parts.flatMap(({ routes }) => routes ?? []),
    commands: slashCommands.commands,
    encrypted: parts.flatMap(({ encrypted }) => encrypted),
    async purgeRoom(tenantId, roomId) {
      for (const part of parts) await part.purgeRoom(tenantId, roomId);
    },
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

/** Events delivered to endpoints. */
function createWebhooks(
  { store, clock, cursors, outbound, metrics, cpu, modules, eventFilterOf, nodeId }: Platform,
  { roomAccess, notify, revalidate, secrets: gatewaySecrets }: Deps,
): Part & Omit<WebhookModule, "name"> {
  const secrets = new Secrets(new Encryptor(gatewaySecrets, "webhook"));
  const sender = new WebhookSender({ outbound, clock });
  const dispatcher = new WebhookDispatcher({
    store,
    clock,
    cpu,
    metrics,
    sender,
    secrets,
    slots: new Slots(CALLS),
    reader: new WebhookReader({ roomAccess, revalidate, eventFilterOf }),
    releaser: new WebhookReleaser({ store, clock, notify }),
    nodeId,
  });
  const wake = (key: { tenant_id: string; id: string }): void => dispatcher.wake(key);
  const roomEvents = (): EventType[] =>
    modules.flatMap(({ events = [] }) => events.filter((type) => appearsOn(type, "room")));
  const webhooks = new WebhookService({ store, clock, cursors, outbound, roomAccess, secrets, roomEvents, wake });
  const deliveries = new WebhookDeliveryService({
    store,
    clock,
    cursors,
    roomAccess,
    secrets,
    sender,
    roomEvents,
    wake,
  });
  return {
    ...webhookApi({ webhooks, deliveries }),
    encrypted: secrets.columnsOf("webhook"),
    notificationKinds: { [DISABLED_NOTIFICATION]: null },
    resourceScopes: { webhook: "webhook.read" },
    leases: dispatcher.leases,
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
    services: new ServiceWebhooks({ store, clock, secrets, roomEvents, wake }),
  };
}

/** Hooks that post into rooms. */
function createHooks(
  { store, clock, cursors, metrics, cpu, writeBudget, consumeRate }: Platform,
  { roomAccess, identity, members, pictures, files, filter, sender, secrets }: Deps,
): Part {
  const encryptor = new Encryptor(secrets, "hook");
  const hooks = new HookService({ store, clock, cursors, encryptor, roomAccess, members, pictures });
  const receiver = new HookReceiver({
    store,
    clock,
    cpu,
    metrics,
    writeBudget,
    encryptor,
    identity,
    sender,
    files,
    filter,
    consumeRate,
  });
  return {
    ...hookApi(hooks, receiver),
    encrypted: [{ table: "incoming_hook", column: "signing_secret_encrypted", encryptor, contextOf: secretContext }],
    purgeRoom: (tenantId, roomId) => hooks.purgeRoom(tenantId, roomId),
  };
}

/** Commands of rooms that endpoints run. */
function createSlashCommands(
  { store, clock, cursors, outbound, cpu, writeBudget }: Platform,
  { roomAccess, identity, members, interactions, secrets, baseUrl }: Deps,
): Part & { commands: SlashCommandSource } {
  const calls = { store, clock, outbound, secrets: new Secrets(new Encryptor(secrets, "slash command")) };
  const commands = new SlashCommandService({ ...calls, roomAccess, cursors, members });
  const access = new SlashCommandAccess({ store, identity, roomAccess });
  const encryptor = new Encryptor(secrets, "slash command response");
  const late = new LateResponses({ cpu, writeBudget, encryptor, interactions, access, baseUrl });
  return {
    ...slashCommandApi(commands, late),
    encrypted: calls.secrets.columnsOf("slash_command"),
    commands: new SlashCommandSource({ ...calls, access, late }),
    purgeRoom: (tenantId, roomId) => commands.purgeRoom(tenantId, roomId),
  };
}
