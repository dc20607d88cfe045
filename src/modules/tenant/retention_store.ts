// SQL of the retention of tenants.
import type { Kysely } from "kysely";

export type RetentionKind = "messages" | "files" | "runs" | "audit";
/** Null: as long as the gateway. */
export type RetentionRow = { tenant_id: string; updated_at: string } & Record<`${RetentionKind}_days`, number | null>;
export type RetentionTables = { tenant_retention: RetentionRow };

export class RetentionStore {
  readonly #db: Kysely<RetentionTables>;

  constructor(db: Kysely<RetentionTables>) {
    this.#db = db;
  }

  /** `undefined` if the tenant has never set it. */
  find(tenantId: string): Promise<RetentionRow | undefined> {
    return this.#db.selectFrom("tenant_retention").selectAll().where("tenant_id", "=", tenantId).executeTakeFirst();
  }

  async put({ tenant_id, ...set }: RetentionRow): Promise<void> {
    await this.#db.insertInto("tenant_retention").values({ tenant_id, ...set })
      .onConflict((conflict) => conflict.column("tenant_id").doUpdateSet(set)).execute();
  }

  async daysByTenant(kind: RetentionKind): Promise<Map<string, number>> {
    const rows = await this.#db.selectFrom("tenant_retention").select(["tenant_id", `${kind}_days as days`])
      .where(`${kind}_days`, "is not", null).$narrowType<{ days: number }>().execute();
    return new Map(rows.map(({ tenant_id, days }) => [tenant_id, days]));
  }
}
