// SQL of providers of tenants.
import type { Kysely } from "kysely";

export type ProviderRow = {
  tenant_id: string;
  id: string;
  kind: string;
  base_url: string;
  key_encrypted: string | null;
  models_json: string;
  /** Lower ones are called first. */
  priority: number;
  version: number;
  created_at: string;
  updated_at: string;
};
export type ProviderTables = { ai_provider: ProviderRow };

export class ProviderStore {
  readonly #db: Kysely<ProviderTables>;

  constructor(db: Kysely<ProviderTables>) {
    this.#db = db;
  }

  /** In the order in which they are called. */
  list(tenantId: string): Promise<ProviderRow[]> {
    return this.#db.selectFrom("ai_provider").selectAll().where("tenant_id", "=", tenantId)
      .orderBy("priority").orderBy("id").execute();
  }

  find(tenantId: string, id: string): Promise<ProviderRow | undefined> {
    return this.#db.selectFrom("ai_provider").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  async put(row: ProviderRow): Promise<void> {
    const { tenant_id: _tenant, id: _id, created_at: _created, ...set } = row;
    await this.#db.insertInto("ai_provider").values(row)
      .onConflict((conflict) => conflict.columns(["tenant_id", "id"]).doUpdateSet(set)).execute();
  }

  async remove(tenantId: string, id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db.deleteFrom("ai_provider").where("tenant_id", "=", tenantId)
      .where("id", "=", id).executeTakeFirst();
    return numDeletedRows > 0n;
  }
}
