// SQL of messages as search reads them: many by id, and all of a tenant page by page.
import type { Kysely } from "kysely";
import type { MessageRow, MessageTables } from "@/modules/message/mod.ts";

export class MessageRows {
  readonly #db: Kysely<MessageTables>;

  constructor(db: Kysely<MessageTables>) {
    this.#db = db;
  }

  byIds(tenantId: string, ids: readonly string[]): Promise<MessageRow[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("id", "in", ids)
      .execute();
  }

  /** Live messages with an id after `after`, by id. */
  after(tenantId: string, after: string, limit: number): Promise<MessageRow[]> {
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("id", ">", after)
      .where("deleted_at", "is", null).where("text", "is not", null).orderBy("id").limit(limit).execute();
  }
}
