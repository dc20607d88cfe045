// SQL of token families: the valid refresh token, and the one before it.
import type { Kysely } from "kysely";
import type { IdentityTables, TokenFamilyRow, TokenRow } from "../store.ts";

export class RefreshTokenStore {
  readonly #db: Kysely<IdentityTables>;

  constructor(db: Kysely<IdentityTables>) {
    this.#db = db;
  }

  async add(row: TokenFamilyRow): Promise<void> {
    await this.#db.insertInto("token_family").values(row).execute();
  }

  find(tenantId: string, tokenId: string): Promise<TokenFamilyRow | undefined> {
    return this.#db.selectFrom("token_family").selectAll().where("tenant_id", "=", tenantId)
      .where("token_id", "=", tokenId).executeTakeFirst();
  }

  /** Marks the token with this hash as used, which locks its row until the commit. The hash identifies the tenant. */
  lockByHash(hash: string, at: string): Promise<TokenRow | undefined> {
    return this.#db.updateTable("api_token").set({ last_used_at: at }).where("hash", "=", hash).returningAll()
      .executeTakeFirst();
  }

  /** Stores a rotated family and the expiry of its refresh token. */
  async saveRotation(family: TokenFamilyRow, expiresAt: string): Promise<void> {
    const { tenant_id, token_id, ...set } = family;
    await this.#db.updateTable("token_family").set(set).where("tenant_id", "=", tenant_id)
      .where("token_id", "=", token_id).execute();
    await this.#db.updateTable("api_token").set({ expires_at: expiresAt }).where("tenant_id", "=", tenant_id)
      .where("id", "=", token_id).execute();
  }
}
