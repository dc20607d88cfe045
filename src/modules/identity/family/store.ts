// SQL of token families: which refresh token is good, and which was before it.
import type { Kysely } from "kysely";
import type { FamilyRow, IdentityTables, TokenRow } from "../store.ts";

export class FamilyStore {
  readonly #db: Kysely<IdentityTables>;

  constructor(db: Kysely<IdentityTables>) {
    this.#db = db;
  }

  async add(row: FamilyRow): Promise<void> {
    await this.#db.insertInto("token_family").values(row).execute();
  }

  find(tenantId: string, tokenId: string): Promise<FamilyRow | undefined> {
    return this.#db.selectFrom("token_family").selectAll().where("tenant_id", "=", tenantId)
      .where("token_id", "=", tokenId).executeTakeFirst();
  }

  /** Marks the token of this hash as used, which holds its row until the commit. The hash is what names the tenant. */
  hold(hash: string, at: string): Promise<TokenRow | undefined> {
    return this.#db.updateTable("api_token").set({ last_used_at: at }).where("hash", "=", hash).returningAll()
      .executeTakeFirst();
  }

  /** Keeps what a rotation made of a family, and until when it may be rotated again. */
  async turn(family: FamilyRow, expiresAt: string): Promise<void> {
    const { tenant_id, token_id, ...set } = family;
    await this.#db.updateTable("token_family").set(set).where("tenant_id", "=", tenant_id)
      .where("token_id", "=", token_id).execute();
    await this.#db.updateTable("api_token").set({ expires_at: expiresAt }).where("tenant_id", "=", tenant_id)
      .where("id", "=", token_id).execute();
  }
}
