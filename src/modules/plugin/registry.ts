// The plugins that work and the rooms that are filtered, in memory: sending a message asks this for every room.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "@/core/time/clock.ts";
import { coalesce } from "@/core/coalesce.ts";
import { defineSignal } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { type Bus, type BusSubscription, CONTROL_TOPIC } from "@/ports/bus.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { Manifest } from "./schema.ts";
import { grantedScopes, type PluginRow, PluginStore, type PluginTables } from "./store.ts";

/** Sent after each change of a plugin or a filter; the id is the plugin's. */
export const pluginsChanged = defineSignal("plugin");

/** Maximum age, in case the signal of a change was lost. */
const STALE_MS = 30_000;
/** The same while the bus may lack such a signal. */
const STALE_UNCERTAIN_MS = 1000;

const PRINCIPAL_PREFIX = "plugin:";

const log = logOf("plugin");

export type ActivePlugin = {
  tenantId: string;
  id: string;
  principalId: string;
  manifest: Manifest;
  /** Paused ones are not called. */
  isEnabled: boolean;
  scopes: ReadonlySet<string>;
  createdBy: string;
  row: PluginRow;
};

export class PluginRegistry {
  readonly #deps: { store: Store<PluginTables>; clock: Clock; bus: Bus };
  #plugins: ReadonlyMap<string, readonly ActivePlugin[]> = new Map();
  /** By room; without the disabled ones. */
  #filters: ReadonlyMap<string, readonly ActivePlugin[]> = new Map();
  #readAt = -Infinity;
  #isLoaded = false;
  readonly #reload = coalesce(() => this.#read());
  #reloading = Promise.resolve();
  /** A call may run in a transaction; what every call uses is not read in it. */
  readonly #runOutside = AsyncLocalStorage.snapshot();
  #subscription: Promise<BusSubscription> | undefined;

  constructor(deps: { store: Store<PluginTables>; clock: Clock; bus: Bus }) {
    this.#deps = deps;
  }

  start(): void {
    const { bus } = this.#deps;
    this.#subscription = bus.subscribe(CONTROL_TOPIC, (message) => {
      if (message.kind === "signal" && pluginsChanged.matches(message.signal)) void this.reload();
    });
    const { onRecovered } = bus;
    bus.onRecovered = () => {
      onRecovered();
      void this.reload();
    };
    void this.reload();
  }

  async stop(): Promise<void> {
    (await this.#subscription)?.close();
    await this.#reloading;
  }

  /** Whether messages of the room are filtered; also while that is not known, right after the start. */
  isFiltered(tenantId: string, roomId: string): boolean {
    void this.#refresh();
    return !this.#isLoaded || this.#filters.size > 0 && this.#filters.has(streamKey(tenantId, roomId));
  }

  /** Whether any room is filtered; also while that is not known. */
  get hasFilters(): boolean {
    void this.#refresh();
    return !this.#isLoaded || this.#filters.size > 0;
  }

  async filtersOf(tenantId: string, roomId: string): Promise<readonly ActivePlugin[]> {
    await this.#load();
    return this.#filters.get(streamKey(tenantId, roomId)) ?? [];
  }

  async enabledOf(tenantId: string): Promise<readonly ActivePlugin[]> {
    await this.#load();
    return this.#plugins.get(tenantId) ?? [];
  }

  /** Reads everything again; never rejects. A running read may have begun before the change, so the next one follows it. */
  reload(): Promise<void> {
    return this.#reloading = this.#reload();
  }

  #refresh(): Promise<void> | undefined {
    const { clock, bus } = this.#deps;
    const maxAgeMs = bus.isCurrent ? STALE_MS : STALE_UNCERTAIN_MS;
    return clock.now() - this.#readAt >= maxAgeMs ? this.#runOutside(() => this.reload()) : undefined;
  }

  async #load(): Promise<void> {
    const refreshed = this.#refresh();
    // A plugin that was disabled while this node was silent is called no more.
    if (!this.#isLoaded || !this.#deps.bus.isCurrent) await refreshed;
    if (!this.#isLoaded) {
      throw new Fault("unavailable", "The plugins of the tenant are not loaded yet", { retryAfterMs: 1000 });
    }
  }

  async #read(): Promise<void> {
    const { store, clock } = this.#deps;
    try {
      const plugins = new PluginStore(store.db);
      const [rows, filters] = [await plugins.active(), await plugins.allFilters()];
      const active = rows.map(activePlugin);
      const byKey = new Map(active.map((plugin) => [streamKey(plugin.tenantId, plugin.id), plugin]));
      const byRoom = new Map<string, ActivePlugin[]>();
      for (const filter of filters) {
        const plugin = byKey.get(streamKey(filter.tenant_id, filter.plugin_id));
        if (plugin === undefined || plugin.manifest.hooks.length === 0) continue;
        const key = streamKey(filter.tenant_id, filter.room_id);
        byRoom.set(key, [...byRoom.get(key) ?? [], plugin]);
      }
      this.#filters = byRoom;
      this.#plugins = Map.groupBy(active.filter(({ isEnabled }) => isEnabled), ({ tenantId }) => tenantId);
      this.#isLoaded = true;
    } catch (cause) {
      // What is known stays in force; the next use tries again.
      log.warn("reading the plugins failed", failureOf(cause));
    } finally {
      this.#readAt = clock.now();
    }
  }
}

function activePlugin(row: PluginRow): ActivePlugin {
  return {
    tenantId: row.tenant_id,
    id: row.id,
    principalId: principalOf(row.id),
    manifest: JSON.parse(row.manifest_json),
    isEnabled: row.state === "enabled",
    scopes: new Set(grantedScopes(row)),
    createdBy: row.created_by,
    row,
  };
}

export function principalOf(pluginId: string): string {
  return `${PRINCIPAL_PREFIX}${pluginId}`;
}

/** The plugin that has this principal; `undefined` if it is none of a plugin. */
export function pluginOf(principalId: string): string | undefined {
  return principalId.startsWith(PRINCIPAL_PREFIX) ? principalId.slice(PRINCIPAL_PREFIX.length) : undefined;
}
