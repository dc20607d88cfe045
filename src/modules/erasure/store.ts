// SQL of erasures.
import type { Kysely } from "kysely";
import type { ErasureMode, ErasureState } from "./schema.ts";

export type ErasureRow = {
  tenant_id: string;
  id: string;
  /** Replaced by the pseudonym when the erasure is done. */
  principal_id: string;
  pseudonym_id: string | null;
  mode: ErasureMode;
  is_dry_run: number;
  /** Whether cancelling enables the principal again. */
  was_enabled: number;
  state: ErasureState;
  counts_json: string;
  requested_by: string;
  due_at: string;
  created_at: string;
  finished_at: string | null;
};
export type ErasureTables = { erasure: ErasureRow };

export class ErasureStore {
  readonly #db: Kysely<ErasureTables>;

  constructor(db: Kysely<ErasureTables>) {
    this.#db = db;
  }

  async add(row: ErasureRow): Promise<void> {
    await this.#db.insertInto("erasure").values(row).execute();
  }

  find(tenantId: string, id: string): Promise<ErasureRow | undefined> {
    return this.#rows(tenantId).where("id", "=", id).executeTakeFirst();
  }

  /** The row, locked until the transaction ends, by an update that changes nothing. */
  lock(tenantId: string, id: string): Promise<ErasureRow | undefined> {
    return this.#db.updateTable("erasure").set(({ ref }) => ({ state: ref("state") })).where("tenant_id", "=", tenantId)
      .where("id", "=", id).returningAll().executeTakeFirst();
  }

  /** The same for the erasure that is replacing a person by this pseudonym. */
  lockRunning(tenantId: string, pseudonymId: string): Promise<ErasureRow | undefined> {
    return this.#db.updateTable("erasure").set(({ ref }) => ({ state: ref("state") })).where("tenant_id", "=", tenantId)
      .where("pseudonym_id", "=", pseudonymId).where("state", "=", "running").returningAll().executeTakeFirst();
  }

  /** Whether rows of the principal are being counted. */
  async hasDryRun(tenantId: string, principalId: string): Promise<boolean> {
    const row = await this.#rows(tenantId).where("principal_id", "=", principalId).where("is_dry_run", "=", 1)
      .where("state", "=", "waiting").limit(1).executeTakeFirst();
    return row !== undefined;
  }

  /** The newest first; of everybody, or about one principal. */
  page(
    tenantId: string,
    principalId: string | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<ErasureRow[]> {
    let query = this.#rows(tenantId);
    if (principalId !== undefined) query = query.where("principal_id", "=", principalId);
    if (before !== undefined) query = query.where("id", "<", before);
    return query.orderBy("id", "desc").limit(limit).execute();
  }

  async update(tenantId: string, id: string, set: Partial<ErasureRow>): Promise<void> {
    await this.#db.updateTable("erasure").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** In all erasures that were about the principal. */
  async replacePrincipal(tenantId: string, principalId: string, pseudonymId: string): Promise<void> {
    await this.#db.updateTable("erasure").set({ principal_id: pseudonymId }).where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).execute();
  }

  #rows(tenantId: string) {
    return this.#db.selectFrom("erasure").selectAll().where("tenant_id", "=", tenantId);
  }
}
