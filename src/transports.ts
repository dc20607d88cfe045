// How callers reach the modules: HTTP, `/ws` and live editing, over one dispatch.
import manifest from "../deno.json" with { type: "json" };
import type { IdempotencyStore } from "@/adapters/store/idempotency_store.ts";
import type { Config } from "@/config/config.ts";
import { withTimeout } from "@/core/time/clock.ts";
import type { Operation } from "@/core/operation.ts";
import type { Limits } from "@/config/limits.ts";
import type { NamedModules } from "@/modules.ts";
import { collaborationRoute } from "@/modules/document/mod.ts";
import { principalChanged } from "@/modules/identity/mod.ts";
import { originsChanged } from "@/modules/tenant/mod.ts";
import { type Bus, CONTROL_TOPIC } from "@/ports/bus.ts";
import type { Limiter } from "@/ports/limiter.ts";
import type { Platform } from "@/ports/platform.ts";
import { hstsOf } from "@/transport/http/https.ts";
import { isLocalOrigin, type OriginRules, RefusedOrigins } from "@/transport/shared/origin.ts";
import type { Readiness } from "@/transport/http/probe.ts";
import { createHttpHandler } from "@/transport/http/server.ts";
import { asyncapiRoute } from "@/transport/ws/asyncapi/document.ts";
import { eventsPageRoute } from "@/transport/ws/asyncapi/page.ts";
import { createCollaborationUpgrade } from "@/transport/collaboration/server.ts";
import { Hub } from "@/transport/ws/hub.ts";
import { MemoryGuard } from "@/transport/shared/memory_guard.ts";
import { McpEndpoint } from "@/transport/mcp/server.ts";
import { createWebSocketUpgrade, webSocketRoute } from "@/transport/ws/server.ts";

const MCP_TAG = "Tools, resources and prompts for language models, by the Model Context Protocol.";
const READINESS_TIMEOUT_MS = 3000;

/** What the composition root needs of the transports. Once `probes.isLeaving` is set, readiness fails, and bodies may break off. */
type Transports = {
  http: (request: Request, peer: string) => Response | Promise<Response>;
  hub: Hub;
  memoryGuard: MemoryGuard;
  probes: { isLeaving: boolean };
  mcp: McpEndpoint;
};
type TransportDeps = NamedModules & {
  platform: Platform & { limiter: Limiter };
  operations: ReadonlyMap<string, Operation>;
  idempotency: IdempotencyStore;
};

/** Connects the transports; what they open is closed with the stack. */
export async function createTransports(
  config: Config,
  limits: Limits,
  deps: TransportDeps,
  stack: AsyncDisposableStack,
): Promise<Transports> {
  const { platform, operations, idempotency, tenant, identity: { authenticator }, document } = deps;
  const { settings } = config;
  const { bus, metrics, cpu, limiter, modules, dispatch } = platform;
  const hub = openHub(limits, deps, stack);
  const memoryGuard = new MemoryGuard({ budgetBytes: limits.socketMemoryBytes, metrics });
  stack.defer(() => memoryGuard.close());
  metrics.onScrape(metrics.memoryGrowth, (gauge) => gauge.set(memoryGuard.grownBytes()));
  const corsOrigins = allowedOrigins(config);
  const isLocalOriginAllowed = settings.SVC_ENV === "development";
  const refusedOrigins = new RefusedOrigins(() => platform.clock.now());
  const origins: OriginRules = {
    isOriginAllowed: (origin) =>
      corsOrigins.includes("*") || corsOrigins.includes(origin) || isLocalOriginAllowed && isLocalOrigin(origin),
    tenantOrigins: tenant.origins,
    refusedOrigins,
  };
  const mcp = openMcp(origins, deps, stack);
  await subscribeToSignals(bus, { hub, mcp }, deps);

  const sockets = { ...origins, limits: limits.ws, metrics, guard: memoryGuard };
  const upgrade = createWebSocketUpgrade({ ...sockets, hub, acceptsLegacyToken: settings.SVC_LEGACY_QUERY_TOKEN });
  const syncUpgrade = createCollaborationUpgrade({ ...sockets, host: document.collaboration });
  const probes = { isLeaving: false };
  const asyncDocument = { modules, version: manifest.version, limits: limits.ws };
  const http = createHttpHandler({
    operations: [...operations.values()],
    tags: Object.assign({ mcp: MCP_TAG }, ...modules.map((module) => module.tags)),
    routes: [
      ...modules.flatMap((module) => module.routes ?? []),
      webSocketRoute(upgrade),
      collaborationRoute(syncUpgrade),
      asyncapiRoute(asyncDocument),
      eventsPageRoute(asyncDocument),
      mcp.route,
    ],
    dispatch,
    authenticate: (token) => authenticator.authenticate(token),
    runOnce: idempotency.runOnce,
    metrics,
    limits: limits.isEnabled ? { ...limits, consumeRate: (key, rate) => limiter.consume(key, rate) } : undefined,
    checkReadiness: () => checkReadiness(platform, hub, probes.isLeaving),
    isLeaving: () => probes.isLeaving,
    version: manifest.version,
    corsOrigins,
    isLocalOriginAllowed,
    tenantOrigins: tenant.origins,
    refusedOrigins,
    ...httpSettings(config),
    cpu,
    guard: memoryGuard,
  });
  return { http, hub, memoryGuard, probes, mcp };
}

