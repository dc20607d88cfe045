// SQL of invitations.
import type { Kysely } from "kysely";
import type { TenantRole } from "@/core/actor.ts";

export type InvitationRow = {
  tenant_id: string;
  id: string;
  /** Hash of the code. */
  hash: string;
  name: string;
  role: TenantRole;
  /** Whose session the code starts; null: it creates a principal. */
  principal_id: string | null;
  uses_left: number;
  /** null: the gateway itself. */
  created_by: string | null;
  created_at: string;
  expires_at: string;
  /** How long the session may last that it starts, in ms; null: as long as any. */
  session_ms: number | null;
};
export type InvitationTables = { invitation: InvitationRow };

export class InvitationStore {
  readonly #db: Kysely<InvitationTables>;

  constructor(db: Kysely<InvitationTables>) {
    this.#db = db;
  }

  async add(row: InvitationRow): Promise<void> {
    await this.#db.insertInto("invitation").values(row).execute();
  }

  /** Those that a principal created and that can still be used, by id. */
  list(tenantId: string, at: string, after: string, limit: number): Promise<InvitationRow[]> {
    return this.#db.selectFrom("invitation").selectAll().where("tenant_id", "=", tenantId)
      .where("created_by", "is not", null).where("expires_at", ">", at).where("uses_left", ">", 0)
      .where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  /** The hash identifies the tenant. */
  byHash(hash: string): Promise<InvitationRow | undefined> {
    return this.#db.selectFrom("invitation").selectAll().where("hash", "=", hash).executeTakeFirst();
  }

  /** Uses an invitation once, which locks its row until the commit; `undefined` if nothing is left of it. */
  use(hash: string, at: string): Promise<InvitationRow | undefined> {
    return this.#db.updateTable("invitation").set(({ eb }) => ({ uses_left: eb("uses_left", "-", 1) }))
      .where("hash", "=", hash).where("uses_left", ">", 0).where("expires_at", ">", at).returningAll()
      .executeTakeFirst();
  }

  /** Deletes an invitation of a principal; returns whether there was one. */
  async remove(tenantId: string, id: string): Promise<boolean> {
    const rows = await this.#db.deleteFrom("invitation").where("tenant_id", "=", tenantId).where("id", "=", id)
      .where("created_by", "is not", null).returning("id").execute();
    return rows.length > 0;
  }

  /** Deletes the gateway's own codes for a principal. */
  async removeSignIns(tenantId: string, principalId: string): Promise<void> {
    await this.#db.deleteFrom("invitation").where("tenant_id", "=", tenantId).where("principal_id", "=", principalId)
      .where("created_by", "is", null).execute();
  }

  /** In all tenants. */
  async removeUnusable(at: string): Promise<void> {
    await this.#db.deleteFrom("invitation").where((row) =>
      row.or([row("expires_at", "<=", at), row("uses_left", "<=", 0)])
    ).execute();
  }
}
