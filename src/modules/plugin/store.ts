// SQL of plugins and of the filters of rooms.
import type { Kysely } from "kysely";

export type PluginRow = {
  tenant_id: string;
  id: string;
  manifest_json: string;
  state: "disabled" | "enabled" | "paused";
  /** Separated by spaces. */
  granted_scopes: string;
  config_encrypted: string | null;
  secret_encrypted: string | null;
  version: number;
  created_by: string;
  created_at: string;
  updated_at: string;
};
type FilterRow = {
  tenant_id: string;
  room_id: string;
  plugin_id: string;
  enabled_by: string;
  created_at: string;
};
export type PluginTables = { plugin: PluginRow; plugin_filter: FilterRow };

export function grantedScopes({ granted_scopes: text }: Pick<PluginRow, "granted_scopes">): string[] {
  return text.split(" ").filter((scope) => scope !== "");
}

export class PluginStore {
  readonly #db: Kysely<PluginTables>;

  constructor(db: Kysely<PluginTables>) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<PluginRow | undefined> {
    return this.#db.selectFrom("plugin").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  list(tenantId: string): Promise<PluginRow[]> {
    return this.#db.selectFrom("plugin").selectAll().where("tenant_id", "=", tenantId).orderBy("id").execute();
  }

  /** Plugins of all tenants that are not disabled. */
  active(): Promise<PluginRow[]> {
    return this.#db.selectFrom("plugin").selectAll().where("state", "<>", "disabled").orderBy("id").execute();
  }

  async add(row: PluginRow): Promise<void> {
    await this.#db.insertInto("plugin").values(row).execute();
  }

  async update({ tenant_id, id, ...set }: PluginRow): Promise<void> {
    await this.#db.updateTable("plugin").set(set).where("tenant_id", "=", tenant_id).where("id", "=", id).execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("plugin_filter").where("tenant_id", "=", tenantId).where("plugin_id", "=", id).execute();
    await this.#db.deleteFrom("plugin").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Filters of a room, in the order in which they were enabled. */
  filters(tenantId: string, roomId: string): Promise<FilterRow[]> {
    return this.#db.selectFrom("plugin_filter").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).orderBy("created_at").orderBy("plugin_id").execute();
  }

  /** Filters of all rooms, in the order in which they were enabled. */
  allFilters(): Promise<FilterRow[]> {
    return this.#db.selectFrom("plugin_filter").selectAll().orderBy("created_at").orderBy("plugin_id").execute();
  }

  async addFilter(row: FilterRow): Promise<void> {
    await this.#db.insertInto("plugin_filter").values(row).onConflict((conflict) => conflict.doNothing()).execute();
  }

  async removeFilters(tenantId: string, roomId: string, pluginId?: string): Promise<boolean> {
    let query = this.#db.deleteFrom("plugin_filter").where("tenant_id", "=", tenantId).where("room_id", "=", roomId);
    if (pluginId !== undefined) query = query.where("plugin_id", "=", pluginId);
    return (await query.returning("plugin_id").execute()).length > 0;
  }
}
