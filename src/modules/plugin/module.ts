// The plugin module: plugins, their calls by transport, and the filters of messages.
import { z } from "@zod/zod";
import type { ChannelKind } from "@/core/event/channel.ts";
import { Encryptor } from "@/core/crypto.ts";
import { notVisible } from "@/core/fault.ts";
import type { Module } from "@/core/module.ts";
import type { Interactions } from "@/modules/command/mod.ts";
import type { ServicePrincipals } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { ServiceWebhooks } from "@/modules/webhook/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { pluginApi } from "./api.ts";
import { PluginCaller } from "./caller.ts";
import { MessageFilters } from "./filters.ts";
import { PluginHealthReader } from "./health.ts";
import { encryptionContext, httpTransport } from "./http_transport.ts";
import { PluginInteractions } from "./interactions.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { mayStartProcesses, ProcessTransport } from "./process_transport.ts";
import { PluginRegistry, principalOf } from "./registry.ts";
import { PluginResponder } from "./responder.ts";
import { RoomFilters } from "./room_filters.ts";
import { FILTERS_MAX, PluginCall, PLUGINS_MAX, TIMEOUT_MAX_MS, Transport } from "./schema.ts";
import { PluginService } from "./service.ts";
import { SocketTransport } from "./socket_transport.ts";

/** Sockets of one plugin whose presence is known. */
const CONNECTIONS_SHOWN = 100;

type Deps = {
  roomAccess: RoomAccess;
  interactions: Interactions;
  principals: ServicePrincipals;
  webhooks: ServiceWebhooks;
  /** The gateway's secrets: those of plugins are encrypted with the first one. */
  secrets: readonly Uint8Array[];
};

export type PluginModule = Module & { filters: MessageFilters };

export function pluginModule(
  { store, clock, bus, presence, outbound, metrics, modules, timeoutFactor }: Platform,
  { roomAccess, interactions, principals, webhooks, secrets }: Deps,
): PluginModule {
  const encryptor = new Encryptor(secrets, "plugin");
  const registry = new PluginRegistry({ store, clock, bus });
  const socket = new SocketTransport({ store, clock, bus, timeoutFactor });
  const processes = new ProcessTransport({ timeoutFactor });
  const transports = {
    http: httpTransport({ clock, outbound, encryptor }),
    socket: socket.call,
    process: processes.call,
  };
  const caller = new PluginCaller({ store, clock, metrics, transports });
  const offered = new PluginInteractions({ store, registry, caller, timeoutFactor });
  const roomFilters = new RoomFilters({ store, clock, roomAccess, registry });
  return {
    name: "plugin",
    migrations,
    erases,
    ...pluginApi({
      plugins: new PluginService({
        store,
        clock,
        encryptor,
        outbound,
        modules,
        principals,
        webhooks,
        registry,
        caller,
      }),
      filters: roomFilters,
      responder: new PluginResponder({ interactions, socket }),
      health: new PluginHealthReader({ store, presence, caller, webhooks }),
    }),
    encrypted: (["secret", "config"] as const).map((of) => ({
      table: "plugin",
      column: `${of}_encrypted`,
      encryptor,
      contextOf: ({ tenant_id, id }) => encryptionContext(of, tenant_id, id),
    })),
    channels: [pluginChannel],
    commands: offered,
    actions: offered,
    gauges: [{ gauge: metrics.pluginBreakers, collect: (gauge) => gauge.set(caller.openBreakers) }],
    purgeRoom: (tenantId, roomId) => roomFilters.purgeRoom(tenantId, roomId),
    start: () => registry.start(),
    async stop() {
      await registry.stop();
      await socket.stop();
      await processes.stop();
    },
    capability: () => ({
      transports: Transport.options.filter((transport) => transport !== "process" || mayStartProcesses()),
      plugins: PLUGINS_MAX,
      filtersPerRoom: FILTERS_MAX,
      timeoutMs: TIMEOUT_MAX_MS,
    }),
    filters: new MessageFilters({ store, registry, caller, roomAccess, timeoutFactor }),
  };
}

const pluginChannel: ChannelKind = {
  prefix: "plugin",
  summary: "Calls of a plugin with transport socket; only the plugin itself can subscribe",
  isDurable: true,
  presenceMax: CONNECTIONS_SHOWN,
  async authorize({ principalId }, id) {
    await Promise.resolve();
    if (principalId !== principalOf(id)) throw notVisible("plugin");
  },
  ephemeral: {},
  notices: {
    "plugin.filter": {
      summary: "A message to filter; the plugin decides with `plugin.respond` within `timeoutMs`",
      data: z.object(PluginCall.shape),
    },
  },
};
