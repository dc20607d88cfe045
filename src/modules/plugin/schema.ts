// Plugins as clients see them, their manifest, and their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { FieldName, FormFields, FormValues } from "@/core/interaction/form.ts";
import { nameSchema } from "@/core/text/name.ts";
import { BaseVersion } from "@/core/patch.ts";
import { CommandDescription, CommandName, InteractionId, ResponseInput } from "@/modules/command/mod.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { Webhook } from "@/modules/webhook/mod.ts";

/** Plugins of a tenant. */
export const PLUGINS_MAX = 20;
/** Filters of a room. */
export const FILTERS_MAX = 3;
const COMMANDS_MAX = 20;
const SCOPES_MAX = 30;
const EVENTS_MAX = 20;
const ACTIONS_MAX = 20;
/** In UTF-16 units; it is an argument of the process, as base64. */
const CODE_MAX = 16 * 1024;
export const TIMEOUT_MAX_MS = 1500;
const SCOPE = /^[a-z]{1,32}\.(?:read|write|manage)$/;

const PluginId = z.string().min(3).max(64).regex(
  /^[a-z0-9]+(?:[.-][a-z0-9]+)+$/,
  "expected a reversed domain name such as org.example.poll",
);
const Version = z.string().max(64).regex(
  /^\d{1,6}\.\d{1,6}\.\d{1,6}(?:-[0-9A-Za-z.]{1,32})?$/,
  "expected a version such as 1.0.0",
);
const Scopes = z.array(z.string().regex(SCOPE, "expected a scope such as message.write")).max(SCOPES_MAX);

export const Transport = z.enum(["http", "socket", "process"]).meta({ id: "PluginTransport" });

const ManifestCommand = z.strictObject({
  name: CommandName.describe("Name of the command, without the slash"),
  description: CommandDescription,
  input: FormFields.default([]).describe("Fields of the command besides its text"),
}).meta({ id: "PluginCommand" });

const ManifestHook = z.strictObject({
  on: z.literal("message.before_send").describe(
    "Called before a message is sent or edited; for a scheduled message when it is scheduled, and again at its time",
  ),
  failure: z.enum(["open", "closed"]).default("open").describe(
    "What happens to messages while the plugin fails. open: sent, marked by `metadata.unfiltered`; closed: refused",
  ),
  timeoutMs: z.int().min(50).max(TIMEOUT_MAX_MS).default(1000).describe("Longest wait for its response"),
}).meta({ id: "PluginHook" });

export const Manifest = z.strictObject({
  id: PluginId.describe("Id of the plugin, a reversed domain name"),
  name: nameSchema(80).describe("Name of the plugin, shown to people"),
  version: Version.describe("Version of the plugin"),
  apiVersion: z.literal(1).describe("Version of this interface"),
  transport: Transport.describe(
    "http: the gateway calls `endpoint`. socket: the plugin connects to `/ws`. process: the gateway runs `code` without any " +
      "permission, if it was started by the task `start:plugins`",
  ),
  endpoint: z.url().max(2000).optional().describe(
    "Address that is called, with transport http only: a POST of `type`, such as `command.run`, `id`, `timestamp`, `tenantId`, " +
      "`pluginId` and `data`, as in the event `plugin.called`",
  ),
  code: z.string().min(1).max(CODE_MAX).optional().describe(
    "TypeScript or JavaScript; with transport process only. Reads calls from standard input, a line of JSON each, and writes " +
      "lines with the id of the call, a space and the response as JSON",
  ),
  scopes: Scopes.describe("Scopes that the plugin needs; an admin grants them"),
  events: z.array(z.string().regex(/^[a-z_]{1,32}\.[a-z_]{1,32}$/, "expected a type such as message.created")).max(
    EVENTS_MAX,
  )
    .default([]).describe("Types of room events to receive, from rooms that it can read; with transport http only"),
  commands: z.array(ManifestCommand).max(COMMANDS_MAX).default([]).describe(
    "Commands, offered in rooms that it is a member of",
  ),
  hooks: z.array(ManifestHook).max(1).default([]).describe("Filters of messages, in rooms that enable them"),
  actions: z.array(z.string().regex(/^[A-Za-z0-9_-]{1,63}\*?$/, "expected an id, or the start of ids followed by *"))
    .max(ACTIONS_MAX).default([]).describe(
      "Ids of buttons, selects and forms that it responds to; `vote-*` is a prefix",
    ),
  configSchema: FormFields.default([]).describe("What an admin configures"),
}).superRefine((manifest, context) => {
  const issue = (path: string, message: string) => context.addIssue({ code: "custom", path: [path], message });
  if ((manifest.transport === "http") !== (manifest.endpoint !== undefined)) {
    issue("endpoint", manifest.transport === "http" ? "expected an address" : "expected with transport http only");
  }
  if ((manifest.transport === "process") !== (manifest.code !== undefined)) {
    issue("code", manifest.transport === "process" ? "expected a program" : "expected with transport process only");
  }
  if (manifest.transport !== "http" && manifest.events.length > 0) {
    issue("events", "expected none; subscribe to rooms instead");
  }
  if (new Set(manifest.commands.map(({ name }) => name)).size < manifest.commands.length) {
    issue("commands", "expected distinct names");
  }
  for (const [need, scope] of requiredScopes(manifest)) {
    if (need && !manifest.scopes.includes(scope)) issue("scopes", `${scope} is needed for what the manifest declares`);
  }
}).meta({ id: "PluginManifest" });
export type Manifest = z.output<typeof Manifest>;

