// SQL of authorization codes and grants. Codes and refresh tokens name their rows by hashes, which identify the tenant as well.
import type { Kysely } from "kysely";
import type { TenantRole } from "@/core/actor.ts";
import type { IdentityTables } from "@/modules/identity/mod.ts";

export type CodeRow = {
  tenant_id: string;
  hash: string;
  principal_id: string;
  role: TenantRole;
  client_hash: string;
  client_name: string;
  client_host: string | null;
  redirect_uri: string;
  challenge: string;
  scopes: string;
  resource: string;
  expires_at: string;
  /** The credential that the code was exchanged for. */
  token_id: string | null;
};

export type GrantRow = {
  tenant_id: string;
  token_id: string;
  principal_id: string;
  role: TenantRole;
  client_hash: string;
  client_host: string | null;
  resource: string;
  /** Hash of the part that all refresh tokens of the grant share. */
  key_hash: string;
  /** Hash of the secret in the valid refresh token. */
  secret_hash: string;
  /** Hash of the secret in the previous one, and when that was first used. */
  previous_hash: string | null;
  rotated_at: string | null;
  expires_at: string;
};

/** Those of identity are in it since each grant has a token there. */
export type OauthTables = IdentityTables & { oauth_code: CodeRow; oauth_grant: GrantRow };

export class OauthStore {
  readonly #db: Kysely<OauthTables>;

  constructor(db: Kysely<OauthTables>) {
    this.#db = db;
  }

  async addCode(row: CodeRow): Promise<void> {
    await this.#db.insertInto("oauth_code").values(row).execute();
  }

  /** Codes of a principal that expire after `at`, used or not. */
  async countCodes(tenantId: string, principalId: string, at: string): Promise<number> {
    const row = await this.#db.selectFrom("oauth_code").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("principal_id", "=", principalId).where("expires_at", ">", at)
      .executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** The code, whose row is locked until the commit. */
  lockCode(hash: string): Promise<CodeRow | undefined> {
    return this.#db.updateTable("oauth_code").set((row) => ({ hash: row.ref("hash") })).where("hash", "=", hash)
      .returningAll().executeTakeFirst();
  }

  async setTokenOfCode(hash: string, tokenId: string): Promise<void> {
    await this.#db.updateTable("oauth_code").set({ token_id: tokenId }).where("hash", "=", hash).execute();
  }

  async removeCode(hash: string): Promise<void> {
    await this.#db.deleteFrom("oauth_code").where("hash", "=", hash).execute();
  }

  async addGrant(row: GrantRow): Promise<void> {
    await this.#db.insertInto("oauth_grant").values(row).execute();
  }

  /** The grant, whose row is locked until the commit. */
  lockGrant(keyHash: string): Promise<GrantRow | undefined> {
    return this.#db.updateTable("oauth_grant").set((row) => ({ key_hash: row.ref("key_hash") }))
      .where("key_hash", "=", keyHash).returningAll().executeTakeFirst();
  }

  find(tenantId: string, tokenId: string): Promise<GrantRow | undefined> {
    return this.#db.selectFrom("oauth_grant").selectAll().where("tenant_id", "=", tenantId)
      .where("token_id", "=", tokenId).executeTakeFirst();
  }

  /** Grants of a principal, in the order of their ids. */
  list(tenantId: string, principalId: string): Promise<GrantRow[]> {
    return this.#db.selectFrom("oauth_grant").selectAll().where("tenant_id", "=", tenantId)
      .where("principal_id", "=", principalId).orderBy("token_id").execute();
  }

  async saveRotation({ tenant_id, token_id, ...set }: GrantRow): Promise<void> {
    await this.#db.updateTable("oauth_grant").set(set).where("tenant_id", "=", tenant_id)
      .where("token_id", "=", token_id).execute();
  }

  async removeGrant(tenantId: string, tokenId: string): Promise<void> {
    await this.#db.deleteFrom("oauth_grant").where("tenant_id", "=", tenantId).where("token_id", "=", tokenId)
      .execute();
  }

  /** Deletes codes and grants that expired before these times, in all tenants. */
  async deleteExpired(codesBefore: string, grantsBefore: string): Promise<void> {
    await this.#db.deleteFrom("oauth_code").where("expires_at", "<", codesBefore).execute();
    await this.#db.deleteFrom("oauth_grant").where("expires_at", "<", grantsBefore).execute();
  }
}
