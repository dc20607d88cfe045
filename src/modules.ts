// The modules, one factory call each, in the order of their dependencies: in groups, each built on those before it. A new module
// adds its line to a group.
import type { Config } from "@/config/config.ts";
import type { Module } from "@/core/module.ts";
import { Signer } from "@/core/crypto.ts";
import { identitySettings } from "@/config/identity.ts";
import type { Limits } from "@/config/limits.ts";
import { type AgentModule, agentModule, type ToolSource } from "@/modules/agent/mod.ts";
import { aiModule } from "@/modules/ai/mod.ts";
import { calendarModule } from "@/modules/calendar/mod.ts";
import { commandModule } from "@/modules/command/mod.ts";
import { type DocumentModule, documentModule } from "@/modules/document/mod.ts";
import { erasureModule } from "@/modules/erasure/mod.ts";
import { type FileModule, fileModule } from "@/modules/file/mod.ts";
import { gatewayModule } from "@/modules/gateway/mod.ts";
import { groupModule } from "@/modules/group/mod.ts";
import { inboxModule } from "@/modules/inbox/mod.ts";
import { type InvitationModule, invitationModule } from "@/modules/invitation/mod.ts";
import { savedMessageModule } from "@/modules/saved_message/mod.ts";
import { scimModule } from "@/modules/scim/mod.ts";
import { signInModule } from "@/modules/sign_in/mod.ts";
import { type IdentityModule, identityModule, type IdentityService } from "@/modules/identity/mod.ts";
import { mcpModule } from "@/modules/mcp/mod.ts";
import { holdModule } from "@/modules/hold/mod.ts";
import { jobModule } from "@/modules/job/mod.ts";
import { meetingModule } from "@/modules/meeting/mod.ts";
import { memoryModule, runContext } from "@/modules/memory/mod.ts";
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
import { pushModule } from "@/modules/push/mod.ts";
import { RoomAccess, roomModule } from "@/modules/room/mod.ts";
import { SearchIndex, type SearchModule, searchModule } from "@/modules/search/mod.ts";
import { skillModule } from "@/modules/skill/mod.ts";
import { syncModule } from "@/modules/sync/mod.ts";
import { taskModule } from "@/modules/task/mod.ts";
import { type TenantModule, tenantModule } from "@/modules/tenant/mod.ts";
import { auditModule } from "@/modules/audit/mod.ts";
import { transferModule } from "@/modules/transfer/mod.ts";
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

/** What every group of modules is built on. */
type Foundation = Omit<SharedServices, "identity" | "notify"> & {
  platform: Platform;
  config: Config;
  limits: Limits;
  version: string;
  /** Decides on messages; it is a later module's, so it is used once all exist. */
  filter: MessageFilter;
  add<Added extends Module>(module: Added): Added;
};
type Accounts = ReturnType<typeof addAccounts>;
type Conversation = ReturnType<typeof addConversation>;
type Agents = ReturnType<typeof addAgents>;
type Work = ReturnType<typeof addWork>;
type Integrations = ReturnType<typeof addIntegrations>;
type Collectors = ReturnType<typeof addCollectors>;

/** Creates the modules in `platform.modules`. Nothing runs yet. */
export function createModules(
  platform: Omit<Platform, "modules"> & { modules: Module[] },
  { more, ...options }: { config: Config; limits: Limits; version: string; more: readonly ModuleFactory[] },
): NamedModules {
  const { store } = platform;
  const { SVC_SEARCH: isSearchEnabled } = options.config.settings;
  const searchIndex = new SearchIndex(store);
  const foundation: Foundation = {
    ...options,
    platform,
    roomAccess: new RoomAccess(store),
    index: isSearchEnabled ? searchIndex : undefined,
    toolSources: [],
    filter: filterOf(() => integrations.plugins),
    add(module) {
      platform.modules.push(module);
      return module;
    },
  };
  // What a module needs of a later one is passed as a function, called once all exist.
  const accounts: Accounts = addAccounts(foundation, { file: () => conversation.file });
  const conversation: Conversation = addConversation(foundation, accounts, {
    agents: () => agents.agents,
    search: () => collectors.search,
  });
  const agents: Agents = addAgents(foundation, accounts, conversation, {
    vector: () => collectors.vector,
    contexts: () => work.memory.contexts,
  });
  const work: Work = addWork(foundation, accounts, conversation, agents, { search: () => collectors.search });
  const integrations: Integrations = addIntegrations(foundation, accounts, conversation, agents);
  for (const create of more) foundation.add(create(platform, accounts.shared));
  const collectors: Collectors = addCollectors(foundation, accounts, searchIndex, conversation, agents);
  return { ...accounts.named, document: work.document };
}

