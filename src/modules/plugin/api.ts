// Operations on plugins, on the filters of rooms, and those that plugins call themselves.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome, type Rates } from "@/core/operation.ts";
import type { PluginHealthReader } from "./health.ts";
import type { PluginResponder } from "./responder.ts";
import type { RoomFilters } from "./room_filters.ts";
import {
  FilterList,
  FilterRef,
  NewPlugin,
  OwnPlugin,
  Plugin,
  PLUGIN_EVENTS,
  PluginGrant,
  PluginHealth,
  PluginInstall,
  PluginRef,
  PluginRespond,
  PluginUpdate,
} from "./schema.ts";
import type { PluginService } from "./service.ts";
import { notFound } from "@/core/fault.ts";
import { RoomId } from "@/modules/room/mod.ts";

const PATH = "/v1/collaboration/plugins";
const MANAGE = { scope: "plugin.manage", tenant: "admin" } as const;
const FILTER = { scope: "plugin.manage", room: "owner" } as const;
const FILTERS_PATH = "/v1/rooms/:id/filters";
const ID = "org.example.poll";
const ROOM = exampleId("room");
const RESPOND_RATE: Rates = { human: { perSecond: 20, burst: 200 } };

type Deps = { plugins: PluginService; filters: RoomFilters; responder: PluginResponder; health: PluginHealthReader };

export function pluginApi(deps: Deps): ModuleApi {
  return {
    tags: { plugins: "Programs that add commands, buttons, filters and reactions on events to the gateway." },
    events: PLUGIN_EVENTS,
    operations: [...lifecycleOperations(deps), ...filterOperations(deps), ...ownOperations(deps)],
  };
}

function lifecycleOperations({ plugins, health }: Deps): Operation[] {
  return [
    defineOperation({
      name: "plugin.install",
      summary: "Install a plugin; it is disabled until its scopes are granted and it is enabled",
      access: MANAGE,
      http: { method: "POST", path: PATH, status: 201, hasLocation: true },
      isSecret: true,
      input: PluginInstall,
      output: NewPlugin,
      faults: ["conflict", "limit_reached", "address_not_allowed"],
      example: {
        manifest: {
          id: ID,
          name: "Polls",
          version: "1.0.0",
          apiVersion: 1,
          transport: "http",
          endpoint: "https://polls.example.org/gateway",
          scopes: ["command.read", "message.write"],
          commands: [{ name: "poll", description: "Ask the room something" }],
          actions: ["vote-*"],
          configSchema: [{ kind: "text", name: "greeting", label: "Greeting" }],
        },
      },
      async run(context, { manifest }) {
        const installed = await plugins.install(context, manifest);
        return new Outcome(installed, { location: `${PATH}/${installed.id}` });
      },
    }),
    defineOperation({
      name: "plugin.list",
      summary: "List the installed plugins",
      access: MANAGE,
      http: { method: "GET", path: PATH, status: 200 },
      input: z.strictObject({}),
      output: z.object({ items: z.array(Plugin) }).meta({ id: "Plugins" }),
      async run(context) {
        return { items: await plugins.list(context) };
      },
    }),
    defineOperation({
      name: "plugin.read",
      summary: "Get a plugin",
      access: MANAGE,
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: PluginRef,
      output: Plugin,
      faults: ["not_found"],
      example: { id: ID },
      run: (context, { id }) => plugins.read(context, id),
    }),
    defineOperation({
      name: "plugin.update",
      summary: "Upgrade a plugin to another version, or configure it",
      description: "The caller's token needs the scopes that are granted to the plugin.",
      access: MANAGE,
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: PluginUpdate,
      output: Plugin,
      faults: ["not_found", "version_mismatch", "address_not_allowed"],
      example: { id: ID, config: { greeting: "Hello" } },
      run: (context, input) => plugins.update(context, input),
    }),
    defineOperation({
      name: "plugin.grant",
      summary: "Grant scopes to a plugin",
      description: "No token of the plugin has more than the granted scopes. The caller's token needs them, too. " +
        "Replaces the earlier grant.",
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/grant`, status: 200 },
      input: PluginGrant,
      output: Plugin,
      faults: ["not_found"],
      example: { id: ID, scopes: ["command.read", "message.write"] },
      run: (context, input) => plugins.grant(context, input),
    }),
    defineOperation({
      name: "plugin.enable",
      summary: "Enable a plugin",
      description: "The caller's token needs the scopes that are granted to the plugin.",
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/enable`, status: 200 },
      input: PluginRef,
      output: Plugin,
      faults: ["not_found", "grant_missing", "conflict"],
      example: { id: ID },
      run: (context, { id }) => plugins.enable(context, id),
    }),
    defineOperation({
      name: "plugin.disable",
      summary: "Disable a plugin: it is not called, and its tokens do not work",
      access: MANAGE,
      http: { method: "POST", path: `${PATH}/:id/disable`, status: 200 },
      input: PluginRef,
      output: Plugin,
      faults: ["not_found"],
      example: { id: ID },
      run: (context, { id }) => plugins.disable(context, id),
    }),
    defineOperation({
      name: "plugin.uninstall",
      summary: "Uninstall a plugin: its tokens are revoked, its messages stay",
      access: MANAGE,
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: PluginRef,
      output: z.void(),
      faults: ["not_found"],
      example: { id: ID },
      run: (context, { id }) => plugins.uninstall(context, id),
    }),
    defineOperation({
      name: "plugin.health",
      summary: "Get the health of a plugin: its failures and response times on this node",
      access: MANAGE,
      http: { method: "GET", path: `${PATH}/:id/health`, status: 200 },
      input: PluginRef,
      output: PluginHealth,
      faults: ["not_found"],
      example: { id: ID },
      run: (context, { id }) => health.read(context, id),
    }),
  ];
}

