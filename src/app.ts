// The composition root, read top to bottom: adapters, modules, background work, transports. What is opened here is closed here.
import { dirname } from "node:path";
import manifest from "../deno.json" with { type: "json" };
import { AiSdkModels } from "@/adapters/model/ai_sdk_models.ts";
import { createSecretRenewal } from "@/adapters/store/secret_renewal.ts";
import { WrittenBytesStore } from "@/adapters/store/written_bytes_store.ts";
import { IdempotencyStore } from "@/adapters/store/idempotency_store.ts";
import { JobRunner } from "@/adapters/job/runner.ts";
import { LeaseTakeover } from "@/adapters/store/lease_takeover.ts";
import { compareSecrets } from "@/adapters/bus/secret_comparison.ts";
import {
  type AnyStore,
  clockFor,
  lockDatabase,
  migrateStore,
  type Node,
  openBlobs,
  openNode,
  openSharedServices,
  openStore,
  openVectors,
  readDatabaseTime,
} from "@/adapters/open.ts";
import { createOutbound } from "@/adapters/outbound/http.ts";
import type { Config } from "@/config/config.ts";
import { MaintenanceScheduler } from "@/core/maintenance.ts";
import { type Clock, DAY_MS, delay, HOUR_MS, iso, MINUTE_MS, type TimeSource } from "@/core/time/clock.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { type ConsumeRate, createDispatch } from "@/core/dispatch.ts";
import { accessSignalsOf, isHint, type StoredEvent } from "@/core/event/event.ts";
import { createEventFilter } from "@/core/event/event_view.ts";
import { Fault } from "@/core/fault.ts";
import { Holds } from "@/core/hold.ts";
import { setIdClock } from "@/core/id.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { Metrics } from "@/core/metrics.ts";
import { type Module, operationsOf } from "@/core/module.ts";
import type { Operation } from "@/core/operation.ts";
import { Cursors } from "@/core/page.ts";
import { runOutsideCalls } from "@/core/caller.ts";
import { Encryptor, Signer } from "@/core/crypto.ts";
import { DatabaseClock } from "@/core/time/database_clock.ts";
import { WriteBudget } from "@/core/limit/write_budget.ts";
import { type Limits, limitsOf } from "@/config/limits.ts";
import { createModules, type ModuleFactory } from "@/modules.ts";
import { createTransports } from "@/transports.ts";
import { CONTROL_TOPIC } from "@/ports/bus.ts";
import type { Limiter } from "@/ports/limiter.ts";
import type { Models } from "@/ports/model.ts";
import type { Platform } from "@/ports/platform.ts";
import { streamKey } from "@/ports/store.ts";
import { LagSampler } from "@/runtime/event_loop_lag.ts";
import { redactSpanUrls } from "@/runtime/spans.ts";
import { createMetricsHandler } from "@/transport/http/probe.ts";
import type { Hub } from "@/transport/ws/hub.ts";

const TIMERS = {
  /** A commit of this node wakes the jobs; those of other nodes, and those whose time has come, are found by polls. */
  jobPollMs: 1000,
  /** The first run is soon after the start, so that a gateway that is restarted each hour deletes what expired, too. */
  maintenance: { firstMs: MINUTE_MS, everyMs: HOUR_MS },
  /** How soon other nodes, and this one after a restart, know how many bytes were written. */
  writtenBytesFlush: { firstMs: 5000, everyMs: 10_000 },
};
/** As long as a timer can be: 24 days. */
const NEVER_MS = 2 ** 31 - 1;
const NEVER = { firstMs: NEVER_MS, everyMs: NEVER_MS };
/** With a clock for tests, time that passes makes nothing due: what a test acts on is not run beside it. */
const TEST_TIMERS: typeof TIMERS = { jobPollMs: NEVER_MS, maintenance: NEVER, writtenBytesFlush: NEVER };
/** Time for peers to answer their close frames at a shutdown. */
const CLOSE_TIMEOUT_MS = 3000;

