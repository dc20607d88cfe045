// SQL of tenants.
import type { Kysely } from "kysely";

export type TenantRow = {
  id: string;
  name: string;
  settings_json: string;
  version: number;
  created_at: string;
  updated_at: string;
};

export type TenantTables = { tenant: TenantRow };

export class TenantStore {
  readonly #db: Kysely<TenantTables>;

  constructor(db: Kysely<TenantTables>) {
    this.#db = db;
  }

  find(tenantId: string): Promise<TenantRow | undefined> {
    return this.#db.selectFrom("tenant").selectAll().where("id", "=", tenantId).executeTakeFirst();
  }

  /** Adds the tenant unless it is there. */
  async add(row: TenantRow): Promise<void> {
    await this.#db.insertInto("tenant").values(row).onConflict((conflict) => conflict.column("id").doNothing())
      .execute();
  }

  async update(tenantId: string, set: Partial<TenantRow>): Promise<void> {
    await this.#db.updateTable("tenant").set(set).where("id", "=", tenantId).execute();
  }
}
