// How plugins do, as this node sees it.
import { pluginStream } from "@/core/event/event.ts";
import type { Context } from "@/core/operation.ts";
import type { ServiceWebhooks } from "@/modules/webhook/mod.ts";
import type { Presence } from "@/ports/presence.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { PluginCaller } from "./caller.ts";
import { principalOf } from "./registry.ts";
import type { PluginHealth } from "./schema.ts";
import { manifestOf, requirePlugin } from "./service.ts";
import { PluginStore, type PluginTables } from "./store.ts";

type Deps = { store: Store<PluginTables>; presence: Presence; caller: PluginCaller; webhooks: ServiceWebhooks };

export class PluginHealthReader {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read({ actor: { tenantId } }: Context, id: string): Promise<PluginHealth> {
    const { store, presence, caller, webhooks } = this.#deps;
    const row = await requirePlugin(new PluginStore(store.db), tenantId, id);
    const stats = caller.statsOf(tenantId, id);
    const isSocket = manifestOf(row).transport === "socket";
    return {
      state: row.state,
      connections: isSocket ? (await presence.list(streamKey(tenantId, pluginStream(id)))).length : null,
      delivery: await webhooks.find(tenantId, principalOf(id)) ?? null,
      breakerOpen: caller.isBreakerOpen(tenantId, id),
      calls: stats?.calls ?? 0,
      failures: stats?.failures ?? 0,
      lastError: stats?.lastError ?? null,
      p95Ms: percentile(stats?.durations ?? [], 0.95),
    };
  }
}

function percentile(values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return value === undefined ? null : Math.round(value);
}