export type App = {
  fetch(request: Request, peer: string): Response | Promise<Response>;
  /** Serves the port that has metrics only. */
  fetchMetrics(request: Request): Promise<Response>;
  operations: ReadonlyMap<string, Operation>;
  modules: readonly Module[];
  store: AnyStore;
  jobs: JobRunner;
  hub: Hub;
  /** A code that signs in the first owner of a development gateway, once. */
  createOwnerCode(): Promise<string>;
  /** Runs the hourly maintenance now. */
  runMaintenance(): Promise<void>;
  /** Makes readiness fail, so that load balancers send no more traffic; requests are still served. */
  markDraining(): void;
  /** Closes sockets and waits for running work. Dispose afterwards. */
  drain(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** The clocks of the host; or a clock that is used as it is, for tests. */
type TimeOptions = { timeSource: TimeSource } | { clock: Clock };

type Adapters = Omit<Platform, "modules"> & { modules: Module[]; limiter: Limiter; node: Node | undefined };

/** What a gateway may have beyond its configuration: `modules` are added to those of `modules.ts`, the others replace the real ones. */
export type Extensions = {
  modules?: readonly ModuleFactory[];
  models?: Models;
  openStore?: typeof openStore;
  createOutbound?: typeof createOutbound;
  timeoutFactor?: number;
};

/** Builds a gateway that is ready to serve. What it opens is closed by disposing it, in reverse order. */
export async function createApp(
  config: Config,
  time: TimeOptions,
  { modules: extraModules = [], ...replaced }: Extensions = {},
): Promise<App> {
  redactSpanUrls();
  if (config.s3 === undefined) await assertWritable(config.settings.SVC_DATA_DIR);
  await using stack = new AsyncDisposableStack();
  const limits = limitsOf(config);
  const platform = await openPlatform(config, limits, time, replaced, stack);
  const { store, metrics, modules } = platform;
  const named = createModules(platform, { config, limits, version: manifest.version, more: extraModules });
  const operations = operationsOf(modules);
  await migrateStore(store, modules);
  store.authorizeWrite = ({ db }) => named.identity.credentials.assertCallerValid(db);
  store.onFailover = () => callHook(modules, "onFailover");

  const timers = "clock" in time ? TEST_TIMERS : TIMERS;
  const jobs = await startJobs(platform, timers, stack);
  addGauges(platform, jobs);
  const idempotency = new IdempotencyStore({
    store,
    clock: platform.clock,
    encryptor: new Encryptor(config.jwtSecrets, "idempotency"),
    limits: limits.storedResponses,
  });
  const maintenance = startMaintenance({ config, platform, idempotency, timers }, stack);
  const transports = await createTransports(config, limits, { ...named, platform, operations, idempotency }, stack);
  const { hub, memoryGuard, probes, mcp } = transports;
  // Before the transports end, so that what their clients wait for ends first.
  stack.defer(() => drainAll(modules));
  const owned = stack.move();
  return {
    fetch: beginCalls(transports.http, store),
    fetchMetrics: beginCalls(createMetricsHandler({ metrics, metricsToken: config.metricsToken }), store),
    operations,
    modules,
    store,
    jobs,
    hub,
    createOwnerCode: () => named.invitation.invitations.createOwnerCode(),
    runMaintenance: maintenance.run,
    markDraining() {
      probes.isLeaving = true;
    },
    async drain() {
      probes.isLeaving = true;
      mcp.close();
      await Promise.all([hub.drain(), drainAll(modules)]);
      // Stopping the server would drop sockets that have not read their close frame yet.
      const until = performance.now() + CLOSE_TIMEOUT_MS;
      while (memoryGuard.size > 0 && performance.now() < until) await delay(10);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Opens the adapters, and creates what else all modules are built on. */
async function openPlatform(
  { settings, s3, jwtSecrets }: Config,
  limits: Limits,
  time: TimeOptions,
  { models, openStore: open = openStore, createOutbound: outboundOf = createOutbound, timeoutFactor = 1 }: Omit<
    Extensions,
    "modules"
  >,
  stack: AsyncDisposableStack,
): Promise<Adapters> {
  const metrics = new Metrics();
  metrics.buildInfo.set({ version: manifest.version, commit: settings.SVC_COMMIT }, 1);
  const lag = stack.adopt(new LagSampler(), (sampler) => sampler.close());
  metrics.onScrape(metrics.eventLoopLag, (gauge) => gauge.set(lag.takeMax()));
  const { store, clock } = await openDatabase(settings.SVC_DATABASE_URL, time, open, metrics, stack);
  const node = stack.adopt(await openNode(settings.SVC_DATABASE_URL, store), (opened) => opened?.close());
  const { bus, presence, limiter } = await openSharedServices(settings.SVC_REDIS_URL);
  for (const opened of [limiter, presence, bus]) stack.defer(() => opened.close());
  await compareSecrets(bus, jwtSecrets);
  const modules: Module[] = [];
  const writeBudget = new WriteBudget(clock, limits.writtenBytes, new WrittenBytesStore(store, modules));
  stack.defer(() =>
    writeBudget.flush().catch((cause) => {
      logOf("usage").warn("storing the bytes written since the last flush failed", failureOf(cause));
    })
  );
  store.onBytesWritten = (key, count) => writeBudget.charge(key, count);
  const outbound = outboundOf({
    allow: settings.SVC_OUTBOUND_ALLOW,
    count: (outcome) => metrics.outboundCalls.inc({ outcome }),
  });
  const consumeRate = limits.isEnabled ? consumeRateOf(limiter) : undefined;
  const cpu = new CpuBudget({
    percent: limits.cpuPercent,
    tenantPercent: limits.tenantCpuPercent,
    serviceFactor: limits.serviceFactor,
  });
  return {
    store,
    clock,
    cursors: new Cursors(new Signer(jwtSecrets, "cursor")),
    bus,
    presence,
    limiter,
    blobs: await openBlobs(s3, `${settings.SVC_DATA_DIR}/files`, outbound),
    outbound,
    timeoutFactor,
    models: models ?? new AiSdkModels(outbound),
    vectors: await openVectors(settings.SVC_DATABASE_URL, store, settings.SVC_LIMIT_VECTOR_MEMORY_BYTES),
    metrics,
    cpu,
    writeBudget,
    holds: new Holds(modules, clock),
    modules,
    node,
    nodeId: node?.id,
    dispatch: createDispatch({
      metrics,
      consumeRate,
      writeRate: limits.writes,
      serviceFactor: limits.serviceFactor,
      writeBudget,
      cpu,
      revalidate: async (actor) => {
        const identity = modules.find((module) => module.revalidate !== undefined);
        return identity?.revalidate === undefined ? actor : await identity.revalidate(actor);
      },
      async record(call, run) {
        const audit = modules.find((module) => module.record !== undefined);
        return audit?.record === undefined ? await run() : await audit.record(call, run);
      },
    }),
    consumeRate,
    eventFilterOf: createEventFilter(() => modules.flatMap((module) => module.events ?? [])),
  };
}

/** Opens the database, and the clock, which follows that of a shared database. */
async function openDatabase(
  url: string,
  time: TimeOptions,
  open: typeof openStore,
  metrics: Metrics,
  stack: AsyncDisposableStack,
): Promise<{ store: AnyStore; clock: Clock }> {
  stack.use(await lockDatabase(url));
  const clock = "clock" in time ? time.clock : clockFor(url, time.timeSource);
  const store = stack.adopt(await open(url, clock), (opened) => opened.close());
  if (clock instanceof DatabaseClock) {
    await clock.sync(() => readDatabaseTime(store));
    setIdClock(clock);
    stack.defer(() => {
      clock.stop();
      setIdClock(undefined);
    });
    metrics.onScrape(metrics.clockOffset, (gauge) => gauge.set(clock.offsetMs / 1000));
  }
  return { store, clock };
}

function consumeRateOf(limiter: Limiter): ConsumeRate {
  return async (key, rate) => {
    const result = await limiter.consume(key, rate);
    if (result.isAllowed) return;
    throw new Fault("rate_limited", "Rate limit of this operation exceeded for this principal and its agents", {
      limit: result,
    });
  };
}

/** Starts what reacts to commits: the jobs, and the modules' own background work, which ends after the last job. */
async function startJobs(
  adapters: Adapters,
  { jobPollMs: pollMs }: typeof TIMERS,
  stack: AsyncDisposableStack,
): Promise<JobRunner> {
  const { store, clock, cpu, metrics, modules, node } = adapters;
  await node?.acquire();
  const kinds = modules.flatMap((module) => module.jobs ?? []);
  const isSingleNode = store.dialect === "sqlite";
  const jobs = new JobRunner({ store, clock, cpu, nodeId: node?.id, metrics, kinds }, { isSingleNode, pollMs });
  publishCommits(adapters, jobs);
  callHook(modules, "start");
  for (const module of modules) stack.defer(() => module.stop?.());
  jobs.start();
  stack.defer(() => jobs.stop());
  if (node !== undefined) {
    const leases = [jobs.leases, ...modules.flatMap((module) => module.leases ?? [])];
    const takeover = new LeaseTakeover({ node, leases });
    takeover.start();
    stack.defer(() => takeover.stop());
  }
  return jobs;
}

/**
 * The handler, run outside of other calls. The runtime hands requests over in whatever async context is current (see
 * `runtime/root_context.ts`): a span of that context belongs to the request, but its caller and transaction do not.
 */
function beginCalls<Args extends unknown[], Result>(
  handler: (...args: Args) => Result,
  store: Pick<AnyStore, "runOutside">,
): (...args: Args) => Result {
  return (...args) => runOutsideCalls(() => store.runOutside(() => handler(...args)));
}

/** Passes commits to the bus, to the jobs of this node and to the modules that listen. */
function publishCommits({ store, bus, modules }: Adapters, jobs: JobRunner): void {
  const listeners = modules.flatMap(({ onCommit }) => onCommit ?? []);
  store.onCommit = ({ events, signals, jobs: added }) => {
    for (const group of groupByStream(events)) {
      bus.publish(streamKey(group[0].tenantId, group[0].stream), { kind: "events", events: group });
    }
    const sent = [...signals, ...accessSignalsOf(events)];
    for (const signal of sent) bus.publish(CONTROL_TOPIC, { kind: "signal", signal });
    if (added > 0) jobs.wake({ isCommit: true });
    for (const listener of listeners) listener(events);
    return sent.every(isHint) ? undefined : bus.flush();
  };
}

function addGauges({ metrics, bus, writeBudget, modules }: Adapters, jobs: JobRunner): void {
  metrics.onScrape(metrics.busHealthy, (gauge) => gauge.set(bus.isHealthy ? 1 : 0));
  metrics.onScrape(metrics.bytesWritten, (gauge) => gauge.set(writeBudget.totalBytes));
  metrics.onScrape(metrics.jobsWaiting, async (gauge) => {
    for (const [state, count] of Object.entries(await jobs.counts())) gauge.set({ state }, count);
  });
  for (const { gauge, collect } of modules.flatMap((module) => module.gauges ?? [])) metrics.onScrape(gauge, collect);
}

/** Starts the hourly maintenance, and the flush of written bytes, which other nodes read. */
function startMaintenance(
  { config: { settings, jwtSecrets }, platform: { store, clock, writeBudget, modules }, idempotency, timers }: {
    config: Config;
    platform: Adapters;
    idempotency: IdempotencyStore;
    timers: typeof TIMERS;
  },
  stack: AsyncDisposableStack,
): { run(): Promise<void> } {
  const encrypted = modules.flatMap((module) => module.encrypted ?? []);
  const hourly = new MaintenanceScheduler({
    events: () =>
      store.log.trim(clock.now() - settings.SVC_LIMIT_EVENT_DAYS * DAY_MS, settings.SVC_LIMIT_EVENTS_PER_ROOM),
    responses: () => idempotency.purge(),
    written: () => new WrittenBytesStore(store, modules).purge(iso(clock.now()).slice(0, 10)),
    ...jwtSecrets.length > 1 ? { secrets: createSecretRenewal(store, clock, encrypted) } : {},
    ...Object.assign({}, ...modules.map((module) => module.maintenance)),
    log: () => store.emptyLog(),
  }, timers.maintenance);
  stack.defer(() => hourly.stop());
  const flush = new MaintenanceScheduler({ written: () => writeBudget.flush() }, timers.writtenBytesFlush);
  stack.defer(() => flush.stop());
  return {
    async run() {
      await flush.run();
      await hourly.run();
    },
  };
}

function callHook(modules: readonly Module[], hook: "start" | "onFailover"): void {
  for (const module of modules) module[hook]?.();
}

async function drainAll(modules: readonly Module[]): Promise<void> {
  await Promise.all(modules.map((module) => module.drain?.()));
}

/** Throws unless the folder, or its nearest existing parent, can be written: reporting it at the first upload would be too late. */
async function assertWritable(directory: string): Promise<void> {
  try {
    await Deno.remove(await Deno.makeTempFile({ dir: directory, prefix: ".probe-" }));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound && dirname(directory) !== directory) {
      return await assertWritable(dirname(directory));
    }
    throw new Error("SVC_DATA_DIR: the gateway cannot write to this directory", { cause });
  }
}

/** Groups the events of a commit by stream, in order. */
function groupByStream(events: readonly StoredEvent[]): [StoredEvent, ...StoredEvent[]][] {
  const groups = new Map<string, [StoredEvent, ...StoredEvent[]]>();
  for (const event of events) {
    const key = streamKey(event.tenantId, event.stream);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [event]);
    else group.push(event);
  }
  return [...groups.values()];
}
