// The modules, one factory call each, in the order of their dependencies. A new module adds its line here.
import type { Config } from "@/config.ts";
import type { Module } from "@/core/module.ts";
import { Signer } from "@/core/crypto.ts";
import type { Actor } from "@/core/actor.ts";
import type { Limits } from "@/limits.ts";
import { type AgentModule, agentModule, type ToolSource } from "@/modules/agent/mod.ts";
import { aiModule } from "@/modules/ai/mod.ts";
import { calendarModule } from "@/modules/calendar/mod.ts";
import { commandModule } from "@/modules/command/mod.ts";
import { type DocumentModule, documentModule } from "@/modules/document/mod.ts";
import { fileModule } from "@/modules/file/mod.ts";
import { gatewayModule } from "@/modules/gateway/mod.ts";
import { type InvitationModule, invitationModule } from "@/modules/invitation/mod.ts";
import { type IdentityModule, identityModule, type IdentityService } from "@/modules/identity/mod.ts";
import { type McpModule, mcpModule } from "@/modules/mcp/mod.ts";
import { jobModule } from "@/modules/job/mod.ts";
import { meetingModule } from "@/modules/meeting/mod.ts";
import { type MemoryModule, memoryModule, runContext } from "@/modules/memory/mod.ts";
import {
  createPreviewReader,
  MessageAccess,
  type MessageFilter,
  messageModule,
  UnreadCounter,
} from "@/modules/message/mod.ts";
import { notificationModule, type Notify } from "@/modules/notification/mod.ts";
import { type OauthModule, oauthModule } from "@/modules/oauth/mod.ts";
import { type PluginModule, pluginModule } from "@/modules/plugin/mod.ts";
import { permissionModule } from "@/modules/permission/mod.ts";
import { isMuted, RoomAccess, roomModule } from "@/modules/room/mod.ts";
import { SearchIndex, type SearchModule, searchModule } from "@/modules/search/mod.ts";
import { type SkillModule, skillModule } from "@/modules/skill/mod.ts";
import { syncModule } from "@/modules/sync/mod.ts";
import { taskModule } from "@/modules/task/mod.ts";
import { type TenantModule, tenantModule } from "@/modules/tenant/mod.ts";
import { archiveModule } from "@/modules/archive/mod.ts";
import { usageModule } from "@/modules/usage/mod.ts";
import { type VectorModule, vectorModule } from "@/modules/vector/mod.ts";
import { webhookModule } from "@/modules/webhook/mod.ts";
import type { Platform } from "@/ports/platform.ts";

/** The modules that transports use by name: they authenticate, greet clients and serve live editors. */
export type NamedModules = {
  tenant: TenantModule;
  identity: IdentityModule;
  document: DocumentModule;
  oauth: OauthModule;
  invitation: InvitationModule;
};

/** What a module may use of the others, besides those that it names. */
type SharedServices = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  notify: Notify;
  /** Absent when search is disabled. */
  index: SearchIndex | undefined;
  /** Where modules add tools for agents. */
  toolSources: ToolSource[];
};

/** Creates a module that is not listed here, such as a plugin. It is treated like those, so its resources can be searched, too. */
export type ModuleFactory = (platform: Platform, shared: SharedServices) => Module;

