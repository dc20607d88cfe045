// The composition root, read top to bottom: adapters, the product's modules, transports. What is opened here is closed here.
import { dirname } from "node:path";
import manifest from "../deno.json" with { type: "json" };
import { IdempotencyLedger } from "@/adapters/idempotency.ts";
import { JobRunner } from "@/adapters/job_runner.ts";
import {
  type AnyStore,
  claimDatabase,
  clockAt,
  databaseTime,
  openBlobs,
  openShared,
  openStore,
} from "@/adapters/open.ts";
import type { Config } from "@/config.ts";
import { Chores } from "@/core/chores.ts";
import { type Clock, inTime, type Machine } from "@/core/clock.ts";
import { createDispatch } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { LagSampler } from "@/core/lag.ts";
import { Metrics } from "@/core/metrics.ts";
import type { Module } from "@/core/module.ts";
import type { Operation, Rate } from "@/core/operation.ts";
import { Cursors } from "@/core/page.ts";
import { Seal } from "@/core/seal.ts";
import { SharedClock } from "@/core/shared_clock.ts";
import { keepAddressesOut } from "@/core/trace.ts";
import { limitsOf } from "@/limits.ts";
import { syncRoute } from "@/modules/document/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import { OriginList } from "@/modules/tenant/mod.ts";
import { CONTROL_TOPIC } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";
import { createProduct } from "@/product.ts";
import type { Readiness } from "@/transport/http/probe.ts";
import { createHttp } from "@/transport/http/server.ts";
import { upgradeRoute } from "@/transport/http/upgrade.ts";
import { asyncapiRoute } from "@/transport/ws/asyncapi.ts";
import { createSyncUpgrade } from "@/transport/sync/server.ts";
import { Hub } from "@/transport/ws/hub.ts";
import { createUpgrade } from "@/transport/ws/server.ts";

/** Soon after the start as well: a gateway that is started anew each hour has to let go, too. */
const CHORES = { firstMs: 60_000, everyMs: 3_600_000 };
const DAY_MS = 86_400_000;
const LARGEST_ROOMS = 100;
const CHECK_MS = 3000;

