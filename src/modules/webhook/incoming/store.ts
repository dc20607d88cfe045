// SQL of incoming hooks.
import type { Kysely } from "kysely";

export type HookRow = {
  tenant_id: string;
  id: string;
  room_id: string;
  principal_id: string;
  /** Who created it or rotated it last. */
  responsible_id: string;
  display_name: string;
  avatar_file_id: string | null;
  description: string | null;
  /** Hash of the secret part of its address. */
  hash: string;
  signing_secret_encrypted: string | null;
  may_mention_all: number;
  is_enabled: number;
  version: number;
  created_at: string;
  updated_at: string;
};
export type HookTables = { incoming_hook: HookRow };

export class HookStore {
  readonly #db: Kysely<HookTables>;

  constructor(db: Kysely<HookTables>) {
    this.#db = db;
  }

  async add(row: HookRow): Promise<void> {
    await this.#db.insertInto("incoming_hook").values(row).execute();
  }

  find(tenantId: string, id: string): Promise<HookRow | undefined> {
    return this.#db.selectFrom("incoming_hook").selectAll().where("tenant_id", "=", tenantId).where("id", "=", id)
      .executeTakeFirst();
  }

  /** The only query without a tenant: the hash identifies it. */
  findByHash(hash: string): Promise<HookRow | undefined> {
    return this.#db.selectFrom("incoming_hook").selectAll().where("hash", "=", hash).executeTakeFirst();
  }

  list(tenantId: string, roomId: string, after: string | undefined, limit: number): Promise<HookRow[]> {
    let query = this.#db.selectFrom("incoming_hook").selectAll().where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId);
    if (after !== undefined) query = query.where("id", ">", after);
    return query.orderBy("id").limit(limit).execute();
  }

  async update(tenantId: string, id: string, set: Partial<HookRow>): Promise<void> {
    await this.#db.updateTable("incoming_hook").set(set).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("incoming_hook").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async removeOfRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#db.deleteFrom("incoming_hook").where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .execute();
  }
}
