// The product: every module constructed by hand, in the order of their dependencies. Adding a module is adding its lines here.
import type { AnyStore } from "@/adapters/open.ts";
import type { Config } from "@/config.ts";
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Module } from "@/core/module.ts";
import type { Operation } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import { Stamp } from "@/core/seal.ts";
import type { Limits } from "@/limits.ts";
import { CalendarCarrier, calendarModule, CalendarSource } from "@/modules/calendar/mod.ts";
import { documentModule, DocumentSource } from "@/modules/document/mod.ts";
import { FileLinks, fileModule, FileService, FileWriter, LinkService } from "@/modules/file/mod.ts";
import { gatewayModule } from "@/modules/gateway/mod.ts";
import {
  AccessTokenSigner,
  Acquaintances,
  Authenticator,
  FamilyService,
  identityModule,
  IdentityService,
  TokenVerifier,
} from "@/modules/identity/mod.ts";
import { MeetingCarrier, meetingModule } from "@/modules/meeting/mod.ts";
import {
  MessageFinder,
  messageModule,
  MessageNotifier,
  MessageSender,
  MessageService,
  PinService,
  ReactionService,
  ReadingService,
  RetentionService,
  ScheduledService,
  UnreadCounter,
} from "@/modules/message/mod.ts";
import { notificationModule, NotificationService, type Notify } from "@/modules/notification/mod.ts";
import { permissionModule, PermissionService } from "@/modules/permission/mod.ts";
import {
  isMuted,
  profileJob,
  RoomBin,
  RoomGate,
  RoomMembers,
  roomModule,
  RoomProfiles,
  RoomService,
  RoomSuccession,
  successionJob,
} from "@/modules/room/mod.ts";
import {
  MessageSource,
  Reindexer,
  type Searchable,
  SearchIndex,
  SearchIndexer,
  searchModule,
  SearchService,
} from "@/modules/search/mod.ts";
import { StreamWatch, syncModule, SyncService } from "@/modules/sync/mod.ts";
import { TaskCarrier, taskModule, TaskSource } from "@/modules/task/mod.ts";
import { tenantModule, TenantService } from "@/modules/tenant/mod.ts";
import { transferModule } from "@/modules/transfer/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Bus } from "@/ports/bus.ts";
import type { Presence } from "@/ports/presence.ts";

export type ProductDeps = {
  config: Config;
  limits: Limits;
  clock: Clock;
  store: AnyStore;
  bus: Bus;
  presence: Presence;
  blobs: Blobs;
  cursors: Cursors;
  metrics: Metrics;
  version: string;
};

/** What the transports and the composition root need of the modules. */
export type Product = {
  modules: readonly Module[];
  operations: ReadonlyMap<string, Operation>;
  authenticator: Authenticator;
  identity: IdentityService;
  tenants: TenantService;
  retention: RetentionService;
  indexer: SearchIndexer;
  watch: StreamWatch;
  documents: ReturnType<typeof documentModule>;
  meeting: ReturnType<typeof meetingModule>;
  transfer: ReturnType<typeof transferModule>;
};

