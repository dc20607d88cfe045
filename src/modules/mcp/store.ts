// SQL of MCP servers.
import type { Kysely } from "kysely";

export type ServerRow = {
  tenant_id: string;
  id: string;
  url: string;
  /** JSON of names and values; null without any. */
  headers_encrypted: string | null;
  header_names_json: string;
  /** Names of the tools that may be used; `[]`: all. */
  tools_json: string;
  needs_approval: number;
  version: number;
  created_at: string;
  updated_at: string;
};
export type ServerTables = { mcp_server: ServerRow };

export class ServerStore {
  readonly #db: Kysely<ServerTables>;

  constructor(db: Kysely<ServerTables>) {
    this.#db = db;
  }

  list(tenantId: string): Promise<ServerRow[]> {
    return this.#db.selectFrom("mcp_server").selectAll().where("tenant_id", "=", tenantId).orderBy("id").execute();
  }

  find(tenantId: string, id: string): Promise<ServerRow | undefined> {
    return this.#db.selectFrom("mcp_server").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  async put(row: ServerRow): Promise<void> {
    const { tenant_id: _tenant, id: _id, created_at: _created, ...set } = row;
    await this.#db.insertInto("mcp_server").values(row)
      .onConflict((conflict) => conflict.columns(["tenant_id", "id"]).doUpdateSet(set)).execute();
  }

  async remove(tenantId: string, id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db.deleteFrom("mcp_server").where("tenant_id", "=", tenantId)
      .where("id", "=", id).executeTakeFirst();
    return numDeletedRows > 0n;
  }
}
