// The composition root, read top to bottom: adapters, modules, transports. Everything is constructed here, in order.
import manifest from "../deno.json" with { type: "json" };
import { IdempotencyLedger } from "@/adapters/idempotency.ts";
import { JobRunner } from "@/adapters/job_runner.ts";
import { type AnyStore, claimDatabase, openBlobs, openShared, openStore } from "@/adapters/open.ts";
import type { Config } from "@/config.ts";
import type { Clock } from "@/core/clock.ts";
import { createDispatch } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { LagSampler } from "@/core/lag.ts";
import { Metrics } from "@/core/metrics.ts";
import type { Module } from "@/core/module.ts";
import type { Operation, Rate } from "@/core/operation.ts";
import { Cursors } from "@/core/page.ts";
import { limitsOf } from "@/limits.ts";
import { calendarModule, CalendarSource } from "@/modules/calendar/mod.ts";
import { FileLinks, fileModule, FileService, FileWriter } from "@/modules/file/mod.ts";
import { documentModule, DocumentSource, syncRoute } from "@/modules/document/mod.ts";
import { gatewayModule } from "@/modules/gateway/mod.ts";
import { Authenticator, identityModule, IdentityService, TokenVerifier } from "@/modules/identity/mod.ts";
import {
  messageModule,
  MessageNotifier,
  MessageSender,
  MessageService,
  PinService,
  ReactionService,
  ReadingService,
  ScheduledService,
  UnreadCounts,
} from "@/modules/message/mod.ts";
import { meetingModule } from "@/modules/meeting/mod.ts";
import { notificationModule, NotificationService } from "@/modules/notification/mod.ts";
import { permissionModule, PermissionService } from "@/modules/permission/mod.ts";
import { RoomGate, RoomMembers, roomModule, RoomService, RoomStore } from "@/modules/room/mod.ts";
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
import { taskModule, TaskSource } from "@/modules/task/mod.ts";
import { tenantModule, TenantService } from "@/modules/tenant/mod.ts";
import { transferModule } from "@/modules/transfer/mod.ts";
import { CONTROL_TOPIC } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";
import { type Readiness } from "@/transport/http/probe.ts";
import { createHttp } from "@/transport/http/server.ts";
import { upgradeRoute } from "@/transport/http/upgrade.ts";
import { asyncapiRoute } from "@/transport/ws/asyncapi.ts";
import { createSyncUpgrade } from "@/transport/sync/server.ts";
import { Hub } from "@/transport/ws/hub.ts";
import { createUpgrade } from "@/transport/ws/server.ts";

const HOUSEKEEPING_MS = 3_600_000;
const DAY_MS = 86_400_000;
const LARGEST_ROOMS = 100;