/** Constructs the modules; nothing runs yet. */
export function createProduct(
  { config, limits, clock, store, bus, presence, blobs, cursors, metrics, version }: ProductDeps,
): Product {
  const { settings } = config;
  const modules: Module[] = [];
  const operations = new Map<string, Operation>();
  const tenants = new TenantService({ store, clock });
  const families = new FamilyService({
    store,
    clock,
    signer: new AccessTokenSigner({
      secret: config.jwtSecret,
      issuer: settings.SVC_JWT_ISSUER,
      audience: settings.SVC_JWT_AUDIENCE,
    }),
    refreshDays: settings.SVC_LIMIT_REFRESH_TOKEN_DAYS,
  });
  const gate = new RoomGate(store);
  const acquaintances = new Acquaintances({ store, met: (who, ids) => gate.met(who, ids) });
  const identity = new IdentityService({
    store,
    clock,
    cursors,
    families,
    acquaintances,
    jobsOf: (change, tenantId, principalId) => [
      change === "disabled" ? successionJob(tenantId, principalId) : profileJob(tenantId, principalId),
    ],
  });
  const authenticator = new Authenticator({
    store,
    clock,
    tenants,
    verifier: new TokenVerifier({
      clock,
      secrets: config.jwtSecrets,
      jwksUrl: settings.SVC_JWKS_URL,
      issuer: settings.SVC_JWT_ISSUER,
      audience: settings.SVC_JWT_AUDIENCE,
      requiresExpiry: settings.SVC_ENV !== "development",
    }),
  });
  const sees = (kind: string) => async (actor: Actor, ids: readonly string[]) =>
    new Set((await searchables.find((source) => source.kind === kind)?.load(actor, ids))?.keys());
  const notifications = new NotificationService({
    store,
    clock,
    cursors,
    identity,
    sight: {
      rooms: async (actor, ids) => new Set((await gate.lookAll(actor, ids)).keys()),
      tasks: sees("task"),
      events: sees("event"),
      texts: (actor, ids) => new MessageFinder({ store, gate }).texts(actor, ids),
    },
  });
  const notify: Notify = (...drafts) => notifications.notify(...drafts);
  const members = new RoomMembers({
    store,
    clock,
    cursors,
    gate,
    identity,
    notifications,
    membersMax: settings.SVC_LIMIT_ROOM_MEMBERS,
  });
  const unreads = new UnreadCounter(store);
  const rooms = new RoomService({
    store,
    clock,
    cursors,
    gate,
    members,
    identity,
    notifications,
    countUnread: (tenantId, principalId, behind) => unreads.count(tenantId, principalId, behind),
    onCreated: () => metrics.roomsCreated.inc(),
  });
  const succession = new RoomSuccession(store);
  const bin = new RoomBin({
    store,
    clock,
    gate,
    succession,
    purgers: () => modules.flatMap((module) => module.purgeRoom ?? []),
  });
  const fileLinks = new FileLinks();
  const files = new FileService({ store, clock, cursors, gate, acquaintances, blobs });
  const fileWriter = new FileWriter({ store, clock, blobs, limits: limits.files });
  const messages = new MessageService({ store, clock, cursors, gate, tenants, files: fileLinks });
  const sender = new MessageSender({
    store,
    clock,
    gate,
    files: fileLinks,
    isInTransaction: () => store.isInTransaction,
  });
  // Modules whose things can be found put them into `searchIndex` and add a `Searchable` to `searchables`.
  const searchIndex = new SearchIndex(store);
  const indexed = settings.SVC_SEARCH ? { index: searchIndex } : {};
  const searchables: Searchable[] = [
    new MessageSource({ store, present: (actor, rows) => messages.present(actor, rows) }),
    new TaskSource({ store, clock }),
    new DocumentSource({ store }),
    new CalendarSource({ store, gate }),
  ];
  const indexer = new SearchIndexer({ store, index: searchIndex });
  const scheduled = new ScheduledService({ store, clock, cursors, sender, identity, notifications, files: fileLinks });
  const retention = new RetentionService({
    store,
    clock,
    notifications,
    files: fileLinks,
    scheduled,
    unindex: (tenantId, roomId, messageIds) => indexer.forget(tenantId, roomId, messageIds),
  });
  const permissions = new PermissionService({
    operations: () => operations,
    async standingInRoom(who, roomId) {
      const entry = await gate.look(who, roomId);
      return entry && { kind: entry.room.kind, role: entry.role, isMuted: isMuted(who, entry.room) };
    },
    subject: (tenantId, principalId) => identity.subject(tenantId, principalId),
  });
  modules.push(
    gatewayModule({
      version,
      commit: settings.SVC_COMMIT,
      limits: limits.shown,
      modules: () => modules,
    }),
    tenantModule(tenants),
    identityModule({ identity, families, tenants, limits: limits.shown, refreshes: limits.refreshes }),
    permissionModule(permissions),
    notificationModule(notifications),
    roomModule({ rooms, bin, members, succession, profiles: new RoomProfiles(store), gate }),
    fileModule({
      files,
      writer: fileWriter,
      links: fileLinks,
      addresses: new LinkService({
        clock,
        stamp: new Stamp(config.jwtSecrets, "file link"),
        files,
        identity,
        revalidate: (standing) => authenticator.current(standing),
      }),
      gate,
    }),
    messageModule({
      sender,
      messages,
      reactions: new ReactionService({ store, clock, gate }),
      pins: new PinService({ store, clock, gate }),
      reading: new ReadingService({ store, gate, notifications, unreads }),
      scheduled,
      retention,
      notifier: new MessageNotifier({ store, gate, notifications }),
      rate: limits.messages,
      meter: {
        received: () => metrics.messagesReceived.inc(),
        committed: (type, bytes, seconds) => {
          metrics.messagesSent.inc();
          metrics.messagesByType.inc({ type });
          metrics.messageSize.observe(bytes);
          metrics.messageLatency.observe(seconds);
        },
      },
    }),
  );
  modules.push(searchModule({
    search: new SearchService({ store, clock, cursors, indexer, sources: searchables }),
    reindexer: new Reindexer({ store, clock, index: searchIndex, sources: searchables }),
    sources: searchables,
    isEnabled: settings.SVC_SEARCH,
    purgeRoom: (tenantId, roomId) => indexer.purgeRoom(tenantId, roomId),
  }));
  const watch = new StreamWatch(bus);
  const revalidate = (actor: Actor) => authenticator.current(actor);
  modules.push(
    syncModule(new SyncService({ store, clock, cursors, identity, revalidate, watch, presence, unreads })),
  );
  modules.push(taskModule({
    store,
    clock,
    cursors,
    gate,
    identity,
    readMessage: (context, id) => messages.read(context, id),
    notify,
    ...indexed,
  }));
  const meeting = meetingModule({
    store,
    clock,
    cursors,
    gate,
    identity,
    leaseSeconds: settings.SVC_LIMIT_MEETING_LEASE_SECONDS,
    ice: { stunUrls: settings.SVC_STUN_URLS, turnUrls: settings.SVC_TURN_URLS, turnSecret: config.turnSecret },
    liveKit: config.liveKit,
    notify,
  });
  modules.push(calendarModule({
    store,
    clock,
    cursors,
    gate,
    identity,
    meetings: meeting.linked,
    notify,
    ...indexed,
  }));
  modules.push(meeting.module);
  const documents = documentModule({
    store,
    bus,
    clock,
    cursors,
    gate,
    identity,
    authenticate: (token) => authenticator.authenticate(token),
    revalidate: (actor) => authenticator.current(actor),
    sync: {
      authTimeoutMs: limits.ws.authTimeoutMs,
      connectionsPerPrincipal: limits.ws.connectionsPerPrincipal,
      isCapped: limits.isOn,
      isShared: settings.SVC_REDIS_URL !== undefined,
    },
    ...indexed,
  });
  modules.push(documents.module);
  const transfer = transferModule({
    store,
    clock,
    cursors,
    gate,
    blobs,
    contents: {
      carrier: documents.carrier,
      tasks: new TaskCarrier({ store, clock, ...indexed }),
      calendar: new CalendarCarrier({ store, clock, ...indexed }),
      meetings: new MeetingCarrier({ store, clock, hasSfu: config.liveKit !== undefined }),
      files,
      writer: fileWriter,
      links: fileLinks,
    },
    membersMax: settings.SVC_LIMIT_ROOM_MEMBERS,
  });
  modules.push(transfer.module);
  for (const operation of modules.flatMap((module) => module.operations)) operations.set(operation.name, operation);

  return {
    modules,
    operations,
    authenticator,
    identity,
    tenants,
    retention,
    indexer,
    watch,
    documents,
    meeting,
    transfer,
  };
}