function requiredScopes(
  { commands, actions, hooks, events }: Pick<Manifest, "commands" | "actions" | "hooks" | "events">,
): [boolean, string][] {
  return [
    [commands.length + actions.length > 0, "command.read"],
    [hooks.length + events.length > 0, "message.read"],
    [events.length > 0, "room.read"],
  ];
}

const PluginState = z.enum(["disabled", "enabled", "paused"]).meta({ id: "PluginState" });

export const Plugin = z.object({
  id: PluginId,
  principalId: PrincipalId.describe("Principal of the plugin; add it to the rooms in which it works"),
  manifest: Manifest.describe("The manifest"),
  state: PluginState.describe("paused: its new version needs scopes that are not granted yet"),
  grantedScopes: Scopes.describe("Scopes that an admin granted"),
  missingScopes: Scopes.describe("Scopes of the manifest that are not granted"),
  configured: z.array(FieldName).describe("Names of the values that are configured"),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  version: z.int(),
}).meta({ id: "Plugin" });
export type Plugin = z.output<typeof Plugin>;

export const NewPlugin = Plugin.extend({
  token: z.string().describe("Token of the plugin; it has the granted scopes. Shown once"),
  secret: z.string().nullable().describe("Secret that signs calls, by Standard Webhooks. Shown once; null for sockets"),
}).meta({ id: "CreatedPlugin" });

export const PluginInstall = z.strictObject({ manifest: Manifest.describe("The manifest") });
export const PluginRef = z.strictObject({ id: PluginId });
export const PluginUpdate = z.strictObject({
  id: PluginId,
  manifest: Manifest.optional().describe(
    "Upgrades to another version; new scopes pause the plugin until they are granted, and a grant ends with its scope",
  ),
  config: FormValues.optional().describe("Values of `configSchema`; replaces all"),
  version: BaseVersion,
});
export type PluginUpdate = z.output<typeof PluginUpdate>;
export const PluginGrant = z.strictObject({
  id: PluginId,
  scopes: Scopes.describe("Scopes to grant, of those in the manifest; replaces the earlier grant"),
});
export type PluginGrant = z.output<typeof PluginGrant>;

export const PluginHealth = z.object({
  state: PluginState,
  connections: z.int().nullable().describe("Open connections of a plugin with transport socket; else null"),
  delivery: Webhook.nullable().describe(
    "The webhook that delivers its events; where it is disabled, `plugin.enable` enables it again. Null without events",
  ),
  breakerOpen: z.boolean().describe("Whether this node does not call it for 30 s, after failures"),
  calls: z.int().describe("Calls on this node since its start"),
  failures: z.int().describe("Calls on this node that failed"),
  lastError: z.string().nullable().describe("Code of the last failure"),
  p95Ms: z.int().nullable().describe("Response time that 95 % of the last calls had at most; null without calls"),
}).meta({ id: "PluginHealth" });
export type PluginHealth = z.output<typeof PluginHealth>;