/** Tenants, principals and their tokens, and what belongs to no room. */
function addAccounts(
  { platform, config, limits, version, roomAccess, index, toolSources, add }: Foundation,
  later: { file: () => FileModule },
) {
  const { settings, jwtSecrets } = config;
  add(gatewayModule(platform, { version, commit: settings.SVC_COMMIT, limits: limits.publicLimits }));
  const auditDays = settings.SVC_LIMIT_AUDIT_DAYS;
  const tenant = add(tenantModule(platform, { auditDays }));
  const { retention } = tenant;
  const { audit } = add(auditModule(platform, { retention, days: auditDays, secrets: jwtSecrets }));
  add(usageModule(platform, { stored: (actor) => later.file().files.usage(actor, limits.files) }));
  add(jobModule(platform));
  const identity = add(identityModule(platform, {
    ...identitySettings(config, limits),
    tenants: tenant.tenants,
    filterSharingRoom: (...of) => roomAccess.filterSharingRoom(...of),
    filterViewersSharingRoom: (...of) => roomAccess.filterViewersSharingRoom(...of),
    lockPicture: (...of) => later.file().attachments.lockPicture(...of),
  }));
  const { identity: identities, authenticator, visibility, credentials, issuedTokens, admission } = identity;
  const oauth = add(oauthModule(platform, {
    identity: identities,
    issuedTokens,
    secrets: jwtSecrets,
    publicUrl: settings.SVC_PUBLIC_URL,
    provider: settings.SVC_JWKS_URL === undefined ? undefined : settings.SVC_JWT_ISSUER,
    refreshDays: settings.SVC_LIMIT_REFRESH_TOKEN_DAYS,
  }));
  const invitation = add(invitationModule(platform, { identity: identities, admission, audit }));
  add(erasureModule(platform, { principals: identity.erased, days: settings.SVC_LIMIT_ERASURE_DAYS }));
  add(signInModule(platform, {
    authenticator,
    invitations: invitation.invitations,
    provider: config.oidc,
    secrets: jwtSecrets,
    publicUrl: settings.SVC_PUBLIC_URL,
    sessionHours: settings.SVC_LIMIT_TOKEN_HOURS,
  }));
  const group = add(groupModule(platform, { visibility }));
  add(scimModule(platform, { identity, group, publicUrl: settings.SVC_PUBLIC_URL }));
  const notification = add(notificationModule(platform, {
    identity: identities,
    messageTexts: (actor, ids) => new MessageAccess({ store: platform.store, roomAccess }).readTexts(actor, ids),
  }));
  const { notifications, notify } = notification;
  const revalidate: typeof authenticator.revalidate = (who) => authenticator.revalidate(who);
  add(pushModule(platform, {
    identity: identities,
    notifications,
    revalidate,
    contact: settings.SVC_PUSH_CONTACT,
    hosts: settings.SVC_PUSH_HOSTS,
    secrets: jwtSecrets,
  }));
  return {
    named: { tenant, identity, oauth, invitation },
    shared: { roomAccess, identity: identities, notify, index, toolSources },
    tenants: tenant.tenants,
    retention,
    identity: identities,
    servicePrincipals: identity.servicePrincipals,
    authenticator,
    groups: group.groups,
    visibility,
    credentials,
    notification,
    notifications,
    notify,
    revalidate,
  };
}

/** Rooms, and what is said in them. */
function addConversation(
  { platform, config, limits, roomAccess, filter, add }: Foundation,
  { tenants, retention, identity, groups, visibility, credentials, notifications, revalidate }: Accounts,
  later: { agents: () => AgentModule; search: () => SearchModule },
) {
  const { store } = platform;
  const unreads = new UnreadCounter(store);
  const { people, views, members } = add(roomModule(platform, {
    roomAccess,
    retention,
    identity,
    groups,
    visibility,
    notifications,
    membersMax: config.settings.SVC_LIMIT_ROOM_MEMBERS,
    countUnread: (...of) => unreads.count(...of),
    previews: createPreviewReader(store),
    exposesRoomIds: config.metricsToken !== undefined,
  }));
  add(permissionModule(platform, { roomAccess, identity }));
  const file = add(fileModule(platform, {
    roomAccess,
    identity,
    visibility,
    revalidate,
    retention,
    limits: limits.files,
    signer: new Signer(config.jwtSecrets, "file link"),
  }));
  const { messages, sender } = add(messageModule(platform, {
    roomAccess,
    tenants,
    retention,
    identity,
    credentials,
    notifications,
    people,
    unreads,
    files: file.attachments,
    unindex: (...of) => later.search().unindex(...of),
    triggerAgents: (...of) => later.agents().triggerAgents(...of),
    runMessages: {
      actorOf: (...of) => later.agents().runMessages.actorOf(...of),
      sent: (...what) => later.agents().runMessages.sent(...what),
    },
    rate: limits.messages,
    filter,
  }));
  add(savedMessageModule(platform, { roomAccess, identity, notifications, messages, people }));
  add(holdModule(platform));
  const { interactions } = add(commandModule(platform, { roomAccess, identity, sender, messages, filter }));
  return { unreads, people, views, members, file, messages, sender, interactions };
}