/** Creates the modules in `platform.modules`. Nothing runs yet. */
export function createModules(
  platform: Omit<Platform, "modules"> & { modules: Module[] },
  { config, limits, version, more }: {
    config: Config;
    limits: Limits;
    version: string;
    more: readonly ModuleFactory[];
  },
): NamedModules {
  const { settings } = config;
  const { store } = platform;
  const add = <Added extends Module>(module: Added): Added => {
    platform.modules.push(module);
    return module;
  };
  // What a module needs of a later one is passed as a function, called once all exist.
  const roomAccess = new RoomAccess(store);
  const unreads = new UnreadCounter(store);
  const searchIndex = new SearchIndex(store);
  const index = settings.SVC_SEARCH ? searchIndex : undefined;
  const membersMax = settings.SVC_LIMIT_ROOM_MEMBERS;
  const revalidate = (actor: Parameters<typeof authenticator.revalidate>[0]): Promise<Actor | undefined> =>
    authenticator.revalidate(actor);

  add(gatewayModule(platform, { version, commit: settings.SVC_COMMIT, limits: limits.publicLimits }));
  add(usageModule(platform, { stored: (actor) => files.usage(actor, limits.files) }));
  add(jobModule(platform));
  const tenant = add(tenantModule(platform));
  const { tenants } = tenant;
  const identityAdded = add(identityModule(platform, {
    tenants,
    filterSharingRoom: (who, ids, db) => roomAccess.filterSharingRoom(who, ids, db),
    filterViewersSharingRoom: (...of) => roomAccess.filterViewersSharingRoom(...of),
    requirePicture: (...of): Promise<void> => file.attachments.requirePicture(...of),
    secret: config.jwtSecret,
    secrets: config.jwtSecrets,
    issuer: settings.SVC_JWT_ISSUER,
    audience: settings.SVC_JWT_AUDIENCE,
    reservedAudience: settings.SVC_PUBLIC_URL && `${settings.SVC_PUBLIC_URL}/mcp`,
    jwksUrl: settings.SVC_JWKS_URL,
    requiresExpiry: settings.SVC_ENV !== "development",
    lifetimeMaxHours: settings.SVC_LIMIT_TOKEN_HOURS,
    refreshDays: settings.SVC_LIMIT_REFRESH_TOKEN_DAYS,
    agentsPerOwner: limits.agentsPerOwner,
    refreshRate: limits.refreshes,
    limits: limits.publicLimits,
  }));
  const { identity, authenticator, visibility, credentials } = identityAdded;
  const oauth = add(oauthModule(platform, {
    identity,
    issuedTokens: identityAdded.issuedTokens,
    secrets: config.jwtSecrets,
    publicUrl: settings.SVC_PUBLIC_URL,
    provider: settings.SVC_JWKS_URL === undefined ? undefined : settings.SVC_JWT_ISSUER,
    refreshDays: settings.SVC_LIMIT_REFRESH_TOKEN_DAYS,
  }));
  const invitation = add(invitationModule(platform, {
    identity,
    admission: identityAdded.admission,
    joinRate: limits.refreshes,
  }));
  add(permissionModule(platform, {
    async lookUpRoomRole(who, roomId) {
      const entry = await roomAccess.find(who, roomId);
      if (entry === undefined) return undefined;
      const { room: { kind, state }, role } = entry;
      return { kind, role, isMuted: isMuted(who, entry.room), isArchived: state === "archived" };
    },
    subject: (tenantId, principalId) => identity.subject(tenantId, principalId),
  }));
  const { notifications, notify } = add(notificationModule(platform, {
    identity,
    messageTexts: (actor, ids) => new MessageAccess({ store, roomAccess }).readTexts(actor, ids),
  }));
  const toolSources: ToolSource[] = [
    { toolsOf: (...of) => mcp.tools.toolsOf(...of), patternsOf: (tenantId) => mcp.tools.patternsOf(tenantId) },
    { toolsOf: (...of) => skill.tools.toolsOf(...of), patternsOf: () => skill.tools.patternsOf() },
  ];
  const shared = { roomAccess, identity, notify, index, toolSources };
  const { people, views, members } = add(roomModule(platform, {
    roomAccess,
    identity,
    visibility,
    notifications,
    membersMax,
    countUnread: (tenantId, principalId, rooms) => unreads.count(tenantId, principalId, rooms),
    previews: createPreviewReader(store),
    exposesRoomIds: config.metricsToken !== undefined,
  }));
  const file = add(fileModule(platform, {
    roomAccess,
    identity,
    visibility,
    revalidate,
    limits: limits.files,
    signer: new Signer(config.jwtSecrets, "file link"),
  }));
  const { files } = file;
  // Plugins come later.
  const filter: MessageFilter = {
    get isActive(): boolean {
      return plugins.filters.isActive;
    },
    appliesTo: (tenantId, roomId) => plugins.filters.appliesTo(tenantId, roomId),
    apply: (context, roomId, message) => plugins.filters.apply(context, roomId, message),
  };
  const { messages, sender } = add(messageModule(platform, {
    roomAccess,
    tenants,
    identity,
    credentials,
    notifications,
    people,
    unreads,
    files: file.attachments,
    unindex: (tenantId, roomId, messageIds): Promise<void> => search.unindex(tenantId, roomId, messageIds),
    triggerAgents: (tx, trigger): Promise<void> => agents.triggerAgents(tx, trigger),
    runMessages: {
      actorOf: (...of) => agents.runMessages.actorOf(...of),
      sent: (...what) => agents.runMessages.sent(...what),
    },
    rate: limits.messages,
    filter,
  }));
  const { interactions } = add(commandModule(platform, {
    roomAccess,
    identity,
    sender,
    messages,
  }));
  const { ai } = add(aiModule(platform, {
    identity,
    roomAccess,
    operator: config.ai,
    allowHosts: settings.SVC_AI_ALLOW_HOSTS,
    limits: limits.aiTokens,
    onModelsChanged: (tx, tenantId): Promise<void> => vector.onModelsChanged(tx, tenantId),
    secrets: config.jwtSecrets,
  }));
  const agents: AgentModule = add(agentModule(platform, {
    roomAccess,
    identity,
    ai,
    notifications,
    files: file.writer,
    filter,
    findMessage: (tx, context, id) => messages.find(tx, context, id),
    revalidate,
    toolSources,
    assembleContext: runContext(() => memory.contexts),
  }));
  const mcp: McpModule = add(mcpModule(platform, { secrets: config.jwtSecrets, version }));
  add(syncModule(platform, { roomAccess, identity, visibility, revalidate, unreads, views }));
  const document = add(documentModule(platform, {
    roomAccess,
    identity,
    notify,
    authenticate: (token) => authenticator.authenticate(token),
    revalidate,
    collaboration: {
      authTimeoutMs: limits.ws.authTimeoutMs,
      connectionsPerPrincipal: limits.ws.connectionsPerPrincipal,
      connectionsPerOwner: limits.ws.connectionsPerOwner,
      isShared: settings.SVC_REDIS_URL !== undefined,
    },
    index,
    files: file.attachments,
  }));
  add(taskModule(platform, {
    ...shared,
    files: file.attachments,
    readMessage: (tx, context, id) => messages.find(tx, context, id),
  }));
  const meeting = add(meetingModule(platform, {
    roomAccess,
    identity,
    notify,
    leaseSeconds: settings.SVC_LIMIT_MEETING_LEASE_SECONDS,
    ice: { stunUrls: settings.SVC_STUN_URLS, turnUrls: settings.SVC_TURN_URLS, turnSecret: config.turnSecret },
    liveKit: config.liveKit,
  }));
  add(calendarModule(platform, { ...shared, files: file.attachments, revalidate, meetings: meeting.linked }));
  const memory: MemoryModule = add(memoryModule(platform, {
    roomAccess,
    identity,
    people,
    listMessages: (context, page) => messages.list(context, page),
    index,
    recall: () => search.recall,
  }));
  const webhook = add(webhookModule(platform, {
    roomAccess,
    notify,
    identity,
    members,
    pictures: file.attachments,
    files: file.writer,
    filter,
    sender,
    interactions,
    revalidate: (credential) => authenticator.revalidate(credential),
    secrets: config.jwtSecrets,
    baseUrl: settings.SVC_PUBLIC_URL ??
      (settings.SVC_ENV === "development" ? `http://localhost:${settings.SVC_PORT}` : undefined),
  }));
  const plugins: PluginModule = add(pluginModule(platform, {
    roomAccess,
    interactions,
    principals: identityAdded.servicePrincipals,
    webhooks: webhook.services,
    secrets: config.jwtSecrets,
  }));
  // Before the archive, which is made of the sections of the modules before it.
  const skill: SkillModule = add(skillModule(platform, { roomAccess, identity, takeover: agents.takeover }));
  for (const create of more) add(create(platform, shared));
  add(archiveModule(platform, {
    roomAccess,
    archives: {
      files,
      writer: file.writer,
      attachments: file.attachments,
    },
    membersMax,
  }));
  const vector: VectorModule = add(vectorModule(platform, {
    ai,
    hasModel: config.ai?.models.some(({ kind }) => kind === "embedding") ?? false,
    isEnabled: settings.SVC_SEARCH,
  }));
  searchIndex.follow(vector.tracker);
  const search: SearchModule = add(
    searchModule(platform, {
      index: searchIndex,
      vectors: vector.vectors,
      people,
      isEnabled: settings.SVC_SEARCH,
    }),
  );
  return { tenant, identity: identityAdded, document, oauth, invitation };
}