function filterOperations({ filters }: Deps): Operation[] {
  return [
    defineOperation({
      name: "plugin_filter.list",
      summary: "List the plugins that filter the messages of a room",
      access: { scope: "room.read", room: "observer" },
      http: { method: "GET", path: FILTERS_PATH, status: 200 },
      input: z.strictObject({ id: RoomId }),
      output: FilterList,
      faults: ["not_found"],
      example: { id: ROOM },
      async run(context, { id }) {
        return { items: await filters.list(context, id) };
      },
    }),
    defineOperation({
      name: "plugin_filter.enable",
      summary:
        "Enable a plugin's filter in a room: it checks, changes or refuses messages before they are sent; at most three per room",
      access: FILTER,
      http: { method: "PUT", path: `${FILTERS_PATH}/:pluginId`, status: 204 },
      input: FilterRef,
      output: z.void(),
      faults: ["not_found", "conflict", "limit_reached", "room_archived"],
      example: { id: ROOM, pluginId: ID },
      run: (context, { id, pluginId }) => filters.enable(context, id, pluginId),
    }),
    defineOperation({
      name: "plugin_filter.disable",
      summary: "End the filtering of a room's messages by a plugin",
      access: FILTER,
      http: { method: "DELETE", path: `${FILTERS_PATH}/:pluginId`, status: 204 },
      input: FilterRef,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: { id: ROOM, pluginId: ID },
      run: (context, { id, pluginId }) => filters.disable(context, id, pluginId),
    }),
  ];
}

function ownOperations({ plugins, responder }: Deps): Operation[] {
  return [
    defineOperation({
      name: "plugin.read_own",
      summary: "Get version, scopes and configuration of the calling plugin",
      description: "Requires a token of the plugin with all scopes that it was granted.",
      access: { scope: null },
      http: { method: "GET", path: "/v1/collaboration/plugin", status: 200 },
      isSecret: true,
      input: z.strictObject({}),
      output: OwnPlugin,
      faults: ["not_found"],
      async run({ actor }) {
        const own = await plugins.own(actor);
        if (own === undefined) throw notFound("plugin of the caller");
        const { manifest: { id, version }, scopes, config } = own;
        return { id, version, scopes, config };
      },
    }),
    defineOperation({
      name: "plugin.respond",
      summary: "Respond to a call of the calling plugin",
      description:
        "The gateway waits for a filter up to its `timeoutMs`, and accepts responses to commands and actions for 15 minutes.",
      access: { scope: null },
      http: { method: "POST", path: "/v1/collaboration/plugin-calls/:id/response", status: 204 },
      rate: RESPOND_RATE,
      input: PluginRespond,
      output: z.void(),
      faults: ["not_found", "conflict", "gone", "room_archived", "plugin_refused", "plugin_unavailable"],
      example: { id: exampleId("itx"), response: { kind: "ephemeral", text: "Done" } },
      prepare: (context, input) => responder.prepare(context, input),
      run: (context, input, filtered) => responder.respond(context, input, filtered),
    }),
  ];
}