/** What the HTTP server takes from the settings as it is. */
function httpSettings({ settings, metricsToken, oidc }: Config) {
  const isProduction = settings.SVC_ENV === "production";
  return {
    https: {
      redirectTo: settings.SVC_HTTPS_REDIRECT_ENABLED ? settings.SVC_PUBLIC_URL : undefined,
      hsts: hstsOf(settings.SVC_HSTS_ENABLED, isProduction),
      isAlwaysHttps: settings.SVC_PUBLIC_URL?.startsWith("https:") === true,
    },
    trustedProxies: settings.SVC_TRUSTED_PROXIES,
    metricsToken,
    isMetricsClosed: metricsToken === undefined && (isProduction || settings.SVC_METRICS_PORT !== undefined),
    bodyMaxBytes: settings.SVC_LIMIT_BODY_BYTES,
    signInName: oidc?.name,
  };
}

function openHub(
  limits: Limits,
  { platform, operations, tenant, identity }: TransportDeps,
  stack: AsyncDisposableStack,
): Hub {
  const { store, bus, presence, clock, cpu, metrics, modules, dispatch, eventFilterOf } = platform;
  const { authenticator } = identity;
  const hub = new Hub({
    bus,
    log: store.log,
    presence,
    metrics,
    clock,
    cpu,
    channels: modules.flatMap((module) => module.channels ?? []),
    operations,
    dispatch,
    eventFilterOf,
    limits: limits.ws,
    version: manifest.version,
    authenticate: (token) => authenticator.authenticate(token),
    revalidate: (actor) => authenticator.revalidate(actor),
    connectData: async (actor) => ({
      principal: await identity.identity.read(actor, "me"),
      tenant: await tenant.tenants.read(actor.tenantId),
      limits: limits.publicLimits,
      version: manifest.version,
    }),
  });
  stack.defer(() => hub.drain());
  metrics.onScrape(metrics.roomsActive, (gauge) => gauge.set(hub.stats().channels.room ?? 0));
  return hub;
}

/** The gateway's own pages are allowed whatever tenants list; behind a proxy the Host header may not show the public origin. */
function allowedOrigins({ settings }: Config): readonly string[] {
  const own = settings.SVC_PUBLIC_URL === undefined ? [] : [new URL(settings.SVC_PUBLIC_URL).origin];
  return [...settings.SVC_CORS_ALLOW_ORIGINS, ...own];
}

function openMcp(
  origins: OriginRules,
  { platform, operations, identity: { authenticator }, oauth: { oauth } }: TransportDeps,
  stack: AsyncDisposableStack,
): McpEndpoint {
  const { bus, clock, metrics, dispatch } = platform;
  const { issuer } = oauth;
  const mcp = new McpEndpoint({
    operations,
    dispatch,
    async authenticate(token, request) {
      const resource = issuer.resourceOf(request);
      return oauth.isApplicationToken(token)
        ? await oauth.authenticate(token, resource)
        : await authenticator.authenticate(token, resource);
    },
    revalidate: (actor) => authenticator.revalidate(actor),
    challenge: (request) => issuer.challengeOf(request),
    origins,
    bus,
    clock,
    metrics,
    version: manifest.version,
  });
  stack.defer(() => mcp.close());
  return mcp;
}

/**
 * Without the bus a node serves on, and reads from the log what others committed. So the bus is shown, but does not decide: an
 * outage of Redis would take away all nodes at once.
 */
async function checkReadiness({ store, bus }: Platform, hub: Hub, isLeaving: boolean): Promise<Readiness> {
  const [database, canary] = await Promise.all([isHealthy(store.checkHealth()), isHealthy(hub.probeBus())]);
  return {
    ready: database && !isLeaving,
    checks: { store: database, migrations: true, bus: bus.isHealthy, canary, draining: isLeaving },
  };
}

/** Applies changes of rights and origins made on any node; after an outage of the bus they are read again. */
async function subscribeToSignals(
  bus: Bus,
  { hub, mcp }: { hub: Hub; mcp: McpEndpoint },
  { tenant, identity }: Pick<NamedModules, "tenant" | "identity">,
) {
  const { origins } = tenant;
  const { authenticator } = identity;
  await bus.subscribe(CONTROL_TOPIC, (message) => {
    if (message.kind !== "signal") return;
    const { signal } = message;
    hub.onSignal(signal);
    const { tenantId, id } = signal;
    if (originsChanged.matches(signal)) void origins.reload().then(() => hub.revalidateOrigins(tenantId));
    if (!principalChanged.matches(signal)) return;
    authenticator.invalidate(tenantId, id);
    hub.revalidatePrincipal(tenantId, id);
    mcp.revalidatePrincipal(tenantId, id);
  });
  const { onRecovered } = bus;
  bus.onRecovered = () => {
    onRecovered();
    authenticator.invalidateAll();
    void origins.reload();
  };
  await origins.reload();
}

/** A check that takes too long counts as failed, so that the response is not delayed. */
async function isHealthy(check: Promise<unknown>): Promise<boolean> {
  // The readiness response names the failed check; its adapter logs the cause.
  return await withTimeout(check.then(() => true, () => false), READINESS_TIMEOUT_MS) ?? false;
}