export type App = {
  fetch(request: Request, peer: string): Response | Promise<Response>;
  operations: ReadonlyMap<string, Operation>;
  modules: readonly Module[];
  store: AnyStore;
  jobs: JobRunner;
  hub: Hub;
  /** What is done hourly: lets go of what is kept for some time only. */
  housekeep(): Promise<void>;
  /** Closes sockets and lets running work finish. Then dispose. */
  drain(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** The machine that a gateway runs on; or a clock that is right whatever the machine says, as tests have it. */
export type Time = { machine: Machine } | { clock: Clock };

/** Builds a gateway that is ready to serve. What it opens is closed by disposing it, in reverse order. */
export async function createApp(config: Config, time: Time): Promise<App> {
  const { settings } = config;
  keepAddressesOut();
  if (config.s3 === undefined) await requireWritable(settings.SVC_DATA_DIR);
  await using stack = new AsyncDisposableStack();
  const limits = limitsOf(config);
  const metrics = new Metrics();
  metrics.buildInfo.set({ version: manifest.version, commit: settings.SVC_COMMIT }, 1);
  const lag = stack.adopt(new LagSampler(), (sampler) => sampler.close());
  metrics.onScrape(metrics.eventLoopLag, (gauge) => gauge.set(lag.take()));

  // Adapters
  stack.use(await claimDatabase(settings.SVC_DATABASE_URL));
  const clock = "clock" in time ? time.clock : clockAt(settings.SVC_DATABASE_URL, time.machine);
  const store = stack.adopt(await openStore(settings.SVC_DATABASE_URL, clock), (opened) => opened.close());
  if (clock instanceof SharedClock) {
    await clock.follow(() => databaseTime(store));
    stack.defer(() => clock.stop());
    metrics.onScrape(metrics.clockOffset, (gauge) => gauge.set(clock.offsetMs / 1000));
  }
  const { bus, presence, limiter } = await openShared(settings.SVC_REDIS_URL);
  for (const opened of [limiter, presence, bus]) stack.defer(() => opened.close());
  metrics.onScrape(metrics.busHealthy, (gauge) => gauge.set(bus.isHealthy ? 1 : 0));
  const ledger = new IdempotencyLedger({ store, clock, seal: new Seal(config.jwtSecrets, "idempotency") });
  const cursors = new Cursors(config.jwtSecret);
  const blobs = await openBlobs(config.s3, `${settings.SVC_DATA_DIR}/files`);

  const product = createProduct({
    config,
    limits,
    clock,
    store,
    bus,
    presence,
    blobs,
    cursors,
    metrics,
    version: manifest.version,
  });
  const { modules, operations, authenticator, identity, tenants, indexer, watch, documents, meeting, transfer } =
    product;
  stack.defer(() => watch.stop());

  // What a commit leaves to be told goes to the bus, and to the jobs of this node.
  const jobs = new JobRunner({ store, clock, kinds: modules.flatMap((module) => module.jobs ?? []) }, {
    isAlone: store.dialect === "sqlite",
  });
  store.onCommit = ({ events, signals, jobs: added }) => {
    for (const run of runsOf(events)) {
      bus.publish(streamKey(run[0].tenantId, run[0].stream), { kind: "events", events: run });
    }
    for (const signal of signals) bus.publish(CONTROL_TOPIC, { kind: "signal", signal });
    if (added > 0) jobs.wake();
    indexer.heard(events);
    meeting.keeper.heard(events);
  };
  store.onTakeover = () => documents.sync.startOver();
  if (settings.SVC_SEARCH) indexer.start();
  stack.defer(() => indexer.stop());
  stack.defer(() => meeting.keeper.settled());
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
    if (!take.isAllowed) throw new Fault("rate_limited", "Too many of these calls", { limit: take });
  };
  const tenantOrigins = new OriginList({ store, clock });
  stack.defer(() => tenantOrigins.settled());
  const dispatch = createDispatch({ metrics, takeRate: limits.isOn ? takeRate : undefined, writes: limits.writes });
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
    revalidate: (actor) => authenticator.current(actor),
    welcome: async (actor) => ({
      principal: await identity.read(actor, "me"),
      tenant: await tenants.read(actor.tenantId),
      limits: limits.shown,
      version: manifest.version,
    }),
  });
  stack.defer(() => hub.drain());
  await bus.subscribe(CONTROL_TOPIC, (message) => {
    if (message.kind !== "signal") return;
    const { kind, tenantId, id } = message.signal;
    if (kind === "tenant") void tenantOrigins.reload().then(() => hub.originsMoved(tenantId));
    if (kind !== "principal") return;
    authenticator.forget(tenantId, id);
    hub.rightsMoved(tenantId, id);
  });
  await tenantOrigins.reload();
  metrics.onScrape(metrics.roomsActive, (gauge) => gauge.set(hub.stats().channels.room ?? 0));
  // Our own pages are nobody's guests, whatever tenants list; behind a proxy the Host header may not show whose they are.
  const own = settings.SVC_PUBLIC_URL === undefined ? [] : [new URL(settings.SVC_PUBLIC_URL).origin];
  const allowed = [...settings.SVC_CORS_ALLOW_ORIGINS, ...own];
  const isOriginAllowed = (origin: string): boolean => allowed.includes("*") || allowed.includes(origin);
  const upgrade = createUpgrade({
    hub,
    limits: limits.ws,
    metrics,
    isOriginAllowed,
    tenantOrigins,
    acceptsLegacyToken: settings.SVC_LEGACY_QUERY_TOKEN,
  });
  const syncUpgrade = createSyncUpgrade({
    host: documents.sync,
    limits: limits.ws,
    metrics,
    isOriginAllowed,
    tenantOrigins,
  });
  stack.defer(() => documents.sync.close());
  const chores = new Chores({
    events: () =>
      store.log.trim(clock.now() - settings.SVC_LIMIT_EVENT_DAYS * DAY_MS, settings.SVC_LIMIT_EVENTS_PER_ROOM),
    answers: () => ledger.purge(),
    tokens: () => identity.housekeep(),
    messages: () => product.retention.sweep(),
  }, CHORES);
  stack.defer(() => chores.stop());
  async function ready(): Promise<Readiness> {
    const checks = {
      store: await isFine(store.probe()),
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
      syncRoute(syncUpgrade),
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
        writes: limits.writes,
        unauthenticated: limits.unauthenticated,
      }
      : undefined,
    ready,
    version: manifest.version,
    corsOrigins: allowed,
    tenantOrigins,
    https: {
      redirectTo: settings.SVC_HTTPS_REDIRECT_ENABLED ? settings.SVC_PUBLIC_URL : undefined,
      isHstsOn: settings.SVC_HSTS_ENABLED,
    },
    trustedProxies: settings.SVC_TRUSTED_PROXIES,
    metricsToken: config.metricsToken,
    bodyMaxBytes: settings.SVC_LIMIT_BODY_BYTES,
  });
  const owned = stack.move();
  return {
    fetch: http,
    operations,
    modules,
    store,
    jobs,
    hub,
    housekeep: () => chores.run(),
    async drain() {
      watch.stop();
      await Promise.all([hub.drain(), documents.sync.close()]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Throws unless the folder, or the first there is on the way to it, can be written: an upload would be too late to tell. */
async function requireWritable(folder: string): Promise<void> {
  try {
    await Deno.remove(await Deno.makeTempFile({ dir: folder, prefix: ".probe-" }));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound && dirname(folder) !== folder) {
      return await requireWritable(dirname(folder));
    }
    throw new Error("SVC_DATA_DIR names no folder that this gateway can write", { cause });
  }
}

/** Whoever asks goes without an answer that takes long, and a check that hangs is one that failed. */
async function isFine(check: Promise<unknown>): Promise<boolean> {
  return await inTime(check.then(() => true, () => false), CHECK_MS) ?? false;
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
