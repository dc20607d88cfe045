// SQL of tenants.
import type { Kysely } from "kysely";
import { defineSignal } from "@/core/event/event.ts";

/** Sent when the allowed origins of a tenant changed; the id is the tenant's. */
export const originsChanged = defineSignal("tenant");

export type TenantRow = {
  id: string;
  name: string;
  settings_json: string;
  /** Browser origins that the tenant allows in addition to those of the gateway; `null` = none. */
  allowed_origins_json: string | null;
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

  /** The origins of all tenants that have any. */
  async origins(): Promise<{ id: string; origins: string[] }[]> {
    const rows = await this.#db.selectFrom("tenant").select(["id", "allowed_origins_json"])
      .where("allowed_origins_json", "is not", null).execute();
    return rows.map((row) => ({ id: row.id, origins: originsOf(row) }));
  }

  /** Adds the tenant unless it exists. */
  async add(row: TenantRow): Promise<void> {
    await this.#db.insertInto("tenant").values(row).onConflict((conflict) => conflict.column("id").doNothing())
      .execute();
  }

  async update(tenantId: string, set: Partial<TenantRow>): Promise<void> {
    await this.#db.updateTable("tenant").set(set).where("id", "=", tenantId).execute();
  }
}

export function originsOf({ allowed_origins_json }: Pick<TenantRow, "allowed_origins_json">): string[] {
  return allowed_origins_json === null ? [] : JSON.parse(allowed_origins_json);
}
