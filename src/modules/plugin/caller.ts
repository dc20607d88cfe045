// Calls plugins by their transport, within bounds: time, calls at once, and a breaker for those that fail.
import { Breakers } from "@/core/limit/breaker.ts";
import { runAsSystem } from "@/core/caller.ts";
import type { Clock } from "@/core/time/clock.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { LruMap } from "@/core/lru_map.ts";
import type { Metrics } from "@/core/metrics.ts";
import { type Slot, Slots } from "@/core/limit/slots.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { ActivePlugin } from "./registry.ts";
import type { Manifest } from "./schema.ts";
import { type Call, type PluginResponse, type PluginTransport, timedOut } from "./transport.ts";

/** Calls at once of a plugin, and of one caller of it. */
const CALLS = { perKey: [20, 4] };
/** A call that waited for longer than this share of its time had too little left. */
const DELAYED_SHARE = 0.1;
const DURATIONS_MAX = 100;
const PLUGINS_SEEN_MAX = 10_000;
/** Plugins with a label of their own in the metrics; the others share one. */
const LABELS_MAX = 100;

const log = logOf("plugin");

type Stats = { calls: number; failures: number; lastError: string | undefined; durations: number[] };
type Deps = {
  store: Store<unknown>;
  clock: Clock;
  metrics: Metrics;
  transports: Readonly<Record<Manifest["transport"], PluginTransport>>;
};

/** A call that came too late because earlier ones had all slots. */
class CallDelayed extends Fault {
  constructor() {
    const { code, message } = timedOut();
    super(code, message);
  }
}

export class PluginCaller {
  readonly #deps: Deps;
  readonly #breakers: Breakers;
  readonly #slots = new Slots(CALLS);
  readonly #stats = new LruMap<string, Stats>(PLUGINS_SEEN_MAX);
  readonly #labels = new Set<string>();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#breakers = new Breakers(deps.clock);
  }

  get openBreakers(): number {
    return this.#breakers.open.length;
  }

  isBreakerOpen(tenantId: string, pluginId: string): boolean {
    return this.#breakers.isOpen(streamKey(tenantId, pluginId));
  }

  statsOf(tenantId: string, pluginId: string): Stats | undefined {
    return this.#stats.get(streamKey(tenantId, pluginId));
  }

  /** An administrator changed it: it may be called again at once. */
  reset(tenantId: string, pluginId: string): void {
    this.#breakers.succeed(streamKey(tenantId, pluginId));
  }

  /** Calls a plugin for the caller with that key. Rejects with `plugin_timeout`, `plugin_failed` or `plugin_unavailable`. */
  async call(
    plugin: ActivePlugin,
    callerKey: string,
    call: Omit<Call, "signal"> & { signal?: AbortSignal | undefined },
  ): Promise<PluginResponse> {
    const key = streamKey(plugin.tenantId, plugin.id);
    const labels = { plugin: this.#labelOf(plugin.id), kind: call.kind };
    const stats = this.#stats.get(key) ?? { calls: 0, failures: 0, lastError: undefined, durations: [] };
    this.#stats.set(key, stats);
    const startedAt = performance.now();
    try {
      if (!plugin.isEnabled || this.#breakers.enter(key) > 0) {
        throw new Fault("plugin_unavailable", `The plugin ${plugin.manifest.name} is not available`, {
          retryAfterMs: 5000,
        });
      }
      const response = await this.#callInTime(plugin, key, callerKey, call);
      this.#breakers.succeed(key);
      this.#deps.metrics.pluginCalls.inc({ ...labels, outcome: "ok" });
      return response;
    } catch (thrown) {
      const { code } = Fault.from(thrown);
      stats.failures++;
      stats.lastError = code;
      this.#deps.metrics.pluginCalls.inc({ ...labels, outcome: code });
      // A caller that no longer waits, or waited for earlier calls, says nothing about the plugin.
      if (call.signal?.aborted !== true && !(thrown instanceof CallDelayed)) this.#countFailure(plugin, key, code);
      throw thrown;
    } finally {
      const elapsedMs = performance.now() - startedAt;
      stats.calls++;
      stats.durations = [...stats.durations, elapsedMs].slice(-DURATIONS_MAX);
      this.#deps.metrics.pluginLatency.observe(labels, elapsedMs / 1000);
    }
  }

  async #callInTime(
    plugin: ActivePlugin,
    key: string,
    callerKey: string,
    { signal: outer, ...call }: Omit<Call, "signal"> & { signal?: AbortSignal | undefined },
  ): Promise<PluginResponse> {
    const late = AbortSignal.timeout(call.timeoutMs);
    const signal = outer === undefined ? late : AbortSignal.any([late, outer]);
    const startedAt = performance.now();
    let slot: Slot;
    try {
      slot = await this.#slots.acquire([key, `${key} ${callerKey}`], signal);
    } catch {
      // The signal's reason: earlier calls had all slots for that long.
      throw new CallDelayed();
    }
    using taken = slot;
    const waitedMs = performance.now() - startedAt;
    const leftMs = Math.max(1, Math.ceil(call.timeoutMs - waitedMs));
    try {
      return await this.#deps.transports[plugin.manifest.transport](plugin, { ...call, timeoutMs: leftMs, signal });
    } catch (thrown) {
      const isDelayed = taken.hasWaited && waitedMs > call.timeoutMs * DELAYED_SHARE;
      throw late.aborted && isDelayed ? new CallDelayed() : thrown;
    }
  }

  #countFailure(plugin: ActivePlugin, key: string, code: string): void {
    if (code === "plugin_unavailable") return;
    const wasOpen = this.#breakers.isOpen(key);
    this.#breakers.fail(key);
    if (wasOpen || !this.#breakers.isOpen(key)) return;
    const { tenantId, id: pluginId, createdBy } = plugin;
    log.warn("plugin fails and is not called for 30 s", { tenant: tenantId, plugin: pluginId, code });
    const event = principalEvent({ tenantId }, createdBy, "plugin.failed", { pluginId, code });
    void runAsSystem(() => this.#deps.store.write((tx) => tx.emit(event))).catch((cause) => {
      log.warn("publishing the failure of a plugin failed", failureOf(cause));
    });
  }

  #labelOf(pluginId: string): string {
    if (this.#labels.has(pluginId)) return pluginId;
    if (this.#labels.size >= LABELS_MAX) return "_other";
    this.#labels.add(pluginId);
    return pluginId;
  }
}