export const OwnPlugin = z.object({
  id: PluginId,
  version: Version.describe("Version of the plugin that is installed"),
  scopes: Scopes.describe("Scopes that are granted"),
  config: FormValues,
}).meta({ id: "OwnPlugin" });

const FilterDecision = [
  z.strictObject({ kind: z.literal("pass").describe("The message is sent as it is") }).meta({ id: "PassDecision" }),
  z.strictObject({
    kind: z.literal("replace").describe("The message is sent with another text"),
    text: z.string().min(1).max(16_000).describe("Text of the message"),
  }).meta({ id: "ReplaceDecision" }),
  z.strictObject({
    kind: z.literal("refuse").describe("The message is not sent"),
    reason: z.string().trim().min(1).max(300).describe("Shown to the sender"),
  }).meta({ id: "RefuseDecision" }),
] as const;
/** What a filter decides. */
export const Decision = z.discriminatedUnion("kind", [...FilterDecision]).meta({ id: "FilterDecision" });
export type Decision = z.output<typeof Decision>;

export const PluginRespond = z.strictObject({
  id: InteractionId.describe("Id of the call"),
  response: z.discriminatedUnion("kind", [...ResponseInput.options, ...FilterDecision]).meta({ id: "PluginResponse" })
    .describe("The response to a command or an action, or the decision of a filter"),
});
export type PluginRespond = z.output<typeof PluginRespond>;

export const FilterRef = z.strictObject({ id: RoomId, pluginId: PluginId.describe("Id of the plugin") });
export const FilterList = z.object({
  items: z.array(
    z.object({
      pluginId: PluginId.describe("Id of the plugin"),
      name: z.string().describe("Name of the plugin"),
      active: z.boolean().describe("Whether messages of the room are filtered by it now"),
      failure: z.enum(["open", "closed"]).describe("open: messages are sent while it fails; closed: they are refused"),
      enabledBy: PrincipalId.describe("Owner of the room who enabled it"),
      createdAt: z.iso.datetime(),
    }).meta({ id: "RoomFilter" }),
  ).describe("Filters, in the order in which they are called"),
}).meta({ id: "RoomFilters" });
export type FilterList = z.output<typeof FilterList>;

/** What a plugin is asked. */
const CALL_KINDS = ["command.run", "action.invoke", "message.before_send"] as const;
export type CallKind = (typeof CALL_KINDS)[number];
export const PluginCall = z.object({
  id: InteractionId,
  call: z.enum(CALL_KINDS).describe("Kind of call"),
  data: z.record(z.string(), z.unknown()).describe(
    "Of `command.run`: `name`, `text` and `args`, the values of its fields. Of `action.invoke`: `messageId`, `elementId`, `value` and " +
      "`values`. Of both: `roomId`, `callerId`, `callerName`, `threadId` and `expiresAt`. Of `message.before_send`: `roomId`, " +
      "`senderId`, `text`, `format` and `threadId`",
  ),
});

const state = z.object({ plugin: Plugin });
export const PLUGIN_EVENTS: readonly EventType[] = [
  ...eventTypes("command.read", [{
    type: "plugin.called",
    summary: "A command or an action for a plugin with transport socket, which responds with `plugin.respond`",
    streams: ["plugin"],
    data: PluginCall,
  }]),
  ...eventTypes("plugin.manage", [
    { type: "plugin.enabled", summary: "A plugin was enabled", streams: ["principal"], data: state },
    {
      type: "plugin.disabled",
      summary: "A plugin was disabled, paused or uninstalled",
      streams: ["principal"],
      data: state,
    },
    {
      type: "plugin.upgraded",
      summary: "A plugin was upgraded to another version",
      streams: ["principal"],
      data: state,
    },
    {
      type: "plugin.failed",
      summary: "A plugin failed repeatedly and is not called for 30 s",
      streams: ["principal"],
      data: z.object({ pluginId: PluginId, code: z.string().describe("Code of the last failure") }),
    },
  ]),
];