export type App = {
  fetch(request: Request, peer: string): Response | Promise<Response>;
  operations: ReadonlyMap<string, Operation>;
  modules: readonly Module[];
  store: AnyStore;
  jobs: JobRunner;
  hub: Hub;
  /** Closes sockets and lets running work finish. Then dispose. */
  drain(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** Builds a gateway that is ready to serve. What it opens is closed by disposing it, in reverse order. */
export async function createApp(config: Config, { clock }: { clock: Clock }): Promise<App> {
  const { settings } = config;
  await using stack = new AsyncDisposableStack();
  const limits = limitsOf(config);
  const metrics = new Metrics();
  metrics.buildInfo.set({ version: manifest.version, commit: settings.SVC_COMMIT }, 1);
  const lag = stack.adopt(new LagSampler(), (sampler) => sampler.close());
  metrics.onScrape(metrics.eventLoopLag, (gauge) => gauge.set(lag.take()));

  // Adapters
  stack.use(await claimDatabase(settings.SVC_DATABASE_URL));
  const store = stack.adopt(await openStore(settings.SVC_DATABASE_URL, clock), (opened) => opened.close());
  await store.migrate();
  const { bus, presence, limiter } = await openShared(settings.SVC_REDIS_URL);
  for (const opened of [limiter, presence, bus]) stack.defer(() => opened.close());
  const ledger = new IdempotencyLedger({ store, clock });
  const cursors = new Cursors(config.jwtSecret);
  const blobs = await openBlobs(config.s3, `${config.dataDir}/files`);

  // Modules
  const modules: Module[] = [];
  const operations = new Map<string, Operation>();
  const tenants = new TenantService({ store, clock });
  const identity = new IdentityService({ store, clock, cursors });
  const authenticator = new Authenticator({
    store,
    clock,
    tenants,
    verifier: new TokenVerifier({
      clock,
      secrets: [config.jwtSecret, ...config.jwtSecretPrevious === undefined ? [] : [config.jwtSecretPrevious]],
      jwksUrl: settings.SVC_JWKS_URL,
      issuer: settings.SVC_JWT_ISSUER,
      audience: settings.SVC_JWT_AUDIENCE,
      requiresExpiry: settings.SVC_ENV !== "development",
    }),
  });
  const gate = new RoomGate(store);
  const notifications = new NotificationService({ store, clock, cursors, identity });
  const members = new RoomMembers({
    store,
    clock,
    cursors,
    gate,
    identity,
    notifications,
    membersMax: settings.SVC_LIMIT_ROOM_MEMBERS,
  });
  const unreads = new UnreadCounts(store);
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
    purgers: () => modules.flatMap((module) => module.purgeRoom ?? []),
  });
  const fileLinks = new FileLinks();
  const files = new FileService({ store, clock, cursors, gate, blobs });
  const fileWriter = new FileWriter({ store, clock, blobs, limits: limits.files });
  const messages = new MessageService({ store, clock, gate, tenants, files: fileLinks });
  const sender = new MessageSender({
    store,
    clock,
    gate,
    files: fileLinks,
    isInTransaction: () => store.isInTransaction,
  });
  // Modules whose things can be found put them into `searchIndex` and add a `Searchable` to `searchables`.
  const searchIndex = new SearchIndex(store);
  const searchables: Searchable[] = [
    new MessageSource({ store, present: (actor, rows) => messages.present(actor, rows) }),
    new TaskSource({ store, clock }),
    new DocumentSource({ store }),
    new CalendarSource({ store, gate }),
  ];
  const indexer = new SearchIndexer({ store, index: searchIndex });
  const permissions = new PermissionService({
    operations: () => operations,
    roleInRoom: async (who, roomId) => (await gate.look(who, roomId))?.role,
    subject: (tenantId, principalId) => identity.subject(tenantId, principalId),
  });
  modules.push(
    gatewayModule({
      version: manifest.version,
      commit: settings.SVC_COMMIT,
      limits: limits.shown,
      modules: () => modules,
    }),
    tenantModule(tenants),
    identityModule({ identity, tenants, limits: limits.shown }),
    permissionModule(permissions),
    notificationModule(notifications),
    roomModule({ rooms, members, gate }),
    fileModule({ files, writer: fileWriter, links: fileLinks, gate }),
    messageModule({
      sender,
      messages,
      reactions: new ReactionService({ store, clock, gate }),
      pins: new PinService({ store, clock, gate }),
      reading: new ReadingService({ store, gate, notifications }),
      scheduled: new ScheduledService({ store, clock, cursors, sender, identity, notifications, files: fileLinks }),
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
  stack.defer(() => watch.stop());
  modules.push(syncModule(new SyncService({ store, cursors, identity, watch })));
  const transfer = transferModule({
    store,
    clock,
    cursors,
    gate,
    blobs,
    membersMax: settings.SVC_LIMIT_ROOM_MEMBERS,
  });
  modules.push(transfer.module);
  modules.push(taskModule({
    store,
    clock,
    cursors,
    gate,
    identity,
    readMessage: (context, id) => messages.read(context, id),
    notify: (...drafts) => notifications.notify(...drafts),
    ...settings.SVC_SEARCH ? { index: searchIndex } : {},
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
    notify: (draft) => notifications.notify(draft),
  });
  modules.push(calendarModule({
    store,
    clock,
    cursors,
    gate,
    identity,
    scheduleMeeting: (context, linked) => meeting.meetings.createLinked(context, linked),
    notify: ({ tenantId, principalId, roomId, eventId, title, ...data }) =>
      notifications.notify({
        tenantId,
        principalIds: [principalId],
        kind: "reminder",
        roomId: roomId ?? undefined,
        resource: { type: "event", id: eventId },
        title,
        data,
      }),
    ...settings.SVC_SEARCH ? { index: searchIndex } : {},
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
    revalidate: (actor) => authenticator.isStillValid(actor),
    sync: {
      authTimeoutMs: limits.ws.authTimeoutMs,
      connectionsPerPrincipal: limits.ws.connectionsPerPrincipal,
      isShared: settings.SVC_REDIS_URL !== undefined,
    },
    ...settings.SVC_SEARCH ? { index: searchIndex } : {},
  });
  modules.push(documents.module);
  for (const operation of modules.flatMap((module) => module.operations)) operations.set(operation.name, operation);

  // What a commit leaves to be told goes to the bus, and to the jobs of this node.
  const jobs = new JobRunner({ store, clock, kinds: modules.flatMap((module) => module.jobs ?? []) });
  store.onCommit = ({ events, signals, jobs: added }) => {
    for (const run of runsOf(events)) {
      bus.publish(streamKey(run[0].tenantId, run[0].stream), { kind: "events", events: run });
    }
    for (const signal of signals) bus.publish(CONTROL_TOPIC, { kind: "signal", signal });
    if (added > 0) jobs.wake();
    indexer.heard(events);
    meeting.keeper.heard(events);
  };
  if (settings.SVC_SEARCH) indexer.start();
  stack.defer(() => indexer.stop());
  stack.defer(() => meeting.keeper.settled());
  await bus.subscribe(CONTROL_TOPIC, (message) => {
    if (message.kind === "signal" && message.signal.kind === "principal") {
      authenticator.forget(message.signal.tenantId, message.signal.id);
    }
  });
  jobs.start();
  stack.defer(() => jobs.stop());
  stack.defer(() => transfer.stop());
  metrics.onScrape(metrics.jobsWaiting, async (gauge) => {
    for (const [state, count] of Object.entries(await jobs.counts())) gauge.set({ state }, count);
  });
  metrics.onScrape(metrics.roomMembers, async (gauge) => {
    const { rooms: largest, total } = await new RoomStore(store.db).sizes(LARGEST_ROOMS);
    gauge.reset();
    let rest = total;
    for (const { id, members: count } of largest) {
      gauge.set({ room: id }, count);
      rest -= count;
    }
    gauge.set({ room: "_other" }, rest);
  });

  // Transports
  const takeRate = async (key: string, rate: Rate): Promise<void> => {
    const take = await limiter.take(key, rate);
    if (!take.isAllowed) throw new Fault("rate_limited", "Too many of these calls", { retryAfterMs: take.resetMs });
  };
  const dispatch = createDispatch({ metrics, takeRate: limits.isOn ? takeRate : undefined, rates: limits });
  const hub = new Hub({
    bus,
    log: store.log,
    presence,
    metrics,
    clock,
    channels: modules.flatMap((module) => module.channels ?? []),
    operations,
    dispatch,
    limits: limits.ws,
    version: manifest.version,
    authenticate: (token) => authenticator.authenticate(token),
    revalidate: (actor) => authenticator.isStillValid(actor),
    welcome: async (actor) => ({
      principal: await identity.read(actor, "me"),
      tenant: await tenants.read(actor.tenantId),
      limits: limits.shown,
      version: manifest.version,
    }),
  });
  stack.defer(() => hub.drain());
  metrics.onScrape(metrics.roomsActive, (gauge) => gauge.set(hub.stats().channels.room ?? 0));
  const allowed = settings.SVC_CORS_ALLOW_ORIGINS;
  const isOriginAllowed = (origin: string): boolean => allowed.includes("*") || allowed.includes(origin);
  const upgrade = createUpgrade({ hub, limits: limits.ws, metrics, isOriginAllowed });
  const syncUpgrade = createSyncUpgrade({ host: documents.sync, limits: limits.ws, metrics, isOriginAllowed });
  stack.defer(() => documents.sync.close());
  const housekeeping = setInterval(() => void housekeep(), HOUSEKEEPING_MS);
  stack.defer(() => clearInterval(housekeeping));
  async function housekeep(): Promise<void> {
    await store.log.trim(clock.now() - settings.SVC_LIMIT_EVENT_DAYS * DAY_MS, settings.SVC_LIMIT_EVENTS_PER_ROOM);
    await ledger.purge();
    await identity.housekeep();
  }
  async function ready(): Promise<Readiness> {
    const checks = {
      store: await isFine(probeStore(store)),
      migrations: true,
      bus: bus.isHealthy,
      canary: await isFine(hub.canary()),
      draining: hub.isDraining,
    };
    return { isReady: checks.store && checks.bus && checks.canary && !checks.draining, checks };
  }
  const http = createHttp({
    operations: [...operations.values()],
    routes: [
      ...modules.flatMap((module) => module.routes ?? []),
      upgradeRoute(upgrade),
      asyncapiRoute({ modules, version: manifest.version }),
    ],
    dispatch,
    authenticate: async (token) => await authenticator.authenticate(token),
    runOnce: ledger.runOnce,
    metrics,
    limits: limits.isOn
      ? {
        takeGeneral: (key, rate) => limiter.take(key, rate),
        requests: limits.requests,
        unauthenticated: limits.unauthenticated,
      }
      : undefined,
    ready,
    version: manifest.version,
    corsOrigins: allowed,
    https: {
      redirectTo: settings.SVC_HTTPS_REDIRECT_ENABLED ? settings.SVC_PUBLIC_URL : undefined,
      isHstsOn: settings.SVC_HSTS_ENABLED,
    },
    trustedProxies: settings.SVC_TRUSTED_PROXIES,
    metricsToken: config.metricsToken,
  });
  const owned = stack.move();
  return {
    fetch: http,
    operations,
    modules,
    store,
    jobs,
    hub,
    async drain() {
      watch.stop();
      await hub.drain();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A real write, so that a full disk or a read-only database shows. */
async function probeStore(store: AnyStore): Promise<void> {
  await store.write((tx) =>
    tx.db.insertInto("stream").values({ tenant_id: "", name: "probe", epoch: "", head: 0, floor: 0 })
      .onConflict((conflict) => conflict.columns(["tenant_id", "name"]).doUpdateSet({ head: 0 })).execute()
  );
}

async function isFine(check: Promise<unknown>): Promise<boolean> {
  return await check.then(() => true, () => false);
}

/** Events of one commit as runs of one stream each, in order. */
function runsOf<Event extends { tenantId: string; stream: string }>(events: readonly Event[]): [Event, ...Event[]][] {
  const runs = new Map<string, [Event, ...Event[]]>();
  for (const event of events) {
    const key = streamKey(event.tenantId, event.stream);
    const run = runs.get(key);
    if (run === undefined) runs.set(key, [event]);
    else run.push(event);
  }
  return [...runs.values()];
}
