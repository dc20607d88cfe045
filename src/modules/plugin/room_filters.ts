// Which plugins filter the messages of a room: its owners decide, every member sees it.
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type PluginRegistry, pluginsChanged } from "./registry.ts";
import { type FilterList, FILTERS_MAX } from "./schema.ts";
import { manifestOf, requirePlugin } from "./service.ts";
import { PluginStore, type PluginTables } from "./store.ts";

type Deps = { store: Store<PluginTables>; clock: Clock; roomAccess: RoomAccess; registry: PluginRegistry };

export class RoomFilters {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(context: Context, roomId: string): Promise<FilterList["items"]> {
    const { store, roomAccess } = this.#deps;
    const { tenantId } = context.actor;
    await roomAccess.require(context, roomId);
    const plugins = new PluginStore(store.db);
    const rows = new Map((await plugins.list(tenantId)).map((row) => [row.id, row]));
    return (await plugins.filters(tenantId, roomId)).flatMap((filter) => {
      const row = rows.get(filter.plugin_id);
      if (row === undefined) return [];
      const { name, hooks } = manifestOf(row);
      return [{
        pluginId: row.id,
        name,
        active: row.state === "enabled" && hooks.length > 0,
        failure: hooks[0]?.failure ?? "open",
        enabledBy: filter.enabled_by,
        createdAt: filter.created_at,
      }];
    });
  }

  async enable(context: Context, roomId: string, pluginId: string): Promise<void> {
    const { store, clock, roomAccess, registry } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await store.write(async (tx) => {
      await roomAccess.requireForUpdate(tx, context, roomId);
      const plugins = new PluginStore(tx.db);
      const row = await requirePlugin(plugins, tenantId, pluginId);
      if (row.state !== "enabled") throw notFound("enabled plugin");
      if (manifestOf(row).hooks.length === 0) throw new Fault("conflict", "The plugin has no filter of messages");
      const filters = await plugins.filters(tenantId, roomId);
      if (filters.some(({ plugin_id }) => plugin_id === pluginId)) return;
      if (filters.length >= FILTERS_MAX) throw new Fault("limit_reached", `A room has at most ${FILTERS_MAX} filters`);
      await plugins.addFilter({
        tenant_id: tenantId,
        room_id: roomId,
        plugin_id: pluginId,
        enabled_by: principalId,
        created_at: iso(clock.now()),
      });
      tx.signal(pluginsChanged.create(tenantId, pluginId));
    });
    await registry.reload();
  }

  async disable(context: Context, roomId: string, pluginId: string): Promise<void> {
    const { store, roomAccess, registry } = this.#deps;
    const { tenantId } = context.actor;
    await store.write(async (tx) => {
      await roomAccess.requireForUpdate(tx, context, roomId);
      if (!await new PluginStore(tx.db).removeFilters(tenantId, roomId, pluginId)) throw notFound("filter of the room");
      tx.signal(pluginsChanged.create(tenantId, pluginId));
    });
    await registry.reload();
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#deps.store.write((tx) => new PluginStore(tx.db).removeFilters(tenantId, roomId));
  }
}
