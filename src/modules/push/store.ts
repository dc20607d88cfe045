// SQL of push subscriptions.
import type { Kysely } from "kysely";
import type { TenantRole } from "@/core/actor.ts";

export type PushSubscriptionRow = {
  tenant_id: string;
  id: string;
  principal_id: string;
  name: string;
  endpoint: string;
  p256dh: string;
  auth: string;
  /** The public key for which the browser subscribed. */
  application_key: string;
  scopes: string | null;
  role: TenantRole;
  token_id: string | null;
  /** The newest notification that was pushed, or existed when the browser subscribed. */
  pushed_id: string;
  created_at: string;
  renewed_at: string;
};

export type PushTables = { push_subscription: PushSubscriptionRow };

type Renewal = Omit<PushSubscriptionRow, "tenant_id" | "id" | "endpoint" | "created_at">;

export class PushStore {
  readonly #db: Kysely<PushTables>;

  constructor(db: Kysely<PushTables>) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<PushSubscriptionRow | undefined> {
    return this.#db.selectFrom("push_subscription").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  findByEndpoint(tenantId: string, endpoint: string): Promise<PushSubscriptionRow | undefined> {
    return this.#db.selectFrom("push_subscription").selectAll().where("tenant_id", "=", tenantId)
      .where("endpoint", "=", endpoint).executeTakeFirst();
  }

  /** Those of a principal, the one renewed last first. */
  list(tenantId: string, principalId: string): Promise<PushSubscriptionRow[]> {
    return this.#db.selectFrom("push_subscription").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).orderBy("renewed_at", "desc").orderBy("id", "desc").execute();
  }

  /** Ids of those of the principals. */
  async idsOf(tenantId: string, principalIds: readonly string[]): Promise<string[]> {
    const rows = await this.#db.selectFrom("push_subscription").select("id").where("tenant_id", "=", tenantId)
      .where("principal_id", "in", principalIds).execute();
    return rows.map(({ id }) => id);
  }

  async add(row: PushSubscriptionRow): Promise<void> {
    await this.#db.insertInto("push_subscription").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<Renewal>): Promise<void> {
    await this.#db.updateTable("push_subscription").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  async remove(tenantId: string, ids: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("push_subscription").where("tenant_id", "=", tenantId).where("id", "in", ids).execute();
  }

  async removeByToken(tenantId: string, tokenId: string): Promise<void> {
    await this.#db.deleteFrom("push_subscription").where("tenant_id", "=", tenantId).where("token_id", "=", tokenId)
      .execute();
  }

  async removeNotRenewedSince(time: string): Promise<void> {
    await this.#db.deleteFrom("push_subscription").where("renewed_at", "<", time).execute();
  }
}