/** Plugins decide on messages, and are created after them. */
function filterOf(plugins: () => PluginModule): MessageFilter {
  return {
    get isActive(): boolean {
      return plugins().filters.isActive;
    },
    appliesTo: (...of) => plugins().filters.appliesTo(...of),
    apply: (...of) => plugins().filters.apply(...of),
  };
}

/** Models, and the agents that use them. */
function addAgents(
  { platform, config, limits, version, roomAccess, filter, toolSources, add }: Foundation,
  { identity, retention, notifications, revalidate }: Accounts,
  { file, messages }: Conversation,
  later: { vector: () => VectorModule; contexts: Parameters<typeof runContext>[0] },
) {
  const { ai, complete } = add(aiModule(platform, {
    identity,
    files: file.files,
    roomAccess,
    operator: config.ai,
    allowHosts: config.settings.SVC_AI_ALLOW_HOSTS,
    limits: limits.aiTokens,
    onModelsChanged: (...of) => later.vector().onModelsChanged(...of),
    secrets: config.jwtSecrets,
  }));
  const agents = add(agentModule(platform, {
    roomAccess,
    identity,
    retention,
    ai,
    notifications,
    files: file.writer,
    filter,
    findMessage: (tx, context, id) => messages.require(tx, context, id),
    revalidate,
    toolSources,
    assembleContext: runContext(later.contexts, file.files),
  }));
  toolSources.push(
    add(mcpModule(platform, { secrets: config.jwtSecrets, publicUrl: config.settings.SVC_PUBLIC_URL, version })).tools,
  );
  return { ai, complete, agents };
}

/** What people and agents work on in rooms. */
function addWork(
  { platform, config, limits, add }: Foundation,
  { shared, visibility, authenticator, revalidate, notification }: Accounts,
  { unreads, people, views, file, messages }: Conversation,
  { complete }: Agents,
  later: { search: () => SearchModule },
) {
  const { settings } = config;
  const { roomAccess, identity, notify, index } = shared;
  const files = file.attachments;
  add(syncModule(platform, { roomAccess, identity, visibility, revalidate, unreads, views }));
  add(inboxModule(platform, { ...notification, revalidate }));
  const document = add(documentModule(platform, {
    ...shared,
    authenticate: (token) => authenticator.authenticate(token),
    revalidate,
    collaboration: { ...limits.ws, isShared: settings.SVC_REDIS_URL !== undefined },
    files,
  }));
  add(taskModule(platform, { ...shared, files, readMessage: (tx, context, id) => messages.require(tx, context, id) }));
  const meeting = add(meetingModule(platform, {
    roomAccess,
    identity,
    notify,
    leaseSeconds: settings.SVC_LIMIT_MEETING_LEASE_SECONDS,
    ice: { stunUrls: settings.SVC_STUN_URLS, turnUrls: settings.SVC_TURN_URLS, turnSecret: config.turnSecret },
    liveKit: config.liveKit,
  }));
  add(calendarModule(platform, { ...shared, files, revalidate, meetings: meeting.linked }));
  const memory = add(memoryModule(platform, {
    roomAccess,
    identity,
    people,
    listMessages: (context, page) => messages.list(context, page),
    complete,
    index,
    recall: () => later.search().recall,
  }));
  return { document, memory };
}

/** What connects other systems, and extends the gateway. */
function addIntegrations(
  { platform, config, roomAccess, filter, toolSources, add }: Foundation,
  { identity, servicePrincipals, notify, revalidate }: Accounts,
  { file, members, sender, interactions }: Conversation,
  { agents }: Agents,
) {
  const { settings, jwtSecrets: secrets } = config;
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
    revalidate,
    secrets,
    baseUrl: settings.SVC_PUBLIC_URL ??
      (settings.SVC_ENV === "development" ? `http://localhost:${settings.SVC_PORT}` : undefined),
  }));
  const plugins = add(pluginModule(platform, {
    roomAccess,
    interactions,
    principals: servicePrincipals,
    webhooks: webhook.services,
    secrets,
  }));
  toolSources.push(add(skillModule(platform, { roomAccess, identity, takeover: agents.takeover })).tools);
  return { plugins };
}

/** What is made of what the modules before them register. */
function addCollectors(
  { platform, config, roomAccess, add }: Foundation,
  { identity, notify }: Accounts,
  searchIndex: SearchIndex,
  { people, file: { files, writer, attachments } }: Conversation,
  { ai }: Agents,
) {
  const { SVC_SEARCH: isEnabled, SVC_LIMIT_ROOM_MEMBERS: membersMax } = config.settings;
  add(transferModule(platform, { roomAccess, identity, notify, archives: { files, writer, attachments }, membersMax }));
  const hasModel = config.ai?.models.some(({ kind }) => kind === "embedding") ?? false;
  const vector = add(vectorModule(platform, { ai, hasModel, isEnabled }));
  searchIndex.follow(vector.tracker);
  const search = add(searchModule(platform, { index: searchIndex, vectors: vector.vectors, people, isEnabled }));
  return { vector, search };
}
